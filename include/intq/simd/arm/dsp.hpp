// SPDX-License-Identifier: MIT
//
// The dsp backend: Armv7E-M and Armv8-M with the DSP extension (Cortex-M4, M7, M33). Layer: simd
// (docs/design.md sections 5, 11).
//
// One lane, so its lanes are the specification's. What it adds are products of pairs: SMLAD multiplies two pairs of
// int16 and adds both to a sum. A unit for another machine that defines INTQ_EMULATES_DSP has the same backend with its
// instructions in C++: tests compare its bytes where its machine is not at hand, and a host packs and runs for a board.
#ifndef INTQ_SIMD_ARM_DSP_HPP
#define INTQ_SIMD_ARM_DSP_HPP

#include "intq/simd/arm/dsp_codes.hpp"
#include "intq/simd/arm/dsp_lines.hpp"
#include "intq/simd/arm/dsp_products.hpp"
#include "intq/simd/arm/dsp_taps.hpp"
#include "intq/simd/arm/dsp_windows.hpp"
#include "intq/simd/arm/dsp_words.hpp"

#ifdef INTQ_DETAIL_DSP_

#    include <cstdint>

#    include "intq/arith/lanes.hpp"
#    include "intq/simd/base/code_streams.hpp"
#    include "intq/simd/base/partial.hpp"
#    include "intq/simd/tiles/generic_tile.hpp"
#    include "intq/simd/tiles/paired_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

struct dsp_lanes : arith::scalar_lanes {
    using ByteSums = DspByteSums;
    using CodeQuad = DspCodeQuad;

    static constexpr i32 divide_half_away(i32 a, std::int32_t n) noexcept {
        const std::uint32_t magnitude = a < 0 ? -static_cast<std::uint32_t>(a) : static_cast<std::uint32_t>(a);
        const auto divisor = static_cast<std::uint32_t>(n);
        const auto quotient = static_cast<i32>((magnitude + divisor / 2) / divisor);
        return a < 0 ? -quotient : quotient;
    }

    /// The codes of double rounding, three instructions each and one for their bounds.
    ///
    ///     scaled(acc) = RDBPOT(SRDHM(acc, M), -shift) + zero_point
    ///
    /// SMMLAR by 2·M - 2^32, an int32, adds the sum once more and so is SRDHM. One taken off a negative product turns
    /// half-up into half away from zero, and SMMLAR by 2^(32 + shift) adds, shifts and rounds half-up at once.
    class ShortRounding {
    public:
        /// @pre fixed_point<double_rounding>::is_short() for every sum
        INTQ_ALWAYS_INLINE ShortRounding(std::int32_t multiplier, std::int32_t shift, std::int32_t zero_point) noexcept
            : multiplier_(doubled(multiplier)), power_(power_of(shift)), zero_point_(zero_point) {}

        /// The words that the instructions take.
        static INTQ_ALWAYS_INLINE std::int32_t doubled(std::int32_t multiplier) noexcept {
            return static_cast<std::int32_t>(static_cast<std::uint32_t>(multiplier) << 1);
        }
        static INTQ_ALWAYS_INLINE std::int32_t power_of(std::int32_t shift) noexcept {
            return static_cast<std::int32_t>(std::uint32_t{1} << (32 + shift));
        }

        /// @tparam Range  of the codes: what becomes of a negative sum does not matter where none is negative
        template <CodeRange Range = CodeRange::any>
        INTQ_ALWAYS_INLINE std::int32_t scaled(std::int32_t acc) const noexcept {
            const std::int32_t x = DspWords::smmlar(acc, multiplier_, acc);
            if constexpr (Range == CodeRange::positive) return DspWords::smmulr(x, power_);
            const auto away =
                static_cast<std::int32_t>(static_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(x >> 31));
            return DspWords::smmlar(away, power_, zero_point_);
        }
        static INTQ_ALWAYS_INLINE std::int32_t clamp_int8(std::int32_t code) noexcept { return DspWords::ssat8(code); }
        static INTQ_ALWAYS_INLINE std::int32_t clamp_positive(std::int32_t code) noexcept {
            return DspWords::usat7(code);
        }

    private:
        std::int32_t multiplier_, power_, zero_point_;
    };

    /// The codes of int16 activations from sums of 32 bits, before their bounds: one instruction.
    class HighProduct {
    public:
        /// @param multiplier  of wide_fixed_point::short_multiplier()
        explicit INTQ_ALWAYS_INLINE HighProduct(std::int32_t multiplier) noexcept : multiplier_(multiplier) {}

        INTQ_ALWAYS_INLINE std::int32_t scaled(std::int32_t acc) const noexcept {
            return DspWords::smmulr(acc, multiplier_);
        }
        static INTQ_ALWAYS_INLINE std::int32_t clamp_positive(std::int32_t code) noexcept {
            return DspWords::usat15(code);
        }

    private:
        std::int32_t multiplier_;
    };

