// SPDX-License-Identifier: MIT
//
// ONNX operators on single elements and Softmax: Add, Relu, Clip, Softmax. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_OPERATORS_ELEMENTWISE_HPP
#define INTQ_INTEROP_ONNX_OPERATORS_ELEMENTWISE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void add(NodeImport& node);
void relu(NodeImport& node);
void clip(NodeImport& node);

/// Up to opset 12 the axes from `axis` on are one; from 13 on the softmax is along `axis`.
void softmax(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <memory>
#    include <optional>
#    include <span>
#    include <string>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/nodes/node_import.hpp"
#    include "intq/interop/onnx/operators/conv.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/functional/arithmetic.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/unary.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void add_values(NodeImport& node) {
    graph::Node &a = node.value(0), &b = node.value(1);
    const Dims &first = node.dims(0), &second = node.dims(1);
    Dims dims = first ? first : second;
    if (first && second) {
        bool equal = first->size() == second->size();
        for (std::size_t i = 0; equal && i < first->size(); ++i) {
            equal = (*first)[i] == (*second)[i] || (*first)[i] < 0 || (*second)[i] < 0;
            (*dims)[i] = std::max((*first)[i], (*second)[i]);  // the one that is known
        }
        if (!equal)
            throw Error("the shapes " + describe_shape(*first) + " and " + describe_shape(*second) +
                        " differ; broadcasting is supported for constants only");
    }
    node.call_module(std::make_shared<nn::FloatFunctional>(), {a, b}, std::move(dims), "add");
}

/// Whether a constant has one value for each of `channels`, broadcast along all other axes of `rank`.
INTQ_INLINE bool is_per_channel(const FileTensor& tensor, std::size_t rank, index_t channels) {
    if (tensor.size() != channels || tensor.dims.size() > rank) return false;
    const std::size_t left_out = rank - tensor.dims.size();
    return channels == 1 || (left_out <= 1 && tensor.dims[1 - left_out] == channels);
}

/// x + c. A vector behind a MatMul is the bias of that Linear; one value a channel is a batch norm that only adds,
/// which fusion folds into a convolution before it.
INTQ_INLINE void add_constant(NodeImport& node, std::size_t x, std::size_t c) {
    const FileTensor& constant = node.float_constant(c, "constant operand");
    graph::Node& value = node.value(x);
    const Dims& dims = node.dims(x);
    auto* const linear = node.producer<nn::Linear>(x);
    if (linear != nullptr && !linear->options().bias && node.is_only_user(x) &&
        constant.dims.size() <= (dims ? dims->size() : 1)) {
        linear->set_bias(broadcast_bias(constant, linear->options().out_features, 1.0f));
        return node.set_output({.node = &value, .dims = dims});
    }
    if (constant.size() == 1 && (!dims || constant.dims.size() <= dims->size()))
        return node.call_function(nn::add_function, {value, static_cast<double>(constant.as<float>()[0])}, dims);
    const index_t channels = node.extent(x, 1);
    if (!dims || channels < 1 || !is_per_channel(constant, dims->size(), channels))
        throw Error("the constant operand has shape " + describe_shape(constant.dims) + ", the other " +
                    (dims ? describe_shape(*dims) : "an unknown one") +
                    "; supported are one value, one a channel, and a vector behind a MatMul");
    const auto module = make_batch_norm(dims, {.num_features = channels, .eps = 0.0});
    module->tensor("bias") = to_tensor(constant, Shape(channels));
    node.call_module(module, {value}, dims);
}

INTQ_INLINE void add(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (node.is_constant(1)) return add_constant(node, 0, 1);
    if (node.is_constant(0)) return add_constant(node, 1, 0);
    add_values(node);
}

INTQ_INLINE void relu(NodeImport& node) {
    node.expect_inputs(1, 1);
    node.call_module(std::make_shared<nn::ReLU>(), {node.value(0)}, node.dims(0));
}

/// A limit of Clip. A limit that no finite number crosses is none.
INTQ_INLINE std::optional<float> clip_limit(const NodeImport& node, std::size_t i, const char* what, float none) {
    if (!node.has_input(i)) return std::nullopt;
    const FileTensor& tensor = node.constant(i, what);
    const std::span<const float> values = tensor.as<float>();
    if (values.size() != 1)
        throw Error(std::string("the ") + what + " has " + std::to_string(values.size()) + " elements, expected 1");
    if (std::isnan(values[0])) throw Error(std::string("the ") + what + " is NaN");
    return none > 0 ? (values[0] >= none ? std::nullopt : std::optional(values[0]))
                    : (values[0] <= none ? std::nullopt : std::optional(values[0]));
}

INTQ_INLINE void clip(NodeImport& node) {
    node.expect_inputs(1, 3);
    constexpr float largest = std::numeric_limits<float>::max();
    const auto low = clip_limit(node, 1, "min", -largest), high = clip_limit(node, 2, "max", largest);
    const bool from_zero = low && *low == 0.0f;
    nn::ModulePtr module;
    if (from_zero && high && *high == 6.0f) module = std::make_shared<nn::ReLU6>();
    if (from_zero && !high) module = std::make_shared<nn::ReLU>();
    if (!low && !high) module = std::make_shared<nn::Identity>();
    if (module == nullptr) {
        const auto limit = [](std::optional<float> value) {
            return value ? graph::Argument(static_cast<double>(*value)) : graph::Argument();
        };
        return node.call_function(nn::clamp_function, {node.value(0), limit(low), limit(high)}, node.dims(0));
    }
    node.call_module(module, {node.value(0)}, node.dims(0));
}

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
    node.call_module(std::make_shared<nn::Softmax>(static_cast<int>(axis), joins_axes && !is_last), {node.value(0)},
                     dims);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_ELEMENTWISE_HPP
