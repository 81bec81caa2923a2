// SPDX-License-Identifier: MIT
//
// ONNX operators that move or pass values: Flatten, Reshape, Concat, Identity, Dropout, Constant. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_OPERATORS_SHAPE_HPP
#define INTQ_INTEROP_ONNX_OPERATORS_SHAPE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void flatten(NodeImport& node);

/// (N, -1) is Flatten, in each of the forms that exporters write: 0 or -1 or N for the batch, -1 or the product of
/// the other extents for the rest.
void reshape(NodeImport& node);

void concat(NodeImport& node);
void identity(NodeImport& node);
void dropout_with_attribute(NodeImport& node);
void dropout(NodeImport& node);
void constant(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <memory>
#    include <span>
#    include <string>
#    include <utility>
#    include <variant>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/nodes/node_import.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/move.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Product of the extents behind the first; -1 when one is not known.
INTQ_INLINE index_t sample_size(const Dims& dims) {
    if (!dims) return -1;
    index_t size = 1;
    for (std::size_t i = 1; i < dims->size(); ++i) {
        if ((*dims)[i] < 0) return -1;
        if (__builtin_mul_overflow(size, (*dims)[i], &size))
            throw Error("the shape " + describe_shape(*dims) + " overflows");
    }
    return size;
}

INTQ_INLINE void call_flatten(NodeImport& node) {
    if (node.dims(0) && node.dims(0)->size() < 2)
        throw Error("the input has shape " + describe_shape(*node.dims(0)) + ", expected rank 2 or more");
    const index_t size = sample_size(node.dims(0));
    node.call_module(std::make_shared<nn::Flatten>(1), {node.value(0)}, std::vector<index_t>{node.extent(0, 0), size});
}

INTQ_INLINE void flatten(NodeImport& node) {
    node.expect_inputs(1, 1);
    std::int64_t axis = node.integer("axis", 1);
    const Dims& dims = node.dims(0);
    if (axis < 0 && dims) axis += static_cast<std::int64_t>(dims->size());
    if (axis != 1)
        throw Error("axis " + std::to_string(axis) + (dims ? " of shape " + describe_shape(*dims) : "") +
                    " is not supported; expected 1, which keeps the batch");
    call_flatten(node);
}

INTQ_INLINE void reshape(NodeImport& node) {
    node.expect_inputs(2, 2);
    const FileTensor& target = node.constant(1, "shape");
    const std::span<const std::int64_t> shape = target.as<std::int64_t>();
    const bool zero_is_zero = node.opset() >= 14 && node.integer("allowzero", 0) != 0;
    const index_t batch = node.extent(0, 0), rest = sample_size(node.dims(0));
    const auto keeps_batch = [&] {
        if (shape[0] == 0) return !zero_is_zero;
        return (batch >= 0 && shape[0] == batch) || (shape[0] == -1 && rest > 0 && shape[1] == rest);
    };
    if (shape.size() != 2 || !keeps_batch() || (shape[1] != -1 && (rest < 0 || shape[1] != rest)))
        throw Error("a reshape " + (node.dims(0) ? "of " + describe_shape(*node.dims(0)) + " " : "") + "to " +
                    describe_shape(shape) + " is not supported; expected (N, -1), which is Flatten");
    call_flatten(node);
}

INTQ_INLINE void concat(NodeImport& node) {
    node.expect_inputs(1, std::numeric_limits<std::size_t>::max());
    if (node.raw_attribute("axis") == nullptr) throw Error("the attribute axis is missing");
    std::int64_t axis = node.integer("axis", 1);
    graph::ArgumentList parts;
    Dims dims = node.dims(0);
    if (axis < 0 && dims) axis += static_cast<std::int64_t>(dims->size());
    if (axis != 1 || (dims && dims->size() < 2))
        throw Error("axis " + std::to_string(axis) + " is not supported; expected 1, the channels");
    for (std::size_t i = 0; i < node.input_count(); ++i) {
        parts.emplace_back(dims ? node.value_of_rank(i, dims->size()) : node.value(i));
        if (!dims || i == 0) continue;
        for (std::size_t k = 0; k < dims->size(); ++k) {
            index_t& extent = (*dims)[k];
            const index_t other = node.extent(i, k);
            if (k == 1) {
                extent = extent < 0 || other < 0 ? -1 : extent + other;
            } else if (extent >= 0 && other >= 0 && extent != other) {
                throw Error("the shapes " + describe_shape(*node.dims(0)) + " and " + describe_shape(*node.dims(i)) +
                            " differ besides axis 1");
            }
        }
    }
    node.call_module(std::make_shared<nn::FloatFunctional>(), {std::move(parts), 1}, std::move(dims), "cat");
}

INTQ_INLINE void identity(NodeImport& node) {
    node.expect_inputs(1, 1);
    if (node.is_constant(0)) return node.set_output({.constant = &node.constant(0, "input"), .dims = node.dims(0)});
    node.call_module(std::make_shared<nn::Identity>(), {node.value(0)}, node.dims(0));
}

INTQ_INLINE void call_dropout(NodeImport& node, float ratio) {
    node.call_module(std::make_shared<nn::Dropout>(static_cast<double>(ratio)), {node.value(0)}, node.dims(0));
}

INTQ_INLINE void dropout_with_attribute(NodeImport& node) {
    node.expect_inputs(1, 1);
    call_dropout(node, node.number("ratio", 0.5f));
}

INTQ_INLINE void dropout(NodeImport& node) {
    node.expect_inputs(1, 3);
    node.integer("seed", 0);
    float ratio = 0.5f;
    if (node.has_input(1)) {
        const FileTensor& given = node.float_constant(1, "ratio");
        if (given.size() != 1) throw Error("the ratio has " + std::to_string(given.size()) + " elements, expected 1");
        ratio = given.as<float>()[0];
    }
    if (node.has_input(2)) {
        const FileTensor& training = node.constant(2, "training_mode");
        if (training.size() != 1 || training.data[0] != std::byte{0}) throw Error("training_mode is not supported");
    }
    call_dropout(node, ratio);
}

template <class T> FileTensor make_constant(const std::vector<T>& values, std::vector<index_t> dims) {
    const auto bytes = std::as_bytes(std::span<const T>(values));
    return {.name = "", .dtype = dtype_of<T>, .dims = std::move(dims), .data = {bytes.begin(), bytes.end()}};
}

INTQ_INLINE void constant(NodeImport& node) {
    node.expect_inputs(0, 0);
    const auto count = [](const auto& values) { return static_cast<index_t>(values.size()); };
    if (const auto* value = node.raw_attribute("value");
        value != nullptr && std::holds_alternative<FileTensor>(*value)) {
        node.set_constant(std::get<FileTensor>(*value));
    } else if (node.raw_attribute("value_float") != nullptr) {
        node.set_constant(make_constant<float>({node.number("value_float", 0)}, {}));
    } else if (node.raw_attribute("value_int") != nullptr) {
        node.set_constant(make_constant<std::int64_t>({node.integer("value_int", 0)}, {}));
    } else if (node.raw_attribute("value_ints") != nullptr) {
        const auto values = node.integers("value_ints", {});
        node.set_constant(make_constant<std::int64_t>(values, {count(values)}));
    } else if (const auto* floats = node.raw_attribute("value_floats");
               floats != nullptr && std::holds_alternative<std::vector<float>>(*floats)) {
        const auto& values = std::get<std::vector<float>>(*floats);
        node.set_constant(make_constant<float>(values, {count(values)}));
    } else {
        throw Error("it holds none of value, value_float, value_floats, value_int and value_ints");
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_SHAPE_HPP
