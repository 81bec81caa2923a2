// SPDX-License-Identifier: MIT
//
// intq: from a float ONNX model to a deployed program, one command a step.
#include <cstdio>
#include <exception>

#include "options.hpp"

int main(int count, char** arguments) {
    CLI::App app;
    app.name("intq");
    app.description(
        "Quantizes, checks, compares, profiles and runs models of integers.\n"
        "Exit codes: 0 done, 1 refused or failed (the reason is on stderr), 2 wrong usage.");
    app.set_version_flag("--version", std::to_string(INTQ_VERSION_MAJOR) + "." + std::to_string(INTQ_VERSION_MINOR) +
                                          "." + std::to_string(INTQ_VERSION_PATCH));
    app.require_subcommand(1);
    intq_tool::Action action;
    intq_tool::add_quantize(app, action);
    intq_tool::add_codegen(app, action);
    intq_tool::add_run(app, action);
    intq_tool::add_check(app, action);
    intq_tool::add_compare(app, action);
    intq_tool::add_profile(app, action);
    intq_tool::add_info(app, action);
    intq_tool::add_targets(app, action);
    try {
        app.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        return action();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "intq: %s\n", error.what());
        return 1;
    }
}
