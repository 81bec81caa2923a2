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
#include "intq/simd/arm/dsp_products.hpp"
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
            : multiplier_(static_cast<std::int32_t>(static_cast<std::uint32_t>(multiplier) << 1)),
              power_(static_cast<std::int32_t>(std::uint32_t{1} << (32 + shift))),
              zero_point_(zero_point) {}

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

    template <int Rows, int Columns>
    static INTQ_ALWAYS_INLINE void add(const std::int32_t* x, const std::int8_t* w, index_t depth,
                                       std::int32_t* acc) noexcept {
        DspProducts::add<Rows, Columns>(x, w, depth, acc);
    }
#    ifdef INTQ_DETAIL_DSP_ASSEMBLY_
    template <CodeRange Range> static INTQ_ALWAYS_INLINE void store_panels(const PairedPanels& panels) noexcept {
        DspProducts::store_panels<Range>(panels);
    }
#    endif

    /// Four codes of one row as the words of a step: to[0] = {from[0], from[2]}, to[tile_rows] = {from[1], from[3]}.
    static INTQ_ALWAYS_INLINE void stage(const std::int8_t* from, std::int32_t* to, int tile_rows) noexcept {
        const auto word = detail::read<std::int32_t>(from);
        to[0] = DspWords::even_bytes(word);
        to[tile_rows] = DspWords::odd_bytes(word);
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

    /// The pair at an address.
    static INTQ_ALWAYS_INLINE std::int32_t two_weights(const std::int16_t* from) noexcept {
        return detail::read<std::int32_t>(from);
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

    /// The same of four rows, as the two pairs of each code: to[2i] = {a[i], b[i]}, to[2i + 1] = {c[i], d[i]}.
    static INTQ_ALWAYS_INLINE void pair_four(std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d,
                                             std::int32_t* to) noexcept {
        put_four(DspWords::even_bytes(a), DspWords::even_bytes(b), DspWords::even_bytes(c), DspWords::even_bytes(d),
                 to);
        put_four(DspWords::odd_bytes(a), DspWords::odd_bytes(b), DspWords::odd_bytes(c), DspWords::odd_bytes(d),
                 to + 2);
    }
    /// The same of five: to[3i] = {a[i], b[i]}, to[3i + 1] = {c[i], d[i]}, to[3i + 2] = {e[i], anything}.
    static INTQ_ALWAYS_INLINE void pair_five(std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d,
                                             std::int32_t e, std::int32_t* to) noexcept {
        put_five(DspWords::even_bytes(a), DspWords::even_bytes(b), DspWords::even_bytes(c), DspWords::even_bytes(d),
                 DspWords::even_bytes(e), to);
        put_five(DspWords::odd_bytes(a), DspWords::odd_bytes(b), DspWords::odd_bytes(c), DspWords::odd_bytes(d),
                 DspWords::odd_bytes(e), to + 3);
    }
    /// The weights of a window that begins in the upper half of the first pairs.
    static INTQ_ALWAYS_INLINE PairedWeights3x3 one_row_lower(const PairedWeights3x3& w) noexcept {
        return {low_to_high(w.w0), DspWords::low_halves(w.w0 >> 16, w.w1),
                low_to_high(w.w2), DspWords::low_halves(w.w2 >> 16, w.w3),
                low_to_high(w.w4), DspWords::low_halves(w.w4 >> 16, w.w5)};
    }

    /// Sums of 3×3 windows of two output lines, which move by one or two, two pixels of each line at a time.
    ///
    ///     sums[4i + 2r + j] = bias + the window of pixel 2i + j that begins in row r·Stride
    ///
    /// The columns of x are four words of pairs of rows apart, of four rows in two, or of five rows in three. A column
    /// serves the windows of both lines and pixels that it lies in: 33 or 39 instructions for four sums.
    ///
    /// @param x      readable for Stride columns behind the last window
    /// @param w      pairs of rows, column by column
    /// @param pairs  of pixels, at least 1
    template <int Stride>
    static INTQ_ALWAYS_INLINE void sum_two_rows(const std::int32_t* x, const std::int16_t* w, std::int32_t bias,
                                                index_t pairs, std::int32_t* sums) noexcept {
#    ifdef INTQ_DETAIL_DSP_ASSEMBLY_
        register const std::int32_t* from asm("r0") = x;
        register std::int32_t* to asm("r1") = sums;
        register const std::int16_t* weights asm("r2") = w;
        register std::int32_t start asm("r3") = bias;
        register const std::int32_t* end asm("r4") = sums + 4 * pairs;
        asm volatile(  // r7 may hold the frame and so is no clobber
            "push {r3, r4, r7}\n\t"
            "ldm r2, {r2, r3, r4, r5, r6, r7}\n\t"
            ".if %c[stride] == 1\n\t"
            "lsl r3, r3, #16\n\t"  // {row 1, row 2} of each column
            "lsl r5, r5, #16\n\t"
            "lsl r7, r7, #16\n\t"
            "orr r3, r3, r2, lsr #16\n\t"
            "orr r5, r5, r4, lsr #16\n\t"
            "orr r7, r7, r6, lsr #16\n\t"
            "0:\n\t"
            "ldrd r8, r9, [r0], #32\n\t"
            "ldr lr, [sp]\n\t"
            "smlad r10, r8, r2, lr\n\t"
            "smlatb r12, r8, r2, lr\n\t"
            "smlabt r10, r9, r3, r10\n\t"
            "smlad r12, r9, r3, r12\n\t"
            "ldrd r8, r9, [r0], #32\n\t"
            "smlad r11, r8, r2, lr\n\t"
            "smlatb lr, r8, r2, lr\n\t"
            "smlad r10, r8, r4, r10\n\t"
            "smlatb r12, r8, r4, r12\n\t"
            "smlabt r11, r9, r3, r11\n\t"
            "smlad lr, r9, r3, lr\n\t"
            "smlabt r10, r9, r5, r10\n\t"
            "smlad r12, r9, r5, r12\n\t"
            "ldrd r8, r9, [r0]\n\t"
            "smlad r11, r8, r4, r11\n\t"
            "smlatb lr, r8, r4, lr\n\t"
            "smlad r10, r8, r6, r10\n\t"
            "smlatb r12, r8, r6, r12\n\t"
            "smlabt r11, r9, r5, r11\n\t"
            "smlad lr, r9, r5, lr\n\t"
            "smlabt r10, r9, r7, r10\n\t"
            "smlad r12, r9, r7, r12\n\t"
            "ldrd r8, r9, [r0, #32]\n\t"
            "smlad r11, r8, r6, r11\n\t"
            "smlatb lr, r8, r6, lr\n\t"
            "smlabt r11, r9, r7, r11\n\t"
            "smlad lr, r9, r7, lr\n\t"
            ".else\n\t"
            "pkhbt r3, r3, r5, lsl #16\n\t"  // row 2 of the first two columns
            "mov r5, r7\n\t"
            "0:\n\t"
            "ldrd r7, r8, [r0]\n\t"
            "ldr r9, [r0, #8]\n\t"
            "ldr lr, [sp]\n\t"
            "smlad r10, r7, r2, lr\n\t"
            "smlad r12, r8, r2, lr\n\t"
            "smlabb r10, r8, r3, r10\n\t"
            "smlabb r12, r9, r3, r12\n\t"
            "ldrd r7, r8, [r0, #48]\n\t"
            "ldr r9, [r0, #56]\n\t"
            "smlad r10, r7, r4, r10\n\t"
            "smlad r12, r8, r4, r12\n\t"
            "smlabt r10, r8, r3, r10\n\t"
            "smlabt r12, r9, r3, r12\n\t"
            "ldrd r7, r8, [r0, #96]\n\t"
            "ldr r9, [r0, #104]\n\t"
            "smlad r11, r7, r2, lr\n\t"
            "smlad lr, r8, r2, lr\n\t"
            "smlad r10, r7, r6, r10\n\t"
            "smlad r12, r8, r6, r12\n\t"
            "smlabb r11, r8, r3, r11\n\t"
            "smlabb lr, r9, r3, lr\n\t"
            "smlabb r10, r8, r5, r10\n\t"
            "smlabb r12, r9, r5, r12\n\t"
            "ldrd r7, r8, [r0, #144]\n\t"
            "ldr r9, [r0, #152]\n\t"
            "smlad r11, r7, r4, r11\n\t"
            "smlad lr, r8, r4, lr\n\t"
            "smlabt r11, r8, r3, r11\n\t"
            "smlabt lr, r9, r3, lr\n\t"
            "ldr r9, [r0, #200]\n\t"
            "ldrd r7, r8, [r0, #192]!\n\t"
            "smlad r11, r7, r6, r11\n\t"
            "smlad lr, r8, r6, lr\n\t"
            "smlabb r11, r8, r5, r11\n\t"
            "smlabb lr, r9, r5, lr\n\t"
            ".endif\n\t"
            "ldr r8, [sp, #4]\n\t"
            "stm r1!, {r10, r11, r12, lr}\n\t"
            "cmp r1, r8\n\t"
            "bne 0b\n\t"
            "add sp, #8\n\t"
            "pop {r7}"
            : "+r"(from), "+r"(to), "+r"(weights), "+r"(start), "+r"(end)
            : [stride] "i"(Stride)
            : "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#    else
        constexpr index_t words = Stride + 1, column = 4 * words;
        for (index_t i = 0; i < 2 * pairs; ++i, x += Stride * column) {
            std::int32_t upper = bias, lower = bias;
            for (index_t k = 0; k < 3; ++k) {
                const std::int32_t* const at = x + k * column;
                const std::int32_t w01 = two_weights(w + 4 * k), w12 = two_weights(w + 4 * k + 1);
                upper = DspWords::smlabb(DspWords::smlad(upper, at[0], w01), at[1], w12 >> 16);
                if constexpr (Stride == 1)
                    lower = DspWords::smlad(DspWords::smlabb(lower, at[0] >> 16, w01), at[1], w12);
                else
                    lower = DspWords::smlabb(DspWords::smlad(lower, at[1], w01), at[2], w12 >> 16);
            }
            sums[i / 2 * 4 + i % 2] = upper;
            sums[i / 2 * 4 + i % 2 + 2] = lower;
        }
#    endif
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
    static INTQ_ALWAYS_INLINE std::int32_t low_to_high(std::int32_t word) noexcept {
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(word) << 16);
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_DSP_HPP
