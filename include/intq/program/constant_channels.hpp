// SPDX-License-Identifier: MIT
//
// drop_constant_channels: a program without the channels whose code never changes, and without those that nobody reads.
// Layer: program (docs/constant_channels.md).
#ifndef INTQ_PROGRAM_CONSTANT_CHANNELS_HPP
#define INTQ_PROGRAM_CONSTANT_CHANNELS_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "intq/kernels/table/rows.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/runtime/program.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// What happens to channels that no output depends on.
enum class ConstantChannels : std::uint8_t {
    drop,  // a run does not compute them
    keep   // for whoever looks at the values of every layer
};

struct DroppedProgram {
    std::shared_ptr<OwnedProgram> program;
    /// For each tensor of the whole program, the one that holds its values: itself, or the operand of an operator that
    /// would have copied it.
    std::vector<std::int32_t> tensors;
    std::vector<std::string> copies;  // names of those operators, which the program no longer has
};

/// Drops channels and operators that no output needs:
///
///     a channel whose codes are one (code_intervals()), where each reader can do without it: a layer has
///     w·(code - zp) in its bias; and the channels that then have no reader (kept_channels())
///     an operator that makes of each code that it may read the code itself, on the same grid
///
/// @param program  of ProgramBuilder, or read from a file; nothing of it is referred to afterwards
///
/// Result   the outputs are the same bytes for every input, and a run ends early for the same codes outside stated
///          bounds. The same program where there is nothing to drop
/// Rows     none, where something was dropped: copy_program() plans them anew
/// Cost     code_intervals(), and O(weights)
DroppedProgram drop_constant_channels(const std::shared_ptr<OwnedProgram>& program);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>
#    include <cstddef>
#    include <cstring>
#    include <numeric>
#    include <utility>

#    include "intq/kernels/operators/conv.hpp"
#    include "intq/kernels/operators/operator_table.hpp"
#    include "intq/kernels/packing/read_packed.hpp"
#    include "intq/program/dropped_channels.hpp"
#    include "intq/program/internal/kept_channels.hpp"
#    include "intq/program/program_copy.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::vector<index_t> chosen(const std::vector<bool>& kept) {
    std::vector<index_t> list;
    for (std::size_t c = 0; c < kept.size(); ++c)
        if (kept[c]) list.push_back(static_cast<index_t>(c));
    return list;
}

/// Writes the program that is left.
class ChannelDrop {
public:
    explicit ChannelDrop(const OwnedProgram& owned)
        : program_(owned.program()),
          table_(owned.table()),
          intervals_(code_intervals(program_, table_)),
          kept_(kept_channels(program_, intervals_)),
          holders_(program_.tensors.size()),
          is_depthwise_(program_.tensors.size()) {
        std::iota(holders_.begin(), holders_.end(), 0);
        for (const runtime::Instruction& instruction : program_.instructions) {
            find_copy(instruction);
            is_depthwise_[static_cast<std::size_t>(instruction.output)] =
                instruction.params.kind == kernels::ParamKind::conv &&
                instruction.params_as<kernels::ConvParams>().packed.is_depthwise;
        }
    }

    bool changes_nothing() const {
        return copies_.empty() && std::all_of(kept_.begin(), kept_.end(), [](const std::vector<bool>& of_tensor) {
                   return std::find(of_tensor.begin(), of_tensor.end(), false) == of_tensor.end();
               });
    }

    DroppedProgram written() {
        ProgramCopy copy(program_, table_, table_);
        const std::vector<std::int32_t> numbers = write_tensors(copy);
        ProgramStorage& to = copy.storage();
        for (const runtime::Instruction& instruction : program_.instructions) {
            if (holder(instruction.output) != instruction.output) continue;
            runtime::Instruction written = copied(copy, instruction, numbers);
            written.output = numbers[static_cast<std::size_t>(instruction.output)];
            written.first_operand = static_cast<std::int32_t>(to.operands.size());
            for (const std::int32_t operand : program_.operands_of(instruction))
                to.operands.push_back(numbers[static_cast<std::size_t>(operand)]);
            to.instructions.push_back(written);
        }
        for (const std::int32_t input : program_.inputs) to.inputs.push_back(numbers[static_cast<std::size_t>(input)]);
        for (const std::int32_t output : program_.outputs)
            to.outputs.push_back(numbers[static_cast<std::size_t>(output)]);
        for (const runtime::StatePair& state : program_.states)
            to.states.push_back(
                {numbers[static_cast<std::size_t>(state.input)], numbers[static_cast<std::size_t>(state.output)]});
        return {copy.finish(), numbers, copies_};
    }

private:
    const std::vector<bool>& kept(std::int32_t tensor) const { return kept_[static_cast<std::size_t>(tensor)]; }
    const ChannelIntervals& intervals(std::int32_t tensor) const {
        return intervals_[static_cast<std::size_t>(tensor)];
    }
    std::int32_t holder(std::int32_t tensor) const { return holders_[static_cast<std::size_t>(tensor)]; }

