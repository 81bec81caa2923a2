// SPDX-License-Identifier: MIT
#include "help.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace intq_tool {

namespace {

constexpr std::size_t page_width = 80;

/// Words in lines that begin with an indent.
std::string wrapped(const std::string& text, std::size_t indent) {
    std::istringstream words(text);
    std::string result, line, word;
    const auto end_line = [&] {
        if (!line.empty()) result += std::string(indent, ' ') + line + "\n";
        line.clear();
    };
    while (words >> word) {
        if (!line.empty() && indent + line.size() + 1 + word.size() > page_width) end_line();
        line += (line.empty() ? "" : " ") + word;
    }
    end_line();
    return result;
}

std::string upper_case(std::string text) {
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
}

/// "-o, --output FILE", or "MODEL" of an argument.
std::string usage_of(const CLI::Option* option, bool is_positional) {
    const std::string value = option->get_option_text();
    if (is_positional) return value.empty() ? upper_case(option->get_name(true, false)) : value;
    std::string names = option->get_name(false, true);
    for (std::size_t comma = names.find(','); comma != names.npos; comma = names.find(',', comma + 2))
        names.insert(comma + 1, " ");
    return names + (value.empty() ? "" : " " + value);
}

std::string synopsis_of(const CLI::App* app, const std::string& name) {
    std::string text = name;
    for (const CLI::Option* option : app->get_options()) {
        if (option->get_positional()) text += " " + usage_of(option, true);
        if (!option->get_positional() && option->get_required()) {
            const std::string usage = usage_of(option, false);
            const std::size_t comma = usage.find(", "), value = usage.find(' ', comma == usage.npos ? 0 : comma + 2);
            text += " " + usage.substr(0, comma == usage.npos ? value : comma) + usage.substr(value);
        }
    }
    return text + (app->get_require_subcommand_min() > 0 ? " COMMAND" : "") + " [OPTION...]";
}

constexpr const char* exit_status =
    "EXIT STATUS\n"
    "    0   done\n"
    "    1   refused or failed; standard error says what and where, and an output\n"
    "        that was there before stays. `check`: an operator does not lower\n"
    "    2   wrong usage\n";

}  // namespace

std::string ManPage::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
    std::string page = "NAME\n" + wrapped(name + " - " + app->get_description(), 4) + "\nSYNOPSIS\n" +
                       wrapped(synopsis_of(app, name), 4);
    page += make_positionals(app) + grouped_options(app) + make_subcommands(app, mode);
    const std::string examples = app->get_footer();
    return page + "\n" + (examples.empty() ? "" : "EXAMPLES\n" + examples + "\n") + exit_status;
}

std::string ManPage::make_group(std::string group, bool is_positional, std::vector<const CLI::Option*> options) const {
    std::string text = "\n" + upper_case(is_positional ? "Arguments" : group) + "\n";
    for (const CLI::Option* option : options) text += make_option(option, is_positional);
    return text;
}

std::string ManPage::grouped_options(const CLI::App* app) const {
    std::vector<std::string> groups = app->get_groups();
    // The first is that of options without a title, such as --help.
    std::rotate(groups.begin(), groups.begin() + 1, groups.end());
    std::string text;
    for (const std::string& group : groups) {
        const auto options = app->get_options(
            [&](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
        if (!options.empty()) text += make_group(group, false, options);
    }
    return text;
}

std::string ManPage::make_option(const CLI::Option* option, bool is_positional) const {
    return "    " + usage_of(option, is_positional) + "\n" + wrapped(option->get_description(), 8);
}

std::string ManPage::make_subcommands(const CLI::App* app, CLI::AppFormatMode) const {
    std::string text;
    for (const CLI::App* command : app->get_subcommands(nullptr))
        text += "    " + command->get_name() + "\n" + wrapped(command->get_description(), 8);
    return text.empty() ? text : "\nCOMMANDS\n" + text;
}

void group_options(CLI::App& command, const char* title, const std::vector<std::string>& options) {
    for (const std::string& option : options) command.get_option(option)->group(title);
}

void add_examples(CLI::App& command, const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += "    " + line + "\n";
    command.footer(text);
}

}  // namespace intq_tool
