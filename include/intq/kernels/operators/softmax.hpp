// SPDX-License-Identifier: MIT
//
// softmax as an operator of a program: probabilities in scratch, then requantized, or TFLite's at once; and its
// logarithm. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_SOFTMAX_HPP
#define INTQ_KERNELS_OPERATORS_SOFTMAX_HPP

#include "intq/arith/fixed_point_log_softmax.hpp"
#include "intq/arith/log_softmax.hpp"
#include "intq/arith/softmax.hpp"
#include "intq/kernels/operators/elementwise.hpp"
#include "intq/kernels/streaming/softmax_call.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Parameters of a softmax instruction.
struct SoftmaxParams {
    arith::SoftmaxTables tables{};       // of int8 codes
    arith::QuantizedMultiplier input{};  // of int16 codes, where the target's rule is `fixed_point`
    RequantizeParams requantize{};  // where it is `requantized`: from arith::softmax_probability, or of int16 codes
                                    // from accumulators of arith::Int16Softmax
    index_t count = 1;              // extent of the axis
    index_t inner = 1;              // elements from one to the next along it
    index_t entry_count = 0;        // int16_softmax_entries of int16 codes, where the rule is `requantized`
    const std::uint32_t* entries = nullptr;
};
template <> inline constexpr ParamKind param_kind<SoftmaxParams> = ParamKind::softmax;

/// Parameters of a log-softmax instruction. Their number of entries tells its rule.
struct LogSoftmaxParams {
    std::int64_t step = 0;          // of arith::LogSoftmax
    RequantizeParams requantize{};  // from its accumulators
    index_t count = 1;              // extent of the axis
    index_t inner = 1;              // elements from one to the next along it
    index_t entry_count = 0;        // log_softmax_entries() of the input's type, or fixed_point_log_softmax_entries
    const std::uint32_t* entries = nullptr;
};
template <> inline constexpr ParamKind param_kind<LogSoftmaxParams> = ParamKind::log_softmax;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Whether the numbers of the struct, which may come from anywhere, are such that the formula keeps its bits.
constexpr bool are_softmax_numbers(const arith::PolicyRecord& policy, const SoftmaxParams& step, DType input) noexcept {
    const bool is_fixed_point = policy.softmax == arith::SoftmaxRule::fixed_point;
    if (input == DType::int8) return step.entry_count == 0 && are_softmax_tables(policy.softmax, step.tables);
    return is_fixed_point ? step.entry_count == 0 && is_softmax_multiplier(step.input)
                          : step.entry_count == arith::int16_softmax_entries;
}

inline void describe_memory(SoftmaxParams& step, auto& fields) {
    fields.memory("entries", step.entries, ParamType::uint32, step.entry_count);
}
inline void describe_params(SoftmaxParams& step, auto& fields) {
    fields("tables.probability", step.tables.probability);
    fields("tables.term", step.tables.term);
    fields("input.multiplier", step.input.multiplier);
    fields("input.shift", step.input.shift);
    fields("requantize", step.requantize);
    fields("count", step.count);
    fields("inner", step.inner);
    fields("entry_count", step.entry_count);
    const arith::PolicyRecord& policy = fields.context().policy();
    // The type of the input is not among the fields; check_softmax() knows it.
    const bool is_wide =
        policy.softmax == arith::SoftmaxRule::fixed_point ? step.tables.term[0] == 0 : step.entry_count != 0;
    const DType input = is_wide ? DType::int16 : DType::int8;
    if (!fields.expect(are_softmax_numbers(policy, step, input), Field::storage)) return;
    fields.expect(step.count >= 1 && step.count <= most_softmax_terms(policy.softmax, input) && step.inner >= 1,
                  Field::axis);
    describe_memory(step, fields);
    fields.expect_memory([&] { return step.entry_count == 0 || arith::are_int16_softmax_tables(step.entries); },
                         Field::storage);
}

constexpr arith::SoftmaxRule rule_of(const LogSoftmaxParams& step) noexcept {
    return step.entry_count == arith::fixed_point_log_softmax_entries ? arith::SoftmaxRule::fixed_point
                                                                      : arith::SoftmaxRule::requantized;
}

/// Whether the numbers of the struct, which may come from anywhere, are those of a rule for the type.
constexpr bool are_log_softmax_numbers(const LogSoftmaxParams& step, DType input) noexcept {
    if (rule_of(step) == arith::SoftmaxRule::fixed_point) return input == DType::int8;
    return step.entry_count == arith::log_softmax_entries(input) && arith::is_log_softmax_step(step.step);
}

inline void describe_memory(LogSoftmaxParams& step, auto& fields) {
    fields.memory("entries", step.entries, ParamType::uint32, step.entry_count);
}
inline void describe_params(LogSoftmaxParams& step, auto& fields) {
    fields("step", step.step);
    fields("requantize", step.requantize);
    fields("count", step.count);
    fields("inner", step.inner);
    fields("entry_count", step.entry_count);
    const bool is_wide = step.entry_count == arith::log_softmax_entries(DType::int16);
    const DType input = is_wide ? DType::int16 : DType::int8;
    if (!fields.expect(are_log_softmax_numbers(step, input), Field::storage)) return;
    const arith::SoftmaxRule rule = rule_of(step);
    fields.expect(step.count >= 1 && step.count <= most_softmax_terms(rule, input) && step.inner >= 1, Field::axis);
    describe_memory(step, fields);
    fields.expect_memory(
        [&] {
            return rule == arith::SoftmaxRule::fixed_point ? arith::are_fixed_point_log_softmax_entries(step.entries)
                                                           : arith::are_log_softmax_tables(step.entries, input);
        },
        Field::storage);
}

