// SPDX-License-Identifier: MIT
//
// The numbers of a packed layer: all that follows from a layer and a backend without its weights, and their bounds.
// Packing fills it, and the check of a program compares with it. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_DESCRIBE_PACKED_HPP
#define INTQ_KERNELS_PACKING_DESCRIBE_PACKED_HPP

#include <bit>

#include "intq/arith/make_requantize.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/kernels/packing/packing_rules.hpp"
#include "intq/kernels/packing/weight_places.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Largest number of channels of a layer, and bytes of one packed.
inline constexpr index_t largest_channels = index_t{1} << 24;
inline constexpr index_t largest_packed = PTRDIFF_MAX / 4;

/// Whether a layer, with any backend's padding, is at most largest_packed bytes.
constexpr Status check_packed_size(const Conv2dSpec& spec) noexcept {
    const bool is_depthwise = spec.groups == spec.in_channels && spec.groups == spec.out_channels;
    // At most 64 inputs are taken together and 64 outputs are in a panel. 8 bytes are enough for a weight and all other
    // data for a tap of an output.
    const index_t inputs = is_depthwise ? widest_vector : spec.in_channels / spec.groups + widest_vector;
    const index_t outputs = spec.out_channels + widest_vector * (is_depthwise ? 1 : spec.groups);
    index_t room = largest_packed / 8;
    for (const index_t factor : {spec.window.kernel.height, spec.window.kernel.width, inputs}) room /= factor;
    if (outputs <= room) return {};
    return {StatusCode::value_out_of_range, spec.op, Field::weight, outputs, room};
}

/// The window of a linear layer covers its input, or one row of it, and does not move beyond it.
constexpr Status check_linear_window(const Conv2dSpec& spec) noexcept {
    const auto& [kernel, stride, padding, dilation] = spec.window;
    for (const index_t value : {padding.top, padding.left, padding.bottom, padding.right})
        if (value != 0) return {StatusCode::value_out_of_range, spec.op, Field::padding, value, 0};
    for (const index_t value : {dilation.height, dilation.width})
        if (value != 1) return {StatusCode::value_out_of_range, spec.op, Field::dilation, value, 1};
    for (const index_t value : {stride.height, stride.width})
        if (value != 1) return {StatusCode::value_out_of_range, spec.op, Field::stride, value, 1};
    return {};
}

/// Checks the extents of a layer, from which every size is computed.
///
/// @return ok; the errors of check_window(); for a linear layer value_out_of_range of padding, dilation or stride, as
///         it has none; value_out_of_range of groups, and of channels that are not in 1 … largest_channels;
///         shape_mismatch of groups: the channels of input or output, which the status owns, are no multiple of them;
///         value_out_of_range of weight: padded outputs beyond largest_packed
constexpr Status check_extents(const Conv2dSpec& spec) noexcept {
    if (const Status status = check_window(spec.window, spec.op); !status) return status;
    if (spec.op == OpKind::linear)
        if (const Status status = check_linear_window(spec); !status) return status;
    const auto outside = [](index_t channels) { return channels < 1 || channels > largest_channels; };
    if (outside(spec.groups))
        return {StatusCode::value_out_of_range, spec.op, Field::groups, spec.groups,
                spec.groups < 1 ? 1 : largest_channels};
    struct Channels {
        index_t count;
        Field owner;
    };
    for (const auto& [count, owner] :
         {Channels{spec.in_channels, Field::input}, Channels{spec.out_channels, Field::output}}) {
        if (outside(count))
            return {StatusCode::value_out_of_range,   spec.op, Field::channels, count,
                    count < 1 ? 1 : largest_channels, owner};
        if (count % spec.groups != 0)
            return {StatusCode::shape_mismatch, spec.op, Field::groups, count, spec.groups, owner};
    }
    return check_packed_size(spec);
}

/// Channels with padding: whole blocks, or whole vectors where there are none.
///
/// @param step  of the backend's tile of the same lanes: a multiple of a vector
constexpr index_t depthwise_channels(const simd::DepthwisePacking& packing, index_t step, index_t channels) noexcept {
    if (packing.columns == 0) return round_up(channels, step);
    index_t at = 0;
    while (at < channels) at += depthwise_block(packing, at, channels).padded;
    return at;
}

