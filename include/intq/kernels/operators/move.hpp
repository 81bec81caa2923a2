// SPDX-License-Identifier: MIT
//
// slice, permute, reshape (one kernel moves the codes) and pad as operators of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_MOVE_HPP
#define INTQ_KERNELS_OPERATORS_MOVE_HPP

#include "intq/core/quotient.hpp"
#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

template <> inline constexpr ParamKind param_kind<MoveParams> = ParamKind::move;
template <> inline constexpr ParamKind param_kind<PadParams> = ParamKind::pad;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_params(MoveParams& move, auto& fields) {
    fields("rank", move.rank);
    fields("extents", move.extents);
    fields("steps", move.steps);
    fields("offset", move.offset);
}
inline void describe_params(PadParams& pad, auto& fields) {
    fields("padding", pad.padding);
    fields("step", pad.step);
    fields("fill", pad.fill);
}

namespace operators {

// --- params is a MoveParams ------------------------------------------------------------------------------------------

inline Status check_move(const OperatorCall& call) noexcept {
    const ArenaTensor &x = call.x(), &y = call.y();
    if (y.dtype != x.dtype) return detail::wrong_dtype(call.op, Field::output, y.dtype, x.dtype);
    if (!detail::has_dtype<&KernelTable::move>(call.table, {x.dtype, DType::none, y.dtype}))
        return detail::no_kernel(call.op, x.dtype);
    return kernels::check_move(call.params_as<MoveParams>(), x.elements_per_image(), y.elements_per_image(), call.op);
}

inline bool is_copy_in_place(const InstructionParams& params) noexcept {
    return is_copy(*static_cast<const MoveParams*>(params.data));
}

inline void run_move(const OperatorCall& call) INTQ_NOEXCEPT {
    if (call.band == nullptr && call.x_data() == call.y_data()) return;  // a copy in its place
    const DType dtype = call.x().dtype;
    const auto& row = detail::find_row(call.table.move, [&](const MoveRow& r) { return r.dtype == dtype; });
    const auto run = [&](const MoveParams& move) INTQ_NOEXCEPT {
        row.run({&move, call.x_data(), call.y_data(), call.batch, call.x().elements_per_image(), call.executor});
    };
    if (call.band == nullptr) return run(call.params_as<MoveParams>());
    MoveParams part = call.params_as<MoveParams>();
    const RowRange rows = call.band->rows;
    const index_t of_row = quotient(part.extents[0], call.y().shape[2]);
    part.extents[0] = of_row * rows.count();
    part.offset += of_row * rows.first * part.steps[0] - call.band->operand_rows[0].first * call.x().elements_per_row();
    run(part);
}

// --- slice: rows of an image from rows of another one ----------------------------------------------------------------

/// Whether the outermost axis counts rows, or parts of them, downwards.
inline bool slice_runs_by_rows(const OperatorCall& call) noexcept {
    const auto& move = call.params_as<MoveParams>();
    for (int axis = 0; axis < move.rank; ++axis)
        if (move.extents[axis] > 1 && move.steps[axis] < 0) return false;
    return move.extents[0] % call.y().shape[2] == 0;
}
inline RowRange rows_of_slice(const OperatorCall& call, index_t, RowRange rows) noexcept {
    const auto& move = call.params_as<MoveParams>();
    const index_t of_row = quotient(move.extents[0], call.y().shape[2]), row = call.x().elements_per_row();
    const index_t first = move.offset + of_row * rows.first * move.steps[0];
    index_t last = move.offset + (of_row * rows.last - 1) * move.steps[0];
    for (int axis = 1; axis < move.rank; ++axis) last += (move.extents[axis] - 1) * move.steps[axis];
    return {quotient(first, row), quotient(last, row) + 1};
}

// --- pad: params is a PadParams --------------------------------------------------------------------------------------

inline Status check_pad(const OperatorCall& call) noexcept {
    const ArenaTensor& x = call.x();
    const auto& pad = call.params_as<PadParams>();
    if (x.shape.rank != 3 && x.shape.rank != 4) return detail::wrong_shape(call.op, Field::input, x.shape.rank, 4);
    const Size2d in = image_of(x.shape).size;
    if (const Status status = kernels::check_pad(pad, in, call.op); !status) return status;
    if (const Status status = detail::check_images(call, padded_size(pad, in)); !status) return status;
    if (!detail::has_dtype<&KernelTable::pad>(call.table, {x.dtype, DType::none, x.dtype}))
        return detail::no_kernel(call.op, x.dtype);
    if (pad.fill < lowest_code(x.dtype) || pad.fill > highest_code(x.dtype))
        return corrupt(call.op, Field::zero_point, pad.fill, highest_code(x.dtype));
    return {};
}

inline void run_pad(const OperatorCall& call) INTQ_NOEXCEPT {
    const ArenaTensor& x = call.x();
    const auto& row = detail::find_row(call.table.pad, [&](const PadRow& r) { return r.dtype == x.dtype; });
    PadCall run{&call.params_as<PadParams>(), call.x_data(), call.y_data(), call.batch, x.shape[1],
                image_of(x.shape).size,       call.executor};
    if (call.band != nullptr) {
        run.first = call.band->rows.first;
        run.rows = call.y_height();
        run.in_first = call.band->operand_rows[0].first;
    }
    row.run(run);
}

/// The rows of the image that lie in some rows of the field; where none does, the next one, or the last one.
inline RowRange rows_of_pad(const OperatorCall& call, index_t, RowRange rows) noexcept {
    const auto& pad = call.params_as<PadParams>();
    const index_t step = pad.step.height, height = call.x().shape[2];
    const auto rows_before = [&](index_t row) {  // of the image, in the rows before this one of the field
        const index_t below = row - pad.padding.top;
        return below > 0 ? quotient_up(below, step) : index_t{0};
    };
    const index_t before = rows_before(rows.first), end = rows_before(rows.last);
    const index_t first = before < height ? before : height - 1, last = end < height ? end : height;
    return {first, last > first ? last : first + 1};
}

constexpr ProgramOperator move_operator(OpKind op, bool any_layout = false) noexcept {
    return {.op = op,
            .runs_in_place = any_layout ? &is_copy_in_place : nullptr,
            .reads_nchw = any_layout,
            .writes_rows = any_layout,
            .codes = CodesFollow::ends,
            .channels = op == OpKind::reshape ? ChannelsFollow::copied : ChannelsFollow::none,
            .check = &check_move,
            .run = &run_move,
            .has_kernel = &detail::has_dtype<&KernelTable::move>,
            .runs_by_rows = op == OpKind::slice ? &slice_runs_by_rows : nullptr,
            .rows_of_operand = op == OpKind::slice ? &rows_of_slice : nullptr,
            .params = param_struct<MoveParams>};
}
inline constexpr ProgramOperator slice_operator = move_operator(OpKind::slice);
inline constexpr ProgramOperator permute_operator = move_operator(OpKind::permute);
// Its parameters describe memory, so it can also read and write rows of features.
inline constexpr ProgramOperator reshape_operator = move_operator(OpKind::reshape, true);

inline constexpr ProgramOperator pad_operator{.op = OpKind::pad,
                                              .codes = CodesFollow::ends,
                                              .channels = ChannelsFollow::each,
                                              .check = &check_pad,
                                              .run = &run_pad,
                                              .has_kernel = &detail::has_dtype<&KernelTable::pad>,
                                              .runs_by_rows = &detail::always_by_rows,
                                              .rows_of_operand = &rows_of_pad,
                                              .params = param_struct<PadParams>};

}  // namespace operators
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_MOVE_HPP
