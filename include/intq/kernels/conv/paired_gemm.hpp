// SPDX-License-Identifier: MIT
//
// The GEMM skeleton of ISAs without vectors that multiply pairs of int16: convolution and linear on int8, and on int16
// in the tflite family, whose sums of 64 bits have 32 where packing proved that they fit.
// Layer: kernels (docs/design.md section 5).
//
// A tile is three output pixels by two output channels. The windows of its pixels are staged once, for all
// channels: nothing else of the input is copied, and there are no taps, no offsets and no padding in the loop.
#ifndef INTQ_KERNELS_CONV_PAIRED_GEMM_HPP
#define INTQ_KERNELS_CONV_PAIRED_GEMM_HPP

#include "intq/arith/requantize.hpp"
#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/high_product_codes.hpp"
#include "intq/kernels/conv/short_codes.hpp"
#include "intq/kernels/staging/paired_stage.hpp"
#include "intq/simd/tiles/paired_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// sums[c·rows + r] = bias[c] + the products of a panel. One code for all outputs, where code is to be small.
template <class Backend, class Acc, class Sum>
INTQ_OUT_OF_LINE void sum_panel(int rows, int columns, const std::int32_t* x, const std::int8_t* w, index_t depth,
                                const Acc* bias, Sum* sums) noexcept {
    using Tile = simd::PairedTile<Backend>;
    Sum* to = sums;
    for (int c = 0; c < columns; ++c)
        for (int r = 0; r < rows; ++r) *to++ = static_cast<Sum>(bias[c]);
    if (columns == 2)
        rows == 1 ? Tile::template add<1, 2>(x, w, depth, sums) : Tile::template add<Tile::rows, 2>(x, w, depth, sums);
    else
        rows == 1 ? Tile::template add<1, 1>(x, w, depth, sums) : Tile::template add<Tile::rows, 1>(x, w, depth, sums);
}

}  // namespace detail

/// y = epilogue(bias + sum over the window and channels of x·w) for the types of one registry row.
///
/// @tparam X, Y  public types of input and output
/// @tparam E     element type of the fused add, or no_sumin
///
/// Result   exact: sums wrap, and the packer proved that the true sum fits
/// Memory   conv2d_workspace_size(): the staged pixels of one tile. The calling thread does all work
/// Cost     2 · pixels · channels · window operations; padding is multiplied like pixels
template <class Backend, class Policy, class X, class Y, class Sumin> struct PairedGemm {
    using L = simd::lanes<Backend>;
    using Tile = simd::PairedTile<Backend>;
    using Acc = std::conditional_t<std::is_same_v<X, std::int16_t>, std::int64_t, std::int32_t>;

    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.is_paired() && !packed.is_depthwise);
        INTQ_ASSERT(packed.has_sumin == adds);
        if constexpr (!INTQ_SMALL)
            if (detail::is_one_window(packed, *call.geometry)) return run_one(call);
        const index_t pixels = call.geometry->batch * call.geometry->out_pixels();
        auto* const channels = reinterpret_cast<simd::PairedChannels*>(
            call.workspace + detail::paired_input_bytes(packed, *call.geometry));
        for (index_t group = 0; group < packed.groups; ++group) {
            detail::PairedStager<Backend, X> stager(call, group, call.workspace);
            if constexpr ((has_short || has_high_product) && has_panels)
                if (packed.scaled_is_small && pixels >= Tile::rows) write_channels(packed, group, channels);
            for (index_t pixel = 0; pixel < pixels; pixel += Tile::rows) {
                index_t count = pixels - pixel < Tile::rows ? pixels - pixel : index_t{Tile::rows};
                if (count < Tile::rows && may_overlap(packed, pixels)) {
                    pixel -= Tile::rows - count;
                    count = Tile::rows;
                    stager.go_to(pixel);
                }
                run_tile(call, stager, channels, group, pixel, count);
            }
        }
    }

