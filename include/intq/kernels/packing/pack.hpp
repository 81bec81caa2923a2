// SPDX-License-Identifier: MIT
//
// Packing: checks a convolution, proves its accumulator, and writes weights, bias and requantize words in the
// order a backend's tile reads them. Layer: kernels (docs/design.md section 5). Any host packs for any backend.
#ifndef INTQ_KERNELS_PACKING_PACK_HPP
#define INTQ_KERNELS_PACKING_PACK_HPP

#include <bit>
#include <cstring>

#include "intq/arith/make_requantize.hpp"
#include "intq/kernels/packing/describe_packed.hpp"
#include "intq/kernels/packing/packing_rules.hpp"
#include "intq/kernels/packing/weight_places.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

constexpr Status check_shapes(const Conv2dSpec& spec) noexcept {
    if (const Status status = check_extents(spec); !status) return status;
    if (const Status status = check_activation(spec.activation, spec.op); !status) return status;
    if (spec.weight_codes == nullptr) return {StatusCode::missing, spec.op, Field::weight, 0, 0};
    return {};
}

constexpr Status check_zero_point(const arith::PolicyRecord& policy, const Conv2dSpec& spec, const QParams& qparams,
                                  Field field) noexcept {
    const bool allowed = policy.zero_points && spec.input_dtype == DType::int8;
    if (qparams.is_per_channel()) return {StatusCode::unsupported, spec.op, Field::axis, qparams.axis(), -1, field};
    if (!allowed && !qparams.is_symmetric())
        return {StatusCode::value_out_of_range, spec.op, Field::zero_point, qparams.zero_point(), 0, field};
    return {};
}

constexpr std::int64_t first_zero_point(const QParams& qparams) noexcept {
    for (index_t channel = 0; channel < qparams.count(); ++channel)
        if (qparams.zero_point(channel) != 0) return qparams.zero_point(channel);
    return 0;
}

/// The operand of a fused add, by the rules of any activation.
constexpr Status check_sumin(const arith::PolicyRecord& policy, const Conv2dSpec& spec,
                             const arith::SuminOperand& operand) noexcept {
    if (!policy.fused_add) return {StatusCode::unsupported, spec.op, Field::sumin, 0, 0};
    const QParams qparams =
        QParams::per_tensor(operand.scale, operand.zero_point, operand.quant_min, operand.quant_max);
    const Status status = check_qparams(qparams, spec.input_dtype, spec.out_channels, spec.op);
    return status.ok() ? check_zero_point(policy, spec, qparams, Field::sumin) : status.of(Field::sumin);
}

/// Given codes are never rounded, but they must be of the bias type. 64-bit sums keep room for the products.
constexpr Status check_bias_code(std::int64_t code, int accumulator_bits, OpKind op, index_t channel) noexcept {
    const std::int64_t limit = std::int64_t{1} << (accumulator_bits == 64 ? 62 : 31);
    if (code >= -limit && code < limit) return {};
    return {StatusCode::bias_out_of_range, op, Field::bias, channel, accumulator_bits == 64 ? 62 : 31};
}

/// Multipliers, shifts and bounds from outside; the values of the multipliers are checked channel by channel.
constexpr Status check_given(const arith::PolicyRecord& policy, const Conv2dSpec& spec) noexcept {
    const bool keeps_accumulator = spec.output_dtype == DType::int32;
    if (const GivenRequantize* const given = spec.requantize) {
        if (keeps_accumulator || !arith::takes_multipliers(policy.rule_of(spec.op)))
            return {StatusCode::unsupported, spec.op, Field::multiplier, 0, 0};
        if (given->multipliers == nullptr) return {StatusCode::missing, spec.op, Field::multiplier, 0, 0};
        if (given->shifts == nullptr) return {StatusCode::missing, spec.op, Field::shift, 0, 0};
        if (given->count != 1 && given->count != spec.out_channels)
            return {StatusCode::shape_mismatch, spec.op, Field::multiplier, given->count, spec.out_channels};
        // A real bias has no code without scales.
        if (spec.bias != nullptr) return {StatusCode::unsupported, spec.op, Field::bias, 0, 0};
    }
    if (spec.bounds == nullptr) return {};
    if (keeps_accumulator || spec.activation != Activation::none)
        return {StatusCode::unsupported, spec.op, Field::activation, 0, 0};
    arith::OutputCodes codes{};
    codes.lowest = spec.bounds->lowest;
    codes.highest = spec.bounds->highest;
    codes.zero_point = spec.output.zero_point();
    return arith::check_output_codes(policy, codes, spec.output_dtype, spec.op);
}

