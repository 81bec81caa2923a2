// SPDX-License-Identifier: MIT
//
// kept_channels: which channels of a program its outputs need. Layer: program (docs/constant_channels.md).
#ifndef INTQ_PROGRAM_INTERNAL_KEPT_CHANNELS_HPP
#define INTQ_PROGRAM_INTERNAL_KEPT_CHANNELS_HPP

#include <cstdint>
#include <vector>

#include "intq/kernels/operators/operator.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/program/internal/code_intervals.hpp"
#include "intq/runtime/program.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// How an instruction passes channels on: its operator's ChannelsFollow where types and extents allow it, none
/// elsewhere. A depthwise layer does as each.
kernels::ChannelsFollow channels_follow(const runtime::Program& program, const runtime::Instruction& instruction);

/// The input channels that a layer need not read although it has weights for them: each has one code, and what the code
/// contributes goes into the bias. That is exact where the window has no padding, or the code is the zero point, which
/// padding has too; and where each bias stays in the bits of the layer's sums.
///
/// @pre  channels_follow() is weighted
std::vector<bool> foldable_inputs(const kernels::PackedConv2d& packed, const ChannelIntervals& inputs);

/// For each tensor and channel, whether it stays: the smallest set that has
///
///     the inputs and outputs of the program, tensors with stated bounds, which a run compares with all their codes,
///     and tensors that are not passed on by channels of a layer, each input channel that a kept output channel has a
///     weight for that is not 0, unless it is foldable of any other operator, and of a layer's fused add, the channel
///     that is one with a kept one a channel of each tensor
///
/// Tensors without codes have none.
using KeptChannels = std::vector<std::vector<bool>>;
KeptChannels kept_channels(const runtime::Program& program, const std::vector<ChannelIntervals>& intervals);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>
#    include <cstddef>
#    include <numeric>
#    include <span>

#    include "intq/kernels/operators/conv.hpp"
#    include "intq/kernels/operators/operator_table.hpp"
#    include "intq/kernels/packing/read_packed.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Accumulators have no channels here: they stay, with their scales.
INTQ_INLINE kernels::ChannelsFollow of_layer(const kernels::PackedConv2d& packed, const runtime::ProgramTensor& x,
                                             const runtime::ProgramTensor& y) {
    using enum kernels::ChannelsFollow;
    if (!has_codes(y) && (packed.has_sumin || packed.is_depthwise)) return none;
    if (packed.is_depthwise) return each;
    const bool has_channels =
        channels_of(x) == packed.in_channels && (!has_codes(y) || channels_of(y) == packed.out_channels);
    return packed.groups == 1 && has_channels ? weighted : none;
}

/// Of an operator whose operands are images, or vectors, like its output.
INTQ_INLINE kernels::ChannelsFollow of_images(const runtime::Program& program, const runtime::Instruction& instruction,
                                              bool may_join) {
    const runtime::ProgramTensor& y = program.tensor(instruction.output);
    index_t joined = 0;
    bool is_each = true;
    for (const std::int32_t operand : program.operands_of(instruction)) {
        const runtime::ProgramTensor& x = program.tensor(operand);
        if (x.shape.rank != y.shape.rank || x.layout != Layout::channels_last || y.layout != Layout::channels_last ||
            x.shape.rank < 2 || x.shape.rank > 4)
            return kernels::ChannelsFollow::none;
        is_each = is_each && channels_of(x) == channels_of(y);
        joined += channels_of(x);
    }
    if (is_each) return kernels::ChannelsFollow::each;
    return may_join && joined == channels_of(y) ? kernels::ChannelsFollow::joined : kernels::ChannelsFollow::none;
}

}  // namespace detail

