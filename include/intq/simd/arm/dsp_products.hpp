// SPDX-License-Identifier: MIT
//
// The loops of convolutions and linear layers on dsp: sums of staged rows by two columns of weights.
// Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_DSP_PRODUCTS_HPP
#define INTQ_SIMD_ARM_DSP_PRODUCTS_HPP

#include "intq/simd/arm/dsp_words.hpp"

#ifdef INTQ_DETAIL_DSP_

#    include <cstddef>
#    include <cstdint>

#    include "intq/simd/base/partial.hpp"
#    include "intq/simd/base/primitives.hpp"
#    include "intq/simd/tiles/paired_tile.hpp"

// g++ 12 keeps the sums of such loops in memory.
#    if defined(__ARM_FEATURE_SIMD32) && defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#        define INTQ_DETAIL_DSP_ASSEMBLY_ 1
/// Four products of three rows, r7, and two columns, r8, in the sums r1 to r6; the other registers are scratch.
#        define INTQ_DETAIL_DSP_STEP_     \
            "ldrd r11, r12, [r8], #8\n\t" \
            "ldm r7!, {r0, r9, r10}\n\t"  \
            "sxtb16 lr, r11\n\t"          \
            "smlad r1, r0, lr, r1\n\t"    \
            "smlad r2, r9, lr, r2\n\t"    \
            "smlad r3, r10, lr, r3\n\t"   \
            "sxtb16 lr, r12\n\t"          \
            "smlad r4, r0, lr, r4\n\t"    \
            "smlad r5, r9, lr, r5\n\t"    \
            "smlad r6, r10, lr, r6\n\t"   \
            "ldm r7!, {r0, r9, r10}\n\t"  \
            "sxtb16 r11, r11, ror #8\n\t" \
            "smlad r1, r0, r11, r1\n\t"   \
            "smlad r2, r9, r11, r2\n\t"   \
            "smlad r3, r10, r11, r3\n\t"  \
            "sxtb16 r12, r12, ror #8\n\t" \
            "smlad r4, r0, r12, r4\n\t"   \
            "smlad r5, r9, r12, r5\n\t"   \
            "smlad r6, r10, r12, r6\n\t"
#        if INTQ_SMALL
#            define INTQ_DETAIL_DSP_MORE_STEPS_
#        else
#            define INTQ_DETAIL_DSP_MORE_STEPS_ \
                INTQ_DETAIL_DSP_STEP_ INTQ_DETAIL_DSP_STEP_ INTQ_DETAIL_DSP_STEP_ INTQ_DETAIL_DSP_STEP_
#        endif
/// All of them, where [sp, #12] is the end of x: PairedPanels::steps a pass, of which the first begins behind `skipped`
/// ones, at r10.
/// A step has 19 instructions of four bytes.
#        define INTQ_DETAIL_DSP_FIND_STEP_(skipped) \
            "mov.w r0, #76\n\t"                     \
            "adr.w lr, 1f\n\t"                      \
            "mla r10, " skipped                     \
            ", r0, lr\n\t"                          \
            "add r10, r10, #1\n\t"
#        define INTQ_DETAIL_DSP_STEPS_                                                                             \
            "bx r10\n\t"                                                                                           \
            ".balign 4\n\t"                                                                                        \
            "1:\n\t" INTQ_DETAIL_DSP_STEP_                                                                         \
            "5:\n\t" INTQ_DETAIL_DSP_STEP_ INTQ_DETAIL_DSP_STEP_ INTQ_DETAIL_DSP_STEP_ INTQ_DETAIL_DSP_MORE_STEPS_ \
            ".if (5b - 1b) != 76\n\t"                                                                              \
            ".error \"a step is not 76 bytes\"\n\t"                                                                \
            ".endif\n\t"                                                                                           \
            "ldr lr, [sp, #12]\n\t"                                                                                \
            "cmp r7, lr\n\t"                                                                                       \
            "bne 1b\n\t"
#    endif

