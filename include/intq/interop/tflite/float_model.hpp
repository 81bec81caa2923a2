// SPDX-License-Identifier: MIT
//
// From a TFLite model of real numbers to a graph of intq's modules. Layer: interop (docs/design.md section 2).
//
// The model is first written as an ONNX model, so that the operators in float have one meaning in the library. Images
// become (N, C, H, W): the last axis of every tensor comes second; constants and axes are moved accordingly.
#ifndef INTQ_INTEROP_TFLITE_FLOAT_MODEL_HPP
#define INTQ_INTEROP_TFLITE_FLOAT_MODEL_HPP

#include <filesystem>
#include <memory>

#include "intq/graph/graph_module.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/interop/tflite/internal/read/model.hpp"
#include "intq/interop/tflite/read/limits.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// Makes a float model of a TFLite model whose tensors are float32, in evaluation mode.
///
/// In its inputs and outputs the file's last axis comes second: (N, H, W, C) becomes (N, C, H, W). Modules are named
/// after the tensors that they write.
///
/// @throws Error naming the operator by position, name and reason: one that is not in the table of float_model.hpp, a
///         tensor of another type, constants copied beyond `limits`, or an operator that onnx::import_model() refuses
std::shared_ptr<graph::GraphModule> import_float_model(const Model& model, const Limits& limits = {});

/// Reads and imports a file; messages begin with the path.
std::shared_ptr<graph::GraphModule> import_float_file(const std::filesystem::path& path, const Limits& limits = {});

/// The same model in ONNX's words, opset 18.
onnx::Model to_onnx(const Model& model, const Limits& limits = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite)

#    include <algorithm>
#    include <cstdint>
#    include <cstring>
#    include <iterator>
#    include <limits>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/interop/onnx/import.hpp"
#    include "intq/interop/tflite/import.hpp"
#    include "intq/interop/tflite/internal/float_model/float_import.hpp"
#    include "intq/interop/tflite/internal/operators.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE onnx::Model to_onnx(const Model& model, const Limits& limits) {
    FloatState state(model, limits);
    for (const std::int32_t index : model.inputs) state.add_input(index);
    for (const FileOperator& op : model.operators) {
        try {
            const TfliteOperator* const row = detail::find_operator(op);
            if (row == nullptr || row->import_float == nullptr)
                throw Error("it is not supported in a model of real numbers; supported are " +
                            detail::known_operators(&TfliteOperator::import_float));
            FloatImport node(state, op);
            row->import_float(node);
        } catch (const Error& error) {
            throw Error(detail::describe_operator(model, op), error.what());
        }
    }
    for (const std::int32_t index : model.outputs) state.add_output(index);
    return std::move(state.result);
}

INTQ_INLINE std::shared_ptr<graph::GraphModule> import_float_model(const Model& model, const Limits& limits) {
    return onnx::import_model(to_onnx(model, limits));
}

INTQ_INLINE std::shared_ptr<graph::GraphModule> import_float_file(const std::filesystem::path& path,
                                                                  const Limits& limits) {
    const Model model = read_model(path);
    try {
        return import_float_model(model, limits);
    } catch (const Error& error) {
        throw Error(path.string(), error.what());
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite)
#endif  // INTQ_INTEROP_TFLITE_FLOAT_MODEL_HPP