namespace operators {

/// The row that runs a softmax of these types; null where there is none.
inline const SoftmaxRow* find_softmax(const KernelTable& table, DType input, DType output) noexcept {
    for (const SoftmaxRow& row : table.softmax)
        if (row.input == input && (row.gives_probabilities || row.output == output)) return &row;
    return nullptr;
}

inline bool has_softmax(const KernelTable& table, const OperatorTypes& types) noexcept {
    const SoftmaxRow* const row = find_softmax(table, types.input, types.output);
    if (row == nullptr) return false;
    return !row->gives_probabilities || has_requantize(table, {row->output, DType::none, types.output});
}

inline Status check_softmax(const OperatorCall& call) noexcept {
    const auto& step = call.params_as<SoftmaxParams>();
    const arith::PolicyRecord& policy = call.table.policy();
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    const index_t size = call.y().elements_per_image();
    const DType x = call.x().dtype, y = call.y().dtype;
    if (!has_softmax(call.table, {x, DType::none, y})) return detail::no_kernel(call.op, x);
    if (!are_softmax_numbers(policy, step, x)) return corrupt(call.op, Field::storage, 0, 0);
    if (const index_t most = most_softmax_terms(policy.softmax, x); step.count > most)
        return corrupt(call.op, Field::axis, step.count, most);
    if (size % step.count != 0 || size / step.count % step.inner != 0)
        return corrupt(call.op, Field::axis, step.count, size);
    if (policy.softmax == arith::SoftmaxRule::fixed_point) return {};
    if (find_softmax(call.table, x, y)->gives_probabilities)
        return check_requantize_params(policy, step.requantize, DType::int16, y, call.op);
    if (!arith::are_words(policy.requantize, step.requantize.words, 32)) return corrupt(call.op, Field::scale, 0, 0);
    return arith::check_output_codes(policy, step.requantize.codes, y, call.op);
}

inline index_t softmax_workspace(const OperatorCall& call) noexcept {
    const SoftmaxRow* const row = find_softmax(call.table, call.x().dtype, call.y().dtype);
    return row != nullptr && row->gives_probabilities ? call.y_size() * static_cast<index_t>(sizeof(std::int16_t)) : 0;
}

inline void run_softmax(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& step = call.params_as<SoftmaxParams>();
    const SoftmaxRow* const softmax = find_softmax(call.table, call.x().dtype, call.y().dtype);
    INTQ_ASSERT(softmax != nullptr);
    const bool requantizes = softmax->gives_probabilities;
    void* const probabilities = requantizes ? static_cast<void*>(call.workspace.data) : call.y_data();
    const index_t size = call.y_size();
    softmax->run({.tables = &step.tables,
                  .input = step.input,
                  .x = call.x_data(),
                  .y = probabilities,
                  .rows = size / (step.count * step.inner),
                  .count = step.count,
                  .inner = step.inner,
                  .executor = call.executor,
                  .entries = step.entries,
                  .words = &step.requantize.words,
                  .codes = &step.requantize.codes});
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

/// The row that runs a log-softmax; null where there is none.
inline const LogSoftmaxRow* find_log_softmax(const KernelTable& table, arith::SoftmaxRule rule, DType dtype) noexcept {
    for (const LogSoftmaxRow& row : table.log_softmax)
        if (row.rule == rule && row.dtype == dtype) return &row;
    return nullptr;
}

inline bool has_log_softmax(const KernelTable& table, const OperatorTypes& types) noexcept {
    return types.input == types.output &&
           find_log_softmax(table, arith::SoftmaxRule::requantized, types.input) != nullptr;
}

inline Status check_log_softmax(const OperatorCall& call) noexcept {
    const auto& step = call.params_as<LogSoftmaxParams>();
    const arith::PolicyRecord& policy = call.table.policy();
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    const index_t size = call.y().elements_per_image();
    const DType x = call.x().dtype, y = call.y().dtype;
    if (x != y || find_log_softmax(call.table, rule_of(step), x) == nullptr) return detail::no_kernel(call.op, x);
    if (!are_log_softmax_numbers(step, x))
        return corrupt(call.op, Field::storage, step.entry_count, arith::log_softmax_entries(x));
    const index_t most = most_softmax_terms(rule_of(step), x);
    if (step.count < 1 || step.count > most) return corrupt(call.op, Field::axis, step.count, most);
    if (size % step.count != 0 || size / step.count % step.inner != 0)
        return corrupt(call.op, Field::axis, step.count, size);
    if (rule_of(step) == arith::SoftmaxRule::fixed_point) return {};
    if (!arith::are_words(policy.requantize, step.requantize.words, 32)) return corrupt(call.op, Field::scale, 0, 0);
    return arith::check_output_codes(policy, step.requantize.codes, y, call.op);
}

inline void run_log_softmax(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& step = call.params_as<LogSoftmaxParams>();
    const LogSoftmaxRow* const row = find_log_softmax(call.table, rule_of(step), call.x().dtype);
    INTQ_ASSERT(row != nullptr);
    row->run({.x = call.x_data(),
              .y = call.y_data(),
              .rows = call.y_size() / (step.count * step.inner),
              .count = step.count,
              .inner = step.inner,
              .executor = call.executor,
              .entries = step.entries,
              .words = &step.requantize.words,
              .codes = &step.requantize.codes,
              .step = step.step});
}

inline constexpr ProgramOperator log_softmax_operator{.op = OpKind::log_softmax,
                                                      .runs_in_place = &detail::always_in_place,
                                                      .takes_rows = true,
                                                      .check = &check_log_softmax,
                                                      .run = &run_log_softmax,
                                                      .has_kernel = &has_log_softmax,
                                                      .params = param_struct<LogSoftmaxParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_SOFTMAX_HPP
