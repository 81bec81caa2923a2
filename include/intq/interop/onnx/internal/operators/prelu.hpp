// SPDX-License-Identifier: MIT
//
// PRelu: a LeakyReLU where one slope is for all, and otherwise several operators. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_PRELU_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_PRELU_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// With slopes that differ:
///
///     relu(x) + slope · min(x, 0)
///
/// The product is a depthwise convolution of one pixel where the slopes are those of the channels of an image.
void prelu(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>

#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/elementwise.hpp"
#    include "intq/interop/onnx/internal/operators/norm.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/unary.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// min(x, 0) times a slope for each channel or element.
INTQ_INLINE graph::Node& call_slopes(NodeImport& node, graph::Node& x) {
    graph::Node& below = node.make_function(nn::clamp_function, {x, graph::Argument(), 0.0});
    const std::size_t rank = rank_of(node, 0);
    const auto norm = rank == 4 ? norm_of_channels(node, 0, 1) : nullptr;
    if (norm == nullptr) return node.make_function(nn::mul_function, {below, node.add_buffer(1, "slope", rank)});
    norm->tensor("weight") = mapped_constant(node, 1, [](float slope) { return slope; });
    return node.make_module(norm, {below});
}

INTQ_INLINE void prelu(NodeImport& node) {
    node.expect_inputs(2, 2);
    graph::Node& x = node.value(0);
    const FileTensor& slope = node.float_constant(1, "slope");
    const auto slopes = slope.as<float>();
    const Dims& dims = node.dims(0);
    if (slopes.empty() || (dims ? broadcast_dims(dims, slope.dims) != dims : slopes.size() > 1))
        throw Error("slopes of shape " + describe_shape(slope.dims) + " are not those of a value of " +
                    (dims ? "shape " + describe_shape(*dims) : "an unknown shape"));
    if (std::all_of(slopes.begin(), slopes.end(), [&](float one) { return one == slopes[0]; }))
        return node.call_module(make_as<nn::Module, nn::LeakyReLU>(static_cast<double>(slopes[0])), {x}, dims);
    graph::Node& above = node.make_module(make_as<nn::Module, nn::ReLU>(), {x});
    graph::Node& below = call_slopes(node, x);
    node.call_module(make_as<nn::Module, nn::FloatFunctional>(), {above, below}, dims, "add");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_PRELU_HPP
