// SPDX-License-Identifier: MIT
//
// intq: from a float ONNX model to a deployed program, one command a step.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "options.hpp"

namespace {

/// Whether the first argument is a word that is no command; says so, because the parser would not name it.
bool is_unknown_command(const CLI::App& app, int count, char** arguments) {
    const std::string word = count > 1 ? arguments[1] : "";
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
    if (word.empty() || word[0] == '-' || std::find(names.begin(), names.end(), word) != names.end()) return false;
    std::fprintf(stderr, "intq: there is no command %s; nearest: %s\n", intq::in_quotes(word).c_str(),
                 intq::nearest_names(word, names).c_str());
    return true;
}

/// Whether an argument looks like an option and is none of the command's; says so with the nearest names, before the
/// parser names what else is missing.
bool is_unknown_option(const CLI::App& app, int count, char** arguments) {
    const CLI::App* command = &app;
    const auto begins_as_option = [](const std::string& word) { return word.size() > 2 && word.rfind("--", 0) == 0; };
    for (const CLI::App* each : app.get_subcommands(nullptr))
        if (count > 1 && each->get_name() == arguments[1]) command = each;
    std::vector<std::string> names;
    for (const CLI::Option* option : command->get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (int i = 1; i < count && std::string(arguments[i]) != "--"; ++i) {
        const std::string word = arguments[i], name = word.substr(0, word.find('='));
        if (!begins_as_option(word) || std::find(names.begin(), names.end(), name) != names.end()) continue;
        std::fprintf(stderr, "intq: %s has no option %s; nearest: %s\n",
                     command == &app ? "the program" : command->get_name().c_str(), intq::in_quotes(name).c_str(),
                     intq::nearest_names(name, names).c_str());
        return true;
    }
    return false;
}

int run(int count, char** arguments) {
    CLI::App app;
    app.name("intq");
    app.description("quantizes, checks, compares, profiles and runs models of integers");
    app.set_help_flag("-h,--help", "print this text");
    app.formatter(std::make_shared<intq_tool::ManPage>());
    app.set_version_flag("--version",
                         std::to_string(INTQ_VERSION_MAJOR) + "." + std::to_string(INTQ_VERSION_MINOR) + "." +
                             std::to_string(INTQ_VERSION_PATCH),
                         "print the version");
    app.require_subcommand(1);
    app.failure_message([](const CLI::App*, const CLI::Error& error) {
        return "intq: " + intq::printable(error.what()) + "; --help says what there is\n";
    });
    intq_tool::Action action;
    intq_tool::add_commands(app, action);
    if (is_unknown_command(app, count, arguments) || is_unknown_option(app, count, arguments)) return 2;
    try {
        app.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    const int status = action();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw intq::Error("standard output", "cannot be written");
    return status;
}

}  // namespace

int main(int count, char** arguments) try {
    // A file that reaches a limit of the shell is an error like a full disk, and leaves nothing behind.
    std::signal(SIGXFSZ, SIG_IGN);
    return run(count, arguments);
} catch (const std::bad_alloc&) {
    std::fprintf(stderr, "intq: the memory is not enough: a shape, of the model or of an option, is too large\n");
    return 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "intq: %s\n", intq::printable(error.what()).c_str());
    return 1;
}
