// SPDX-License-Identifier: MIT
//
// ONNX operators on positions, as exporters write a decoder with a cache of fixed length: rows of a table, rows that
// are copied into a cache, and masks of the scores of tokens that are not there yet. Long because each is a short
// separate function. Layer: interop.
//
// PyTorch writes index_copy as ScatterND or ScatterElements, a cache by torch.where as Where of an Equal, and a causal
// mask as LessOrEqual of a range and the position, which Where makes a mask that is added, or fills the scores.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_POSITIONS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_POSITIONS_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Reads a node that has positions, or a value that is made of them, among its inputs.
///
/// @return false for another node, which its own row reads
bool read_positions(NodeImport& node);

/// Refuses: a ScatterND or ScatterElements by positions was read by read_positions().
void scatter(NodeImport& node);
/// Refuses: an IsNaN behind a softmax was read by read_positions().
void is_nan(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/nodes/position_value.hpp"
#    include "intq/interop/onnx/internal/operators/elementwise.hpp"
#    include "intq/interop/onnx/internal/operators/fold_moves.hpp"
#    include "intq/interop/onnx/internal/operators/gather.hpp"
#    include "intq/interop/onnx/internal/operators/position_masks.hpp"
#    include "intq/interop/onnx/internal/operators/reshape.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/index_copy.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/softmax.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

namespace positions {

/// The same value in other extents: where its columns are among them.
INTQ_INLINE PositionValue in_dims(PositionValue value, const std::vector<index_t>& from,
                                  const std::vector<index_t>& dims) {
    const auto refuse = [&] {
        throw Error("what is made of positions, of shape " + describe_shape(from) + ", becomes " +
                    describe_shape(dims) + ", in which its axis is not seen");
    };
    const auto is_one = [&](std::size_t axis) {  // or the samples
        return dims[axis] == 1 || (axis == 0 && (dims[axis] < 0 || (!from.empty() && dims[axis] == from[axis])));
    };
    value.axis = dims.size();
    for (std::size_t axis = dims.size(); axis-- > 0 && value.axis == dims.size();)
        if (dims[axis] == value.columns) value.axis = axis;
    if (value.axis == dims.size() && value.columns != 1) refuse();
    const bool has_rows = value.is_in_rows && value.axis > 0;
    if (value.is_in_rows &&
        (!has_rows || value.axis + 1 != dims.size() || dims[value.axis - 1] != from[from.size() - 2]))
        refuse();
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
        if (axis != value.axis && !(has_rows && axis + 1 == value.axis) && !is_one(axis)) refuse();
    return value;
}

/// The node with a value of plain extents in place of input 0, whose shape functions read these.
INTQ_INLINE std::vector<index_t> reshaped_dims(NodeImport& node, const std::vector<index_t>& from) {
    Node changed;
    NodeImport plain = node.with_input(changed, 0, {.dims = from});
    std::vector<index_t> dims;
    const std::string& op = node.node().op_type;
    if (op == "Unsqueeze")
        dims = folding::unsqueezed_dims(plain, from);
    else if (op == "Squeeze")
        dims = folding::squeezed_dims(plain, from);
    else
        dims = target_dims(plain, plain.constant(1, "shape").as<std::int64_t>());
    plain.check_attributes_are_read();
    return dims;
}

/// Rows of a table (N, T, D) as they are read beside others: with an axis for each of theirs.
INTQ_INLINE void set_reshaped_rows(NodeImport& node, const std::vector<index_t>& dims) {
    const PositionValue& rows = node.positions(0);
    if (dims.size() < 2 || dims[0] != 1)
        throw Error("the rows of positions, which have no axis of samples, become " + describe_shape(dims) +
                    "; expected one sample at axis 0");
    call_reshape_of(node, *rows.node, dims, true);
}

INTQ_INLINE void view(NodeImport& node) {
    const std::vector<index_t> from = dims_of(node, 0);
    const std::vector<index_t> dims = reshaped_dims(node, from);
    ImportedValue value = node.any_value(0, "input");
    if (is(node, 0, Kind::rows)) return set_reshaped_rows(node, dims);
    value.positions = in_dims(value.positions, from, dims);
    value.dims = dims;
    node.set_output(std::move(value));
}

/// Repeated along axes of extent 1. Columns, and rows of them, stay.
INTQ_INLINE void expand(NodeImport& node) {
    const std::vector<index_t> from = dims_of(node, 0);
    const auto target = node.constant(1, "shape").as<std::int64_t>();
    ImportedValue value = node.any_value(0, "input");
    value.dims = broadcast_dims(from, std::vector<index_t>(target.begin(), target.end()));
    const std::size_t added = value.dims->size() - from.size();
    PositionValue& at = value.positions;
    const auto stays = [&](std::size_t axis) {
        return axis >= from.size() || (*value.dims)[axis + added] == from[axis];
    };
    if (is(node, 0, Kind::rows) || (at.columns != 1 && !stays(at.axis)) ||
        (at.columns != 1 && at.kind != Kind::positions && at.axis > 0 && !stays(at.axis - 1)))
        throw Error("what is made of positions, of shape " + describe_shape(from) + ", is repeated to " +
                    describe_shape(*value.dims));
    at.axis += added;
    node.set_output(std::move(value));
}

INTQ_INLINE void pass(NodeImport& node) { node.set_output(node.any_value(0, "input")); }

INTQ_INLINE void cast(NodeImport& node) {
    constexpr std::int64_t int32_code = 6, int64_code = 7, bool_code = 9;
    const std::int64_t to = node.integer("to", 0);
    node.integer("saturate", 1);    // concerns float8 only
    node.text("round_mode", "up");  // the same
    const bool stays = is(node, 0, Kind::positions) ? to == int32_code || to == int64_code
                                                    : is(node, 0, Kind::condition) && to == bool_code;
    if (!stays)
        throw Error(
            "its input holds integers that the model is given, as ids or positions, or a condition on them; "
            "as real numbers they are read where nothing else reads them. Angles of positions are rows of a "
            "constant table of cosines and sines");
    node.check_attributes_are_read();
    pass(node);
}

/// The rows of a source (…, 1, …) where the column is the position, and those of the cache elsewhere.
INTQ_INLINE void call_index_copy(NodeImport& node, std::size_t x, std::size_t source, std::size_t axis,
                                 const PositionValue& at, index_t count) {
    const Dims &of_x = node.dims(x), &of_source = node.dims(source);
    if (at.offset != 0 || at.is_bounded()) throw Error("positions with an addend or bounds are no indices of a copy");
    if (!of_x || !of_source) throw Error("the rank of what is copied is not known");
    std::vector<index_t> expected = *of_x;
    if (axis == 0 || axis >= expected.size())
        throw Error("it copies along axis " + std::to_string(axis) + " of " + describe_shape(*of_x) +
                    "; supported are axes behind the samples");
    expected[axis] = count;
    if (!expected.empty() && !of_source->empty() && expected[0] < 0) expected[0] = of_source->front();
    if (*of_source != expected)
        throw Error("what is copied has shape " + describe_shape(*of_source) + ", expected " +
                    describe_shape(expected));
    node.call_function(nn::index_copy_function,
                       {node.value(x), static_cast<std::int64_t>(axis), *at.node, node.value(source)}, of_x);
}

/// 0 where s is NaN, and s elsewhere: s, behind a softmax.
INTQ_INLINE void where_nan(NodeImport& node) {
    if (number_in(node, 1) != 0.0 || node.has_elements(2) || &node.value(2) != node.positions(0).node)
        throw Error("of values that are NaN, only those of a softmax are replaced, by 0");
    node.set_output(node.any_value(2, "value"));
}

INTQ_INLINE void where(NodeImport& node) {
    node.expect_inputs(3, 3);
    if (is(node, 0, Kind::is_nan)) return where_nan(node);
    if (!is(node, 0, Kind::condition)) throw Error("what is chosen is made of positions");
    const PositionValue condition = node.positions(0);
    const std::vector<index_t> dims = dims_of(node, 0);
    const std::size_t yes = condition.is_negated ? 2 : 1, no = 3 - yes;  // where j == p or j <= p, and elsewhere
    if (condition.is_equality) {
        const Dims& of_cache = node.dims(no);
        const std::size_t rank = of_cache ? of_cache->size() : 0;
        if (rank < dims.size() || (*of_cache)[rank - dims.size() + condition.axis] != condition.columns)
            throw Error("a condition of shape " + describe_shape(dims) + " does not choose rows of a cache");
        return call_index_copy(node, no, yes, rank - dims.size() + condition.axis, condition, 1);
    }
    const std::optional<double> fill = number_in(node, no), seen = number_in(node, yes);
    if (!fill) throw Error("behind the positions it has other values than one number");
    if (!seen) return call_causal_fill(node, yes, condition, dims, *fill);
    if (*seen != 0.0)
        throw Error("a mask by positions has the number " + shortest_text(*seen) + " up to them, expected 0");
    PositionValue mask = condition;
    mask.kind = Kind::mask;
    mask.fill = *fill;
    node.set_output({.dims = dims, .positions = mask});
}

/// Rows beside a value of each sample: (N, 1, …, T, D).
INTQ_INLINE void with_rows(NodeImport& node, std::size_t rows, void (*import)(NodeImport&)) {
    const PositionValue& given = node.positions(rows);
    const Dims other = node.any_value(1 - rows, "operand").dims;
    if (node.positions(1 - rows).kind != Kind::none || !other || other->size() < 3)
        throw Error("the rows of positions, which have no axis of samples, are used beside " +
                    (other ? describe_shape(*other) : "a value of unknown rank") + ", expected (N, ..., T, D)");
    std::vector<index_t> dims(other->size(), 1);
    dims[0] = other->front();
    dims[dims.size() - 2] = given.columns;
    dims.back() = dims_of(node, rows).back();
    graph::ArgumentList target(dims.begin(), dims.end());
    target[0] = std::int64_t{-1};
    graph::Node& reshaped = node.make_function(nn::reshape_function, {*given.node, std::move(target)});
    Node changed;
    NodeImport inner = node.with_input(changed, rows, {.node = &reshaped, .dims = std::move(dims)});
    import(inner);
    inner.check_attributes_are_read();
}

/// A constant integer beside ids or positions.
INTQ_INLINE std::int64_t number_beside_ids(const NodeImport& node, std::size_t i) {
    if (!node.is_constant(i) || node.constant(i, "number").size() != 1)
        throw Error("beside ids or positions it has what is no single number");
    const FileTensor& constant = node.constant(i, "number");
    const std::int64_t number =
        constant.dtype == DType::int32 ? constant.as<std::int32_t>()[0] : constant.as<std::int64_t>()[0];
    constexpr std::int64_t none_low = (std::numeric_limits<std::int64_t>::min)(),
                           none_high = (std::numeric_limits<std::int64_t>::max)();
    if (number != none_low && number != none_high && (number < -detail::max_extent || number > detail::max_extent))
        throw Error("the number " + std::to_string(number) + " beside ids or positions is beyond every extent");
    return number;
}

/// Ids or positions plus or minus a number; their bounds move along.
INTQ_INLINE void add_number(NodeImport& node, std::size_t i, std::int64_t sign) {
    if (!is(node, i, Kind::positions)) throw Error("positions are added to what is no single number");
    const std::int64_t addend = sign * number_beside_ids(node, 1 - i);
    if (addend < -detail::max_extent || addend > detail::max_extent)
        throw Error("the addend " + std::to_string(addend) + " of positions is beyond every extent");
    ImportedValue value = node.any_value(i, "input");
    PositionValue& at = value.positions;
    const PositionValue whole;
    if (at.low != whole.low) at.low += addend;
    if (at.high != whole.high) at.high += addend;
    at.offset += addend;
    node.set_output(std::move(value));
}

INTQ_INLINE void add(NodeImport& node) {
    node.expect_inputs(2, 2);
    const std::size_t i = node.positions(0).kind != Kind::none ? 0 : 1;
    if (is(node, i, Kind::rows)) return with_rows(node, i, &operators::add);
    if (is(node, i, Kind::mask))
        return call_causal_fill(node, 1 - i, node.positions(i), dims_of(node, i), node.positions(i).fill);
    add_number(node, i, 1);
}

INTQ_INLINE void mul(NodeImport& node) {
    const std::size_t i = is(node, 0, Kind::rows) ? 0 : 1;
    if (!is(node, i, Kind::rows))
        throw Error(
            "ids or positions are multiplied; supported are an Add or Sub of a number, and a clamp. Angles of "
            "positions are rows of a constant table of cosines and sines");
    with_rows(node, i, &operators::mul);
}

INTQ_INLINE void sub(NodeImport& node) {
    if (is(node, 0, Kind::positions)) return add_number(node, 0, -1);
    const std::size_t i = is(node, 0, Kind::rows) ? 0 : 1;
    if (!is(node, i, Kind::rows)) throw Error("positions are subtracted; supported is that a number is");
    with_rows(node, i, &operators::sub);
}

/// A bound of ids or positions; none where it is left out.
INTQ_INLINE std::optional<std::int64_t> bound_of_ids(const NodeImport& node, std::size_t i) {
    return node.has_input(i) ? std::optional(number_beside_ids(node, i)) : std::nullopt;
}
INTQ_INLINE void set_bounded(NodeImport& node, std::size_t i, std::optional<std::int64_t> low,
                             std::optional<std::int64_t> high) {
    if (!is(node, i, Kind::positions)) throw Error("what is made of positions is compared with a number");
    ImportedValue value = node.any_value(i, "input");
    PositionValue& at = value.positions;
    if (low) at.low = (std::max)(at.low, *low), at.high = (std::max)(at.high, *low);
    if (high) at.low = (std::min)(at.low, *high), at.high = (std::min)(at.high, *high);
    node.set_output(std::move(value));
}
INTQ_INLINE void clip(NodeImport& node) {
    node.expect_inputs(1, 3);
    set_bounded(node, 0, bound_of_ids(node, 1), bound_of_ids(node, 2));
}
INTQ_INLINE void raise(NodeImport& node) {
    node.expect_inputs(2, 2);
    const std::size_t i = is(node, 0, Kind::positions) ? 0 : 1;
    set_bounded(node, i, number_beside_ids(node, 1 - i), std::nullopt);
}
INTQ_INLINE void lower(NodeImport& node) {
    node.expect_inputs(2, 2);
    const std::size_t i = is(node, 0, Kind::positions) ? 0 : 1;
    set_bounded(node, i, std::nullopt, number_beside_ids(node, 1 - i));
}

/// Rows of a constant table. Positions (T) have no axis of samples in the file, and one in the model.
INTQ_INLINE void rows_of_table(NodeImport& node, std::vector<index_t> at) {
    const PositionValue& given = node.positions(1);
    graph::Node& rows = make_rows(node, *given.node, given);
    at.push_back(node.constant(0, "data").dims[1]);
    if (at.size() == 3) return node.set_output({.node = &rows, .dims = at});
    if (at.size() > 3) return call_reshape_of(node, rows, at, true);
    PositionValue value{.kind = Kind::rows, .node = &rows, .columns = given.columns};
    node.set_output({.dims = at, .positions = value});
}

INTQ_INLINE void gather(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (node.integer("axis", 0) != 0)
        throw Error("it takes columns of a constant by given ids; supported are rows, of axis 0");
    node.check_attributes_are_read();
    rows_of_table(node, dims_of(node, 1));
}

INTQ_INLINE void gather_nd(NodeImport& node) {
    node.expect_inputs(2, 2);
    std::vector<index_t> at = dims_of(node, 1);
    if (node.integer("batch_dims", 0) != 0 || at.empty() || at.back() != 1)
        throw Error("it takes more than rows of a table by positions");
    node.check_attributes_are_read();
    at.pop_back();
    rows_of_table(node, std::move(at));
}

/// Rows of an axis, which stands in an attribute where the samples were moved behind it (nodes/samples_first.hpp).
INTQ_INLINE void scatter_nd(NodeImport& node) {
    node.expect_inputs(3, 3);
    const std::vector<index_t>& at = dims_of(node, 1);
    const std::int64_t axis = node.integer(scatter_axis, 0);
    if (node.text("reduction", "none") != "none" || at.size() != 2 || at.back() != 1)
        throw Error("it writes more than rows of an axis by positions (T, 1), or adds them");
    node.check_attributes_are_read();
    call_index_copy(node, 0, 2, static_cast<std::size_t>(axis), node.positions(1), at.front());
}

INTQ_INLINE void scatter_elements(NodeImport& node) {
    node.expect_inputs(3, 3);
    const std::vector<index_t>& at = dims_of(node, 1);
    const PositionValue& given = node.positions(1);
    const std::size_t axis = axis_in(node.integer("axis", 0), at);
    if (node.text("reduction", "none") != "none" || (given.columns != 1 && given.axis != axis) ||
        at[axis] != given.columns)
        throw Error("it writes more than rows of an axis by positions, or adds them");
    if (node.dims(2) && at.size() == node.dims(2)->size())
        for (std::size_t i = 1; i < at.size(); ++i)
            if (at[i] != (*node.dims(2))[i])
                throw Error("its indices have shape " + describe_shape(at) + ", and what is copied " +
                            describe_shape(*node.dims(2)));
    node.check_attributes_are_read();
    call_index_copy(node, 0, 2, axis, given, given.columns);
}

/// A row of the table: input `at` is made of positions in one of some forms.
struct Reader {
    const char* op_type;
    void (*read)(NodeImport&);
};
inline constexpr Reader readers[] = {
    {"Add", &add},
    {"Cast", &cast},
    {"Clip", &clip},
    {"Equal", &compare},
    {"Expand", &expand},
    {"Gather", &gather},
    {"GatherND", &gather_nd},
    {"Greater", &compare},
    {"GreaterOrEqual", &compare},
    {"Identity", &pass},
    {"Less", &compare},
    {"LessOrEqual", &compare},
    {"Max", &raise},
    {"Min", &lower},
    {"Mul", &mul},
    {"Not", &negate},
    {"Reshape", &view},
    {"ScatterElements", &scatter_elements},
    {"ScatterND", &scatter_nd},
    {"Squeeze", &view},
    {"Sub", &sub},
    {"Unsqueeze", &view},
    {"Where", &where},
};

}  // namespace positions

INTQ_INLINE bool read_positions(NodeImport& node) {
    bool any = false;
    for (std::size_t i = 0; i < node.input_count(); ++i) any = any || node.positions(i).kind != positions::Kind::none;
    if (!any) return false;
    for (const positions::Reader& row : positions::readers)
        if (node.node().op_type == row.op_type) return row.read(node), true;
    return false;
}

INTQ_INLINE void scatter(NodeImport&) {
    throw Error("its indices are no positions that the model is given; supported are rows along one axis");
}

INTQ_INLINE void is_nan(NodeImport& node) {
    node.expect_inputs(1, 1);
    if (node.producer<nn::Softmax>(0) == nullptr) throw Error("it is not behind a softmax, whose result is no NaN");
    node.set_output({.dims = node.dims(0), .positions = {.kind = positions::Kind::is_nan, .node = &node.value(0)}});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_POSITIONS_HPP
