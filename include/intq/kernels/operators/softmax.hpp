// SPDX-License-Identifier: MIT
//
// softmax as an operator of a program: probabilities in scratch, then requantized. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_SOFTMAX_HPP
#define INTQ_KERNELS_OPERATORS_SOFTMAX_HPP

#include "intq/arith/softmax.hpp"
#include "intq/kernels/operators/elementwise.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Parameters of a softmax instruction.
struct SoftmaxParams {
    arith::SoftmaxTables tables{};
    RequantizeParams requantize{};  // from arith::softmax_probability
    index_t count = 1;              // extent of the axis
    index_t inner = 1;              // elements from one to the next along it
};
template <> inline constexpr ParamKind param_kind<SoftmaxParams> = ParamKind::softmax;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_params(SoftmaxParams& step, ParamFields& fields) {
    fields("probability", step.tables.probability);
    fields("term", step.tables.term);
    fields("requantize", step.requantize);
    fields("count", step.count);
    fields("inner", step.inner);
    fields.require(arith::are_softmax_tables(step.tables), Field::storage);
    fields.require(step.count >= 1 && step.count <= arith::softmax_most_terms && step.inner >= 1, Field::axis);
}

namespace operators {

inline bool has_softmax(const KernelTable& table, const OperatorTypes& types) noexcept {
    return detail::has_any(table.softmax, [&](const SoftmaxRow& row) { return row.input == types.input; }) &&
           has_requantize(table, {DType::int16, DType::none, types.output});
}

inline Status check_softmax(const OperatorCall& call) noexcept {
    const auto& step = call.params_as<SoftmaxParams>();
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    const index_t size = call.y().elements_per_image();
    if (!has_softmax(call.table, {call.x().dtype, DType::none, call.y().dtype}))
        return detail::no_kernel(call.op, call.x().dtype);
    if (size % step.count != 0 || size / step.count % step.inner != 0)
        return detail::corrupt(call.op, Field::axis, step.count, size);
    return check_requantize_params(call.table.policy(), step.requantize, DType::int16, call.y().dtype, call.op);
}

inline index_t softmax_workspace(const OperatorCall& call) noexcept {
    return call.y_size() * static_cast<index_t>(sizeof(std::int16_t));
}

inline void run_softmax(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& step = call.params_as<SoftmaxParams>();
    auto* const probabilities = reinterpret_cast<std::int16_t*>(call.workspace.data);
    const index_t size = call.y_size();
    const DType x = call.x().dtype;
    const auto& exponential = detail::find_row(call.table.softmax, [&](const SoftmaxRow& r) { return r.input == x; });
    exponential.run({&step.tables, static_cast<const std::int8_t*>(call.x_data()), probabilities,
                     size / (step.count * step.inner), step.count, step.inner, call.executor});
    const auto& row = detail::find_row(call.table.requantize, [&](const RequantizeRow& r) {
        return r.input == DType::int16 && r.output == call.y().dtype;
    });
    row.run({&step.requantize, probabilities, call.y_data(), 1, size, size, size, call.executor});
}

inline constexpr ProgramOperator softmax_operator{.op = OpKind::softmax,
                                                  .check = &check_softmax,
                                                  .run = &run_softmax,
                                                  .has_kernel = &has_softmax,
                                                  .workspace_size = &softmax_workspace,
                                                  .params = param_struct<SoftmaxParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_SOFTMAX_HPP
