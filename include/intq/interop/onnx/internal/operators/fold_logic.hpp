// SPDX-License-Identifier: MIT
//
// Conditions on constants: Equal, Greater, Less, And, Or, Not, Where, Trilu. Layer: interop.
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

}  // namespace folding

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

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

}  // namespace folding

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_LOGIC_HPP
