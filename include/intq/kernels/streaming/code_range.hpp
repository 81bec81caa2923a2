// SPDX-License-Identifier: MIT
//
// The bounds of int8 codes as lanes with a short form of double rounding keep them. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_CODE_RANGE_HPP
#define INTQ_KERNELS_STREAMING_CODE_RANGE_HPP

#include <cstdint>
#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/simd/base/code_streams.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

using simd::CodeRange;

constexpr CodeRange code_range(const arith::OutputCodes& codes) noexcept {
    if (INTQ_SMALL || codes.highest != INT8_MAX) return CodeRange::any;  // fewer loops are linked
    if (codes.lowest == 0 && codes.zero_point == 0) return CodeRange::positive;
    return codes.lowest == INT8_MIN ? CodeRange::int8 : CodeRange::any;
}

/// function(integral_constant<CodeRange, …>) for the range of codes: code of its own for each.
template <class Function>
INTQ_ALWAYS_INLINE void with_range(const arith::OutputCodes& codes, Function&& function) noexcept {
    switch (code_range(codes)) {
        case CodeRange::int8:
            return function(std::integral_constant<CodeRange, CodeRange::int8>{});
        case CodeRange::positive:
            return function(std::integral_constant<CodeRange, CodeRange::positive>{});
        case CodeRange::any:
            return function(std::integral_constant<CodeRange, CodeRange::any>{});
    }
}

/// A code between its bounds.
template <class L, CodeRange Range>
INTQ_ALWAYS_INLINE std::int8_t clamp_code(std::int32_t code, std::int32_t lowest, std::int32_t highest) noexcept {
    if constexpr (Range == CodeRange::int8)
        return static_cast<std::int8_t>(L::ShortRounding::clamp_int8(code));
    else if constexpr (Range == CodeRange::positive)
        return static_cast<std::int8_t>(L::ShortRounding::clamp_positive(code));
    else
        return static_cast<std::int8_t>(code < lowest ? lowest : code > highest ? highest : code);
}

constexpr simd::Saturation saturation_of(const arith::OutputCodes& codes) noexcept {
    using enum simd::Saturation;
    if (INTQ_SMALL) return any;  // one loop is linked
    if (codes.lowest == 0 && codes.zero_point == 0 && codes.highest >= 0) return positive;
    if (codes.lowest != INT8_MIN || codes.highest != INT8_MAX) return any;
    return codes.zero_point == INT8_MIN ? rectified : int8;
}

/// function(integral_constant<Saturation, …>) for the bounds of codes: code of its own for each.
template <class Function>
INTQ_ALWAYS_INLINE void with_saturation(simd::Saturation range, Function&& function) noexcept {
    using simd::Saturation;
    switch (range) {
        case Saturation::rectified:
            if constexpr (!INTQ_SMALL) return function(std::integral_constant<Saturation, Saturation::rectified>{});
            break;
        case Saturation::positive:
            if constexpr (!INTQ_SMALL) return function(std::integral_constant<Saturation, Saturation::positive>{});
            break;
        case Saturation::int8:
            if constexpr (!INTQ_SMALL) return function(std::integral_constant<Saturation, Saturation::int8>{});
            break;
        case Saturation::any:
            break;
    }
    function(std::integral_constant<Saturation, Saturation::any>{});
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_CODE_RANGE_HPP