    /// The codes of a sum of two runs of codes under double rounding, where one operand has the larger scale and so the
    /// factor 1/2, and where the sum has a short form.
    ///
    ///     code(a, b) = ShortRounding of (a - zero_point_a)·2^19 + RDBPOT(SRDHM((b - zero_point_b)·2^20, M), right)
    class ShortSum {
    public:
        /// @param multiplier, right  of the second operand; the first has the factor 1/2
        INTQ_ALWAYS_INLINE ShortSum(std::int32_t zero_point_a, std::int32_t zero_point_b, std::int32_t multiplier,
                                    std::int32_t right, const ShortRounding& sum) noexcept
            : zero_a_(-zero_point_a),
              zero_b_(-zero_point_b),
              multiplier_(multiplier),
              power_(right < 2 ? 0 : static_cast<std::int32_t>(std::uint32_t{1} << (32 - right))),
              sum_(sum) {}

        /// The sum of byte `Index` of two words, with its zero point, before its bounds.
        ///
        /// @tparam Range  as that of ShortRounding::scaled()
        /// @tparam Right  the right shift: 0 where the second factor is 1/2 too, 1, or 2 for all others
        template <int Index, int Right, CodeRange Range>
        INTQ_ALWAYS_INLINE std::int32_t scaled(std::int32_t a, std::int32_t b) const noexcept {
            const std::int32_t first = DspWords::add_byte<Index>(zero_a_, a) * (1 << 19);
            if constexpr (Right == 0)
                return sum_.template scaled<Range>(first + DspWords::add_byte<Index>(zero_b_, b) * (1 << 19));
            const std::int32_t x = DspWords::smmulr(DspWords::add_byte<Index>(zero_b_, b) * (1 << 21), multiplier_);
            const std::int32_t away = x + (x >> 31);
            if constexpr (Right == 1)
                return sum_.template scaled<Range>(first + ((away + 1) >> 1));
            else
                return sum_.template scaled<Range>(DspWords::smmlar(away, power_, first));
        }

    private:
        std::int32_t zero_a_, zero_b_, multiplier_, power_;
        ShortRounding sum_;
    };
};

template <> struct LanesOf<dsp> { using type = dsp_lanes; };