INTQ_INLINE kernels::ChannelsFollow channels_follow(const runtime::Program& program,
                                                    const runtime::Instruction& instruction) {
    using enum kernels::ChannelsFollow;
    const auto operands = program.operands_of(instruction);
    const runtime::ProgramTensor& y = program.tensor(instruction.output);
    const bool reads_codes =
        !operands.empty() && std::all_of(operands.begin(), operands.end(), [&](std::int32_t operand) {
            return detail::has_codes(program.tensor(operand));
        });
    if (!reads_codes) return none;
    const runtime::ProgramTensor& x = program.tensor(operands[0]);
    const kernels::ChannelsFollow follow = kernels::find_operator(instruction.op)->channels;
    if (follow == weighted) return detail::of_layer(instruction.params_as<kernels::ConvParams>().packed, x, y);
    if (!detail::has_codes(y) || y.qparams.is_per_channel()) return none;
    switch (follow) {
        case each:
        case joined:
            return detail::of_images(program, instruction, follow == joined);
        case flattened:
            return x.layout == y.layout && x.shape.rank <= 4 ? flattened : none;
        case copied:
            return x.layout == Layout::channels_last && channels_of(y) % channels_of(x) == 0 &&
                           kernels::is_copy(instruction.params_as<kernels::MoveParams>()) &&
                           x.elements_per_image() == y.elements_per_image()
                       ? copied
                       : none;
        case none:
        case weighted:
            break;
    }
    return none;
}

INTQ_INLINE std::vector<bool> foldable_inputs(const kernels::PackedConv2d& packed, const ChannelIntervals& inputs) {
    const bool pads = kernels::reaches_padding(packed);
    std::vector<std::int64_t> biases, changed;
    const auto fits = [&](std::int64_t bias) {
        return packed.accumulator_bits == 64 || (bias >= INT32_MIN && bias <= INT32_MAX);
    };
    std::vector<bool> foldable(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::int64_t value = std::int64_t{inputs[i].lowest} - packed.input_zero_point;
        if (!inputs[i].is_constant() || (pads && value != 0)) continue;
        for (auto o = static_cast<index_t>(biases.size()); o < packed.out_channels; ++o)
            biases.push_back(kernels::bias_of(packed, o));
        changed = biases;
        for (index_t o = 0; o < packed.out_channels; ++o)
            changed[static_cast<std::size_t>(o)] += value * kernels::tap_sum(packed, o, static_cast<index_t>(i));
        foldable[i] = std::all_of(changed.begin(), changed.end(), fits);
        if (foldable[i]) biases = changed;
    }
    return foldable;
}

namespace detail {

/// Channels of all tensors as one list of places, those that stay or go together joined, and the layers between them.
class ChannelNeeds {
public:
    ChannelNeeds(const runtime::Program& program, const std::vector<ChannelIntervals>& intervals)
        : program_(program), intervals_(intervals) {
        for (const ChannelIntervals& of_tensor : intervals) {
            first_.push_back(together_.size());
            together_.resize(together_.size() + of_tensor.size());
        }
        std::iota(together_.begin(), together_.end(), std::size_t{0});
        kept_.resize(together_.size());
        reads_.resize(together_.size());
    }

    KeptChannels find() {
        for (const runtime::Instruction& instruction : program_.instructions) join(instruction);
        for (const runtime::Instruction& instruction : program_.instructions) connect(instruction);
        whole_.insert(whole_.end(), program_.inputs.begin(), program_.inputs.end());
        whole_.insert(whole_.end(), program_.outputs.begin(), program_.outputs.end());
        for (std::size_t t = 0; t < intervals_.size(); ++t)
            if (program_.tensors[t].has_stated_bounds) whole_.push_back(static_cast<std::int32_t>(t));
        for (const std::int32_t tensor : whole_)
            for (std::size_t c = 0; c < channels(tensor); ++c) keep(place(tensor, c));
        for (const std::size_t at : needed_) keep(at);
        for (std::size_t t = 0; t < intervals_.size(); ++t) keep_one(static_cast<std::int32_t>(t));
        KeptChannels result;
        for (std::size_t t = 0; t < intervals_.size(); ++t) {
            std::vector<bool>& of_tensor = result.emplace_back();
            for (std::size_t c = 0; c < intervals_[t].size(); ++c) of_tensor.push_back(kept_[root(first_[t] + c)]);
        }
        return result;
    }

private:
    std::size_t place(std::int32_t tensor, std::size_t channel) const {
        return first_[static_cast<std::size_t>(tensor)] + channel;
    }
    std::size_t channels(std::int32_t tensor) const { return intervals_[static_cast<std::size_t>(tensor)].size(); }
    std::size_t root(std::size_t at) {
        while (together_[at] != at) at = together_[at] = together_[together_[at]];
        return at;
    }
    void unite(std::size_t a, std::size_t b) { together_[root(a)] = root(b); }

