// SPDX-License-Identifier: MIT
//
// slice, permute, reshape (one kernel moves the codes) and pad as operators of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_MOVE_HPP
#define INTQ_KERNELS_OPERATORS_MOVE_HPP

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

inline void run_move(const OperatorCall& call) INTQ_NOEXCEPT {
    const DType dtype = call.x().dtype;
    const auto& row = detail::find_row(call.table.move, [&](const MoveRow& r) { return r.dtype == dtype; });
    row.run({&call.params_as<MoveParams>(), call.x_data(), call.y_data(), call.batch, call.x().elements_per_image(),
             call.executor});
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
    row.run({&call.params_as<PadParams>(), call.x_data(), call.y_data(), call.batch, x.shape[1], image_of(x.shape).size,
             call.executor});
}

constexpr ProgramOperator move_operator(OpKind op, bool any_layout = false) noexcept {
    return {.op = op,
            .reads_nchw = any_layout,
            .writes_rows = any_layout,
            .codes = CodesFollow::ends,
            .channels = op == OpKind::reshape ? ChannelsFollow::copied : ChannelsFollow::none,
            .check = &check_move,
            .run = &run_move,
            .has_kernel = &detail::has_dtype<&KernelTable::move>,
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
                                              .params = param_struct<PadParams>};

}  // namespace operators
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_MOVE_HPP
