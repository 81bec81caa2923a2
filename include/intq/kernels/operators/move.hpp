// SPDX-License-Identifier: MIT
//
// slice, permute and reshape as operators of a program: one kernel moves the codes. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_MOVE_HPP
#define INTQ_KERNELS_OPERATORS_MOVE_HPP

#include "intq/kernels/operators/operator.hpp"
#include "intq/kernels/streaming/move.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace operators {

// --- params is a MoveParams ------------------------------------------------------------------------------------------

inline bool has_move(const KernelTable&, const OperatorTypes& types) noexcept {
    return types.input == types.output && (types.input == DType::int8 || types.input == DType::int16);
}

inline Status check_move(const OperatorCall& call) noexcept {
    const ArenaTensor &x = call.x(), &y = call.y();
    if (y.dtype != x.dtype) return detail::wrong_dtype(call.op, Field::output, y.dtype, x.dtype);
    if (!has_move(call.table, {x.dtype, DType::none, y.dtype})) return detail::no_kernel(call.op, x.dtype);
    return kernels::check_move(call.params_as<MoveParams>(), x.elements_per_image(), y.elements_per_image(), call.op);
}

inline void run_move(const OperatorCall& call) INTQ_NOEXCEPT {
    const MoveCall move{&call.params_as<MoveParams>(), call.x_data(), call.y_data(), call.batch,
                        call.x().elements_per_image(), call.executor};
    call.x().dtype == DType::int8 ? move_codes<std::int8_t>(move) : move_codes<std::int16_t>(move);
}

constexpr OperatorRow move_operator(OpKind op) noexcept {
    return {.op = op, .needs_params = true, .check = &check_move, .run = &run_move, .has_kernel = &has_move};
}
inline constexpr OperatorRow slice_operator = move_operator(OpKind::slice);
inline constexpr OperatorRow permute_operator = move_operator(OpKind::permute);
inline constexpr OperatorRow reshape_operator = move_operator(OpKind::reshape);

}  // namespace operators
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_MOVE_HPP
