// SPDX-License-Identifier: MIT
//
// The helium backend: Armv8.1-M with integer vectors (Cortex-M55, M85). Layer: simd (docs/design.md sections 5, 11).
//
// One lane, so its lanes are the specification's. What it adds are tiles: VMLADAV adds sixteen products of int8 in a
// general register. A unit for another machine that defines INTQ_EMULATES_HELIUM has the same backend with its loops in
// C++: tests compare its bytes where its machine is not at hand, and a host packs and runs for a board.
#ifndef INTQ_SIMD_ARM_HELIUM_HPP
#define INTQ_SIMD_ARM_HELIUM_HPP

#include "intq/simd/arm/helium_depthwise.hpp"
#include "intq/simd/arm/helium_int16.hpp"
#include "intq/simd/arm/helium_streams.hpp"
#include "intq/simd/arm/helium_taps.hpp"
#include "intq/simd/arm/helium_tile.hpp"

#ifdef INTQ_DETAIL_HELIUM_

#    include <cstdint>
#    include <cstring>

#    include "intq/arith/lanes.hpp"
#    include "intq/simd/tiles/generic_tile.hpp"
#    include "intq/simd/tiles/window_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

struct helium_lanes : arith::scalar_lanes {
#    if defined(__ARM_FEATURE_MVE)
    // The loops of simd/base/code_streams.hpp.
    template <Saturation Bounds> static INTQ_ALWAYS_INLINE void add_codes(const CodeSums& sums) noexcept {
        if constexpr (Bounds == Saturation::rectified)
            detail::helium_add_rectified(&sums);
        else if constexpr (Bounds == Saturation::positive)
            detail::helium_add_positive(&sums);
        else if constexpr (Bounds == Saturation::int8)
            detail::helium_add_int8(&sums);
        else
            detail::helium_add_any(&sums);
    }
    static INTQ_ALWAYS_INLINE void add_int16_codes(const CodeSums& sums) noexcept {
        detail::helium_add_int16_codes(&sums);
    }
    static INTQ_ALWAYS_INLINE void sum_cells(const CodeCells& cells) noexcept { detail::helium_sum_cells(&cells); }
    static INTQ_ALWAYS_INLINE void divide_sums(const CodeAverages& averages) noexcept {
        detail::helium_divide_sums(&averages);
    }
    static INTQ_ALWAYS_INLINE void scale_sums(const CodeAverages& averages) noexcept {
        detail::helium_scale_sums(&averages);
    }
#        if __ARM_FEATURE_MVE & 2
    template <Saturation Bounds> static INTQ_ALWAYS_INLINE void quantize_codes(const CodeQuantizer& run) noexcept {
        if constexpr (Bounds == Saturation::any)
            detail::helium_quantize_any(&run);
        else
            detail::helium_quantize_int8(&run);
    }
    static INTQ_ALWAYS_INLINE void quantize_three(const CodeQuantizer& run) noexcept {
        detail::helium_quantize_three(&run);
    }
#        endif
#    endif
};

template <> struct LanesOf<helium> { using type = helium_lanes; };

#    if defined(__ARM_FEATURE_MVE)

