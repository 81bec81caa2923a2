// SPDX-License-Identifier: MIT
//
// A packed layer read back: weights, biases, and the code of a sum, in whatever order it is packed. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_READ_PACKED_HPP
#define INTQ_KERNELS_PACKING_READ_PACKED_HPP

#include "intq/arith/requantize_sum.hpp"
#include "intq/kernels/packing/describe_packed.hpp"
#include "intq/kernels/packing/pack.hpp"
#include "intq/kernels/packing/weight_places.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

template <class Stored>
int stored_code(const PackedConv2d& packed, const WeightPlaces& places, index_t k, index_t tap) noexcept {
    const Stored* const at = static_cast<const Stored*>(packed.weights) + places.at(k, tap);
    return packed.planes() == 1 ? int{*at} : 256 * int{at[places.plane()]} + int{*at};
}

template <class Stored, class Code> void read_weights(const PackedConv2d& packed, Code* to) noexcept {
    const index_t inputs = packed.group_inputs(), taps = packed.taps();
    for (index_t channel = 0; channel < packed.out_channels; ++channel) {
        const WeightPlaces places(packed, channel);
        for (index_t k = 0; k < inputs; ++k)
            for (index_t tap = 0; tap < taps; ++tap)
                to[(channel * inputs + k) * taps + tap] =
                    static_cast<Code>(stored_code<Stored>(packed, places, k, tap));
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

// --- of a packed layer of int8 or int16 activations -------------------------------------------------------------------

/// The code of a weight: of output `channel`, input k of its group and a tap of the window, row by row.
inline int weight_at(const PackedConv2d& packed, index_t channel, index_t k, index_t tap) noexcept {
    const detail::WeightPlaces places(packed, channel);
    return detail::stored_weight(packed) == DType::int16 ? detail::stored_code<std::int16_t>(packed, places, k, tap)
                                                         : detail::stored_code<std::int8_t>(packed, places, k, tap);
}

/// The sum of the weights by which an output channel of a layer reads input k of its group.
inline std::int64_t tap_sum(const PackedConv2d& packed, index_t channel, index_t k) noexcept {
    std::int64_t sum = 0;
    for (index_t tap = 0; tap < packed.taps(); ++tap) sum += weight_at(packed, channel, k, tap);
    return sum;
}
/// The sum of all weights of an output channel.
inline std::int64_t weight_sum(const PackedConv2d& packed, index_t channel) noexcept {
    std::int64_t sum = 0;
    for (index_t k = 0; k < packed.group_inputs(); ++k) sum += tap_sum(packed, channel, k);
    return sum;
}
/// Whether one of those weights of input k is not 0.
inline bool has_weight(const PackedConv2d& packed, index_t channel, index_t k) noexcept {
    for (index_t tap = 0; tap < packed.taps(); ++tap)
        if (weight_at(packed, channel, k, tap) != 0) return true;
    return false;
}

/// Whether windows reach beyond the image, where they read the zero point.
constexpr bool reaches_padding(const PackedConv2d& packed) noexcept { return detail::pads(packed.window); }

/// The bias of an output channel in the codes of its sum, without what packing put into it.
inline std::int64_t bias_of(const PackedConv2d& packed, index_t channel) noexcept {
    return detail::channel_at(packed, channel, weight_sum(packed, channel)).bias;
}

/// The code that the layer writes for a sum of an output channel, which has the bias.
///
/// @param sumin  the code of the fused add's operand; not read without one
/// @pre   the sum fits the layer's accumulator
inline std::int32_t code_of_sum(const PackedConv2d& packed, index_t channel, std::int64_t sum,
                                std::int32_t sumin) noexcept {
    const detail::PackedChannel made = detail::channel_at(packed, channel, 0);
    return arith::requantized_code(
        {packed.requantize, packed.accumulator_bits, sum, made.words, packed.has_sumin, sumin, made.sumin.words},
        packed.codes);
}

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

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_READ_PACKED_HPP
