// SPDX-License-Identifier: MIT
//
// The commands of intq.
#include "options.hpp"

namespace intq_tool {

void add_commands(CLI::App& app, Action& action) {
    add_quantize(app, action);
    add_codegen(app, action);
    add_pack(app, action);
    add_run(app, action);
    add_check(app, action);
    add_compare(app, action);
    add_profile(app, action);
    add_info(app, action);
    add_targets(app, action);
    add_examples(app, {"intq check model.onnx --target tflite",
                       "intq quantize model.onnx --data data.npy --target tflite -o model.intq", "intq info model.intq",
                       "intq compare model.onnx model.intq --data test.npy"});
}

}  // namespace intq_tool
