// SPDX-License-Identifier: MIT
//
// Functions of one code (sigmoid, tanh, …) as an operator of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_UNARY_HPP
#define INTQ_KERNELS_OPERATORS_UNARY_HPP

#include "intq/arith/block_table.hpp"
#include "intq/arith/unary.hpp"
#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Parameters of a table instruction.
struct LookUpParams {
    const void* entries = nullptr;  // of the input's type
    index_t size = 0;               // arith::int8_table_size, int16_table_size, tflite_curve_size, or of blocks
    arith::TfliteCurve curve{};     // of a table of arith::tflite_curve_size; else unset
};
template <> inline constexpr ParamKind param_kind<LookUpParams> = ParamKind::look_up;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_params(arith::TfliteCurve& curve, auto& fields) {
    fields("multiplier", curve.multiplier);
    fields("shift", curve.shift);
    fields("is_tanh", curve.is_tanh);
}

inline void describe_memory(LookUpParams& step, auto& fields) {
    fields.memory("entries", step.entries, step.size == arith::int8_table_size ? ParamType::int8 : ParamType::int16,
                  step.size);
}
inline void describe_params(LookUpParams& step, auto& fields) {
    fields("size", step.size);
    fields("curve", step.curve);
    const auto size = static_cast<std::size_t>(step.size);
    const bool is_curve = size == arith::tflite_curve_size, has_blocks = arith::is_block_table_size(step.size);
    if (!fields.expect(size == arith::int8_table_size || size == arith::int16_table_size || is_curve || has_blocks,
                       Field::storage))
        return;
    fields.expect(is_curve ? arith::is_sound(step.curve) : step.curve == arith::TfliteCurve{}, Field::multiplier);
    describe_memory(step, fields);
    if (has_blocks)
        fields.expect_memory(
            [&] {
                return arith::is_block_table({static_cast<const std::int16_t*>(step.entries), size});
            },
            Field::storage);
}

namespace operators {

inline bool is_row_of(const LookUpRow& row, DType dtype, const LookUpParams& step) noexcept {
    const bool has_blocks = arith::is_block_table_size(step.size);
    const std::size_t size = has_blocks ? arith::least_block_table_size : static_cast<std::size_t>(step.size);
    return row.dtype == dtype && row.size == size;
}

inline Status check_look_up(const OperatorCall& call) noexcept {
    const DType x = call.x().dtype, y = call.y().dtype;
    const auto& step = call.params_as<LookUpParams>();
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    if (x != y) return detail::wrong_dtype(call.op, Field::output, y, x);
    if (!detail::has_dtype<&KernelTable::look_up>(call.table, {x, DType::none, y}))
        return detail::no_kernel(call.op, x);
    if (detail::has_any(call.table.look_up, [&](const LookUpRow& row) { return is_row_of(row, x, step); })) return {};
    const auto expected = static_cast<index_t>(x == DType::int8 ? arith::int8_table_size : arith::int16_table_size);
    return corrupt(call.op, Field::storage, step.size, expected);
}

inline void run_look_up(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& step = call.params_as<LookUpParams>();
    const auto& row =
        detail::find_row(call.table.look_up, [&](const LookUpRow& r) { return is_row_of(r, call.x().dtype, step); });
    row.run({step.entries, call.x_data(), call.y_data(), call.y_size(), call.executor, step.curve});
}

inline constexpr ProgramOperator lookup_table_operator{.op = OpKind::lookup_table,
                                                       .runs_in_place = &detail::always_in_place,
                                                       .takes_rows = true,
                                                       .codes = CodesFollow::each_code,
                                                       .channels = ChannelsFollow::each,
                                                       .check = &check_look_up,
                                                       .run = &run_look_up,
                                                       .has_kernel = &detail::has_dtype<&KernelTable::look_up>,
                                                       .runs_by_rows = &detail::always_by_rows,
                                                       .params = param_struct<LookUpParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_UNARY_HPP
