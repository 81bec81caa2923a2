// SPDX-License-Identifier: MIT
//
// intq: from a float ONNX model to a deployed program, one command a step.
#include <cstdio>
#include <exception>

#include "options.hpp"

int main(int count, char** arguments) {
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
    intq_tool::Action action;
    intq_tool::add_quantize(app, action);
    intq_tool::add_codegen(app, action);
    intq_tool::add_run(app, action);
    intq_tool::add_check(app, action);
    intq_tool::add_compare(app, action);
    intq_tool::add_profile(app, action);
    intq_tool::add_info(app, action);
    intq_tool::add_targets(app, action);
    intq_tool::add_examples(app, {"intq check model.onnx --target tflite",
                                  "intq quantize model.onnx --data data.npy --target tflite -o model.intq",
                                  "intq info model.intq", "intq compare model.onnx model.intq --data test.npy"});
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