private:
    static_assert(Tile::rows == simd::paired_rows && Tile::columns == 2);
    using OneRow = std::integral_constant<int, 1>;
    using AllRows = std::integral_constant<int, Tile::rows>;
    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    static constexpr bool is_wide = std::is_same_v<Acc, std::int64_t>;
    static constexpr bool has_short = detail::has_short_codes<L, Policy, Y, Sumin>();
    static constexpr bool has_high_product = detail::has_high_product_codes<L, Policy, Y, Sumin>();

    /// Whether the tile has the codes of whole panels.
    static constexpr bool has_panels = requires(const simd::PairedPanels& panels) {
        Tile::template store_panels<Y, detail::CodeRange::any>(panels);
    };

    /// Whether the last tile can begin in the one before: whole tiles are faster than a part of one, and no operand is
    /// read that an output might have replaced.
    static INTQ_ALWAYS_INLINE bool may_overlap([[maybe_unused]] const PackedConv2d& packed,
                                               [[maybe_unused]] index_t pixels) noexcept {
        if constexpr ((has_short || has_high_product) && has_panels && !INTQ_SMALL)
            return packed.scaled_is_small && pixels > Tile::rows;
        else
            return false;
    }

    static INTQ_NEVER_INLINE void run_one(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        auto* const x = reinterpret_cast<std::int32_t*>(call.workspace);
        const index_t line = call.geometry->in.width * packed.in_channels * packed.window.dilation.height;
        detail::PairedWords<Backend, X, OneRow> words(x, {}, packed.input_zero_point);
        for (index_t ky = 0; ky < packed.window.kernel.height; ++ky)
            words.copy(static_cast<const X*>(call.x) + ky * line, packed.window.kernel.width * packed.in_channels);
        run_any(OneRow{}, packed, x, weights_of(packed, 0), 0, packed.out_channels,
                static_cast<const Sumin*>(call.sumin), static_cast<Y*>(call.y), 1);
    }

    /// The first `count` pixels of a tile by all channels of a group. Rows behind them are whatever the workspace
    /// holds: nothing of their sums is stored.
    static INTQ_NEVER_INLINE void run_tile(const ConvCall& call, detail::PairedStager<Backend, X>& stager,
                                           [[maybe_unused]] const simd::PairedChannels* channels, index_t group,
                                           index_t pixel, index_t count) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const std::int32_t* const x = stager.tile(rows_of(count), count);
        const index_t at = pixel * packed.out_channels + group * packed.group_outputs();
        Y* const y = static_cast<Y*>(call.y) + at;
        const Sumin* const e = static_cast<const Sumin*>(call.sumin) + (adds ? at : 0);
        const index_t first = group * packed.group_stride, end = first + packed.group_outputs();
        index_t done = 0;
        if constexpr ((has_short || has_high_product) && has_panels)
            if (packed.scaled_is_small && count == Tile::rows)
                done = store_panels(packed, x, weights_of(packed, group), channels, y);
        if (first + done < end)
            run_rest(packed, x, weights_of(packed, group) + done * packed.column_size(), first + done, end,
                     e + (adds ? done : 0), y + done, count);
    }

    /// Rows of the tile that holds `count` pixels: a constant, or where code is to be small one row for one pixel.
    static INTQ_ALWAYS_INLINE auto rows_of([[maybe_unused]] index_t count) noexcept {
        if constexpr (INTQ_SMALL)
            return count == 1 ? 1 : Tile::rows;
        else
            return AllRows{};
    }

    static INTQ_ALWAYS_INLINE const std::int8_t* weights_of(const PackedConv2d& packed, index_t group) noexcept {
        return static_cast<const std::int8_t*>(packed.weights) + group * packed.group_weights();
    }

    /// Calls body(columns, at) for the padded channels from `at` to `end`, a panel at a time.
    template <class Body> static INTQ_ALWAYS_INLINE void for_each_panel(index_t at, index_t end, Body&& body) noexcept {
        if constexpr (INTQ_SMALL) {
            for (; at < end; at += 2) body(end - at < 2 ? 1 : 2, at);
            return;
        }
        for (; at + 1 < end; at += 2) body(std::integral_constant<int, 2>{}, at);
        if (at < end) body(std::integral_constant<int, 1>{}, at);
    }

    /// The words of the whole panels of a group.
    static INTQ_ALWAYS_INLINE void write_channels(const PackedConv2d& packed, index_t group,
                                                  simd::PairedChannels* to) noexcept {
        const index_t first = group * packed.group_stride;
        const auto* bias = static_cast<const Acc*>(packed.bias) + first;
        const std::int32_t *multiplier = packed.words + first, *shift = multiplier + packed.padded_outputs();
        for (const auto* const end = bias + packed.group_outputs() / 2 * 2; bias != end; ++to)
            for (int i = 0; i < 2; ++i, ++bias, ++multiplier, ++shift) {
                to->biases[i] = static_cast<std::int32_t>(*bias);
                if constexpr (has_high_product) {
                    to->multipliers[i] = arith::wide_fixed_point::short_multiplier(*multiplier, *shift);
                } else {
                    to->multipliers[i] = L::ShortRounding::doubled(*multiplier);
                    to->powers[i] = L::ShortRounding::power_of(*shift);
                }
            }
    }

    /// The whole panels of a group.
    ///
    /// @return the channels that are done
    static INTQ_ALWAYS_INLINE index_t store_panels(const PackedConv2d& packed, const std::int32_t* x,
                                                   const std::int8_t* w, const simd::PairedChannels* of,
                                                   Y* y) noexcept {
        const index_t depth = packed.column_size(), channels = packed.group_outputs() / 2 * 2;
        if (channels == 0) return 0;
        simd::PairedPanels panels;
        panels.x = x;
        panels.end = x + depth / 2 * Tile::rows;
        panels.channels = of;
        panels.y = y;
        panels.stride = packed.out_channels * static_cast<index_t>(sizeof(Y));
        panels.zero_point = packed.codes.zero_point;
        panels.w_end = w + channels * depth;
        panels.w = w;
        panels.skipped = simd::PairedPanels::skipped_of(depth);
        panels.lowest = packed.codes.lowest;
        panels.highest = packed.codes.highest;
        if constexpr (has_high_product) {
            if (detail::int16_range(packed.codes) == detail::CodeRange::positive)
                Tile::template store_panels<Y, detail::CodeRange::positive>(panels);
            else
                Tile::template store_panels<Y, detail::CodeRange::any>(panels);
        } else {
            detail::with_range(packed.codes, [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
                Tile::template store_panels<Y, range.value>(panels);
            });
        }
        return channels;
    }

    /// run_any() out of line, because many layers need it for one tile.
    static INTQ_OUT_OF_LINE void run_rest(const PackedConv2d& packed, const std::int32_t* x, const std::int8_t* w,
                                          index_t at, index_t end, const Sumin* e, Y* y, index_t count) noexcept {
        run_any(rows_of(count), packed, x, w, at, end, e, y, count);
    }
    /// The padded channels from `at` to `end`, under any policy.
    template <class RowsOf>
    static INTQ_ALWAYS_INLINE void run_any(RowsOf rows, const PackedConv2d& packed, const std::int32_t* x,
                                           const std::int8_t* w, index_t at, index_t end, const Sumin* e, Y* y,
                                           index_t count) noexcept {
        if constexpr (has_high_product)
            if (packed.scaled_is_small) return run_sums<std::int32_t>(rows, packed, x, w, at, end, e, y, count);
        run_sums<Acc>(rows, packed, x, w, at, end, e, y, count);
    }
    /// The same in sums of a type.
    template <class Sum, class RowsOf>
    static INTQ_ALWAYS_INLINE void run_sums(RowsOf rows, const PackedConv2d& packed, const std::int32_t* x,
                                            const std::int8_t* w, index_t at, index_t end, const Sumin* e, Y* y,
                                            index_t count) noexcept {
        const index_t depth = packed.column_size();
        const Epilogue<L, Policy, Y, Sumin> epilogue(packed);
        for_each_panel(at, end, [&](auto columns, index_t channel) INTQ_ALWAYS_INLINE_LAMBDA {
            const auto* const bias = static_cast<const Acc*>(packed.bias) + channel;
            Sum sums[array_size(Tile::rows * Tile::columns)];
            if constexpr (INTQ_SMALL)
                detail::sum_panel<Backend>(rows, columns, x, w, depth, bias, sums);
            else
                add_columns<RowsOf::value, columns.value>(x, w, depth, bias, sums);
            for (int c = 0; c < columns; ++c, ++y, e += adds ? 1 : 0)
                store_column(rows, packed, epilogue, sums + c * rows, channel + c, e, y, count);
            w += depth * columns;
        });
    }
    /// The codes of `count` pixels of one channel.
    template <class RowsOf, class Sum>
    static INTQ_ALWAYS_INLINE void store_column(RowsOf, const PackedConv2d& packed,
                                                const Epilogue<L, Policy, Y, Sumin>& epilogue, const Sum* sums,
                                                index_t at, const Sumin* e, Y* y, index_t count) noexcept {
        const index_t stride = packed.out_channels;
        if constexpr (is_wide && std::is_same_v<Sum, std::int32_t>) {
            const detail::HighProductCodes<L, detail::CodeRange::any> codes(packed, at);
            for (index_t r = 0; r < count; ++r) y[r * stride] = codes.code(sums[r]);
            return;
        }
        if constexpr (has_short && !INTQ_SMALL) {
            if (packed.scaled_is_small) {
                const auto store = [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
                    const detail::ShortCodes<L, range.value> codes(packed, at);
                    for (index_t r = 0; r < count; ++r) y[r * stride] = codes.code(sums[r]);
                };
                // The rest of tiles are few codes, which need no code of their own.
                if constexpr (std::is_same_v<RowsOf, OneRow>)
                    return detail::with_range(packed.codes, store);
                else
                    return store(std::integral_constant<detail::CodeRange, detail::CodeRange::any>{});
            }
        }
        const auto channels = epilogue.channels(at);
        for (index_t r = 0; r < count; ++r)
            epilogue.store(Acc{sums[r]}, channels, e + (adds ? r * stride : 0), y + r * stride, 1);
    }

    template <int PanelRows, int Columns, class Sum>
    static INTQ_ALWAYS_INLINE void add_columns(const std::int32_t* x, const std::int8_t* w, index_t depth,
                                               const Acc* bias, Sum* sums) noexcept {
        INTQ_UNROLL
        for (int i = 0; i < PanelRows * Columns; ++i) sums[i] = static_cast<Sum>(bias[i / PanelRows]);
        Tile::template add<PanelRows, Columns>(x, w, depth, sums);
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_PAIRED_GEMM_HPP