/// Whether the target accepts operator, types and window.
constexpr Status check_use(const arith::PolicyRecord& policy, const Conv2dSpec& spec) noexcept {
    return arith::check_constraints(policy.constraints, {spec.op, spec.input_dtype, spec.weight_dtype,
                                                         spec.output_dtype, spec.window, spec.in_channels});
}

constexpr Status check_spec(const arith::PolicyRecord& policy, const Conv2dSpec& spec) noexcept {
    if (const Status status = check_shapes(spec); !status) return status;
    if (const Status status = check_given(policy, spec); !status) return status;
    if (const Status status = check_use(policy, spec); !status) return status;
    if (const Status status = check_qparams(spec.input, spec.input_dtype, spec.in_channels, spec.op); !status)
        return status.of(Field::input);
    if (const Status status = check_qparams(spec.weight, spec.weight_dtype, spec.out_channels, spec.op); !status)
        return status.of(Field::weight);
    if (!spec.weight.is_symmetric() || spec.weight.axis() > 0)
        return {StatusCode::unsupported,
                spec.op,
                spec.weight.axis() > 0 ? Field::axis : Field::zero_point,
                spec.weight.axis() > 0 ? spec.weight.axis() : first_zero_point(spec.weight),
                0,
                Field::weight};
    if (const Status status = check_zero_point(policy, spec, spec.input, Field::input); !status) return status;
    if (spec.wide_sum && !may_widen(policy, spec))
        return {StatusCode::unsupported, spec.op, Field::input, static_cast<std::int64_t>(spec.input_dtype), 0};
    if (spec.sumin != nullptr)
        if (const Status status = check_sumin(policy, spec, *spec.sumin); !status) return status;
    if (spec.output_dtype == DType::int32) {
        if (spec.activation == Activation::relu6) return {StatusCode::unsupported, spec.op, Field::activation, 2, 1};
        // Outside the accumulator of a float_scale policy there is no place for the operand of an add.
        if (spec.sumin != nullptr && !policy.adds_in_accumulator())
            return {StatusCode::unsupported, spec.op, Field::sumin, 0, 0};
        return {};
    }
    if (const Status status = check_qparams(spec.output, spec.output_dtype, spec.out_channels, spec.op); !status)
        return status.of(Field::output);
    return check_zero_point(policy, spec, spec.output, Field::output);
}

inline Status check_storage(const Workspace& storage, index_t bytes, OpKind op) noexcept {
    if (storage.size < bytes) return {StatusCode::buffer_too_small, op, Field::storage, storage.size, bytes};
    if (storage.data == nullptr) return {StatusCode::missing, op, Field::storage, 0, bytes};
    if (const index_t beyond = misalignment(storage.data); beyond != 0)
        return {StatusCode::misaligned, op, Field::storage, beyond, buffer_alignment};
    return {};
}

inline std::int64_t weight_code(const Conv2dSpec& spec, index_t index) noexcept {
    return spec.weight_dtype == DType::int16 ? static_cast<const std::int16_t*>(spec.weight_codes)[index]
                                             : static_cast<const std::int8_t*>(spec.weight_codes)[index];
}

template <class Stored> Stored stored_weight_at(const Conv2dSpec& spec, index_t index) noexcept {
    if constexpr (std::is_same_v<Stored, float>)
        return static_cast<const float*>(spec.weight_codes)[index];
    else
        return static_cast<Stored>(weight_code(spec, index));
}

/// The part of one output channel in the packed layer.
struct PackedChannel {
    std::int64_t bias = 0;
    arith::ChannelWords words{};
    arith::Sumin sumin{};
};

constexpr Status with_channel(Status status, OpKind op, index_t channel) noexcept {
    status = status.in(op);
    // The amount by which a value is out of range says more than its channel.
    if (status.code != StatusCode::accumulator_overflow && status.code != StatusCode::value_out_of_range)
        status.given = channel;
    if (status.field == Field::scale_ratio && status.code == StatusCode::scale_out_of_range) status.expected = 0;
    return status;
}