    static bool is_same_grid(const QParams& a, const QParams& b) {
        return !a.is_per_channel() && !b.is_per_channel() && a.scale() == b.scale() && a.zero_point() == b.zero_point();
    }

    /// Notes an operator whose output is its operand.
    void find_copy(const runtime::Instruction& instruction) {
        const bool may_be = kernels::find_operator(instruction.op)->codes == kernels::CodesFollow::each_code;
        const std::int32_t y = instruction.output;
        if (!may_be || intervals(y).empty() ||
            std::find(program_.outputs.begin(), program_.outputs.end(), y) != program_.outputs.end())
            return;
        const std::int32_t x = program_.operands_of(instruction)[0];
        const runtime::ProgramTensor &from = program_.tensor(x), &to = program_.tensor(y);
        if (from.dtype != to.dtype || !(from.shape == to.shape) || from.layout != to.layout || from.is_given() ||
            to.has_stated_bounds || intervals(x).empty() || !is_same_grid(from.qparams, to.qparams))
            return;
        CodeInterval all = intervals(x)[0];
        for (const CodeInterval& interval : intervals(x)) {
            all.lowest = (std::min)(all.lowest, interval.lowest);
            all.highest = (std::max)(all.highest, interval.highest);
        }
        std::int32_t code = all.lowest;
        for (const std::int32_t result : results_of_codes(program_, table_, instruction, all))
            if (result != code++) return;
        holders_[static_cast<std::size_t>(y)] = holder(x);
        copies_.emplace_back(instruction.name);
    }

    /// Writes the tensors that are left, and returns the number of each tensor's holder among them.
    std::vector<std::int32_t> write_tensors(ProgramCopy& copy) {
        std::vector<std::int32_t> numbers(program_.tensors.size(), -1);
        ProgramStorage& to = copy.storage();
        for (std::int32_t t = 0; t < static_cast<std::int32_t>(program_.tensors.size()); ++t) {
            const auto at = static_cast<std::size_t>(t);
            if (holder(t) != t) {
                numbers[at] = numbers[static_cast<std::size_t>(holder(t))];
                continue;
            }
            numbers[at] = static_cast<std::int32_t>(to.tensors.size());
            runtime::ProgramTensor tensor = copy.copy_of(program_.tensors[at]);
            note_dropped(to, t, numbers[at]);
            const auto left = static_cast<index_t>(std::count(kept(t).begin(), kept(t).end(), true));
            if (left < static_cast<index_t>(kept(t).size())) tensor.shape[tensor.channel_axis()] = left;
            to.tensors.push_back(tensor);
        }
        return numbers;
    }
    /// Lists what a tensor loses, and what it had lost before, by the channels that it had at first.
    void note_dropped(ProgramStorage& to, std::int32_t tensor, std::int32_t number) const {
        const auto before = dropped_of(program_, tensor);
        auto lost = before.begin();
        std::int32_t channel = 0;
        const auto note_lost = [&] {
            for (; lost != before.end() && lost->channel == channel; ++lost, ++channel)
                to.dropped.push_back({number, channel, lost->code, lost->is_constant, lost->is_depthwise});
        };
        for (std::size_t c = 0; c < kept(tensor).size(); ++c, ++channel) {
            note_lost();
            if (kept(tensor)[c]) continue;
            const CodeInterval& codes = intervals(tensor)[c];
            to.dropped.push_back({number, channel,
                                  codes.is_constant() ? codes.lowest : program_.tensor(tensor).qparams.zero_point(),
                                  codes.is_constant(), is_depthwise_[static_cast<std::size_t>(tensor)]});
        }
        note_lost();
    }

