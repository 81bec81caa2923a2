// SPDX-License-Identifier: MIT
//
// Conditions on constants: Equal, Greater, Less, And, Or, Not, Where, Trilu; functions of float constants: of one
// element, Pow and MatMul. Swin v2 computes its biases of positions so, and exporters leave it in the file. Layer:
// interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_LOGIC_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_LOGIC_HPP

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

namespace folding {

/// Each is a bool: uint8, 0 or 1. Extents that are not known are equal to themselves.
FileTensor fold_equal(NodeImport& node);
FileTensor fold_greater(NodeImport& node);
FileTensor fold_greater_or_equal(NodeImport& node);
FileTensor fold_less(NodeImport& node);
FileTensor fold_less_or_equal(NodeImport& node);
FileTensor fold_and(NodeImport& node);
FileTensor fold_or(NodeImport& node);
FileTensor fold_not(NodeImport& node);

/// Elements of two constants, by a third.
FileTensor fold_where(NodeImport& node);
/// The triangle of the last two axes.
FileTensor fold_trilu(NodeImport& node);

/// Each is computed in double and rounded once. Each throws Error for another dtype than float32.
FileTensor fold_abs(NodeImport& node);
FileTensor fold_cos(NodeImport& node);
FileTensor fold_exp(NodeImport& node);
FileTensor fold_log(NodeImport& node);
FileTensor fold_reciprocal(NodeImport& node);
FileTensor fold_relu(NodeImport& node);
FileTensor fold_sigmoid(NodeImport& node);
FileTensor fold_sin(NodeImport& node);
FileTensor fold_sqrt(NodeImport& node);
FileTensor fold_tanh(NodeImport& node);
/// Of two constants, broadcast.
FileTensor fold_pow(NodeImport& node);
/// Of matrices, whose axes in front are broadcast.
/// @throws Error for vectors, and for more than 2^28 products
FileTensor fold_matmul(NodeImport& node);

}  // namespace folding

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <string>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/fold_moves.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