    void join(const runtime::Instruction& instruction) {
        using enum kernels::ChannelsFollow;
        const auto operands = program_.operands_of(instruction);
        const std::int32_t y = instruction.output;
        const kernels::ChannelsFollow follow = channels_follow(program_, instruction);
        if (follow == none) return;
        std::size_t before = 0;
        for (std::size_t k = 0; k < operands.size(); ++k) {
            if (follow == weighted && k == 0) continue;
            const std::size_t count = channels(operands[k]);
            for (std::size_t c = 0; c < channels(y); ++c) {
                if (follow == joined) {
                    if (c < count) unite(place(y, before + c), place(operands[k], c));
                } else {
                    const std::size_t of_operand = follow == flattened ? c / (channels(y) / count)
                                                   : follow == copied  ? c % count
                                                                       : c;
                    unite(place(y, c), place(operands[k], of_operand));
                }
            }
            before += count;
        }
    }

    /// After all were joined.
    void connect(const runtime::Instruction& instruction) {
        using enum kernels::ChannelsFollow;
        const kernels::ChannelsFollow follow = channels_follow(program_, instruction);
        const auto operands = program_.operands_of(instruction);
        if (follow == none) {
            whole_.push_back(instruction.output);
            whole_.insert(whole_.end(), operands.begin(), operands.end());
        }
        if (follow != weighted) return;
        const auto& packed = instruction.params_as<kernels::ConvParams>().packed;
        const std::vector<bool> foldable = foldable_inputs(packed, intervals_[static_cast<std::size_t>(operands[0])]);
        const bool has_codes = channels(instruction.output) > 0;
        for (index_t o = 0; o < packed.out_channels; ++o) {
            std::vector<std::size_t>& reads =
                has_codes ? reads_[root(place(instruction.output, static_cast<std::size_t>(o)))] : needed_;
            for (std::size_t i = 0; i < foldable.size(); ++i)
                if (!foldable[i] && kernels::has_weight(packed, o, static_cast<index_t>(i)))
                    reads.push_back(root(place(operands[0], i)));
        }
    }

    void keep(std::size_t at) {
        std::vector<std::size_t> waiting{root(at)};
        while (!waiting.empty()) {
            const std::size_t next = waiting.back();
            waiting.pop_back();
            if (kept_[next]) continue;
            kept_[next] = true;
            waiting.insert(waiting.end(), reads_[next].begin(), reads_[next].end());
        }
    }
    void keep_one(std::int32_t tensor) {
        for (std::size_t c = 0; c < channels(tensor); ++c)
            if (kept_[root(place(tensor, c))]) return;
        if (channels(tensor) > 0) keep(place(tensor, 0));
    }

    const runtime::Program& program_;
    const std::vector<ChannelIntervals>& intervals_;
    std::vector<std::size_t> first_;               // place of each tensor's first channel
    std::vector<std::size_t> together_;            // a place that goes where this one goes
    std::vector<bool> kept_;                       // by root
    std::vector<std::vector<std::size_t>> reads_;  // by root of a layer's output: the roots that it reads
    std::vector<std::size_t> needed_;              // roots that layers of accumulators read
    std::vector<std::int32_t> whole_;              // tensors that stay whole
};

}  // namespace detail

INTQ_INLINE KeptChannels kept_channels(const runtime::Program& program,
                                       const std::vector<ChannelIntervals>& intervals) {
    return detail::ChannelNeeds(program, intervals).find();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_INTERNAL_KEPT_CHANNELS_HPP