/// Whether the taps of a row of the window, taken together, leave fewer groups partly filled: images of few channels.
/// The staged copy is then laid out for that; int16 input, which is read as it is elsewhere, is copied for it. Where as
/// many groups are left, the copy pays too if each tap of the input itself ends in a part of a group: a tile reads
/// parts byte by byte, and whole groups of a copy beyond its last channel.
constexpr bool merging_saves_groups(const PackedConv2d& packed) noexcept {
    if (packed.groups > 1 || packed.has_whole_windows()) return false;
    const index_t width = packed.window.kernel.width, depth = packed.packing.depth;
    if (width == 1 || packed.window.dilation.width != 1) return false;
    const index_t merged = round_up(width * packed.in_channels, depth);
    const index_t apart = width * round_up(packed.in_channels, depth);
    const bool has_parts = packed.packing.staging == simd::Staging::as_is && packed.in_channels % depth != 0;
    return merged < apart || (merged == apart && has_parts);
}

/// The parts of a packed layer that do not depend on its packing.
inline PackedConv2d describe_layer(const Conv2dSpec& spec, int accumulator_bits) noexcept {
    PackedConv2d packed{};
    packed.op = spec.op;
    packed.window = spec.window;
    packed.in_channels = spec.in_channels;
    packed.out_channels = spec.out_channels;
    packed.groups = spec.groups;
    packed.input_dtype = spec.input_dtype;
    packed.weight_dtype = spec.weight_dtype;
    packed.output_dtype = spec.output_dtype;
    packed.has_sumin = spec.sumin != nullptr;
    packed.accumulator_bits = static_cast<std::uint8_t>(accumulator_bits);
    packed.is_depthwise = spec.groups > 1 && spec.groups == spec.in_channels && spec.groups == spec.out_channels;
    if (packed.is_depthwise) packed.packing = {1, 1, simd::Staging::as_is};
    return packed;
}

/// Whether a target sums a layer in 64 bits where 32 are too few.
constexpr bool may_widen(const arith::PolicyRecord& policy, const Conv2dSpec& spec) noexcept {
    return policy.widens_int16 && spec.input_dtype == DType::int16 && spec.weight_dtype == DType::int8 &&
           spec.output_dtype == DType::int16;
}

/// The width of a layer's sums: the target's, 64 bits where the layer is widened, or 32 bits where the tflite family
/// has bias codes of 32 bits.
constexpr int accumulator_bits(const arith::PolicyRecord& policy, const Conv2dSpec& spec) noexcept {
    const bool is_narrow = spec.bias_codes_int32 != nullptr && arith::takes_multipliers(policy.rule_of(spec.op));
    if (spec.wide_sum) return 64;
    return is_narrow ? 32 : policy.for_weights(spec.weight_dtype).accumulator_bits(spec.input_dtype);
}

/// Whether a tile of unsigned bytes can read codes that are never negative as they are. A tap's last group must end
/// within its pixel: a copy has elements behind the last pixel, and the input has none.
constexpr bool can_skip_conversion(const PackedConv2d& packed) noexcept {
    return !packed.merges_row && packed.group_inputs() % packed.packing.depth == 0;
}

/// The rule that requantizes a layer's sums. An accumulator that is the output is not requantized.
constexpr arith::RequantizeRule requantize_rule(const arith::PolicyRecord& policy, OpKind op, DType output) noexcept {
    return output == DType::int32 ? policy.requantize : policy.rule_of(op);
}

/// The empty packed layer: all numbers, no pointers.
inline PackedConv2d describe_packed(const PackingRules& rules, const Conv2dSpec& spec) noexcept {
    PackedConv2d packed = describe_layer(spec, accumulator_bits(*rules.policy, spec));
    packed.requantize = requantize_rule(*rules.policy, spec.op, spec.output_dtype);
    const bool is_int8 = spec.input_dtype == DType::int8, is_int16x8 = has_16_bit_multipliers(packed);
    if (packed.is_depthwise) {  // whose padding is read as codes of the input
        if (is_int16x8)
            packed.depthwise = rules.depthwise_int16x8_packing;
        else if (packed.accumulator_bits == 32 && !is_int8)
            packed.depthwise = rules.depthwise_int16_packing;
        else if (packed.accumulator_bits == 32 && spec.weight_dtype == DType::int8)
            packed.depthwise = spec.input_is_nonnegative && spec.input.zero_point() >= 0
                                   ? simd::without_conversion(rules.depthwise_int8_packing)
                                   : rules.depthwise_int8_packing;
        packed.group_stride = depthwise_channels(packed.depthwise, rules.wide_packing.step, spec.out_channels);
        return packed;
    }
    packed.packing = packed.accumulator_bits == 64 && is_int8 ? simd::widened_for_int8(rules.wide_packing)
                     : is_int16x8                             ? rules.int16x8_packing
                     : packed.accumulator_bits == 64          ? rules.wide_packing
                     : spec.input_dtype == DType::int16       ? rules.int16_packing
                                                              : rules.int8_packing;
    packed.group_stride = round_up(packed.group_outputs(), packed.packing.step);
    packed.merges_row = merging_saves_groups(packed);
    if (spec.input_is_nonnegative && can_skip_conversion(packed))
        packed.packing = simd::without_conversion(packed.packing);
    return packed;
}

