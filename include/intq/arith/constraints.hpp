// SPDX-License-Identifier: MIT
//
// The constraint table: which operator a target accepts with which types and limits. Layer: arith
// (docs/arithmetic.md section 5). Make, prepare and check read it; a use without a row is refused.
#ifndef INTQ_ARITH_CONSTRAINTS_HPP
#define INTQ_ARITH_CONSTRAINTS_HPP

#include <array>
#include <cstddef>
#include <span>

#include "intq/core/dtype.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/status.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// One accepted combination. A limit of 0 is no limit.
struct ConstraintRow {
    OpKind op = OpKind::none;
    DType input = DType::none;
    DType weight = DType::none;  // none for an operator without weights
    DType output = DType::none;
    index_t max_kernel = 0;
    index_t max_stride = 0;
    index_t max_padding = 0;
    index_t max_channels = 0;
};

/// The use of an operator that is asked of a target.
struct OperatorUse {
    OpKind op = OpKind::none;
    DType input = DType::none;
    DType weight = DType::none;
    DType output = DType::none;
    Window2d window{};
    index_t channels = 0;
    TableFunction function = TableFunction::exp;  // of lookup_table
};

/// An output whose scale and zero point a target fixes, whatever the data are.
struct FixedOutput {
    OpKind op = OpKind::none;
    TableFunction function = TableFunction::exp;  // of lookup_table
    DType input = DType::none;
    DType output = DType::none;
    float scale = 1.0f;
    std::int32_t zero_point = 0;
};

// --- how the targets write their tables ------------------------------------------------------------------------------

/// Operators whose output has the type of their input, in `type`.
template <DType Type, OpKind... Ops>
inline constexpr std::array<ConstraintRow, sizeof...(Ops)> rows_of_type{
    ConstraintRow{.op = Ops, .input = Type, .output = Type}...};

/// conv2d and linear with the same types.
template <DType Input, DType Weight, DType... Outputs>
inline constexpr std::array<ConstraintRow, 2 * sizeof...(Outputs)> weighted_rows{
    ConstraintRow{OpKind::conv2d, Input, Weight, Outputs}..., ConstraintRow{OpKind::linear, Input, Weight, Outputs}...};

/// From real values to codes of each type and back, and between codes of any two of them.
template <DType... Codes>
inline constexpr std::array<ConstraintRow, 2 * sizeof...(Codes) + sizeof...(Codes) * sizeof...(Codes)> conversion_rows =
    [] {
        constexpr std::array<DType, sizeof...(Codes)> codes{Codes...};
        std::array<ConstraintRow, 2 * sizeof...(Codes) + sizeof...(Codes) * sizeof...(Codes)> rows{};
        std::size_t at = 0;
        for (const DType code : codes) {
            rows[at++] = {OpKind::quantize, DType::float32, DType::none, code};
            rows[at++] = {OpKind::dequantize, code, DType::none, DType::float32};
            for (const DType other : codes) rows[at++] = {OpKind::requantize, code, DType::none, other};
        }
        return rows;
    }();

/// The rows of fp32 and tflite for a type, without limits.
template <DType Type>
inline constexpr auto unlimited_rows =
    rows_of_type<Type, OpKind::add, OpKind::relu, OpKind::max_pool2d, OpKind::avg_pool2d, OpKind::cat, OpKind::flatten,
                 OpKind::mul, OpKind::lookup_table, OpKind::interpolate, OpKind::pad, OpKind::sub, OpKind::slice,
                 OpKind::permute, OpKind::reshape, OpKind::layer_norm, OpKind::matmul, OpKind::log_softmax,
                 OpKind::index_copy>;

/// A softmax of int8 codes.
template <DType... Outputs>
inline constexpr std::array<ConstraintRow, sizeof...(Outputs)> softmax_rows{
    ConstraintRow{.op = OpKind::softmax, .input = DType::int8, .output = Outputs}...};

