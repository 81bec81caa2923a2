// SPDX-License-Identifier: MIT
//
// PackingRules: a target and a backend as packing needs them, as data. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_PACKING_RULES_HPP
#define INTQ_KERNELS_PACKING_PACKING_RULES_HPP

#include "intq/arith/target.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// A target and a backend as packing needs them, as data.
struct PackingRules {
    const arith::PolicyRecord* policy = nullptr;
    simd::Packing int8_packing{};
    simd::Packing int16_packing{};
    simd::Packing wide_packing{};
    simd::DepthwisePacking depthwise_int8_packing{};
    simd::DepthwisePacking depthwise_int16_packing{};
    /// int16 · int8 in sums of 64 bits under a 16-bit multiplier, whose sums a backend may keep in 32 bits.
    simd::Packing int16x8_packing{};
    simd::DepthwisePacking depthwise_int16x8_packing{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// A backend without tiles for int16 activations of the tflite family takes those of its 64-bit sums.
template <class Backend> constexpr simd::Packing int16x8_packing_of() noexcept {
    if constexpr (requires { Backend::int16x8_packing; })
        return Backend::int16x8_packing;
    else
        return Backend::wide_packing;
}
template <class Backend> constexpr simd::DepthwisePacking depthwise_int16x8_packing_of() noexcept {
    if constexpr (requires { Backend::depthwise_int16x8_packing; })
        return Backend::depthwise_int16x8_packing;
    else
        return {};
}

}  // namespace detail

/// @param policy  null where only the backend matters
template <class Backend> constexpr PackingRules packing_rules_of(const arith::PolicyRecord* policy) noexcept {
    return {policy,
            Backend::int8_packing,
            Backend::int16_packing,
            Backend::wide_packing,
            Backend::depthwise_int8_packing,
            Backend::depthwise_int16_packing,
            detail::int16x8_packing_of<Backend>(),
            detail::depthwise_int16x8_packing_of<Backend>()};
}

template <class TargetType, class Backend>
requires arith::Target<TargetType>
constexpr PackingRules packing_rules() noexcept { return packing_rules_of<Backend>(&TargetType::policy); }

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_PACKING_RULES_HPP