template <> struct WindowTile<helium> {
    static constexpr int tap_channels = 16;
    static constexpr std::int32_t tap_line = 3, tap_line_2 = INT32_MAX;

    static INTQ_ALWAYS_INLINE void copy_cells(const std::int8_t* from, std::int8_t* to, index_t count,
                                              index_t from_step, index_t to_step, index_t bytes) noexcept {
        detail::helium_copy_cells(from, to, count, from_step, to_step, bytes);
    }
    static INTQ_ALWAYS_INLINE void add(const WindowSums& sums) noexcept { detail::helium_add(&sums); }
    static INTQ_ALWAYS_INLINE void add_one(const WindowSums& sums) noexcept { detail::helium_add_one(&sums); }
    template <Saturation Range> static INTQ_ALWAYS_INLINE void store_codes(const WindowCodes& codes) noexcept {
        using enum Saturation;
        Range == rectified  ? detail::helium_store_rectified(&codes)
        : Range == positive ? detail::helium_store_positive(&codes)
        : Range == int8     ? detail::helium_store_int8(&codes)
                            : detail::helium_store_any(&codes);
    }
    template <Saturation Range> static INTQ_ALWAYS_INLINE void store_one(const WindowCodes& codes) noexcept {
        using enum Saturation;
        Range == rectified  ? detail::helium_store_one_rectified(&codes)
        : Range == positive ? detail::helium_store_one_positive(&codes)
        : Range == int8     ? detail::helium_store_one_int8(&codes)
                            : detail::helium_store_one_any(&codes);
    }
    static INTQ_ALWAYS_INLINE void add_int16(const WindowSums& sums) noexcept { detail::helium_add_int16(&sums); }
    static INTQ_ALWAYS_INLINE void add_one_int16(const WindowSums& sums) noexcept {
        detail::helium_add_one_int16(&sums);
    }
    static INTQ_ALWAYS_INLINE void store_int16(const Int16WindowCodes& codes) noexcept {
        detail::helium_store_int16(&codes);
    }
    static INTQ_ALWAYS_INLINE std::int32_t padding_place(const std::int16_t* x, const std::int16_t* padding) noexcept {
        return static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(padding) -
                                         reinterpret_cast<std::uintptr_t>(x));
    }
    static INTQ_ALWAYS_INLINE void add_taps(const Int16TapSums& sums) noexcept { detail::helium_add_taps(&sums); }
    static INTQ_ALWAYS_INLINE TapOrigin tap_origin(const std::int8_t* x, const std::int8_t* padding) noexcept {
        return TapOrigin::addresses(x, padding);
    }
    static INTQ_ALWAYS_INLINE void move_places(std::int32_t* to, const std::int32_t (&mask)[3], std::int32_t step,
                                               index_t pixels) noexcept {
        const std::int32_t a = mask[0] & step, b = mask[1] & step, c = mask[2] & step;
        const std::int32_t steps[]{a, b, c, a, b, c};
        detail::helium_move_places(to, steps, static_cast<std::int32_t>(pixels));
    }
    template <Saturation Range> static INTQ_ALWAYS_INLINE void store_taps(TapWindows& taps) noexcept {
        using enum Saturation;
        Range == rectified || Range == positive ? detail::helium_store_taps_half_up(&taps)
                                                : detail::helium_store_taps_away(&taps);
    }
    static INTQ_ALWAYS_INLINE void stage_rows(const DepthwiseRows& rows) noexcept { detail::helium_stage_rows(&rows); }
    static INTQ_ALWAYS_INLINE void stage_groups(const DepthwiseGroups& groups) noexcept {
        detail::helium_stage_groups(&groups);
    }
    template <int Stride> static INTQ_ALWAYS_INLINE void add_groups(const DepthwiseSums& sums) noexcept {
        if constexpr (Stride == 1)
            detail::helium_add_groups(&sums);
        else
            detail::helium_add_groups_2(&sums);
    }
    template <Saturation Range, int Stride>
    static INTQ_ALWAYS_INLINE void store_group_codes(const DepthwiseCodes& codes) noexcept {
        using enum Saturation;
        if constexpr (Stride == 1)
            Range == rectified  ? detail::helium_store_groups_rectified(&codes)
            : Range == positive ? detail::helium_store_groups_positive(&codes)
            : Range == int8     ? detail::helium_store_groups_int8(&codes)
                                : detail::helium_store_groups_any(&codes);
        else
            Range == rectified  ? detail::helium_store_groups_2_rectified(&codes)
            : Range == positive ? detail::helium_store_groups_2_positive(&codes)
            : Range == int8     ? detail::helium_store_groups_2_int8(&codes)
                                : detail::helium_store_groups_2_any(&codes);
    }
};

#    else

