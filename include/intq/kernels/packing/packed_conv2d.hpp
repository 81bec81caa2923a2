// SPDX-License-Identifier: MIT
//
// Packed weights of a convolution or linear layer, and the specification they are made from. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_PACKED_CONV2D_HPP
#define INTQ_KERNELS_PACKING_PACKED_CONV2D_HPP

#include "intq/arith/conv.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/qparams.hpp"
#include "intq/core/quotient.hpp"
#include "intq/core/workspace.hpp"
#include "intq/kernels/streaming/code_bounds.hpp"
#include "intq/kernels/window/geometry.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Multipliers and shifts of output channels from a file or another engine. They are taken as they are.
///
/// The target decides between double and single rounding (docs/arithmetic.md section 2.2).
struct GivenRequantize {
    const std::int32_t* multipliers = nullptr;  // Q0.31, not negative
    const std::int32_t* shifts = nullptr;       // to the left, as TFLite and CMSIS-NN count them
    index_t count = 0;                          // out_channels, or 1 for all of them
};

/// The specification of a convolution. A linear layer is a convolution whose kernel covers its input:
/// kernel {1, 1} on vectors, kernel {H, W} behind a Flatten of (C, H, W) images. The weight of the float model is then
/// used as is.
struct Conv2dSpec {
    OpKind op = OpKind::conv2d;  // or linear, for messages and the constraint table
    Window2d window{};
    index_t in_channels = 1;
    index_t out_channels = 1;
    index_t groups = 1;
    DType input_dtype = DType::int8;
    DType weight_dtype = DType::int8;
    DType output_dtype = DType::int8;
    QParams input{};
    QParams weight{};                          // per channel along axis 0, or per tensor; symmetric
    QParams output{};                          // not read for int32 output, whose scale is s_in·s_w
    const void* weight_codes = nullptr;        // (O, I/groups, KH, KW), contiguous, of weight_dtype
    const float* bias = nullptr;               // real bias per channel, or
    const std::int64_t* bias_codes = nullptr;  // codes from a file, used as they are; or
    /// codes of 32 bits, which int16 activations of the tflite family are then summed in; or none of the three.
    const std::int32_t* bias_codes_int32 = nullptr;
    Activation activation = Activation::none;
    const arith::SuminOperand* sumin = nullptr;  // operand of a fused add, of input_dtype
    /// Sums of 64 bits for a target that widens int16 layers (PolicyRecord::widens_int16): needs_wide_sum() says where.
    /// The codes are the same as with 32 bits where both are possible.
    bool wide_sum = false;
    /// Replaces all scales: of input, weight and output only the zero points are read then, and the scale of
    /// the output by relu6.
    const GivenRequantize* requantize = nullptr;
    const CodeBounds* bounds = nullptr;  // in place of an activation
    /// No code of the input is below 0, as behind a ReLU on a symmetric grid: a tile that multiplies unsigned bytes
    /// reads them as they are. A layer that was packed with it must not read others.
    bool input_is_nonnegative = false;
};

/// The data of a kernel; plain pointers into the storage that its maker filled. Independent of H, W and batch.
///
/// Only read by a run, so any number of threads may run one, each with its own workspace.
struct PackedConv2d {
    OpKind op = OpKind::conv2d;
    Window2d window{};
    index_t in_channels = 0;
    index_t out_channels = 0;
    index_t groups = 1;
    DType input_dtype = DType::none;
    DType weight_dtype = DType::none;
    DType output_dtype = DType::none;
    std::uint8_t accumulator_bits = 32;
    arith::RequantizeRule requantize = arith::RequantizeRule::float_scale;  // the operator's on its target
    bool has_sumin = false;
    bool is_depthwise = false;
    bool scaled_is_small = false;  // proven: the requantization has its shorter form; see is_scaled_small()
    bool merges_row = false;       // the taps of a row of the window are one run of elements in the staged input
    simd::Packing packing{};
    simd::DepthwisePacking depthwise{};
    index_t group_stride = 0;  // padded output channels of one group; of all channels when depthwise
    const void* weights = nullptr;
    const void* bias = nullptr;                 // int32, int64 or float
    const std::int32_t* words = nullptr;        // [word][padded_outputs()]
    const std::int32_t* sumin_words = nullptr;  // the same
    std::int32_t input_zero_point = 0;
    const void* tap_bias = nullptr;     // [tap][padded_outputs()], as bias: a tap on padding; or null
    const void* padding_row = nullptr;  // one pixel of zero points; of depthwise layers, or null
    arith::OutputCodes codes{};

