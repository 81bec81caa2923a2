// SPDX-License-Identifier: MIT
//
// The rows of convolution and linear: the kernels of each combination of types, on integers and on float.
// Layer: kernels.
#ifndef INTQ_KERNELS_CONV_CONV_ROWS_HPP
#define INTQ_KERNELS_CONV_CONV_ROWS_HPP

#include <array>
#include <type_traits>

#include "intq/arith/target.hpp"
#include "intq/kernels/conv/depthwise.hpp"
#include "intq/kernels/conv/gemm.hpp"
#include "intq/kernels/conv/interleaved_gemm.hpp"
#include "intq/kernels/conv/paired_depthwise.hpp"
#include "intq/kernels/conv/paired_gemm.hpp"
#include "intq/kernels/conv/paired_int16_depthwise.hpp"
#include "intq/kernels/conv/tap_depthwise.hpp"
#include "intq/kernels/conv/window_depthwise.hpp"
#include "intq/kernels/conv/window_gemm.hpp"
#include "intq/kernels/packing/packing_rules.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// The layers of PackingRules::int16x8_packing.
template <class Policy, class X, class Weight>
inline constexpr bool is_int16x8 = std::is_same_v<X, std::int16_t>&& std::is_same_v<Weight, std::int8_t>&&
    std::is_same_v<Policy, arith::wide_fixed_point>;

/// The GEMM skeleton of a backend for these types.
template <class Backend, class Policy, class X, class Weight, class Acc, class Y, class Sumin>
constexpr auto gemm_of() noexcept {
    constexpr bool is_int8 = std::is_same_v<X, std::int8_t> && std::is_same_v<Acc, std::int32_t>;
    constexpr simd::Staging staging = is_int8                         ? Backend::int8_packing.staging
                                      : is_int16x8<Policy, X, Weight> ? int16x8_packing_of<Backend>().staging
                                                                      : simd::Staging::as_is;
    if constexpr (staging == simd::Staging::paired)
        return std::type_identity<PairedGemm<Backend, Policy, X, Y, Sumin>>{};
    else if constexpr (staging == simd::Staging::windows)
        return std::type_identity<WindowGemm<Backend, Policy, X, Y, Sumin>>{};
    else if constexpr (staging == simd::Staging::interleaved)
        return std::type_identity<InterleavedGemm<Backend, Policy, Y, Sumin>>{};
    else
        return std::type_identity<Gemm<Backend, Policy, X, Weight, Acc, Y, Sumin>>{};
}

/// The depthwise skeleton.
template <class Backend, class Policy, class X, class Weight, class Acc, class Y, class Sumin>
constexpr auto depthwise_of() noexcept {
    constexpr simd::Staging staging = depthwise_packing_of<Backend, X, Weight, Acc>().staging;
    if constexpr (is_int16x8<Policy, X, Weight> &&
                  depthwise_int16x8_packing_of<Backend>().staging == simd::Staging::paired)
        return std::type_identity<PairedInt16Depthwise<Backend, Policy, Y, Sumin>>{};
    else if constexpr (is_int16x8<Policy, X, Weight> && int16x8_packing_of<Backend>().staging == simd::Staging::windows)
        return std::type_identity<TapDepthwise<Backend, Policy, X, Y, Sumin>>{};
    else if constexpr (staging == simd::Staging::paired)
        return std::type_identity<PairedDepthwise<Backend, Policy, Y, Sumin>>{};
    else if constexpr (staging == simd::Staging::windows)
        return std::type_identity<WindowDepthwise<Backend, Policy, Y, Sumin>>{};
    else
        return std::type_identity<Depthwise<Backend, Policy, X, Weight, Acc, Y, Sumin>>{};
}

template <class Backend, class Policy, class X, class Weight, class Acc, class Y, class Sumin>
constexpr ConvRow gemm_row(arith::RequantizeRule rule = arith::RequantizeRule::float_scale) noexcept {
    return {dtype_of<X>,
            dtype_of<Weight>,
            dtype_of<Y>,
            static_cast<int>(8 * sizeof(Acc)),
            !std::is_same_v<Sumin, no_sumin>,
            false,
            rule,
            Policy::name,
            &decltype(gemm_of<Backend, Policy, X, Weight, Acc, Y, Sumin>())::type::run};
}
template <class Backend, class Policy, class X, class Weight, class Acc, class Y, class Sumin>
constexpr ConvRow depthwise_row(arith::RequantizeRule rule = arith::RequantizeRule::float_scale) noexcept {
    return {dtype_of<X>,
            dtype_of<Weight>,
            dtype_of<Y>,
            static_cast<int>(8 * sizeof(Acc)),
            !std::is_same_v<Sumin, no_sumin>,
            true,
            rule,
            Policy::name,
            &decltype(depthwise_of<Backend, Policy, X, Weight, Acc, Y, Sumin>())::type::run};
}

constexpr bool has_row(const arith::PolicyRecord& policy, OpKind op, DType input, DType weight, DType output) noexcept {
    for (const arith::ConstraintRow& row : policy.constraints)
        if (row.op == op && row.input == input && row.weight == weight && row.output == output) return true;
    return false;
}

/// The two rows of a combination of types, GEMM and depthwise; none where the target's constraint table has no such
/// operator. An int32 output is the accumulator itself; it takes an add where the operand is part of that.
template <class TargetType, class Backend, class X, class Weight, class Y, class Sumin,
          class Acc = arith::Accumulator<TargetType, dtype_of<X>, dtype_of<Weight>>>