namespace folding {

/// relation(x, y) of two constants of one type, broadcast.
template <class Relation> FileTensor fold_relation(NodeImport& node, bool may_be_unknown, const Relation& relation) {
    node.expect_inputs(2, 2);
    const FileTensor &a = node.constant(0, "left operand"), &b = node.constant(1, "right operand");
    if (a.dtype != b.dtype)
        throw Error(std::string("its operands have the dtypes ") + name_of(a.dtype) + " and " + name_of(b.dtype));
    FileTensor result = folded(DType::uint8, *broadcast_dims(a.dims, b.dims));
    const auto to = elements<std::uint8_t>(result);
    const auto compare = [&](const auto x, const auto y) {
        for (std::size_t i = 0; i < to.size(); ++i) {
            const auto left = x[broadcast_index(static_cast<index_t>(i), result.dims, a.dims)],
                       right = y[broadcast_index(static_cast<index_t>(i), result.dims, b.dims)];
            if constexpr (sizeof(left) == sizeof(std::int64_t)) {
                const bool is_open = is_unknown_extent(left) || is_unknown_extent(right);
                if (!may_be_unknown && is_open && left != -1 && right != -1)
                    throw Error("it compares an extent that is known only when the model runs");
            }
            to[i] = relation(left, right) ? 1 : 0;
        }
    };
    if (a.dtype == DType::int64)
        compare(a.as<std::int64_t>(), b.as<std::int64_t>());
    else if (a.dtype == DType::int32)
        compare(a.as<std::int32_t>(), b.as<std::int32_t>());
    else if (a.dtype == DType::float32)
        compare(a.as<float>(), b.as<float>());
    else if (a.dtype == DType::uint8)
        compare(a.as<std::uint8_t>(), b.as<std::uint8_t>());
    else
        throw Error(std::string("constants of dtype ") + name_of(a.dtype) + " are not compared");
    return result;
}

INTQ_INLINE FileTensor fold_equal(NodeImport& node) {
    return fold_relation(node, true, [](auto x, auto y) { return x == y; });
}
INTQ_INLINE FileTensor fold_greater(NodeImport& node) {
    return fold_relation(node, false, [](auto x, auto y) { return x > y; });
}
INTQ_INLINE FileTensor fold_greater_or_equal(NodeImport& node) {
    return fold_relation(node, false, [](auto x, auto y) { return x >= y; });
}
INTQ_INLINE FileTensor fold_less(NodeImport& node) {
    return fold_relation(node, false, [](auto x, auto y) { return x < y; });
}
INTQ_INLINE FileTensor fold_less_or_equal(NodeImport& node) {
    return fold_relation(node, false, [](auto x, auto y) { return x <= y; });
}

INTQ_INLINE void expect_bools(const NodeImport& node) {
    for (std::size_t i = 0; i < node.input_count(); ++i)
        if (const FileTensor& tensor = node.constant(i, "input"); tensor.dtype != DType::uint8)
            throw Error(std::string("an input has dtype ") + name_of(tensor.dtype) + ", expected bool");
}

INTQ_INLINE FileTensor fold_and(NodeImport& node) {
    expect_bools(node);
    return fold_relation(node, false, [](auto x, auto y) { return x != 0 && y != 0; });
}
INTQ_INLINE FileTensor fold_or(NodeImport& node) {
    expect_bools(node);
    return fold_relation(node, false, [](auto x, auto y) { return x != 0 || y != 0; });
}
INTQ_INLINE FileTensor fold_not(NodeImport& node) {
    node.expect_inputs(1, 1);
    expect_bools(node);
    FileTensor result = node.constant(0, "input");
    for (std::uint8_t& element : elements<std::uint8_t>(result)) element = element == 0 ? 1 : 0;
    return result;
}

INTQ_INLINE FileTensor fold_where(NodeImport& node) {
    node.expect_inputs(3, 3);
    const FileTensor &condition = node.constant(0, "condition"), &a = node.constant(1, "first value"),
                     &b = node.constant(2, "second value");
    if (condition.dtype != DType::uint8 || a.dtype != b.dtype)
        throw Error(std::string("its inputs have the dtypes ") + name_of(condition.dtype) + ", " + name_of(a.dtype) +
                    " and " + name_of(b.dtype) + ", expected bool and two of one dtype");
    FileTensor result = folded(a.dtype, *broadcast_dims(condition.dims, broadcast_dims(a.dims, b.dims)));
    for (index_t i = 0; i < result.size(); ++i) {
        const bool first = condition.as<std::uint8_t>()[broadcast_index(i, result.dims, condition.dims)] != 0;
        const FileTensor& from = first ? a : b;
        copy_elements(from, static_cast<index_t>(broadcast_index(i, result.dims, from.dims)), result, i, 1);
    }
    return result;
}

INTQ_INLINE FileTensor fold_trilu(NodeImport& node) {
    node.expect_inputs(1, 2);
    const FileTensor& from = node.constant(0, "input");
    const bool upper = node.integer("upper", 1) != 0;
    std::int64_t diagonal = 0;
    if (node.has_input(1)) {
        const auto given = node.constant(1, "diagonal").as<std::int64_t>();
        if (given.size() != 1 || is_unknown_extent(given[0])) throw Error("the diagonal is not one number");
        diagonal = given[0];
    }
    if (from.dims.size() < 2) throw Error("the input has shape " + describe_shape(from.dims) + ", expected matrices");
    const index_t columns = from.dims.back(), rows = from.dims[from.dims.size() - 2];
    FileTensor result = folded(from.dtype, from.dims);
    for (index_t i = 0; i < result.size(); ++i) {
        const index_t row = i / columns % rows, column = i % columns;
        if (upper ? column - row >= diagonal : column - row <= diagonal) copy_elements(from, i, result, i, 1);
    }
    return result;
}

template <class Function> FileTensor fold_function(NodeImport& node, const Function& function) {
    node.expect_inputs(1, 1);
    FileTensor result = node.constant(0, "input");
    result.check_dtype(DType::float32);
    for (float& value : elements<float>(result)) value = static_cast<float>(function(static_cast<double>(value)));
    return result;
}

INTQ_INLINE FileTensor fold_abs(NodeImport& node) {
    return fold_function(node, [](double x) { return std::fabs(x); });
}
INTQ_INLINE FileTensor fold_cos(NodeImport& node) {
    return fold_function(node, [](double x) { return std::cos(x); });
}
INTQ_INLINE FileTensor fold_exp(NodeImport& node) {
    return fold_function(node, [](double x) { return std::exp(x); });
}
INTQ_INLINE FileTensor fold_log(NodeImport& node) {
    return fold_function(node, [](double x) { return std::log(x); });
}
INTQ_INLINE FileTensor fold_reciprocal(NodeImport& node) {
    return fold_function(node, [](double x) { return 1.0 / x; });
}
INTQ_INLINE FileTensor fold_relu(NodeImport& node) {
    return fold_function(node, [](double x) { return x < 0.0 ? 0.0 : x; });
}
INTQ_INLINE FileTensor fold_sigmoid(NodeImport& node) {
    return fold_function(node, [](double x) { return 1.0 / (1.0 + std::exp(-x)); });
}
INTQ_INLINE FileTensor fold_sin(NodeImport& node) {
    return fold_function(node, [](double x) { return std::sin(x); });
}
INTQ_INLINE FileTensor fold_sqrt(NodeImport& node) {
    return fold_function(node, [](double x) { return std::sqrt(x); });
}
INTQ_INLINE FileTensor fold_tanh(NodeImport& node) {
    return fold_function(node, [](double x) { return std::tanh(x); });
}

INTQ_INLINE FileTensor fold_pow(NodeImport& node) {
    node.expect_inputs(2, 2);
    const FileTensor &base = node.constant(0, "base"), &exponent = node.constant(1, "exponent");
    const auto x = base.as<float>(), y = exponent.as<float>();
    FileTensor result = folded(DType::float32, *broadcast_dims(base.dims, exponent.dims));
    const auto to = elements<float>(result);
    for (std::size_t i = 0; i < to.size(); ++i) {
        const auto at = static_cast<index_t>(i);
        to[i] = static_cast<float>(std::pow(static_cast<double>(x[broadcast_index(at, result.dims, base.dims)]),
                                            static_cast<double>(y[broadcast_index(at, result.dims, exponent.dims)])));
    }
    return result;
}

/// The places of matrices in front of the last two axes.
INTQ_INLINE std::vector<index_t> lists_of(const FileTensor& matrices) {
    return {matrices.dims.begin(), matrices.dims.end() - 2};
}

INTQ_INLINE FileTensor fold_matmul(NodeImport& node) {
    constexpr index_t max_products = index_t{1} << 28;
    node.expect_inputs(2, 2);
    const FileTensor &a = node.constant(0, "left operand"), &b = node.constant(1, "right operand");
    const auto x = a.as<float>(), y = b.as<float>();
    const std::size_t rank_a = a.dims.size(), rank_b = b.dims.size();
    if (rank_a < 2 || rank_b < 2 || a.dims.back() != b.dims[rank_b - 2])
        throw Error("constants of the shapes " + describe_shape(a.dims) + " and " + describe_shape(b.dims) +
                    " are no matrices that can be multiplied");
    const std::vector<index_t> lists = *broadcast_dims(lists_of(a), lists_of(b));
    const index_t rows = a.dims[rank_a - 2], depth = a.dims.back(), columns = b.dims.back();
    std::vector<index_t> dims = lists;
    dims.insert(dims.end(), {rows, columns});
    FileTensor result = folded(DType::float32, dims);
    if (depth > 0 && result.size() > max_products / depth) throw Error("it has more than 2^28 products");
    const auto to = elements<float>(result);
    for (index_t i = 0; i < result.size(); ++i) {
        const index_t list = i / (rows * columns), row = i / columns % rows, column = i % columns;
        const std::size_t from_x = broadcast_index(list, lists, lists_of(a)) * static_cast<std::size_t>(rows * depth) +
                                   static_cast<std::size_t>(row * depth);
        const std::size_t from_y =
            broadcast_index(list, lists, lists_of(b)) * static_cast<std::size_t>(depth * columns) +
            static_cast<std::size_t>(column);
        double sum = 0.0;
        for (std::size_t k = 0; k < static_cast<std::size_t>(depth); ++k)
            sum += static_cast<double>(x[from_x + k]) *
                   static_cast<double>(y[from_y + k * static_cast<std::size_t>(columns)]);
        to[static_cast<std::size_t>(i)] = static_cast<float>(sum);
    }
    return result;
}

}  // namespace folding

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_LOGIC_HPP
