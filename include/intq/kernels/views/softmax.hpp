// SPDX-License-Identifier: MIT
//
// softmax of codes and its logarithm as functions on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_SOFTMAX_HPP
#define INTQ_KERNELS_VIEWS_SOFTMAX_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "intq/arith/fixed_point_softmax.hpp"
#include "intq/arith/log_softmax.hpp"
#include "intq/arith/softmax.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/executor.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/softmax.hpp"
#include "intq/kernels/views/code_view.hpp"
#include "intq/kernels/views/elementwise.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The numbers of log_softmax(). The tables lie in the caller's memory.
struct LogSoftmaxNumbers {
    std::span<const std::uint32_t> entries{};
    std::int64_t step = 0;
    arith::ChannelWords words{};
    arith::OutputCodes codes{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// The numbers that softmax() derives from its input's scale: tables of int8 codes, a multiplier of int16 codes.
template <class Code>
using SoftmaxNumbers =
    std::conditional_t<std::is_same_v<Code, std::int16_t>, arith::QuantizedMultiplier, arith::SoftmaxTables>;

namespace detail {

/// The index of the target's kernel from one type of codes to another; -1 without one. An index, because g++ does not
/// compare the address of a function in a constant expression under -fsanitize=undefined.
template <class TargetType, class In, class Out> constexpr int softmax_row() noexcept {
    int index = 0;
    for (const SoftmaxRow& row : softmax_rows_of<TargetType>()) {
        if (row.input == dtype_of<In> && row.output == dtype_of<Out>) return index;
        ++index;
    }
    return -1;
}

}  // namespace detail

/// The numbers of softmax() for codes of a scale. The zero point does not matter.
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @tparam Code        int8_t; int16_t for a target of SoftmaxRule::fixed_point
/// @return the numbers; the errors of arith::make_softmax_tables(), make_fixed_point_softmax_tables() or
///         make_wide_softmax_multiplier()
///
/// Memory   of int8 codes 1,536 bytes
template <class TargetType, class Code = std::int8_t>
requires arith::Target<TargetType>
inline Result<SoftmaxNumbers<Code>> make_softmax(const arith::CodesOf& in) noexcept {
    constexpr bool is_fixed_point = TargetType::policy.softmax == arith::SoftmaxRule::fixed_point;
    static_assert(std::is_same_v<Code, std::int8_t> || (is_fixed_point && std::is_same_v<Code, std::int16_t>),
                  "make_softmax<Target, Code>: Code must be int8_t; int16_t is for the targets of TFLite's softmax");
    if constexpr (std::is_same_v<Code, std::int16_t>)
        return arith::make_wide_softmax_multiplier(in);
    else if constexpr (is_fixed_point)
        return arith::make_fixed_point_softmax_tables(TargetType::policy, in);
    else
        return arith::make_softmax_tables(in);
}

/// @return ok; value_out_of_range of axis, and of input for more than most_softmax_terms() along it; shape_mismatch of
///         output, with the first extents that differ; corrupt of storage: no softmax's numbers
template <class TargetType, CodeView X, CodeView Out>
requires arith::Target<TargetType> && SameOrder<X, Out>
constexpr Status check_softmax(const X& x, const SoftmaxNumbers<typename X::value_type>& numbers, int axis,
                               const Out& out) noexcept {
    constexpr OpKind op = OpKind::softmax;
    constexpr arith::SoftmaxRule rule = TargetType::policy.softmax;
    constexpr index_t most = most_softmax_terms(rule, dtype_of<typename X::element_type>);
    if (const Status status = detail::check_axis<X>(axis, op); !status) return status;
    if (x.extent(axis) > most) return {StatusCode::value_out_of_range, op, Field::input, x.extent(axis), most};
    bool are_numbers = false;
    if constexpr (std::is_same_v<typename X::value_type, std::int16_t>)
        are_numbers = is_softmax_multiplier(numbers);
    else
        are_numbers = are_softmax_tables(rule, numbers);
    if (!are_numbers) return {StatusCode::corrupt, op, Field::storage, 0, 0};
    return detail::check_extents(x.shape(), out.shape(), op, Field::output);
}

/// Probabilities along an axis, by the softmax of the target (PolicyRecord::softmax).
///
///     out[i] = exp(s·x[i]) / sum_k exp(s·x[k])
///
///     requantized   int8 to int16 codes of 2^-15 and zero point 0; requantize() brings them to another scale or type
///     fixed_point   int8 to int8 codes of 1/256 and zero point -128, or to int16 codes of 1/65536 and -32768; int16 to
///                   int16 codes of 2^-15 and 0
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param x        codes, row_major or channels_last
/// @param numbers  made by make_softmax() for the same target and type
/// @param axis     a logical index: 1 is the channels
/// @param out      shaped and ordered as x; must not overlap it
/// @pre   check_softmax()
///
/// Result   exact by the formulas of arith/softmax.hpp and arith/fixed_point_softmax.hpp, and near the real value; the
///          same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n)
/// Source   docs/arithmetic.md section 4
template <class TargetType, CodeView X, CodeOutput Out>
requires arith::Target<TargetType> && SameOrder<X, Out>
void softmax(const X& x, const SoftmaxNumbers<typename X::value_type>& numbers, int axis, const Out& out,
             const Executor& executor = serial) INTQ_NOEXCEPT {
    constexpr int row = detail::softmax_row<TargetType, typename X::value_type, typename Out::value_type>();
    if constexpr (TargetType::policy.softmax == arith::SoftmaxRule::requantized)
        static_assert(row >= 0 && std::is_same_v<typename X::value_type, std::int8_t>,
                      "softmax: x must be int8 codes and out int16 codes; use requantize() for other types");
    else
        static_assert(row >= 0, "softmax: out must be int16 codes for an x of int16 codes");
    INTQ_ASSERT(check_softmax<TargetType>(x, numbers, axis, out).ok());
    const detail::AxisRun run = detail::axis_run(x, axis);
    if (run.count == 0) return;
    SoftmaxCall call{.x = x.data(),
                     .y = out.data(),
                     .rows = run.outer,
                     .count = run.count,
                     .inner = run.inner,
                     .executor = &executor};
    if constexpr (std::is_same_v<typename X::value_type, std::int16_t>)
        call.input = numbers;
    else
        call.tables = &numbers;
    detail::softmax_rows_of<TargetType>()[static_cast<std::size_t>(row)].run(call);
}

/// The numbers of log_softmax() for codes of two scales.
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param in, out  of one type, int8 or int16; the zero point of `in` does not matter
/// @param memory   arith::log_softmax_entries() of the type; must live as long as the result
/// @return the numbers; dtype_mismatch of output for another type than the input's; shape_mismatch of storage; the
///         errors of arith::make_log_softmax_tables() and arith::make_log_softmax_words()
template <class TargetType>
requires arith::Target<TargetType>
inline Result<LogSoftmaxNumbers> make_log_softmax(const arith::CodesOf& in, const arith::CodesOf& out,
                                                  std::span<std::uint32_t> memory) noexcept {
    constexpr OpKind op = OpKind::log_softmax;
    const auto step = arith::make_log_softmax_step(in);
    if (!step) return step.status();
    if (in.dtype != out.dtype)
        return Status{StatusCode::dtype_mismatch, op, Field::output, static_cast<std::int64_t>(out.dtype),
                      static_cast<std::int64_t>(in.dtype)};
    const index_t count = arith::log_softmax_entries(in.dtype);
    if (static_cast<index_t>(memory.size()) != count)
        return Status{StatusCode::shape_mismatch, op, Field::storage, static_cast<index_t>(memory.size()), count};
    const auto words = arith::make_log_softmax_words(TargetType::policy, out);
    if (!words) return words.status();
    const arith::OutputCodes codes = detail::all_codes(out, Activation::none);
    if (const Status status = arith::check_output_codes(TargetType::policy, codes, out.dtype, op); !status)
        return status;
    if (const Status status = arith::make_log_softmax_tables(in, memory.data()); !status) return status;
    return LogSoftmaxNumbers{memory, *step, *words, codes};
}

/// @return ok; value_out_of_range of axis, and of input for more than softmax_most_terms along it; shape_mismatch of
///         output, with the first extents that differ; corrupt of storage: no log-softmax's numbers of this type
template <CodeView X, CodeView Out>
requires SameCodes<X, Out>
constexpr Status check_log_softmax(const X& x, const LogSoftmaxNumbers& numbers, int axis, const Out& out) noexcept {
    constexpr OpKind op = OpKind::log_softmax;
    constexpr DType dtype = dtype_of<typename X::value_type>;
    if (const Status status = detail::check_axis<X>(axis, op); !status) return status;
    if (x.extent(axis) > arith::softmax_most_terms)
        return {StatusCode::value_out_of_range, op, Field::input, x.extent(axis), arith::softmax_most_terms};
    if (static_cast<index_t>(numbers.entries.size()) != arith::log_softmax_entries(dtype) ||
        !arith::are_log_softmax_tables(numbers.entries.data(), dtype) || !arith::is_log_softmax_step(numbers.step))
        return {StatusCode::corrupt, op, Field::storage, 0, 0};
    return detail::check_extents(x.shape(), out.shape(), op, Field::output);
}

/// Logarithms of the probabilities along an axis.
///
///     out[i] = requantize(s·(x[i] - max) - log(sum_k exp(s·(x[k] - max))))
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param x        int8 or int16 codes, row_major or channels_last
/// @param numbers  made by make_log_softmax() for the same target and type
/// @param axis     a logical index: 1 is the channels
/// @param out      shaped, ordered and typed as x; may be x
/// @pre   check_log_softmax()
///
/// Result   exact by the formulas of arith/log_softmax.hpp; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n)
/// Source   docs/arithmetic.md section 4
template <class TargetType, CodeView X, CodeOutput Out>
requires arith::Target<TargetType> && SameCodes<X, Out>
void log_softmax(const X& x, const LogSoftmaxNumbers& numbers, int axis, const Out& out,
                 const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_log_softmax(x, numbers, axis, out).ok());
    const detail::AxisRun run = detail::axis_run(x, axis);
    if (run.count == 0) return;
    using Code = typename Out::value_type;
    log_softmax_codes<arith::RequantizePolicy<TargetType, std::int32_t>, Code>({.x = x.data(),
                                                                                .y = out.data(),
                                                                                .rows = run.outer,
                                                                                .count = run.count,
                                                                                .inner = run.inner,
                                                                                .executor = &executor,
                                                                                .entries = numbers.entries.data(),
                                                                                .words = &numbers.words,
                                                                                .codes = &numbers.codes,
                                                                                .step = numbers.step});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_SOFTMAX_HPP