/// Step 2: the bias of a channel, in codes.
inline Result<std::int64_t> bias_of(const arith::PolicyRecord& policy, const Conv2dSpec& spec, int accumulator_bits,
                                    index_t channel) noexcept {
    if (spec.bias_codes_int32 != nullptr) return std::int64_t{spec.bias_codes_int32[channel]};
    if (spec.bias_codes != nullptr) {
        const std::int64_t code = spec.bias_codes[channel];
        if (const Status status = check_bias_code(code, accumulator_bits, spec.op, channel); !status) return status;
        return code;
    }
    if (spec.bias == nullptr) return std::int64_t{0};
    const Result<std::int64_t> code =
        arith::quantize_bias(policy.for_weights(spec.weight_dtype), static_cast<double>(spec.bias[channel]),
                             spec.input.scale(), spec.weight.scale(channel));
    return code ? code : with_channel(code.status(), spec.op, channel);
}

/// Step 5: the words that requantize the sums of a channel, from scales or as given.
inline Result<arith::ChannelWords> words_of_channel(const arith::PolicyRecord& policy, const Conv2dSpec& spec,
                                                    int accumulator_bits, index_t channel,
                                                    arith::SumRange range) noexcept {
    if (const GivenRequantize* const given = spec.requantize) {
        const index_t at = given->count == 1 ? 0 : channel;
        return arith::given_multiplier_words(policy, {given->multipliers[at], given->shifts[at]}, accumulator_bits,
                                             range);
    }
    const arith::RequantizeScales scales{spec.input.scale(), spec.weight.scale(channel), spec.output.scale()};
    if (policy.rule_of(spec.op) == arith::RequantizeRule::binary64) return arith::binary64_words(scales);
    return arith::make_requantize_words(policy, arith::RequantizeSource::gemm_accumulator, scales, accumulator_bits,
                                        spec.output_dtype, range);
}

/// Steps 1 to 5 of docs/arithmetic.md section 3 for one output channel, with the proof of step 4.
inline Result<PackedChannel> make_channel(const PackingRules& rules, const Conv2dSpec& spec, const PackedConv2d& packed,
                                          index_t channel) noexcept {
    const arith::PolicyRecord& policy = *rules.policy;
    const float s_in = spec.input.scale(), s_w = spec.weight.scale(channel);
    PackedChannel result;
    const Result<std::int64_t> bias = bias_of(policy, spec, packed.accumulator_bits, channel);
    if (!bias) return bias.status();
    result.bias = *bias;
    const bool keeps_accumulator = spec.output_dtype == DType::int32;
    const float s_out = keeps_accumulator ? 1.0f : spec.output.scale();
    if (spec.sumin != nullptr) {
        const auto sumin = arith::make_sumin(policy, *spec.sumin, s_in, s_w, s_out, packed.accumulator_bits);
        if (!sumin) return with_channel(sumin.status(), spec.op, channel);
        result.sumin = *sumin;
    }
    arith::AccumulatorBound bound;
    const index_t per_channel = packed.group_inputs() * packed.taps();
    for (index_t i = 0; i < per_channel; ++i) bound.add_weight(weight_code(spec, channel * per_channel + i));
    const std::int64_t zero_point = spec.input.zero_point();
    const arith::SumRange x{spec.input.quant_min() - zero_point, spec.input.quant_max() - zero_point};
    const arith::SumRange range = bound.range(x, result.bias, result.sumin.range);
    const int bits = keeps_accumulator ? 32 : packed.accumulator_bits;
    if (!range.fits(bits))
        return Status{StatusCode::accumulator_overflow, spec.op, Field::weight, range.largest_magnitude(),
                      bits == 32 ? std::int64_t{INT32_MAX} : INT64_MAX};
    if (!keeps_accumulator) {
        const auto words = words_of_channel(policy, spec, packed.accumulator_bits, channel, range);
        if (!words) return with_channel(words.status(), spec.op, channel);
        result.words = *words;
    }
    result.bias -= tile_offset(packed, spec.input.zero_point()) * bound.weight_sum();
    return result;
}

