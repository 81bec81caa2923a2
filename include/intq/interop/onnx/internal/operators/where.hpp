// SPDX-License-Identifier: MIT
//
// The ONNX operator Where with a constant condition, and constants that hold -inf, as exporters write masks.
// Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_WHERE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_WHERE_HPP

#include <cstddef>

#include "intq/graph/node.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Of one value and one number, by a constant condition: a MaskedFill, or for the number 0 a product with 0 and 1.
void where(NodeImport& node);

/// A constant operand of an Add as a buffer; -inf becomes the lowest float, whose sum is the same to a softmax.
graph::Node& add_buffer_of_masks(NodeImport& node, std::size_t c, std::size_t rank);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstdint>
#    include <limits>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/fold_moves.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE graph::Node& add_buffer_of_masks(NodeImport& node, std::size_t c, std::size_t rank) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const FileTensor& given = node.constant(c, "constant operand");
    const bool has_masks = given.dtype == DType::float32 && [&] {
        const auto values = given.as<float>();
        return std::find(values.begin(), values.end(), -infinity) != values.end();
    }();
    if (!has_masks) return node.add_buffer(c, "constant operand", rank);
    FileTensor finite = given;
    for (float& value : folding::elements<float>(finite))
        if (value == -infinity) value = std::numeric_limits<float>::lowest();
    return node.add_made_buffer(std::move(finite), rank);
}

/// The number that all elements of a constant are.
INTQ_INLINE double number_of(const NodeImport& node, std::size_t i) {
    const FileTensor& constant = node.constant(i, "fill");
    if (constant.dtype != DType::float32)
        throw Error("the fill has dtype " + std::string(name_of(constant.dtype)) + ", expected float32");
    const auto values = constant.as<float>();
    if (values.empty() || std::any_of(values.begin(), values.end(), [&](float v) { return v != values[0]; }))
        throw Error("the fill has other elements than one number");
    return static_cast<double>(values[0]);
}

INTQ_INLINE void where(NodeImport& node) {
    node.expect_inputs(3, 3);
    const FileTensor& condition = node.constant(0, "condition");
    if (condition.dtype != DType::uint8)
        throw Error("the condition has dtype " + std::string(name_of(condition.dtype)) + ", expected bool");
    const std::size_t fill = node.is_constant(1) ? 1 : 2, x = 3 - fill;
    if (!node.is_constant(fill)) throw Error("both values are computed when the model runs, expected a number");
    const double number = number_of(node, fill);
    const Dims dims = broadcast_dims(node.dims(x), broadcast_dims(condition.dims, node.dims(fill)));
    if (node.dims(x) && dims != node.dims(x))
        throw Error("a value of shape " + describe_shape(*node.dims(x)) + " is repeated to " + describe_shape(*dims));
    FileTensor mask = condition;
    if (fill == 2)
        for (std::uint8_t& element : folding::elements<std::uint8_t>(mask)) element = element == 0 ? 1 : 0;
    if (number == 0.0) {
        FileTensor factors{.name = "", .dtype = DType::float32, .dims = mask.dims, .data = {}};
        factors.data.resize(static_cast<std::size_t>(mask.size()) * sizeof(float));
        const auto to = folding::elements<float>(factors);
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = mask.as<std::uint8_t>()[i] == 0 ? 1.0f : 0.0f;
        graph::Node& buffer = node.add_made_buffer(std::move(factors), dims ? dims->size() : 0);
        return node.call_function(nn::mul_function, {node.value(x), buffer}, dims);
    }
    Shape shape;
    for (const index_t extent : mask.dims) {
        if (shape.rank == max_rank) throw Error("the condition has more than " + std::to_string(max_rank) + " axes");
        shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
    }
    const Tensor masks = Tensor::from(shape, mask.as<std::uint8_t>());
    node.call_module(make_as<nn::Module, nn::MaskedFill>(masks, number), {node.value(x)}, dims);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_WHERE_HPP