namespace intq::simd {
inline namespace INTQ_ABI {

/// acc[c·Rows + r] += sum_{k < depth} x[r][k]·w[k][c]
///
/// Of x, words that PairedTile::stage() made; of w, groups of four weights of each column in turn. Unpacking a word of
/// weights takes two instructions whatever the rows, and a word of activations serves all columns: with r0 to r12 and
/// lr, three rows by two columns leave registers for both streams. A step of four products takes 19 instructions for 24
/// products, and, with loads of several registers that take a cycle each, 27 cycles: LDRD, 2 LDM of three words, 4
/// SXTB16, 12 SMLAD. (Six rows by one column take as many instructions, and 32 cycles.)
struct DspProducts {
    template <int Rows, int Columns>
    static INTQ_ALWAYS_INLINE void add(const std::int32_t* x, const std::int8_t* w, index_t depth,
                                       std::int32_t* acc) noexcept {
#    ifdef INTQ_DETAIL_DSP_ASSEMBLY_
        if constexpr (Rows == 3 && Columns == 2) return add_three_by_two(x, w, depth, acc);
        if constexpr (Rows == 1 && Columns == 2) {
            const index_t twice = depth / 8 * 8;
            if (twice > 0) add_one_by_two(x, w, w + 2 * twice, acc);
            if (depth != twice) add_step<1, 2>(x + twice / 2, w + 2 * twice, acc);
            return;
        }
#    endif
        add_steps<Rows, Columns>(x, w, depth, acc);
    }
    template <int Rows, int Columns>
    static INTQ_ALWAYS_INLINE void add(const std::int32_t* x, const std::int8_t* w, index_t depth,
                                       std::int64_t* acc) noexcept {
        add_steps<Rows, Columns>(x, w, depth, acc);
    }

#    ifdef INTQ_DETAIL_DSP_ASSEMBLY_
    static_assert(sizeof(void*) == 4 && offsetof(PairedPanels, w) == 32 && offsetof(PairedPanels, lowest) == 40);

    /// The codes of three rows and of all whole panels, with sums and codes in registers: three or four instructions of
    /// ShortRounding a code, and 21 for what two channels and three rows need; bounds of any range take 13 more. int16
    /// codes take the two of HighProduct.
    template <class Y, CodeRange Range> static INTQ_OUT_OF_LINE void store_panels(const PairedPanels& panels) noexcept {
        register const PairedPanels* pointer asm("r0") = &panels;
        asm volatile(
            "push {r7}\n\t"
            ".if %c[range] == %c[any]\n\t"
            "ldrd r1, r2, [r0, #40]\n\t"
            ".if %c[is_int16]\n\t"  // for two codes
            "pkhbt r1, r1, r1, lsl #16\n\t"
            "pkhbt r2, r2, r2, lsl #16\n\t"
            ".else\n\t"
            "bfi r1, r1, #8, #8\n\t"
            "bfi r2, r2, #8, #8\n\t"
            ".endif\n\t"
            "push {r1, r2}\n\t"
            ".endif\n\t"
            "ldm r0, {r1, r2, r3, r4, r5, r6, r7, r8, r11, r12}\n\t"
            INTQ_DETAIL_DSP_FIND_STEP_("r12")
            "mov r3, r10\n\t"
            "push {r1, r2, r3, r4, r5, r6, r7, r8}\n\t"
            "mov r8, r11\n\t"
            "0:\n\t"
            "ldm sp, {r7, r9, r10}\n\t"
            "ldrd r1, r4, [r9, #16]\n\t"
            "mov r2, r1\n\t"
            "mov r3, r1\n\t"
            "mov r5, r4\n\t"
            "mov r6, r4\n\t" INTQ_DETAIL_DSP_STEPS_
            "ldr r9, [sp, #4]\n\t"
            ".if %c[range] != %c[positive]\n\t"
            "ldr lr, [sp, #24]\n\t"
            ".endif\n\t"
            "ldm r9!, {r0, r7, r11, r12}\n\t"
            "adds r9, #8\n\t"
            "str r9, [sp, #4]\n\t"
            ".macro intq_code sum, multiplier, power\n\t"
            ".if %c[is_int16]\n\t"
            "smmulr \\sum, \\sum, \\multiplier\n\t"
            ".if %c[range] == %c[positive]\n\t"
            "usat \\sum, #15, \\sum\n\t"
            ".else\n\t"
            "ssat \\sum, #16, \\sum\n\t"
            ".endif\n\t"
            ".else\n\t"
            "smmlar \\sum, \\sum, \\multiplier, \\sum\n\t"
            ".if %c[range] == %c[positive]\n\t"
            "smmulr \\sum, \\sum, \\power\n\t"
            "usat \\sum, #7, \\sum\n\t"
            ".else\n\t"
            "add \\sum, \\sum, \\sum, asr #31\n\t"
            "smmlar \\sum, \\sum, \\power, lr\n\t"
            "ssat \\sum, #8, \\sum\n\t"
            ".endif\n\t"
            ".endif\n\t"
            ".endm\n\t"
            "intq_code r1, r0, r11\n\t"
            "intq_code r4, r7, r12\n\t"
            "intq_code r2, r0, r11\n\t"
            "intq_code r5, r7, r12\n\t"
            "intq_code r3, r0, r11\n\t"
            "intq_code r6, r7, r12\n\t"
            ".purgem intq_code\n\t"
            "ldrd r9, r10, [sp, #16]\n\t"
            ".if %c[is_int16]\n\t"
            "pkhbt r1, r1, r4, lsl #16\n\t"
            "pkhbt r2, r2, r5, lsl #16\n\t"
            "pkhbt r3, r3, r6, lsl #16\n\t"
            ".else\n\t"
            "bfi r1, r4, #8, #8\n\t"
            "bfi r2, r5, #8, #8\n\t"
            "bfi r3, r6, #8, #8\n\t"
            ".endif\n\t"
            ".if %c[range] == %c[any]\n\t"
            "ldrd r0, r7, [sp, #32]\n\t"
            ".irp codes, r1, r2, r3\n\t"
            "ssub%c[bits] lr, \\codes, r0\n\t"
            "sel \\codes, \\codes, r0\n\t"
            "ssub%c[bits] lr, r7, \\codes\n\t"
            "sel \\codes, \\codes, r7\n\t"
            ".endr\n\t"
            ".endif\n\t"
            ".if %c[is_int16]\n\t"
            "str r1, [r9]\n\t"
            "str r2, [r9, r10]\n\t"
            "str r3, [r9, r10, lsl #1]\n\t"
            "adds r9, #4\n\t"
            ".else\n\t"
            "strh r1, [r9]\n\t"
            "strh r2, [r9, r10]\n\t"
            "strh r3, [r9, r10, lsl #1]\n\t"
            "adds r9, #2\n\t"
            ".endif\n\t"
            "ldr r10, [sp, #28]\n\t"
            "str r9, [sp, #16]\n\t"
            "cmp r8, r10\n\t"
            "bne 0b\n\t"
            ".if %c[range] == %c[any]\n\t"
            "add sp, #8\n\t"
            ".endif\n\t"
            "add sp, #32\n\t"
            "pop {r7}"
            : "+r"(pointer)
            : [range] "i"(Range), [is_int16] "i"(sizeof(Y) == 2 ? 1 : 0), [bits] "i"(8 * sizeof(Y)), [positive] "i"(CodeRange::positive), [any] "i"(CodeRange::any)
            : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
    }
#    endif

private:
    template <int Rows, int Columns, class Sum>
    static INTQ_ALWAYS_INLINE void add_steps(const std::int32_t* x, const std::int8_t* w, index_t depth,
                                             Sum* acc) noexcept {
        const std::int8_t* const end = w + depth * Columns;
        for (; w != end; w += 4 * Columns, x += 2 * Rows) add_step<Rows, Columns>(x, w, acc);
    }
    template <int Rows, int Columns, class Sum>
    static INTQ_ALWAYS_INLINE void add_step(const std::int32_t* x, const std::int8_t* w, Sum* acc) noexcept {
        INTQ_UNROLL
        for (int c = 0; c < Columns; ++c) {
            const auto codes = detail::read<std::int32_t>(w + 4 * c);
            const std::int32_t even = DspWords::even_bytes(codes), odd = DspWords::odd_bytes(codes);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) {
                Sum& sum = acc[c * Rows + r];
                sum = DspWords::smlad(DspWords::smlad(sum, x[r], even), x[Rows + r], odd);
            }
        }
    }

#    ifdef INTQ_DETAIL_DSP_ASSEMBLY_
    /// What the assembly takes from memory, because it needs every register. r7, which may hold the frame, cannot be a
    /// clobber and is saved there.
    struct Streams {
        std::int32_t acc[6];
        const std::int32_t* x;
        const std::int8_t* w;
        const std::int32_t* end;  // of x
        std::uint32_t skipped;
    };

    static INTQ_ALWAYS_INLINE void add_three_by_two(const std::int32_t* x, const std::int8_t* w, index_t depth,
                                                    std::int32_t* acc) noexcept {
        Streams streams{
            {acc[0], acc[1], acc[2], acc[3], acc[4], acc[5]}, x, w, x + depth / 2 * 3, PairedPanels::skipped_of(depth)};
        register Streams* pointer asm("r0") = &streams;
        asm volatile(
            "push {r0, r7}\n\t"
            "ldm r0, {r1, r2, r3, r4, r5, r6, r7, r8, r9, r10}\n\t"
            "push {r9}\n\t"
            "sub sp, #12\n\t" INTQ_DETAIL_DSP_FIND_STEP_("r10") INTQ_DETAIL_DSP_STEPS_
            "add sp, #16\n\t"
            "pop {r0, r7}\n\t"
            "stm r0, {r1, r2, r3, r4, r5, r6}"
            : "+r"(pointer)
            :
            : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
        INTQ_UNROLL
        for (int i = 0; i < 6; ++i) acc[i] = streams.acc[i];
    }

    /// Eight products of each column a pass: 22 instructions for 16 products. r7 as above.
    static INTQ_ALWAYS_INLINE void add_one_by_two(const std::int32_t* x, const std::int8_t* w, const std::int8_t* end,
                                                  std::int32_t* acc) noexcept {
        register const std::int32_t* words asm("r0") = x;
        register const std::int8_t* weights asm("r1") = w;
        register std::int32_t a asm("r2") = acc[0];
        register std::int32_t b asm("r3") = acc[1];
        register const std::int8_t* last asm("r4") = end;
        asm volatile(
            "push {r4, r7}\n\t"
            "0:\n\t"
            "ldm r1!, {r4, r5, r6, r7}\n\t"
            "ldm r0!, {r8, r9, r10, r12}\n\t"
            "sxtb16 lr, r4\n\t"
            "sxtb16 r4, r4, ror #8\n\t"
            "smlad r2, r8, lr, r2\n\t"
            "sxtb16 lr, r5\n\t"
            "smlad r2, r9, r4, r2\n\t"
            "sxtb16 r5, r5, ror #8\n\t"
            "smlad r3, r8, lr, r3\n\t"
            "sxtb16 lr, r6\n\t"
            "smlad r3, r9, r5, r3\n\t"
            "sxtb16 r6, r6, ror #8\n\t"
            "smlad r2, r10, lr, r2\n\t"
            "sxtb16 lr, r7\n\t"
            "smlad r2, r12, r6, r2\n\t"
            "sxtb16 r7, r7, ror #8\n\t"
            "smlad r3, r10, lr, r3\n\t"
            "ldr lr, [sp]\n\t"
            "smlad r3, r12, r7, r3\n\t"
            "cmp r1, lr\n\t"
            "bne 0b\n\t"
            "pop {r4, r7}"
            : "+r"(words), "+r"(weights), "+r"(a), "+r"(b), "+r"(last)
            :
            : "r5", "r6", "r8", "r9", "r10", "r12", "lr", "cc", "memory");
        acc[0] = a;
        acc[1] = b;
    }
#    endif
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#    undef INTQ_DETAIL_DSP_STEP_
#    undef INTQ_DETAIL_DSP_MORE_STEPS_
#    undef INTQ_DETAIL_DSP_FIND_STEP_
#    undef INTQ_DETAIL_DSP_STEPS_

#endif
#endif  // INTQ_SIMD_ARM_DSP_PRODUCTS_HPP
