// SPDX-License-Identifier: MIT
//
// interpolate as an operator of a program: channels-last images of another size, the scale stays. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_RESIZE_HPP
#define INTQ_KERNELS_OPERATORS_RESIZE_HPP

#include "intq/arith/resize.hpp"
#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

template <> inline constexpr ParamKind param_kind<ResizeTable> = ParamKind::resize;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Every cell that the taps of an axis name lies in the input, and every weight is less than a step.
inline bool are_taps(std::span<const arith::ResizeTap> taps, index_t extent, arith::Blend blend) noexcept {
    for (const arith::ResizeTap& tap : taps)
        if (tap.first < 0 || tap.first >= extent || tap.second < 0 || tap.second >= extent || tap.weight < 0 ||
            tap.weight > arith::largest_weight(blend))
            return false;
    return true;
}

inline void describe_params(arith::ResizeGrids& grids, auto& fields) {
    fields("zero_point", grids.zero_point);
    fields("s_in", grids.s_in);
    fields("s_out", grids.s_out);
    fields("codes", grids.codes);
}

static_assert(sizeof(arith::ResizeTap) == 3 * sizeof(std::int32_t), "a tap is described as three numbers");

/// For a visitor that names only pointers; a reader needs each count first.
inline void describe_memory(ResizeTable& table, auto& fields) {
    for (std::span<const arith::ResizeTap>* const axis : {&table.rows, &table.columns}) {
        const arith::ResizeTap* data = axis->data();
        fields.memory("taps", data, ParamType::int32, [&] { return 3 * static_cast<index_t>(axis->size()); });
    }
}
inline void describe_params(ResizeTable& table, auto& fields) {
    const auto taps = [&](const char* count_name, const char* name, std::span<const arith::ResizeTap>& axis,
                          index_t extent) {
        auto count = static_cast<index_t>(axis.size());
        const arith::ResizeTap* data = axis.data();
        fields(count_name, count);
        if (!fields.expect(count >= 1 && count <= arith::largest_resized, Field::output)) return;
        fields.memory(name, data, ParamType::int32, [&] { return 3 * count; });
        axis = {data, static_cast<std::size_t>(count)};
        fields.expect_memory([&] { return are_taps(axis, extent, table.blend); }, Field::input);
    };
    fields("in", table.in);
    fields("blend", table.blend);
    fields.expect(table.blend <= arith::Blend::of_values, Field::instruction);
    if (table.blend == arith::Blend::of_values) fields("grids", table.grids);
    taps("row_count", "rows", table.rows, table.in.height);
    taps("column_count", "columns", table.columns, table.in.width);
}

namespace operators {

// --- interpolate: params is a ResizeTable ----------------------------------------------------------------------------

/// Whether a row can serve a call.
inline bool serves(const InterpolateRow& row, const ResizeTable& table, DType dtype) noexcept {
    return row.dtype == dtype && row.of_values == (table.blend == arith::Blend::of_values);
}

inline Status check_interpolate(const OperatorCall& call) noexcept {
    const ArenaTensor& x = call.x();
    const auto& table = call.params_as<ResizeTable>();
    if (x.shape.rank != 4) return detail::wrong_shape(call.op, Field::input, x.shape.rank, 4);
    if (table.in.height != x.shape[2]) return detail::wrong_shape(call.op, Field::input, x.shape[2], table.in.height);
    if (table.in.width != x.shape[3]) return detail::wrong_shape(call.op, Field::input, x.shape[3], table.in.width);
    const Size2d out{static_cast<index_t>(table.rows.size()), static_cast<index_t>(table.columns.size())};
    if (const Status status = detail::check_images(call, out); !status) return status;
    if (table.blend == arith::Blend::of_values)
        if (const Status status = arith::check_resize_grids(call.table.policy(), table.grids, x.dtype); !status)
            return status;
    const bool has_row =
        detail::has_any(call.table.interpolate, [&](const InterpolateRow& r) { return serves(r, table, x.dtype); });
    return has_row ? Status{} : detail::no_kernel(call.op, x.dtype);
}

inline void run_interpolate(const OperatorCall& call) INTQ_NOEXCEPT {
    const ArenaTensor& x = call.x();
    const auto& table = call.params_as<ResizeTable>();
    const auto& row =
        detail::find_row(call.table.interpolate, [&](const InterpolateRow& r) { return serves(r, table, x.dtype); });
    InterpolateCall run{&table, call.x_data(), call.y_data(), call.batch, x.shape[1], call.executor};
    if (call.band != nullptr) {
        run.first = call.band->rows.first;
        run.rows = call.y_height();
        run.in_first = call.band->operand_rows[0].first;
    }
    row.run(run);
}

/// Taps that go down the image, as every lowering writes them.
inline bool interpolate_runs_by_rows(const OperatorCall& call) noexcept {
    arith::ResizeTap before{};
    for (const arith::ResizeTap& tap : call.params_as<ResizeTable>().rows) {
        if (tap.second < tap.first || tap.first < before.first || tap.second < before.second) return false;
        before = tap;
    }
    return true;
}
inline RowRange rows_of_interpolate(const OperatorCall& call, index_t, RowRange rows) noexcept {
    const auto taps = call.params_as<ResizeTable>().rows;
    return {taps[static_cast<std::size_t>(rows.first)].first, taps[static_cast<std::size_t>(rows.last - 1)].second + 1};
}

inline constexpr ProgramOperator interpolate_operator{.op = OpKind::interpolate,
                                                      .codes = CodesFollow::ends,
                                                      .channels = ChannelsFollow::each,
                                                      .check = &check_interpolate,
                                                      .run = &run_interpolate,
                                                      .has_kernel = &detail::has_dtype<&KernelTable::interpolate>,
                                                      .runs_by_rows = &interpolate_runs_by_rows,
                                                      .rows_of_operand = &rows_of_interpolate,
                                                      .params = param_struct<ResizeTable>};
}  // namespace operators
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_RESIZE_HPP