    INTQ_ALWAYS_INLINE constexpr index_t taps() const noexcept { return window.kernel.height * window.kernel.width; }
    /// A division costs small layers time, so one group has none.
    INTQ_ALWAYS_INLINE constexpr index_t group_inputs() const noexcept {
        return groups == 1 ? in_channels : quotient(in_channels, groups);
    }
    INTQ_ALWAYS_INLINE constexpr index_t group_outputs() const noexcept {
        return groups == 1 ? out_channels : quotient(out_channels, groups);
    }
    INTQ_ALWAYS_INLINE constexpr index_t padded_outputs() const noexcept {
        return is_depthwise ? group_stride : groups * group_stride;
    }
    INTQ_ALWAYS_INLINE constexpr index_t panels() const noexcept { return quotient_up(group_stride, packing.columns); }
    /// The skeleton's taps, and the products of each. A row of a paired tile, or of one of windows, is a whole window.
    INTQ_ALWAYS_INLINE constexpr bool is_paired() const noexcept { return packing.staging == simd::Staging::paired; }
    /// Whether neighbours in memory are the pairs, because activations have 16 bits.
    INTQ_ALWAYS_INLINE constexpr bool has_given_pairs() const noexcept {
        return is_paired() && input_dtype == DType::int16;
    }
    INTQ_ALWAYS_INLINE constexpr bool is_paired_depthwise() const noexcept {
        return is_depthwise && depthwise.staging == simd::Staging::paired;
    }
    INTQ_ALWAYS_INLINE constexpr bool stages_windows() const noexcept {
        return packing.staging == simd::Staging::windows;
    }
    INTQ_ALWAYS_INLINE constexpr bool stages_depthwise_windows() const noexcept {
        return is_depthwise && depthwise.staging == simd::Staging::windows && input_dtype == DType::int8;
    }
    /// A depthwise layer of int16, whose taps are read where they lie.
    INTQ_ALWAYS_INLINE constexpr bool lists_taps() const noexcept {
        return is_depthwise && depthwise.staging == simd::Staging::windows && input_dtype == DType::int16;
    }
    INTQ_ALWAYS_INLINE constexpr bool interleaves_rows() const noexcept {
        return packing.staging == simd::Staging::interleaved;
    }
    INTQ_ALWAYS_INLINE constexpr bool has_whole_windows() const noexcept {
        return is_paired() || stages_windows() || interleaves_rows();
    }
    INTQ_ALWAYS_INLINE constexpr index_t tap_count() const noexcept {
        return has_whole_windows() ? 1 : merges_row ? window.kernel.height : taps();
    }
    INTQ_ALWAYS_INLINE constexpr index_t tap_depth() const noexcept {
        return has_whole_windows() ? taps() * group_inputs()
               : merges_row        ? window.kernel.width * in_channels
                                   : group_inputs();
    }
    INTQ_ALWAYS_INLINE constexpr index_t planes() const noexcept {
        return packing.splits && weight_dtype == DType::int16 ? 2 : 1;
    }
    /// Elements of a column, of a whole panel, and of all panels of a group.
    INTQ_ALWAYS_INLINE constexpr index_t column_size() const noexcept {
        return tap_count() * round_up(tap_depth(), packing.depth) * planes();
    }
    INTQ_ALWAYS_INLINE constexpr index_t panel_size() const noexcept { return column_size() * packing.columns; }
    INTQ_ALWAYS_INLINE constexpr index_t group_weights() const noexcept { return column_size() * group_stride; }
    /// Weights of one channel when depthwise, with those of rows that only fill a group.
    INTQ_ALWAYS_INLINE constexpr index_t depthwise_weights() const noexcept {
        return window.kernel.width * round_up(window.kernel.height, depthwise.depth);
    }
};