/// What the numbers of a packed layer say of the layer, as describe_packed() reads it.
inline Conv2dSpec spec_of(const arith::PolicyRecord& policy, const PackedConv2d& packed) noexcept {
    static constexpr std::int32_t narrow = 0;
    Conv2dSpec layer{};
    layer.op = packed.op;
    layer.window = packed.window;
    layer.in_channels = packed.in_channels;
    layer.out_channels = packed.out_channels;
    layer.groups = packed.groups;
    layer.input_dtype = packed.input_dtype;
    layer.input = QParams::per_tensor(1.0f, packed.input_zero_point, lowest_code(packed.input_dtype),
                                      highest_code(packed.input_dtype));
    layer.weight_dtype = packed.weight_dtype;
    layer.output_dtype = packed.output_dtype;
    layer.wide_sum = packed.accumulator_bits == 64 && may_widen(policy, layer);
    if (packed.accumulator_bits == 32) layer.bias_codes_int32 = &narrow;
    layer.input_is_nonnegative =
        (packed.is_depthwise ? packed.depthwise.staging : packed.packing.staging) == simd::Staging::as_is;
    return layer;
}

/// Whether the numbers of a packed layer, which may come from anywhere, are as packing computes them for a layer of its
/// window, channels and types.
inline bool is_described(const PackingRules& rules, const PackedConv2d& packed) noexcept {
    const Conv2dSpec layer = spec_of(*rules.policy, packed);
    if (!check_extents(layer).ok()) return false;
    const PackedConv2d expected = describe_packed(rules, layer);
    return packed.accumulator_bits == expected.accumulator_bits && packed.is_depthwise == expected.is_depthwise &&
           packed.merges_row == expected.merges_row && packed.packing == expected.packing &&
           packed.depthwise == expected.depthwise && packed.group_stride == expected.group_stride;
}

/// Word `word` of every padded channel, as one channel's words.
constexpr arith::ChannelWords words_at(const std::int32_t* words, int count, index_t stride, index_t at) noexcept {
    arith::ChannelWords of{};
    for (int word = 0; word < count; ++word) of[static_cast<std::size_t>(word)] = words[word * stride + at];
    return of;
}

/// The packed bias of a channel.
inline std::int64_t bias_at(const PackedConv2d& packed, index_t at) noexcept {
    return packed.accumulator_bits == 64 ? static_cast<const std::int64_t*>(packed.bias)[at]
                                         : static_cast<const std::int32_t*>(packed.bias)[at];
}

/// The largest magnitude of a channel's sum, whatever codes it reads, from the packed bias and weights.
inline std::int64_t largest_sum(const PackedConv2d& packed, index_t channel) noexcept {
    const WeightPlaces places(packed, channel);
    const std::int64_t bias = bias_at(packed, padded_index(packed, channel));
    if (bias > arith::largest_wide_sum || bias < -arith::largest_wide_sum) return INT64_MAX;  // of a file: no overflow
    const std::int64_t lowest = lowest_code(packed.input_dtype), highest = highest_code(packed.input_dtype);
    const auto* const weights = static_cast<const std::int8_t*>(packed.weights);
    std::int64_t low = bias, high = bias;
    for (index_t tap = 0; tap < packed.taps(); ++tap)
        for (index_t k = 0; k < packed.group_inputs(); ++k) {
            const std::int64_t weight = weights[places.at(k, tap)];
            low += weight * (weight > 0 ? lowest : highest);
            high += weight * (weight > 0 ? highest : lowest);
        }
    return high > -low ? high : -low;
}

/// Whether every weight behind the depth of a column is zero. Tiles of whole windows multiply those by whatever lies
/// behind a window.
inline bool has_zero_padding(const PackedConv2d& packed) noexcept {
    if (packed.is_depthwise || !(packed.is_paired() || packed.stages_windows())) return true;
    const auto* const weights = static_cast<const std::int8_t*>(packed.weights);
    index_t others = 0;  // than zero, at no place of a channel
    for (index_t i = 0; i < packed.groups * packed.group_weights(); ++i) others += weights[i] != 0;
    for (index_t channel = 0; channel < packed.out_channels; ++channel) {
        const WeightPlaces places(packed, channel);
        for (index_t tap = 0; tap < packed.taps(); ++tap)
            for (index_t k = 0; k < packed.group_inputs(); ++k) others -= weights[places.at(k, tap)] != 0;
    }
    return others == 0;
}

