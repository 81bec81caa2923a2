// SPDX-License-Identifier: MIT
//
// Packing a packed layer again, for another backend, or without some of its channels: its weights are read back from
// the one order and written in the other; requantize words are the same integers. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_REPACK_HPP
#define INTQ_KERNELS_PACKING_REPACK_HPP

#include <span>

#include "intq/arith/requantize.hpp"
#include "intq/kernels/packing/describe_packed.hpp"
#include "intq/kernels/packing/pack.hpp"
#include "intq/kernels/packing/packing_rules.hpp"
#include "intq/kernels/packing/read_packed.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The channels that a layer keeps. A depthwise layer, whose channels are input and output at once, is given its
/// outputs alone.
struct LayerPart {
    std::span<const index_t> outputs{};  // ascending
    std::span<const index_t> inputs{};   // ascending; of a layer of one group
    /// Added to the bias of each kept output: what the other inputs contribute to its sum, whose codes never change.
    std::span<const std::int64_t> contributions{};
    bool input_is_nonnegative = false;  // see Conv2dSpec
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// The empty packed layer of a layer with the parts of a packed one that do not depend on weights.
inline PackedConv2d describe_repacked(const PackingRules& to, const PackedConv2d& packed,
                                      const Conv2dSpec& spec) noexcept {
    PackedConv2d described = describe_packed(to, spec);
    described.has_sumin = packed.has_sumin;
    described.codes = packed.codes;
    return described;
}

/// The specification of a packed layer, or of a part of it, for weights of its own.
inline Conv2dSpec repacked_spec(const PackingRules& to, const PackedConv2d& packed,
                                bool input_is_nonnegative) noexcept {
    Conv2dSpec spec = spec_of(*to.policy, packed);
    spec.input_is_nonnegative = input_is_nonnegative;
    return spec;
}
inline Conv2dSpec repacked_spec(const PackingRules& to, const PackedConv2d& packed, const LayerPart& part) noexcept {
    Conv2dSpec spec = repacked_spec(to, packed, part.input_is_nonnegative);
    const auto outputs = static_cast<index_t>(part.outputs.size());
    spec.out_channels = outputs;
    spec.in_channels = packed.is_depthwise ? outputs : static_cast<index_t>(part.inputs.size());
    if (packed.is_depthwise) spec.groups = outputs;
    return spec;
}

/// Writes a layer with the bias and the words of a packed one.
///
/// @param spec        with the weights to write
/// @param channel_of  the channel of `packed`, without the tile's offset, that an output is
template <class ChannelOf>
Result<PackedConv2d> write_repacked(const PackingRules& to, const PackedConv2d& packed, const Conv2dSpec& spec,
                                    Workspace storage, const ChannelOf& channel_of) noexcept {
    PackedConv2d repacked = describe_repacked(to, packed, spec);
    const index_t bytes = packed_bytes(repacked, packed.input_zero_point);
    if (const Status status = check_storage(storage, bytes, packed.op); !status) return status;
    const index_t per_channel = repacked.group_inputs() * repacked.taps();
    write_packed(spec, repacked, storage, [&](index_t channel) {
        std::int64_t weight_sum = 0;
        for (index_t i = 0; i < per_channel; ++i) weight_sum += weight_code(spec, channel * per_channel + i);
        PackedChannel made = channel_of(channel, weight_sum);
        made.bias -= tile_offset(repacked, packed.input_zero_point) * weight_sum;
        return made;
    });
    return repacked;
}

}  // namespace detail

/// Bytes of storage that repack_conv2d() needs, at buffer_alignment.
inline index_t repacked_conv2d_size(const PackingRules& to, const PackedConv2d& packed,
                                    bool input_is_nonnegative = false) noexcept {
    const Conv2dSpec spec = detail::repacked_spec(to, packed, input_is_nonnegative);
    return detail::packed_bytes(detail::describe_repacked(to, packed, spec), packed.input_zero_point);
}

/// Packs a packed layer for another backend. Both compute the same codes, and the result is the one that pack_conv2d()
/// makes of the layer.
///
/// @param to            rules of the target that the layer was packed for
/// @param packed        that a check of a program accepts
/// @param weight_codes  of unpack_weights()
/// @param storage       repacked_conv2d_size() bytes at buffer_alignment; must outlive the result
/// @param input_is_nonnegative  see Conv2dSpec
/// @return ok; buffer_too_small, missing, misaligned of storage
///
/// Memory   only the storage
/// Cost     O(weights)
inline Result<PackedConv2d> repack_conv2d(const PackingRules& to, const PackedConv2d& packed, const void* weight_codes,
                                          Workspace storage, bool input_is_nonnegative = false) noexcept {
    Conv2dSpec spec = detail::repacked_spec(to, packed, input_is_nonnegative);
    spec.weight_codes = weight_codes;
    return detail::write_repacked(to, packed, spec, storage, [&](index_t channel, std::int64_t weight_sum) {
        return detail::channel_at(packed, channel, weight_sum);
    });
}

/// Bytes of storage that repack_part() needs, at buffer_alignment.
inline index_t repacked_part_size(const PackingRules& to, const PackedConv2d& packed, const LayerPart& part) noexcept {
    const Conv2dSpec spec = detail::repacked_spec(to, packed, part);
    return detail::packed_bytes(detail::describe_repacked(to, packed, spec), packed.input_zero_point);
}

/// Packs a part of a packed layer of one group, or of a depthwise one: for each kept output
///
///     sum[o] = sum over kept inputs of w·(x - zp) + bias[o] + contributions[o]
///
/// @param weight_codes  the part's, in the order of Conv2dSpec::weight_codes
/// @param weight_sums   of all weights of each channel of `packed`
/// @param storage       repacked_part_size() bytes at buffer_alignment; must outlive the result
/// @return ok; buffer_too_small, missing, misaligned of storage
///
/// Memory   only the storage
/// Cost     O(weights)
inline Result<PackedConv2d> repack_part(const PackingRules& to, const PackedConv2d& packed, const LayerPart& part,
                                        const void* weight_codes, std::span<const std::int64_t> weight_sums,
                                        Workspace storage) noexcept {
    Conv2dSpec spec = detail::repacked_spec(to, packed, part);
    spec.weight_codes = weight_codes;
    return detail::write_repacked(to, packed, spec, storage, [&](index_t channel, std::int64_t) {
        const auto at = static_cast<std::size_t>(channel);
        const index_t whole = part.outputs[at];
        detail::PackedChannel made = detail::channel_at(packed, whole, weight_sums[static_cast<std::size_t>(whole)]);
        made.bias += part.contributions[at];
        return made;
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_REPACK_HPP
