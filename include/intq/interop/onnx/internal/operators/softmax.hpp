// SPDX-License-Identifier: MIT
//
// ONNX Softmax. Layer: interop.
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

INTQ_INLINE void softmax(NodeImport& node) {
    node.expect_inputs(1, 1);
    const bool joins_axes = node.opset() < 13;
    const std::int64_t axis = node.integer("axis", joins_axes ? 1 : -1);
    const Dims& dims = node.dims(0);
    const std::int64_t rank = dims ? static_cast<std::int64_t>(dims->size()) : max_rank;
    if (axis < -rank || axis >= rank)
        throw Error("axis " + std::to_string(axis) + " does not exist in " +
                    (dims ? "shape " + describe_shape(*dims) : "any tensor"));
    const bool is_last = axis == -1 || (dims && axis == rank - 1);
    node.call_module(make_as<nn::Module, nn::Softmax>(static_cast<int>(axis), joins_axes && !is_last), {node.value(0)},
                     dims);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_SOFTMAX_HPP