/// One block of channels of a depthwise layer.
struct DepthwiseBlock {
    index_t first;   // channel, and place among the padded ones: before the last block they are the same
    index_t padded;  // its channels with padding
    bool is_whole;   // of packing.columns, in that block's order
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// The block that starts at channel `first`.
constexpr DepthwiseBlock depthwise_block(const simd::DepthwisePacking& packing, index_t first,
                                         index_t channels) noexcept {
    const bool is_whole = 2 * (channels - first) > packing.columns;
    return {first, is_whole ? packing.columns : packing.step, is_whole};
}

/// Where channel i of a whole block lies in its vectors.
constexpr index_t depthwise_lane(const simd::DepthwisePacking& packing, index_t i) noexcept {
    const index_t vectors = packing.columns / packing.step, run = i / packing.run;
    return run % vectors * packing.step + run / vectors * packing.run + i % packing.run;
}

namespace detail {

/// Slack behind depthwise parameters, so that a whole vector of any backend may be loaded at the last channel.
inline constexpr index_t widest_vector = 64;

/// Channels of a depthwise layer whose windows are staged together. All channels share as many codes of padding.
inline constexpr index_t depthwise_window_channels = 16;

/// Whether the sums of 64 bits are those of int16 activations and int8 weights in the tflite family.
constexpr bool has_16_bit_multipliers(const PackedConv2d& packed) noexcept {
    return packed.accumulator_bits == 64 && packed.input_dtype == DType::int16 && packed.weight_dtype == DType::int8 &&
           arith::takes_multipliers(packed.requantize);
}

/// Type in which a packing keeps weights: the converted activations' where they are wider, or where a group is one
/// instruction's, unless the staging says that bytes stay bytes.
constexpr DType stored_weight(const PackedConv2d& packed) noexcept {
    if (packed.input_dtype == DType::float32) return DType::float32;
    const index_t depth = packed.is_depthwise ? packed.depthwise.depth : packed.packing.depth;
    const simd::Staging staging = packed.is_depthwise ? packed.depthwise.staging : packed.packing.staging;
    const bool is_wide = staging == simd::Staging::widened;
    if (depth == 1 && !is_wide) return packed.weight_dtype;
    const bool keeps_bytes = staging == simd::Staging::paired || staging == simd::Staging::windows ||
                             staging == simd::Staging::widened_beside_bytes;
    return is_wide || (packed.input_dtype == DType::int16 && !keeps_bytes) ? DType::int16 : DType::int8;
}

/// Whether the kernel reads a copy of the input: converted, or laid out for merged rows.
constexpr bool is_staged(const PackedConv2d& packed) noexcept {
    return packed.packing.staging != simd::Staging::as_is || packed.merges_row;
}

constexpr DType staged_input(const simd::Packing& packing, DType input) noexcept {
    return simd::widens(packing.staging) ? DType::int16 : input;
}

/// The tile's value for an input code of `zero_point`.
constexpr std::int64_t tile_offset(const PackedConv2d& packed, std::int64_t zero_point) noexcept {
    const simd::Staging staging = packed.is_depthwise ? packed.depthwise.staging : packed.packing.staging;
    return zero_point + (staging == simd::Staging::offset_binary ? 128 : 0);
}

/// The parts of a packed layer in its storage; with a null cursor this only counts.
struct PackedParts {
    std::byte* weights = nullptr;
    std::byte* bias = nullptr;
    std::int32_t* words = nullptr;
    std::int32_t* sumin_words = nullptr;
    std::int32_t* tap_bias = nullptr;
    std::byte* padding_row = nullptr;
};

/// Whether padding adds anything to a sum: where a code of zero is not a zero in the tile.
constexpr bool needs_tap_bias(const PackedConv2d& packed, std::int64_t offset) noexcept {
    const bool pads = !(packed.window.padding == Padding2d{});
    return pads && offset != 0 && !packed.is_depthwise && !packed.merges_row && !packed.has_whole_windows();
}

/// Elements of a pixel of zero points, which depthwise layers read on padding. A tile reads whole vectors of it, also
/// where rows only fill a group.
constexpr index_t padding_row_size(const PackedConv2d& packed) noexcept {
    if (!packed.is_depthwise) return 0;
    if (packed.stages_depthwise_windows()) return depthwise_window_channels;
    if (packed.depthwise.columns > 0 && !packed.lists_taps()) return packed.in_channels + widest_vector;
    return pads(packed.window) ? packed.in_channels : 0;
}

/// @param offset  the tile's value for the code of zero
inline PackedParts place(const PackedConv2d& packed, int words, int sumin_words, std::int64_t offset,
                         BufferCursor& cursor) INTQ_NOEXCEPT {
    const index_t bias_size = packed.accumulator_bits / 8;
    const index_t channels = packed.padded_outputs();
    const index_t weights =
        packed.is_depthwise ? packed.depthwise_weights() * channels : packed.groups * packed.group_weights();
    PackedParts parts;
    parts.weights = cursor.take<std::byte>(weights * size_of(stored_weight(packed)));
    parts.bias = cursor.take<std::byte>(channels * bias_size);
    parts.words = cursor.take<std::int32_t>(words * channels);
    parts.sumin_words = cursor.take<std::int32_t>(packed.has_sumin ? sumin_words * channels : 0);
    parts.tap_bias = cursor.take<std::int32_t>(needs_tap_bias(packed, offset) ? packed.taps() * channels : 0);
    parts.padding_row = cursor.take<std::byte>(padding_row_size(packed) * size_of(packed.input_dtype));
    return parts;
}

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_PACKED_CONV2D_HPP