constexpr auto conv_pair() noexcept {
    constexpr bool keeps = std::is_same_v<Y, std::int32_t>, adds = !std::is_same_v<Sumin, no_sumin>;
    constexpr bool is_accepted =
        has_row(TargetType::policy, OpKind::conv2d, dtype_of<X>, dtype_of<Weight>, dtype_of<Y>);
    if constexpr (!is_accepted ||
                  (adds && !(keeps ? TargetType::policy.adds_in_accumulator() : TargetType::policy.fused_add))) {
        return std::array<ConvRow, 0>{};
    } else {
        using Policy = std::conditional_t<keeps, arith::keep_accumulator, arith::RequantizePolicy<TargetType, Acc>>;
        constexpr arith::RequantizeRule rule = TargetType::policy.requantize;
        return std::array{gemm_row<Backend, Policy, X, Weight, Acc, Y, Sumin>(rule),
                          depthwise_row<Backend, Policy, X, Weight, Acc, Y, Sumin>(rule)};
    }
}

/// The same for sums of 64 bits, where a target widens int16 layers of int8 weights.
template <class TargetType, class Backend, class X, class Y, class Sumin> constexpr auto wide_conv_pair() noexcept {
    constexpr bool widens =
        TargetType::policy.widens_int16 && std::is_same_v<X, std::int16_t> && std::is_same_v<Y, std::int16_t>;
    if constexpr (widens)
        return conv_pair<TargetType, Backend, X, std::int8_t, Y, Sumin, std::int64_t>();
    else
        return std::array<ConvRow, 0>{};
}

/// The row of linear layers that have another rule than convolutions.
template <class TargetType, class Backend, class X, class Y, class Sumin> constexpr auto linear_row() noexcept {
    constexpr arith::RequantizeRule rule = TargetType::policy.rule_of(OpKind::linear);
    constexpr bool is_other =
        rule != TargetType::policy.requantize && std::is_same_v<Sumin, no_sumin> && !std::is_same_v<Y, std::int32_t>;
    if constexpr (is_other && has_row(TargetType::policy, OpKind::linear, dtype_of<X>, DType::int8, dtype_of<Y>)) {
        static_assert(rule == arith::RequantizeRule::binary64);
        using Acc = arith::Accumulator<TargetType, dtype_of<X>>;
        return std::array{gemm_row<Backend, arith::binary64, X, std::int8_t, Acc, Y, Sumin>(rule)};
    } else {
        return std::array<ConvRow, 0>{};
    }
}

/// Whether a target with 64-bit sums of a type of input has 32-bit ones as well: where a file has a bias of 32 bits.
template <class TargetType, DType Input>
inline constexpr bool has_narrow_sums =
    arith::takes_multipliers(TargetType::policy.requantize) && TargetType::policy.accumulator_bits(Input) == 64;

template <class TargetType, class Backend, class X, class Y, class Sumin> constexpr auto narrow_conv_pair() noexcept {
    if constexpr (has_narrow_sums<TargetType, dtype_of<X>>)
        return conv_pair<TargetType, Backend, X, std::int8_t, Y, Sumin, std::int32_t>();
    else
        return std::array<ConvRow, 0>{};
}

/// The rows for a given input and output type. A caller that knows both instantiates only these.
template <class TargetType, class Backend, class X, class Y, class Sumin>
inline constexpr auto typed_conv_rows = arith::join_rows(conv_pair<TargetType, Backend, X, std::int8_t, Y, Sumin>(),
                                                         conv_pair<TargetType, Backend, X, std::int16_t, Y, Sumin>(),
                                                         narrow_conv_pair<TargetType, Backend, X, Y, Sumin>(),
                                                         wide_conv_pair<TargetType, Backend, X, Y, Sumin>(),
                                                         linear_row<TargetType, Backend, X, Y, Sumin>());

template <class TargetType, class Backend, class X> constexpr auto conv_rows_from() noexcept {
    return arith::join_rows(typed_conv_rows<TargetType, Backend, X, std::int8_t, no_sumin>,
                            typed_conv_rows<TargetType, Backend, X, std::int8_t, X>,
                            typed_conv_rows<TargetType, Backend, X, std::int16_t, no_sumin>,
                            typed_conv_rows<TargetType, Backend, X, std::int16_t, X>,
                            typed_conv_rows<TargetType, Backend, X, std::int32_t, no_sumin>,
                            typed_conv_rows<TargetType, Backend, X, std::int32_t, X>);
}

/// The rows of a target are those of its constraint table.
template <class TargetType, class Backend>
inline constexpr auto conv_rows = arith::join_rows(conv_rows_from<TargetType, Backend, std::int8_t>(),
                                                   conv_rows_from<TargetType, Backend, std::int16_t>());

template <class Backend>
inline constexpr ConvRow float_conv_rows[] = {
    gemm_row<Backend, arith::keep_real, float, float, float, float, no_sumin>(),
    gemm_row<Backend, arith::keep_real, float, float, float, float, float>(),
    depthwise_row<Backend, arith::keep_real, float, float, float, float, no_sumin>(),
    depthwise_row<Backend, arith::keep_real, float, float, float, float, float>()};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_CONV_ROWS_HPP