/// Rows of a table by int32 ids.
template <DType... Outputs>
inline constexpr std::array<ConstraintRow, sizeof...(Outputs)> embedding_rows{
    ConstraintRow{.op = OpKind::embedding, .input = DType::int32, .output = Outputs}...};

/// Indices of the largest codes.
template <DType... Inputs>
inline constexpr std::array<ConstraintRow, sizeof...(Inputs)> argmax_rows{
    ConstraintRow{.op = OpKind::argmax, .input = Inputs, .output = DType::int32}...};

/// Moves of them.
inline constexpr auto moved_index_rows =
    rows_of_type<DType::int32, OpKind::flatten, OpKind::slice, OpKind::permute, OpKind::reshape>;

/// The conversion of accumulators that are an output.
inline constexpr std::array<ConstraintRow, 1> accumulator_rows{
    ConstraintRow{OpKind::dequantize, DType::int32, DType::none, DType::float32}};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// @return ok; unsupported with the field that no row has (input, weight or output); value_out_of_range with
///         kernel, stride, padding or channels where a row has the types but a smaller limit
///
/// Cost     O(rows)
constexpr Status check_constraints(std::span<const ConstraintRow> table, const OperatorUse& use) noexcept {
    Status best{StatusCode::unsupported, use.op, Field::none, 0, 0};
    const auto above = [&](index_t given, index_t limit, Field field) {
        if (limit == 0 || given <= limit) return false;
        best = {StatusCode::value_out_of_range, use.op, field, given, limit};
        return true;
    };
    const auto dtype_status = [&](Field field, DType given) {
        return Status{StatusCode::unsupported, use.op, field, static_cast<std::int64_t>(given), 0};
    };
    // The refusal names the first property in the order operator, input, weight, output that no row has.
    int depth = 0;
    for (const ConstraintRow& row : table) {
        if (row.op != use.op) continue;
        if (row.input != use.input) {
            if (depth < 1) best = dtype_status(Field::input, use.input), depth = 1;
            continue;
        }
        if (row.weight != use.weight) {
            if (depth < 2) best = dtype_status(Field::weight, use.weight), depth = 2;
            continue;
        }
        if (row.output != use.output) {
            if (depth < 3) best = dtype_status(Field::output, use.output), depth = 3;
            continue;
        }
        depth = 4;
        const Window2d& w = use.window;
        const bool too_large = above(w.kernel.height, row.max_kernel, Field::kernel) ||
                               above(w.kernel.width, row.max_kernel, Field::kernel) ||
                               above(w.stride.height, row.max_stride, Field::stride) ||
                               above(w.stride.width, row.max_stride, Field::stride) ||
                               above(w.padding.top, row.max_padding, Field::padding) ||
                               above(w.padding.left, row.max_padding, Field::padding) ||
                               above(w.padding.bottom, row.max_padding, Field::padding) ||
                               above(w.padding.right, row.max_padding, Field::padding) ||
                               above(use.channels, row.max_channels, Field::channels);
        if (!too_large) return {};
    }
    return best;
}

/// The scale and zero point that a target fixes for an output; null where data or a qconfig decide them.
constexpr const FixedOutput* find_fixed_output(std::span<const FixedOutput> table, const OperatorUse& use) noexcept {
    for (const FixedOutput& row : table)
        if (row.op == use.op && row.input == use.input && row.output == use.output &&
            (row.op != OpKind::lookup_table || row.function == use.function))
            return &row;
    return nullptr;
}

/// Several tables of rows as one.
template <class Row, std::size_t... Sizes> constexpr auto join_rows(const std::array<Row, Sizes>&... parts) noexcept {
    std::array<Row, (Sizes + ...)> all{};
    std::size_t at = 0;
    const auto append = [&](const auto& part) {
        for (const Row& row : part) all[at++] = row;
    };
    (append(parts), ...);
    return all;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_CONSTRAINTS_HPP
