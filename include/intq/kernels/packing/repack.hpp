// SPDX-License-Identifier: MIT
//
// Packing a packed layer again, for another backend: its weights are read back from the one order and written in the
// other; bias and requantize words are the same integers. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_REPACK_HPP
#define INTQ_KERNELS_PACKING_REPACK_HPP

#include "intq/arith/requantize.hpp"
#include "intq/kernels/packing/describe_packed.hpp"
#include "intq/kernels/packing/pack.hpp"
#include "intq/kernels/packing/packing_rules.hpp"
#include "intq/kernels/packing/weight_places.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// The empty packed layer of a packed layer for other rules.
inline PackedConv2d describe_repacked(const PackingRules& to, const PackedConv2d& packed) noexcept {
    PackedConv2d described = describe_packed(to, spec_of(*to.policy, packed));
    described.has_sumin = packed.has_sumin;
    described.codes = packed.codes;
    return described;
}

template <class Stored, class Code> void read_weights(const PackedConv2d& packed, Code* to) noexcept {
    const auto* const weights = static_cast<const Stored*>(packed.weights);
    const index_t inputs = packed.group_inputs(), taps = packed.taps(), planes = packed.planes();
    for (index_t channel = 0; channel < packed.out_channels; ++channel) {
        const WeightPlaces places(packed, channel);
        for (index_t k = 0; k < inputs; ++k)
            for (index_t tap = 0; tap < taps; ++tap) {
                const Stored* const at = weights + places.at(k, tap);
                const int code = planes == 1 ? int{*at} : 256 * int{at[places.plane()]} + int{*at};
                to[(channel * inputs + k) * taps + tap] = static_cast<Code>(code);
            }
    }
}

/// Bias and words of a packed channel. Its bias is without the part of the zero point and the tile's offset.
///
/// @param weight_sum  of the channel's weights
inline PackedChannel channel_at(const PackedConv2d& packed, index_t channel, std::int64_t weight_sum) noexcept {
    const index_t at = padded_index(packed, channel), stride = packed.padded_outputs();
    PackedChannel result;
    result.bias = bias_at(packed, at);
    result.bias += tile_offset(packed, packed.input_zero_point) * weight_sum;
    result.words = words_at(packed.words, arith::words_of(packed.requantize), stride, at);
    const int sumin_words = packed.has_sumin ? arith::sumin_words_of(packed.requantize) : 0;
    for (int word = 0; word < sumin_words; ++word)
        result.sumin.words[static_cast<std::size_t>(word)] = packed.sumin_words[word * stride + at];
    return result;
}

}  // namespace detail

/// The codes of a packed layer's weights, in the order of Conv2dSpec::weight_codes.
///
/// @param packed  of int8 or int16 activations
/// @param codes   out_channels · group_inputs() · taps() of packed.weight_dtype
inline void unpack_weights(const PackedConv2d& packed, void* codes) noexcept {
    if (packed.weight_dtype == DType::int16)
        detail::read_weights<std::int16_t>(packed, static_cast<std::int16_t*>(codes));
    else if (detail::stored_weight(packed) == DType::int16)
        detail::read_weights<std::int16_t>(packed, static_cast<std::int8_t*>(codes));
    else
        detail::read_weights<std::int8_t>(packed, static_cast<std::int8_t*>(codes));
}

/// Bytes of storage that repack_conv2d() needs, at buffer_alignment.
inline index_t repacked_conv2d_size(const PackingRules& to, const PackedConv2d& packed) noexcept {
    return detail::packed_bytes(detail::describe_repacked(to, packed), packed.input_zero_point);
}

/// Packs a packed layer for another backend. Both compute the same codes, and the result is the one that pack_conv2d()
/// makes of the layer.
///
/// @param to            rules of the target that the layer was packed for
/// @param packed        that a check of a program accepts
/// @param weight_codes  of unpack_weights()
/// @param storage       repacked_conv2d_size() bytes at buffer_alignment; must outlive the result
/// @return ok; buffer_too_small, missing, misaligned of storage
///
/// Memory   only the storage
/// Cost     O(weights)
inline Result<PackedConv2d> repack_conv2d(const PackingRules& to, const PackedConv2d& packed, const void* weight_codes,
                                          Workspace storage) noexcept {
    PackedConv2d repacked = detail::describe_repacked(to, packed);
    const index_t bytes = repacked_conv2d_size(to, packed);
    if (const Status status = detail::check_storage(storage, bytes, packed.op); !status) return status;
    Conv2dSpec spec = detail::spec_of(*to.policy, packed);
    spec.weight_codes = weight_codes;
    spec.input = QParams::per_tensor(1.0f, packed.input_zero_point, lowest_code(packed.input_dtype),
                                     highest_code(packed.input_dtype));
    const index_t per_channel = packed.group_inputs() * packed.taps();
    detail::write_packed(spec, repacked, storage, [&](index_t channel) {
        std::int64_t weight_sum = 0;
        for (index_t i = 0; i < per_channel; ++i) weight_sum += detail::weight_code(spec, channel * per_channel + i);
        detail::PackedChannel made = detail::channel_at(packed, channel, weight_sum);
        made.bias -= detail::tile_offset(repacked, packed.input_zero_point) * weight_sum;
        return made;
    });
    return repacked;
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_REPACK_HPP
