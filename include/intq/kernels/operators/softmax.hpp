// SPDX-License-Identifier: MIT
//
// softmax as an operator of a program: probabilities in scratch, then requantized, or TFLite's at once. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_SOFTMAX_HPP
#define INTQ_KERNELS_OPERATORS_SOFTMAX_HPP

#include "intq/arith/softmax.hpp"
#include "intq/kernels/operators/elementwise.hpp"
#include "intq/kernels/streaming/softmax_call.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Parameters of a softmax instruction.
struct SoftmaxParams {
    arith::SoftmaxTables tables{};       // of int8 codes
    arith::QuantizedMultiplier input{};  // of int16 codes
    RequantizeParams requantize{};       // from arith::softmax_probability, where the target's rule is `requantized`
    index_t count = 1;                   // extent of the axis
    index_t inner = 1;                   // elements from one to the next along it
};
template <> inline constexpr ParamKind param_kind<SoftmaxParams> = ParamKind::softmax;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Whether the numbers, which may come from anywhere, are such that the formula keeps its bits.
constexpr bool are_softmax_numbers(const arith::PolicyRecord& policy, const SoftmaxParams& step, DType input) noexcept {
    const bool is_wide = policy.softmax == arith::SoftmaxRule::fixed_point && input != DType::int8;
    return is_wide ? is_softmax_multiplier(step.input) : are_softmax_tables(policy.softmax, step.tables);
}

inline void describe_params(SoftmaxParams& step, auto& fields) {
    fields("tables.probability", step.tables.probability);
    fields("tables.term", step.tables.term);
    fields("input.multiplier", step.input.multiplier);
    fields("input.shift", step.input.shift);
    fields("requantize", step.requantize);
    fields("count", step.count);
    fields("inner", step.inner);
    const arith::PolicyRecord& policy = fields.context().policy();
    // The type of the input is not among the fields; check_softmax() knows it.
    const bool is_wide = policy.softmax == arith::SoftmaxRule::fixed_point && step.tables.term[0] == 0;
    const DType input = is_wide ? DType::int16 : DType::int8;
    fields.expect(are_softmax_numbers(policy, step, input), Field::storage);
    fields.expect(step.count >= 1 && step.count <= most_softmax_terms(policy.softmax, input) && step.inner >= 1,
                  Field::axis);
}

namespace operators {

/// The row that runs a softmax of these types; null where there is none.
inline const SoftmaxRow* find_softmax(const KernelTable& table, DType input, DType output) noexcept {
    for (const SoftmaxRow& row : table.softmax)
        if (row.input == input && (row.rule == arith::SoftmaxRule::requantized || row.output == output)) return &row;
    return nullptr;
}

inline bool has_softmax(const KernelTable& table, const OperatorTypes& types) noexcept {
    const SoftmaxRow* const row = find_softmax(table, types.input, types.output);
    if (row == nullptr) return false;
    return row->rule == arith::SoftmaxRule::fixed_point ||
           has_requantize(table, {row->output, DType::none, types.output});
}

inline Status check_softmax(const OperatorCall& call) noexcept {
    const auto& step = call.params_as<SoftmaxParams>();
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    const index_t size = call.y().elements_per_image();
    if (!has_softmax(call.table, {call.x().dtype, DType::none, call.y().dtype}))
        return detail::no_kernel(call.op, call.x().dtype);
    if (!are_softmax_numbers(call.table.policy(), step, call.x().dtype)) return corrupt(call.op, Field::storage, 0, 0);
    if (const index_t most = most_softmax_terms(call.table.policy().softmax, call.x().dtype); step.count > most)
        return corrupt(call.op, Field::axis, step.count, most);
    if (size % step.count != 0 || size / step.count % step.inner != 0)
        return corrupt(call.op, Field::axis, step.count, size);
    if (call.table.policy().softmax == arith::SoftmaxRule::fixed_point) return {};
    return check_requantize_params(call.table.policy(), step.requantize, DType::int16, call.y().dtype, call.op);
}

inline index_t softmax_workspace(const OperatorCall& call) noexcept {
    const bool requantizes = call.table.policy().softmax == arith::SoftmaxRule::requantized;
    return requantizes ? call.y_size() * static_cast<index_t>(sizeof(std::int16_t)) : 0;
}

inline void run_softmax(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& step = call.params_as<SoftmaxParams>();
    const SoftmaxRow* const softmax = find_softmax(call.table, call.x().dtype, call.y().dtype);
    INTQ_ASSERT(softmax != nullptr);
    const bool requantizes = softmax->rule == arith::SoftmaxRule::requantized;
    void* const probabilities = requantizes ? static_cast<void*>(call.workspace.data) : call.y_data();
    const index_t size = call.y_size();
    softmax->run({&step.tables, step.input, call.x_data(), probabilities, size / (step.count * step.inner), step.count,
                  step.inner, call.executor});
    if (!requantizes) return;
    const auto& row = detail::find_row(call.table.requantize, [&](const RequantizeRow& r) {
        return r.input == DType::int16 && r.output == call.y().dtype;
    });
    row.run({&step.requantize, probabilities, call.y_data(), 1, size, size, size, call.executor});
}

inline constexpr ProgramOperator softmax_operator{.op = OpKind::softmax,
                                                  .takes_rows = true,
                                                  .check = &check_softmax,
                                                  .run = &run_softmax,
                                                  .has_kernel = &has_softmax,
                                                  .workspace_size = &softmax_workspace,
                                                  .params = param_struct<SoftmaxParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_SOFTMAX_HPP