/// Convolutions by DspProducts, and windows of depthwise layers.
template <> struct PairedTile<dsp> {
    static constexpr int rows = 3;
    static constexpr int columns = 2;

    template <int Rows, int Columns, class Sum>
    static INTQ_ALWAYS_INLINE void add(const std::int32_t* x, const std::int8_t* w, index_t depth, Sum* acc) noexcept {
        DspProducts::add<Rows, Columns>(x, w, depth, acc);
    }
#    ifdef INTQ_DETAIL_DSP_ASSEMBLY_
    template <class Y, CodeRange Range>
    static INTQ_ALWAYS_INLINE void store_panels(const PairedPanels& panels) noexcept {
        DspProducts::store_panels<Y, Range>(panels);
    }
#    endif

    /// Four codes of one row as the words of a step: to[0] = {from[0], from[2]}, to[tile_rows] = {from[1], from[3]}.
    static INTQ_ALWAYS_INLINE void stage(const std::int8_t* from, std::int32_t* to, int tile_rows) noexcept {
        const auto word = detail::read<std::int32_t>(from);
        to[0] = DspWords::even_bytes(word);
        to[tile_rows] = DspWords::odd_bytes(word);
    }
    /// Of int16, whose weights are packed so: to[0] = {from[0], from[1]}, to[tile_rows] = {from[2], from[3]}.
    static INTQ_ALWAYS_INLINE void stage(const std::int16_t* from, std::int32_t* to, int tile_rows) noexcept {
        to[0] = detail::read<std::int32_t>(from);
        to[tile_rows] = detail::read<std::int32_t>(from + 2);
    }

    /// acc + x[0]·w[0] + x[1]·w[1]
    static INTQ_ALWAYS_INLINE std::int32_t add(std::int32_t acc, std::int32_t x, std::int32_t w) noexcept {
        return DspWords::smlad(acc, x, w);
    }

    /// Four codes of any alignment; the first `count` of them, and zeros.
    static INTQ_ALWAYS_INLINE std::int32_t four_codes(const std::int8_t* from) noexcept {
        return detail::read<std::int32_t>(from);
    }
    static INTQ_ALWAYS_INLINE std::int32_t four_codes(const std::int8_t* from, index_t count) noexcept {
        return static_cast<std::int32_t>(detail::read_bytes(from, count));
    }

    /// acc + x[0]·w[0] + x[1]·w[1] in 64 bits.
    static INTQ_ALWAYS_INLINE std::int64_t add(std::int64_t acc, std::int32_t x, std::int32_t w) noexcept {
        return DspWords::smlad(acc, x, w);
    }
    /// The pair at an address, and of two codes.
    static INTQ_ALWAYS_INLINE std::int32_t two_codes(const std::int16_t* from) noexcept {
        return detail::read<std::int32_t>(from);
    }
    static INTQ_ALWAYS_INLINE std::int32_t two_codes(std::int32_t a, std::int32_t b) noexcept {
        return DspWords::low_halves(a, b);
    }
    /// Two codes of two rows as pairs: to[0] = {upper[0], lower[0]}, to[stride] = {upper[1], lower[1]}.
    static INTQ_ALWAYS_INLINE void pair_two(std::int32_t upper, std::int32_t lower, std::int32_t* to,
                                            index_t stride) noexcept {
        to[0] = DspWords::low_halves(upper, lower);
        to[stride] = DspWords::high_halves(upper, lower);
    }

    /// Four codes of two rows as pairs: to[i·stride] = {upper[i], lower[i]}.
    static INTQ_ALWAYS_INLINE void pair(std::int32_t upper, std::int32_t lower, std::int32_t* to,
                                        index_t stride) noexcept {
        const std::int32_t upper_even = DspWords::even_bytes(upper), upper_odd = DspWords::odd_bytes(upper);
        const std::int32_t lower_even = DspWords::even_bytes(lower), lower_odd = DspWords::odd_bytes(lower);
        to[0] = DspWords::low_halves(upper_even, lower_even);
        to[stride] = DspWords::low_halves(upper_odd, lower_odd);
        to[2 * stride] = DspWords::high_halves(upper_even, lower_even);
        to[3 * stride] = DspWords::high_halves(upper_odd, lower_odd);
    }

    /// The same of four rows, each with the one behind the next: to[2i] = {a[i], c[i]}, to[2i + 1] = {b[i], d[i]}.
    static INTQ_ALWAYS_INLINE void pair_four(std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d,
                                             std::int32_t* to) noexcept {
        put_four(DspWords::even_bytes(a), DspWords::even_bytes(c), DspWords::even_bytes(b), DspWords::even_bytes(d),
                 to);
        put_four(DspWords::odd_bytes(a), DspWords::odd_bytes(c), DspWords::odd_bytes(b), DspWords::odd_bytes(d),
                 to + 2);
    }
#    if defined(__ARM_FEATURE_SIMD32)
    static INTQ_ALWAYS_INLINE void stage_four(const PairedRows* line, index_t c, std::int32_t* to, index_t lines,
                                              index_t words, index_t pitch) noexcept {
        detail::dsp_stage_four(line, c, to, lines, 4 * words, 4 * pitch);
    }
    static INTQ_ALWAYS_INLINE void stage_three(const PairedRows::Row (&rows)[3], std::int32_t* to,
                                               std::int32_t* end) noexcept {
        detail::dsp_stage_three(rows, to, end);
    }
#    endif
    /// The same of three: to[2i] = {a[i], b[i]}, to[2i + 1] = {c[i], anything}.
    static INTQ_ALWAYS_INLINE void pair_three(std::int32_t a, std::int32_t b, std::int32_t c,
                                              std::int32_t* to) noexcept {
        pair(a, b, to, 2);
        pair(c, c, to + 1, 2);
    }
    /// The same of five: to[3i] = {a[i], b[i]}, to[3i + 1] = {c[i], d[i]}, to[3i + 2] = {e[i], anything}.
    static INTQ_ALWAYS_INLINE void pair_five(std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d,
                                             std::int32_t e, std::int32_t* to) noexcept {
        put_five(DspWords::even_bytes(a), DspWords::even_bytes(b), DspWords::even_bytes(c), DspWords::even_bytes(d),
                 DspWords::even_bytes(e), to);
        put_five(DspWords::odd_bytes(a), DspWords::odd_bytes(b), DspWords::odd_bytes(c), DspWords::odd_bytes(d),
                 DspWords::odd_bytes(e), to + 3);
    }
    static constexpr int tap_channels = 4;
    static constexpr std::int32_t tap_line = 0, tap_line_2 = 4;
    static INTQ_ALWAYS_INLINE TapOrigin tap_origin(const std::int8_t* x, const std::int8_t* padding) noexcept {
        return DspTaps::origin(x, padding);
    }
    template <class Lanes, CodeRange Range> static INTQ_ALWAYS_INLINE void store_taps(TapWindows& taps) noexcept {
        DspTaps::store<Lanes, Range>(taps);
    }
    template <class Lanes, int Stride, CodeRange Range>
    static INTQ_ALWAYS_INLINE void store_windows(const PairedWindows& windows) noexcept {
        DspWindows::store<Lanes, Stride, Range>(windows);
    }
    template <class Lanes, int Stride, CodeRange Range>
    static INTQ_ALWAYS_INLINE void store_line(const PairedWindows& windows) noexcept {
        DspWindows::store_line<Lanes, Stride, Range>(windows);
    }

private:
    /// Two codes of each row, two channels apart.
    static INTQ_ALWAYS_INLINE void put_five(std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d,
                                            std::int32_t e, std::int32_t* to) noexcept {
        to[0] = DspWords::low_halves(a, b);
        to[1] = DspWords::low_halves(c, d);
        to[2] = e;
        to[6] = DspWords::high_halves(a, b);
        to[7] = DspWords::high_halves(c, d);
        to[8] = e >> 16;
    }
    static INTQ_ALWAYS_INLINE void put_four(std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d,
                                            std::int32_t* to) noexcept {
        to[0] = DspWords::low_halves(a, b);
        to[1] = DspWords::low_halves(c, d);
        to[4] = DspWords::high_halves(a, b);
        to[5] = DspWords::high_halves(c, d);
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_DSP_HPP