template <> struct WindowTile<helium> {
    static constexpr int tap_channels = 16;
    static constexpr std::int32_t tap_line = 3, tap_line_2 = INT32_MAX;

    static void copy_cells(const std::int8_t* from, std::int8_t* to, index_t count, index_t from_step, index_t to_step,
                           index_t bytes) noexcept {
        for (; count > 0; --count, from += from_step, to += to_step)
            std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
    static void add(const WindowSums& of) noexcept { add_pixels<std::int8_t>(of, window_pixels); }
    static void add_one(const WindowSums& of) noexcept { add_pixels<std::int8_t>(of, 1); }
    static void add_int16(const WindowSums& of) noexcept { add_pixels<std::int16_t>(of, window_pixels); }
    static void add_one_int16(const WindowSums& of) noexcept { add_pixels<std::int16_t>(of, 1); }
    template <Saturation Range> static void store_one(const WindowCodes& of) noexcept {
        for (index_t c = 0; c < 4 * of.quads; ++c) of.y[0][c] = code<Range>(of.sums[c], c, of);
    }
    template <Saturation Range> static void store_codes(const WindowCodes& of) noexcept {
        for (index_t c = 0; c < 4 * of.quads; ++c)
            for (int p = 0; p < window_pixels; ++p) of.y[p][c] = code<Range>(of.sums[p * window_channels + c], c, of);
    }
    /// The steps of the instructions: a bias of 32 bits, VRMULH. The first pixel is the last one written.
    static void store_int16(const Int16WindowCodes& of) noexcept {
        for (index_t c = 0; c < 4 * of.quads; ++c)
            for (int p = window_pixels - 1; p >= 0; --p) {
                const auto acc =
                    static_cast<std::int32_t>(static_cast<std::uint32_t>(of.bias[c]) +
                                              static_cast<std::uint32_t>(of.sums[p * window_channels + c]));
                const std::int64_t factor = std::int64_t{of.multiplier[c]} << (17 + of.shift[c]);
                const std::int64_t x = (acc * factor + (std::int64_t{1} << 31)) >> 32;
                of.y[p][c] = static_cast<std::int16_t>(x < of.lowest ? of.lowest : x > of.highest ? of.highest : x);
            }
    }
    static std::int32_t padding_place(const std::int16_t*, const std::int16_t*) noexcept { return INT32_MIN; }
    static void add_taps(const Int16TapSums& of) noexcept {
        for (index_t c = 0; c < of.channels; ++c) {
            const std::int8_t* const w = of.w + c / 8 * (8 * of.count + of.between) + c % 8;
            std::int32_t sum = 0;
            for (index_t tap = 0; tap < of.count; ++tap)
                if (of.taps[tap] != INT32_MIN)
                    sum += of.x[of.taps[tap] / static_cast<std::int32_t>(sizeof(std::int16_t)) + c] * w[8 * tap];
            of.sums[c] = sum;
        }
    }
    static TapOrigin tap_origin(const std::int8_t*, const std::int8_t*) noexcept { return counted_taps; }
    template <Saturation Range> static void store_taps(TapWindows& of) noexcept {
        for (std::int32_t p = 0; p < of.pixels; ++p)
            for (std::int32_t c = 0; c < of.blocks * tap_channels; ++c) {
                std::int32_t sum = 0;
                for (int t = 0; t < window_taps; ++t)
                    sum += of.code_at(of.places[window_taps * p + t], c) * of.w[window_taps * c + t];
                of.y[p * of.channels + c] = code<Range>(sum, c, of);
            }
    }
    static void stage_rows(const DepthwiseRows& of) noexcept {
        for (index_t column = 0; column < of.columns; ++column)
            for (index_t c = 0; c < 16; ++c)
                for (int row = 0; row < 4; ++row)
                    of.to[(column * 16 + c) * 4 + row] =
                        c < of.channels ? of.from[row][column * of.step[row] + c] : std::int8_t{0};
    }
    static void stage_groups(const DepthwiseGroups& of) noexcept {
        for (index_t group = 0; group < of.groups; ++group)
            for (index_t c = 0; c < 4 * of.quads; ++c)
                for (index_t column = 0; column < 4; ++column)
                    std::memcpy(of.to + group * group_bytes + (c * 4 + column) * 4,
                                of.from + group * of.step + column * column_bytes + c * 4, 4);
    }
    template <int Stride> static void add_groups(const DepthwiseSums& of) noexcept {
        for (index_t c = 0; c < of.channels; ++c)
            for (index_t group = 0; group < of.groups; ++group) {
                std::int8_t* const x = of.x + group * group_bytes + c * 16;
                const std::int8_t* const w = of.w + 9 * c;
                std::int8_t columns[2 * 16];  // of two groups
                std::memcpy(columns, x, 16);
                if (Stride == 2) std::memcpy(columns + 16, x + group_bytes, 16);
                std::int32_t sums[4] = {};
                for (int i = 0; i < 4; ++i) sums[i] = window(columns + i / 2 * 4 + i % 2, w);
                if (Stride == 2) sums[1] = window(columns + 8, w);
                std::memcpy(x, sums, Stride == 1 ? 16 : 8);
            }
    }
    template <Saturation Range, int Stride> static void store_group_codes(const DepthwiseCodes& of) noexcept {
        for (index_t c = 0; c < 4 * of.quads; ++c)
            for (index_t group = 0; group < of.groups; ++group)
                for (int i = Stride == 1 ? 3 : 1; i >= 0; --i)
                    of.y[i][group * of.step + c] = code<Range>(of.sums[c * 4 + i - group * group_bytes / 4], c, of);
    }

private:
    /// A vector of activations by as many weights. Where all of a sum is said to fit 32 bits, parts of it may not.
    template <class X> static void add_pixels(const WindowSums& of, int pixels) noexcept {
        constexpr int width = 16 / static_cast<int>(sizeof(X));
        const std::int8_t* w = of.w;
        for (index_t pair = 0; pair < of.pairs; ++pair) {
            std::uint32_t sums[window_pixels][2] = {};
            for (index_t k = 0; k <= of.steps; ++k)
                for (int c = 0; c < 2; ++c, w += width)
                    for (int p = 0; p < pixels; ++p) {
                        const auto* const x = reinterpret_cast<const X*>(of.x[p]) + width * k;
                        for (int i = 0; i < width; ++i) sums[p][c] += static_cast<std::uint32_t>(x[i] * w[i]);
                    }
            for (int p = 0; p < pixels; ++p)
                for (int c = 0; c < 2; ++c)
                    of.sums[p * window_channels + 2 * pair + c] = static_cast<std::int32_t>(sums[p][c]);
        }
    }
    /// The window of three rows and columns whose first code is *x.
    static std::int32_t window(const std::int8_t* x, const std::int8_t* w) noexcept {
        std::int32_t sum = 0;
        for (int column = 0; column < 3; ++column)
            for (int row = 0; row < 3; ++row) sum += x[4 * column + row] * w[3 * column + row];
        return sum;
    }
    /// The steps of the instructions: VQRDMULH, one off negative products, VRSHL.
    template <Saturation Range, class Codes>
    static std::int8_t code(std::int32_t sum, index_t c, const Codes& of) noexcept {
        const std::int64_t acc =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) + static_cast<std::uint32_t>(of.bias[c]));
        std::int64_t x = (acc * of.multiplier[c] + (std::int64_t{1} << 30)) >> 31;
        if ((Range == Saturation::int8 || Range == Saturation::any) && x < 0) --x;
        x = ((x + (std::int64_t{1} << (-of.shift[c] - 1))) >> -of.shift[c]) + of.zero_point;
        return static_cast<std::int8_t>(x < of.lowest ? of.lowest : x > of.highest ? of.highest : x);
    }
};

#    endif

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_HELIUM_HPP