/// Whether each code of the pixel that stands for padding is the zero point.
inline bool has_zero_point_row(const PackedConv2d& packed) noexcept {
    const index_t size = padding_row_size(packed);
    for (index_t i = 0; i < size; ++i) {
        const std::int32_t code = packed.input_dtype == DType::int16
                                      ? std::int32_t{static_cast<const std::int16_t*>(packed.padding_row)[i]}
                                      : std::int32_t{static_cast<const std::int8_t*>(packed.padding_row)[i]};
        if (code != packed.input_zero_point) return false;
    }
    return true;
}

/// Whether the short form of a rule is exact for each channel of a layer of whole windows. Channels that only fill a
/// panel have no codes.
template <class Rule> bool sums_are_short(const PackedConv2d& packed) noexcept {
    const index_t stride = packed.padded_outputs();
    for (index_t channel = 0; channel < packed.out_channels; ++channel) {
        const arith::ChannelWords words = words_at(packed.words, Rule::words, stride, padded_index(packed, channel));
        if (!Rule::is_short(largest_sum(packed, channel), words)) return false;
    }
    return true;
}

/// A bound of the magnitude of float_scale's sums, whatever codes, weights and bias codes a packed layer has. It is not
/// below 2^40, for which the flags of earlier program files were computed.
inline double sum_bound(const PackedConv2d& packed) noexcept {
    if (packed.accumulator_bits == 32) return 0x1p31;
    double bias = 0.0;
    for (index_t at = 0; at < packed.padded_outputs(); ++at) {
        const auto code = static_cast<double>(bias_at(packed, at));
        bias = bias > code ? bias : code;
        bias = bias > -code ? bias : -code;
    }
    const double product = packed.weight_dtype == DType::int16 ? 0x1p30 : 0x1p22;
    const double sum = product * static_cast<double>(packed.taps() * packed.group_inputs()) + bias;
    return sum > 0x1p40 ? sum : 0x1p40;
}

/// Whether the requantization stays in the range of a shorter form: floats below 2^30 in magnitude, whatever the sum
/// and the operand; or the sums of a layer of whole windows, whose kernel rounds twice in 32 bits, or sums int16
/// activations in 32 bits and takes their high product.
inline bool is_scaled_small(const PackedConv2d& packed) noexcept {
    using Double = arith::fixed_point<arith::double_rounding>;
    const bool keeps = packed.output_dtype == DType::int32;
    const bool has_windows = packed.is_paired() || packed.stages_windows() || packed.stages_depthwise_windows() ||
                             packed.is_paired_depthwise();
    if (has_16_bit_multipliers(packed) && (has_windows || packed.lists_taps()))
        return sums_are_short<arith::wide_fixed_point>(packed);
    if (packed.requantize == arith::RequantizeRule::double_rounding && !keeps && has_windows)
        return sums_are_short<Double>(packed);
    if (packed.requantize != arith::RequantizeRule::float_scale || packed.output_dtype == DType::int32) return true;
    const double largest = sum_bound(packed);
    const auto scale = [](std::int32_t word) { return static_cast<double>(std::bit_cast<float>(word)); };
    for (index_t at = 0; at < packed.padded_outputs(); ++at) {
        const double sumin = packed.has_sumin ? 0x1p17 * scale(packed.sumin_words[at]) : 0.0;
        if (!(largest * scale(packed.words[at]) + sumin < 0x1p30)) return false;
    }
    return true;
}

/// Whether the words of every padded channel keep the formula of the rule inside its types.
constexpr bool holds_words(const PackedConv2d& packed) noexcept {
    const arith::RequantizeRule rule = packed.requantize;
    const index_t stride = packed.padded_outputs();
    const int words = arith::words_of(rule), sumin_words = arith::sumin_words_of(rule), bits = packed.accumulator_bits;
    for (index_t at = 0; at < stride; ++at) {
        if (!arith::are_words(rule, words_at(packed.words, words, stride, at), bits)) return false;
        if (packed.has_sumin &&
            !arith::are_sumin_words(rule, words_at(packed.sumin_words, sumin_words, stride, at), bits))
            return false;
    }
    return true;
}

}  // namespace detail

/// Whether a packed layer was made for an input without negative codes: it skips the conversion of its packing.
inline bool needs_nonnegative_input(const PackingRules& rules, const PackedConv2d& packed) noexcept {
    Conv2dSpec layer = detail::spec_of(*rules.policy, packed);
    layer.input_is_nonnegative = false;
    const PackedConv2d converting = detail::describe_packed(rules, layer);
    return !(converting.packing == packed.packing && converting.depthwise == packed.depthwise);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_DESCRIBE_PACKED_HPP