template <class Stored> void write_weights(const Conv2dSpec& spec, const PackedConv2d& packed, std::byte* to) noexcept {
    auto* const weights = reinterpret_cast<Stored*>(to);
    const index_t inputs = packed.group_inputs(), taps = packed.taps(), planes = packed.planes();
    for (index_t channel = 0; channel < packed.out_channels; ++channel) {
        const WeightPlaces places(packed, channel);
        for (index_t k = 0; k < inputs; ++k)
            for (index_t tap = 0; tap < taps; ++tap) {
                const index_t given = (channel * inputs + k) * taps + tap;
                Stored* const at = weights + places.at(k, tap);
                if (planes == 1) {
                    *at = stored_weight_at<Stored>(spec, given);
                } else {
                    const std::int64_t code = weight_code(spec, given);
                    at[0] = static_cast<Stored>(low_plane(code));
                    at[places.plane()] = static_cast<Stored>(high_plane(code));
                }
            }
    }
}

/// tap_bias[tap][channel] = offset · sum_k w[channel][k][tap], modulo 2^32 as all sums.
inline void write_tap_bias(const Conv2dSpec& spec, const PackedConv2d& packed, std::int64_t offset,
                           std::int32_t* to) noexcept {
    const index_t inputs = packed.group_inputs(), taps = packed.taps();
    for (index_t channel = 0; channel < packed.out_channels; ++channel)
        for (index_t tap = 0; tap < taps; ++tap) {
            std::int64_t sum = 0;
            for (index_t k = 0; k < inputs; ++k) sum += weight_code(spec, (channel * inputs + k) * taps + tap);
            to[tap * packed.padded_outputs() + padded_index(packed, channel)] =
                static_cast<std::int32_t>(static_cast<std::uint32_t>(offset * sum));
        }
}

inline void write_padding_row(const Conv2dSpec& spec, const PackedConv2d& packed, std::byte* to) noexcept {
    for (index_t i = 0; i < padding_row_size(packed); ++i) {
        if (packed.input_dtype == DType::int16) {
            reinterpret_cast<std::int16_t*>(to)[i] = static_cast<std::int16_t>(spec.input.zero_point());
        } else {
            reinterpret_cast<std::int8_t*>(to)[i] = static_cast<std::int8_t>(spec.input.zero_point());
        }
    }
}

inline void write_channel(const PackedChannel& channel, const PackedConv2d& packed, const PackedParts& parts, int words,
                          int sumin_words, index_t at) noexcept {
    if (packed.accumulator_bits == 64) {
        reinterpret_cast<std::int64_t*>(parts.bias)[at] = channel.bias;
    } else {
        reinterpret_cast<std::int32_t*>(parts.bias)[at] =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(channel.bias));
    }
    const index_t stride = packed.padded_outputs();
    for (int word = 0; word < words; ++word)
        parts.words[word * stride + at] = channel.words[static_cast<std::size_t>(word)];
    if (packed.has_sumin)
        for (int word = 0; word < sumin_words; ++word)
            parts.sumin_words[word * stride + at] = channel.sumin.words[static_cast<std::size_t>(word)];
}

/// Bytes of a described layer.
inline index_t packed_bytes(const PackedConv2d& packed, std::int64_t zero_point) noexcept {
    BufferCursor cursor;
    place(packed, arith::words_of(packed.requantize), arith::sumin_words_of(packed.requantize),
          tile_offset(packed, zero_point), cursor);
    return cursor.used();
}

/// Writes a described layer into storage of packed_bytes(); all but its codes is then complete.
///
/// @param spec        its weights and the zero point of its input are read
/// @param channel_of  gives the PackedChannel of an output channel
template <class ChannelOf>
void write_packed(const Conv2dSpec& spec, PackedConv2d& packed, Workspace storage,
                  const ChannelOf& channel_of) noexcept {
    const std::int32_t zero_point = spec.input.zero_point();
    const int words = arith::words_of(packed.requantize), sumin_words = arith::sumin_words_of(packed.requantize);
    std::memset(storage.data, 0, static_cast<std::size_t>(packed_bytes(packed, zero_point)));
    BufferCursor cursor(storage.data, storage.size);
    const std::int64_t offset = tile_offset(packed, zero_point);
    const PackedParts parts = place(packed, words, sumin_words, offset, cursor);
    for (index_t channel = 0; channel < spec.out_channels; ++channel)
        write_channel(channel_of(channel), packed, parts, words, sumin_words, padded_index(packed, channel));
    if (stored_weight(packed) == DType::int16)
        write_weights<std::int16_t>(spec, packed, parts.weights);
    else
        write_weights<std::int8_t>(spec, packed, parts.weights);
    if (needs_tap_bias(packed, offset)) {
        write_tap_bias(spec, packed, offset, parts.tap_bias);
        packed.tap_bias = parts.tap_bias;
    }
    if (padding_row_size(packed) > 0) {
        write_padding_row(spec, packed, parts.padding_row);
        packed.padding_row = parts.padding_row;
    }
    packed.weights = parts.weights;
    packed.bias = parts.bias;
    packed.words = parts.words;
    packed.sumin_words = parts.sumin_words;
    packed.scaled_is_small = is_scaled_small(packed);
    packed.input_zero_point = zero_point;
}

}  // namespace detail

