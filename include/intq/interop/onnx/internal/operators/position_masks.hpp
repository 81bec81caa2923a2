// SPDX-License-Identifier: MIT
//
// Conditions on positions in ONNX, and the scores that they mask. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_POSITION_MASKS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_POSITION_MASKS_HPP

#include <cstddef>
#include <optional>
#include <vector>

#include "intq/core/shape.hpp"
#include "intq/interop/onnx/internal/nodes/position_value.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

namespace positions {

using Kind = PositionValue::Kind;

bool is(const NodeImport& node, std::size_t i, Kind kind);

/// The extents of a value that is made of positions.
const std::vector<index_t>& dims_of(const NodeImport& node, std::size_t i);

/// A range compared with the positions: j == p, or j <= p.
void compare(NodeImport& node);
void negate(NodeImport& node);

/// The number that all elements of a constant are; none for another input.
std::optional<double> number_in(const NodeImport& node, std::size_t i);

/// The scores with what is behind the positions filled.
void call_causal_fill(NodeImport& node, std::size_t x, const PositionValue& condition, const std::vector<index_t>& dims,
                      double fill);

}  // namespace positions

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstdint>
#    include <string>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/elementwise.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

namespace positions {

INTQ_INLINE bool is(const NodeImport& node, std::size_t i, Kind kind) { return node.positions(i).kind == kind; }

INTQ_INLINE const std::vector<index_t>& dims_of(const NodeImport& node, std::size_t i) {
    const Dims& dims = node.any_value(i, "input").dims;
    if (!dims) throw Error("the rank of the positions is not known");
    return *dims;
}

/// A constant of consecutive integers along one axis: the first of them; none for another.
INTQ_INLINE std::optional<std::int64_t> start_of_range(const FileTensor& constant) {
    std::vector<std::int64_t> values;
    if (constant.dtype == DType::int64)
        values.assign(constant.as<std::int64_t>().begin(), constant.as<std::int64_t>().end());
    else if (constant.dtype == DType::int32)
        values.assign(constant.as<std::int32_t>().begin(), constant.as<std::int32_t>().end());
    const auto is_one = [](index_t extent) { return extent == 1; };
    const auto ones = std::count_if(constant.dims.begin(), constant.dims.end(), is_one);
    if (values.empty() || ones + 1 < static_cast<std::ptrdiff_t>(constant.dims.size())) return std::nullopt;
    if (values[0] < -detail::max_extent || values[0] > detail::max_extent) return std::nullopt;  // sums with it fit
    for (std::size_t i = 1; i < values.size(); ++i)
        if (values[i] != values[0] + static_cast<std::int64_t>(i)) return std::nullopt;
    return values[0];
}

INTQ_INLINE void compare(NodeImport& node) {
    node.expect_inputs(2, 2);
    const std::size_t p = is(node, 0, Kind::positions) ? 0 : 1, c = 1 - p;
    if (!node.is_constant(c)) throw Error("positions are compared with what is no constant");
    const FileTensor& range = node.constant(c, "range");
    const auto start = start_of_range(range);
    if (!start) throw Error("positions are compared with numbers that are no range");
    const PositionValue& given = node.positions(p);
    if (given.is_bounded()) throw Error("positions with bounds are compared");
    const std::string& op = node.node().op_type;
    const bool is_less = op.rfind("Less", 0) == 0, may_equal = op.size() > 7 && op != "Greater";  // …OrEqual
    // In the order (range, position): "less" is a relation of the column to the position.
    const bool column_is_less = op == "Equal" ? false : is_less == (c == 0);
    PositionValue condition{.kind = Kind::condition, .node = given.node, .is_equality = op == "Equal"};
    // j + start <= p + offset where the condition is true, or where it is not.
    std::int64_t reach = given.offset - *start;
    if (!condition.is_equality) {
        condition.is_negated = !column_is_less;
        if (column_is_less != may_equal) --reach;  // j < p, and not j >= p
    }
    if (reach != 0)
        throw Error("it compares positions with a range so that position p has the column p" +
                    std::string(reach < 0 ? "" : "+") + std::to_string(reach) +
                    "; supported is that it has the column p. Give the model another mask, such as a window of past "
                    "tokens, as an input that is added to the scores");
    const std::vector<index_t> dims = *broadcast_dims(dims_of(node, p), range.dims);
    std::size_t behind = 0;  // axes of the range behind that of its numbers
    while (behind < range.dims.size() && range.dims[range.dims.size() - 1 - behind] == 1 && range.size() > 1) ++behind;
    condition.columns = range.size();
    condition.axis = dims.size() - 1 - behind;
    if (given.columns > 1) {
        const bool is_matrix = behind == 0 && dims_of(node, p).size() == given.axis + 2;
        if (condition.is_equality || !is_matrix)
            throw Error("several positions of shape " + describe_shape(dims_of(node, p)) +
                        " are compared; supported is (T, 1) with a range (L)");
        condition.is_in_rows = true;
    }
    node.set_output({.dims = dims, .positions = condition});
}

INTQ_INLINE void negate(NodeImport& node) {
    ImportedValue value = node.any_value(0, "input");
    value.positions.is_negated = !value.positions.is_negated;
    node.set_output(std::move(value));
}

INTQ_INLINE std::optional<double> number_in(const NodeImport& node, std::size_t i) {
    if (!node.is_constant(i) || node.constant(i, "value").dtype != DType::float32) return std::nullopt;
    const auto values = node.constant(i, "value").as<float>();
    const bool is_one =
        !values.empty() && std::all_of(values.begin(), values.end(), [&](float value) { return value == values[0]; });
    return is_one ? std::optional(static_cast<double>(values[0])) : std::nullopt;
}

INTQ_INLINE void call_causal_fill(NodeImport& node, std::size_t x, const PositionValue& condition,
                                  const std::vector<index_t>& dims, double fill) {
    graph::Node& scores = node.value(x);
    const Dims& of_x = node.dims(x);
    const index_t rows = condition.is_in_rows ? dims[dims.size() - 2] : 1;
    const bool fits = of_x && of_x->size() >= 3 && of_x->size() >= dims.size() && condition.axis + 1 == dims.size() &&
                      of_x->back() == condition.columns && (*of_x)[of_x->size() - 2] == rows;
    if (!fits)
        throw Error("a mask by positions of shape " + describe_shape(dims) + " is used with " +
                    (of_x ? describe_shape(*of_x) : "a value of unknown rank") +
                    "; expected scores (N, ..., T, L) with T positions of each sample; where several heads of "
                    "queries share keys, repeat these (repeat_interleave), so that T is not the heads' axis");
    node.call_function(nn::causal_fill_function, {scores, *condition.node, fill}, of_x);
}

}  // namespace positions

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_POSITION_MASKS_HPP
