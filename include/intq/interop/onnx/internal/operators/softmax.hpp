// SPDX-License-Identifier: MIT
//
// ONNX Softmax and LogSoftmax. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_SOFTMAX_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_SOFTMAX_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Up to opset 12 the axes from `axis` on are one; from 13 on the softmax is along `axis`.
void softmax(NodeImport& node);
/// The same; an axis before the last is refused up to opset 12.
void log_softmax(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <cstdint>
#    include <string>

#    include "intq/core/shape.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/softmax.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The axis of a softmax, and whether all axes from it on are one.
struct SoftmaxAxis {
    int axis = -1;
    bool is_from_axis = false;
};

INTQ_INLINE SoftmaxAxis softmax_axis(NodeImport& node) {
    node.expect_inputs(1, 1);
    const bool joins_axes = node.opset() < 13;
    const std::int64_t axis = node.integer("axis", joins_axes ? 1 : -1);
    const Dims& dims = node.dims(0);
    const std::int64_t rank = dims ? static_cast<std::int64_t>(dims->size()) : max_rank;
    if (axis < -rank || axis >= rank)
        throw Error("axis " + std::to_string(axis) + " does not exist in " +
                    (dims ? "shape " + describe_shape(*dims) : "any tensor"));
    const bool is_last = axis == -1 || (dims && axis == rank - 1);
    return {static_cast<int>(axis), joins_axes && !is_last};
}

INTQ_INLINE void softmax(NodeImport& node) {
    const SoftmaxAxis along = softmax_axis(node);
    node.call_module(make_as<nn::Module, nn::Softmax>(along.axis, along.is_from_axis), {node.value(0)}, node.dims(0));
}

INTQ_INLINE void log_softmax(NodeImport& node) {
    const SoftmaxAxis along = softmax_axis(node);
    if (along.is_from_axis)
        throw Error("axis " + std::to_string(along.axis) + " is not the last, which means several axes in opset " +
                    std::to_string(node.opset()) + "; supported is one");
    node.call_module(make_as<nn::Module, nn::LogSoftmax>(along.axis), {node.value(0)}, node.dims(0));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_SOFTMAX_HPP