/// Bytes of storage that pack_conv2d needs, at buffer_alignment; 0 for an operator, types, a window or channels that it
/// refuses. Scales, zero points and weights are not checked here.
inline index_t packed_conv2d_size(const PackingRules& rules, const Conv2dSpec& spec) noexcept {
    if (!detail::check_extents(spec).ok() || !detail::check_use(*rules.policy, spec).ok() || spec.input.count() < 1)
        return 0;
    return detail::packed_bytes(detail::describe_packed(rules, spec), spec.input.zero_point());
}

/// Whether a layer needs sums of 64 bits: where the target widens int16 layers, and the proven worst case of a channel
/// leaves 32.
///
/// Cost     O(weights)
inline bool needs_wide_sum(const PackingRules& rules, const Conv2dSpec& spec) noexcept {
    if (spec.wide_sum || !detail::may_widen(*rules.policy, spec) || !detail::check_spec(*rules.policy, spec).ok())
        return false;
    const PackedConv2d packed = detail::describe_packed(rules, spec);
    for (index_t channel = 0; channel < spec.out_channels; ++channel)
        if (detail::make_channel(rules, spec, packed, channel).status().code == StatusCode::accumulator_overflow)
            return true;
    return false;
}

/// Checks everything about a convolution, proves its accumulator, and packs it.
///
///     acc[o] = sum_k x[k]·w[o][k] + bias[o] (+ sumin[o]);  packed bias[o] = B[o] - (zp + offset)·sum_k w[o][k]
///
/// @param storage  packed_conv2d_size() bytes at buffer_alignment; must outlive the result
/// @return ok; shape, dtype, scale and zero point errors naming the field; unsupported where the constraint
///         table has no row; bias_out_of_range, scale_out_of_range with the channel; accumulator_overflow with
///         the proven worst case. Nothing is written unless all checks of the specification passed.
///
/// Memory   only the storage
/// Cost     O(weights)
inline Result<PackedConv2d> pack_conv2d(const PackingRules& rules, const Conv2dSpec& spec, Workspace storage) noexcept {
    if (const Status status = detail::check_spec(*rules.policy, spec); !status) return status;
    PackedConv2d packed = detail::describe_packed(rules, spec);
    const index_t bytes = packed_conv2d_size(rules, spec);
    if (const Status status = detail::check_storage(storage, bytes, spec.op); !status) return status;
    for (index_t channel = 0; channel < spec.out_channels; ++channel)
        if (const auto checked = detail::make_channel(rules, spec, packed, channel); !checked) return checked.status();

    detail::write_packed(spec, packed, storage,
                         [&](index_t channel) { return detail::make_channel(rules, spec, packed, channel).value(); });
    if (spec.output_dtype == DType::int32) {
        packed.codes.lowest = spec.activation == Activation::none ? INT32_MIN : 0;
        packed.codes.highest = INT32_MAX;
    } else {
        packed.codes = arith::make_output_codes(spec.output.quant_min(), spec.output.quant_max(),
                                                spec.output.zero_point(), spec.output.scale(), spec.activation);
        if (spec.bounds != nullptr) {
            packed.codes.lowest = spec.bounds->lowest;
            packed.codes.highest = spec.bounds->highest;
        }
    }
    if (spec.sumin != nullptr) packed.codes.sumin_zero_point = spec.sumin->zero_point;
    return packed;
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_PACK_HPP
