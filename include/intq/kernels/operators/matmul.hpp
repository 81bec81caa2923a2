// SPDX-License-Identifier: MIT
//
// The product of two activations as an operator of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_MATMUL_HPP
#define INTQ_KERNELS_OPERATORS_MATMUL_HPP

#include "intq/arith/matmul.hpp"
#include "intq/kernels/matmul/matmul_call.hpp"
#include "intq/kernels/operators/move.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Parameters of a matmul instruction. The matrices of its output lie one behind the other, row by row, whatever the
/// order in which its tensor names the axes.
struct MatmulStepParams {
    arith::MatmulParams numbers{};
    MatmulShape shape{};
};
template <> inline constexpr ParamKind param_kind<MatmulStepParams> = ParamKind::matmul;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_params(MatmulStepParams& step, auto& fields) {
    fields("numbers.zero_point", step.numbers.zero_point);
    fields("numbers.words", step.numbers.words);
    fields("numbers.codes", step.numbers.codes);
    fields("shape.rows", step.shape.rows);
    fields("shape.columns", step.shape.columns);
    fields("shape.inner", step.shape.inner);
    fields("shape.places[0]", step.shape.places[0]);
    fields("shape.places[1]", step.shape.places[1]);
    fields.expect(check_matmul_extents(step.shape));
}

namespace operators {

inline Status check_matmul(const OperatorCall& call) noexcept {
    const ArenaTensor &a = call.x(0), &b = call.x(1), &y = call.y();
    const auto& step = call.params_as<MatmulStepParams>();
    if (a.dtype != y.dtype) return detail::wrong_dtype(call.op, Field::input, a.dtype, y.dtype);
    if (b.dtype != y.dtype) return detail::wrong_dtype(call.op, Field::second_input, b.dtype, y.dtype);
    if (!detail::has_dtype<&KernelTable::matmul>(call.table, {a.dtype, DType::none, y.dtype}))
        return detail::no_kernel(call.op, a.dtype);
    const index_t image[2] = {a.elements_per_image(), b.elements_per_image()};
    if (const Status status = check_matmul_shape(step.shape, image, y.elements_per_image()); !status) return status;
    return arith::check_matmul_params(call.table.policy(), step.numbers, y.dtype, step.shape.inner);
}

inline index_t matmul_workspace(const OperatorCall& call) noexcept {
    return matmul_workspace_size(call.params_as<MatmulStepParams>().shape, call.table.packing, call.y().dtype);
}

inline void run_matmul(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& step = call.params_as<MatmulStepParams>();
    const auto& row =
        detail::find_row(call.table.matmul, [&](const MatmulRow& r) { return r.dtype == call.y().dtype; });
    row.run({.params = &step.numbers,
             .shape = &step.shape,
             .x = {call.x_data(0), call.x_data(1)},
             .image = {call.x(0).elements_per_image(), call.x(1).elements_per_image()},
             .y = call.y_data(),
             .batch = call.batch,
             .workspace = call.workspace.data,
             .executor = call.executor});
}

// Its parameters describe memory, so it reads and writes tensors of any order.
inline constexpr ProgramOperator matmul_operator{.op = OpKind::matmul,
                                                 .operands = 2,
                                                 .reads_nchw = true,
                                                 .writes_rows = true,
                                                 .check = &check_matmul,
                                                 .run = &run_matmul,
                                                 .has_kernel = &detail::has_dtype<&KernelTable::matmul>,
                                                 .workspace_size = &matmul_workspace,
                                                 .params = param_struct<MatmulStepParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_MATMUL_HPP