    /// @param numbers  of the tensors that are left
    runtime::Instruction copied(ProgramCopy& copy, const runtime::Instruction& instruction,
                                const std::vector<std::int32_t>& numbers) const {
        const auto is_whole = [&](std::int32_t tensor) {
            return std::find(kept(tensor).begin(), kept(tensor).end(), false) == kept(tensor).end();
        };
        const auto operands = program_.operands_of(instruction);
        const std::int32_t x = operands.empty() ? -1 : numbers[static_cast<std::size_t>(operands[0])];
        if (is_whole(instruction.output) && std::all_of(operands.begin(), operands.end(), is_whole))
            return copy.copy_of(instruction, x);
        if (instruction.params.kind == kernels::ParamKind::conv) return part_of_layer(copy, instruction, x);
        runtime::Instruction written = copy.copy_of(instruction, x);
        // The one parameter that counts channels: a copy of as many codes as there are now.
        if (instruction.op == OpKind::reshape) {
            kernels::MoveParams move;
            move.extents[0] = left_of_image(operands[0]);
            move.steps[0] = 1;
            written.params = copy.keep_params(move);
        }
        return written;
    }
    /// Elements of an image of a tensor without its dropped channels.
    index_t left_of_image(std::int32_t tensor) const {
        const index_t all = static_cast<index_t>(kept(tensor).size());
        const auto left = static_cast<index_t>(std::count(kept(tensor).begin(), kept(tensor).end(), true));
        return program_.tensor(tensor).elements_per_image() / all * left;
    }

    /// @param number  of the tensor that the layer reads, in the copy
    runtime::Instruction part_of_layer(ProgramCopy& copy, const runtime::Instruction& instruction,
                                       std::int32_t number) const {
        const auto& packed = instruction.params_as<kernels::ConvParams>().packed;
        const std::int32_t x = program_.operands_of(instruction)[0];
        const std::vector<index_t> outputs = has_codes(program_.tensor(instruction.output))
                                                 ? chosen(kept(instruction.output))
                                                 : chosen(std::vector<bool>(std::size_t(packed.out_channels), true)),
                                   inputs = packed.is_depthwise ? std::vector<index_t>{0} : chosen(kept(x));
        const std::vector<std::byte> whole = weight_codes_of(packed);
        const auto size = static_cast<std::size_t>(size_of(packed.weight_dtype)),
                   taps = static_cast<std::size_t>(packed.taps());
        std::vector<std::byte> codes;
        std::vector<std::int64_t> contributions, sums;
        for (const index_t o : outputs) {
            for (const index_t i : inputs) {
                const auto first = static_cast<std::size_t>(o * packed.group_inputs() + i) * taps * size;
                codes.insert(codes.end(), whole.begin() + static_cast<std::ptrdiff_t>(first),
                             whole.begin() + static_cast<std::ptrdiff_t>(first + taps * size));
            }
            contributions.push_back(packed.is_depthwise ? 0 : contribution(packed, o, x));
        }
        for (index_t o = 0; o < packed.out_channels; ++o) sums.push_back(kernels::weight_sum(packed, o));
        return copy.copy_of_part(instruction, number, {outputs, inputs, contributions}, codes, sums);
    }
    /// What the dropped inputs of a layer add to the sum of an output channel: nothing, where it has no weights for
    /// them.
    std::int64_t contribution(const kernels::PackedConv2d& packed, index_t o, std::int32_t x) const {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < kept(x).size(); ++i) {
            const CodeInterval& codes = intervals(x)[i];
            if (kept(x)[i] || !codes.is_constant()) continue;
            sum += (std::int64_t{codes.lowest} - packed.input_zero_point) *
                   kernels::tap_sum(packed, o, static_cast<index_t>(i));
        }
        return sum;
    }

    const runtime::Program& program_;
    const kernels::KernelTable& table_;
    std::vector<ChannelIntervals> intervals_;
    KeptChannels kept_;
    std::vector<std::int32_t> holders_;  // of each tensor's values
    std::vector<bool> is_depthwise_;     // whether a tensor is the output of a depthwise layer
    std::vector<std::string> copies_;
};

}  // namespace detail

INTQ_INLINE DroppedProgram drop_constant_channels(const std::shared_ptr<OwnedProgram>& program) {
    detail::ChannelDrop drop(*program);
    if (!drop.changes_nothing()) return drop.written();
    DroppedProgram same{program, std::vector<std::int32_t>(program->program().tensors.size()), {}};
    std::iota(same.tensors.begin(), same.tensors.end(), 0);
    return same;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_CONSTANT_CHANNELS_HPP
