// SPDX-License-Identifier: MIT
//
// Four int8 codes in a word: sums of them, and codes from integers and reals. Layer: simd (docs/design.md sections 5,
// 11).
#ifndef INTQ_SIMD_ARM_DSP_CODES_HPP
#define INTQ_SIMD_ARM_DSP_CODES_HPP

#include "intq/simd/arm/dsp_words.hpp"

#ifdef INTQ_DETAIL_DSP_

#    include <bit>
#    include <cstdint>

#    include "intq/arith/lanes.hpp"
#    include "intq/simd/base/partial.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// The ByteSums of dsp_lanes: two sums in a word. 256 codes of -128 just fit.
class DspByteSums {
public:
    INTQ_ALWAYS_INLINE void add(const std::int8_t* from) noexcept {
        const auto codes = detail::read<std::int32_t>(from);
        even_ = DspWords::add_even_bytes(even_, codes);
        odd_ = DspWords::add_odd_bytes(odd_, codes);
    }
    template <int Vector> INTQ_ALWAYS_INLINE std::int32_t vector() const noexcept {
        const std::int32_t word = Vector % 2 == 0 ? even_ : odd_;
        return Vector < 2 ? static_cast<std::int16_t>(word & 0xffff) : word >> 16;
    }

private:
    std::int32_t even_ = 0, odd_ = 0;
};

/// The CodeQuad of dsp_lanes, whose bounds are compared four codes at a time.
class DspCodeQuad {
public:
    INTQ_ALWAYS_INLINE DspCodeQuad(std::int32_t zero_point, std::int32_t quant_min, std::int32_t quant_max) noexcept
        : zero_point_(zero_point), quant_min_(four_times(quant_min)), quant_max_(four_times(quant_max)) {}

    template <class... I32>
    INTQ_ALWAYS_INLINE void store(std::int8_t* to, index_t count, const I32&... code) const noexcept {
        static_assert(sizeof...(I32) >= 1 && sizeof...(I32) <= 4);
        const std::int32_t v[] = {code..., 0, 0, 0};
        const std::int32_t word = codes(v[0], v[1], v[2], v[3]);
        if (count >= 4)
            detail::write(to, word);
        else
            detail::write_bytes(to, static_cast<std::uint32_t>(word), count);
    }
    INTQ_ALWAYS_INLINE void store_rounded(std::int8_t* to, float a, float b, float c, float d) const noexcept {
        detail::write(to,
                      codes(DspWords::rounded(a), DspWords::rounded(b), DspWords::rounded(c), DspWords::rounded(d)));
    }

private:
    static INTQ_ALWAYS_INLINE std::int32_t four_times(std::int32_t code) noexcept {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(code) & 0xff) * 0x01010101u);
    }
    INTQ_ALWAYS_INLINE std::int32_t code(std::int32_t steps) const noexcept {
        return DspWords::ssat8(DspWords::add_saturated(steps, zero_point_));
    }
    INTQ_ALWAYS_INLINE std::int32_t codes(std::int32_t a, std::int32_t b, std::int32_t c,
                                          std::int32_t d) const noexcept {
        std::int32_t word = code(a);
        word = DspWords::put_byte<1>(word, code(b));
        word = DspWords::put_byte<2>(word, code(c));
        word = DspWords::put_byte<3>(word, code(d));
        return DspWords::larger_bytes(DspWords::smaller_bytes(word, quant_max_), quant_min_);
    }

    std::int32_t zero_point_, quant_min_, quant_max_;
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_DSP_CODES_HPP
