// SPDX-License-Identifier: MIT
//
// What a program no longer computes: the channels that were dropped from it, by layer, and their codes for those who
// look at a tensor. Layer: program (docs/constant_channels.md).
#ifndef INTQ_PROGRAM_DROPPED_CHANNELS_HPP
#define INTQ_PROGRAM_DROPPED_CHANNELS_HPP

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "intq/runtime/program.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// The dropped channels of the tensor that a layer writes.
struct DroppedOfLayer {
    std::string name, type;  // of the layer
    index_t channels = 0;    // of the whole tensor
    index_t constant = 0;    // whose code never changes
    index_t unread = 0;      // that nobody reads
    /// The codes of the constant ones, each once, ascending.
    std::vector<std::int32_t> codes{};
};

/// What a program does with and without its dropped channels.
struct DroppedWork {
    std::vector<DroppedOfLayer> layers;  // that lost channels, in the order of the program
    std::vector<std::string> copies{};   // names of operators that would have copied their operand, where known
    index_t multiplications = 0, whole_multiplications = 0;  // of convolutions and linear layers, for one image
    index_t weight_bytes = 0, whole_weight_bytes = 0;        // of their codes, without padding
};

DroppedWork dropped_work(const runtime::Program& program);
/// The same with the operators that the whole program has besides: LoweredModel::whole_program(), say.
DroppedWork dropped_work(const runtime::Program& program, const runtime::Program& whole);

/// The codes of a layer's constant channels, "-128 3".
std::string codes_text(const DroppedOfLayer& layer);

/// A sentence on the work, and a table with a row for each layer; and one on copies. "" where nothing was dropped.
std::string to_string(const DroppedWork& work);

/// The dropped channels of a tensor, ascending.
std::span<const runtime::DroppedChannel> dropped_of(const runtime::Program& program, std::int32_t tensor);

/// A tensor of a program with all its channels: constant ones hold their code, those that nobody reads the zero point.
///
/// @param tensor  number of the tensor
/// @param kept    (N, …) in the program's shape
/// @return the same tensor where no channel was dropped
Tensor with_dropped_channels(const runtime::Program& program, std::int32_t tensor, const Tensor& kept);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>
#    include <cstddef>
#    include <cstring>

#    include "intq/io/text_table.hpp"
#    include "intq/kernels/operators/conv.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

struct ByTensor {
    bool operator()(const runtime::DroppedChannel& a, std::int32_t b) const { return a.tensor < b; }
    bool operator()(std::int32_t a, const runtime::DroppedChannel& b) const { return a < b.tensor; }
};

INTQ_INLINE DroppedOfLayer dropped_of_layer(const runtime::Program& program, const runtime::Instruction& instruction) {
    const runtime::ProgramTensor& y = program.tensor(instruction.output);
    const auto dropped = dropped_of(program, instruction.output);
    DroppedOfLayer layer{instruction.name, instruction.type};
    layer.channels = y.shape[y.channel_axis()] + static_cast<index_t>(dropped.size());
    for (const runtime::DroppedChannel& channel : dropped) {
        ++(channel.is_constant ? layer.constant : layer.unread);
        if (channel.is_constant) layer.codes.push_back(channel.code);
    }
    std::sort(layer.codes.begin(), layer.codes.end());
    layer.codes.erase(std::unique(layer.codes.begin(), layer.codes.end()), layer.codes.end());
    return layer;
}

/// Adds the weights and multiplications of a layer, as it is and as it was.
INTQ_INLINE void add_work(DroppedWork& work, const runtime::Program& program, const runtime::Instruction& instruction) {
    const auto& [packed, geometry] = instruction.params_as<kernels::ConvParams>();
    const auto dropped = [&](std::int32_t tensor) { return static_cast<index_t>(dropped_of(program, tensor).size()); };
    const auto of_output = dropped_of(program, instruction.output);
    const index_t whole_outputs = packed.out_channels + static_cast<index_t>(of_output.size());
    // A depthwise layer that was left with one channel is a layer of one group now.
    const bool was_depthwise = packed.is_depthwise || (!of_output.empty() && of_output.front().is_depthwise);
    const index_t whole_inputs =
        packed.group_inputs() + (was_depthwise ? 0 : dropped(program.operands_of(instruction)[0]));
    const index_t weights = packed.out_channels * packed.group_inputs() * packed.taps(),
                  whole = whole_outputs * whole_inputs * packed.taps(),
                  pixels = geometry.out.height * geometry.out.width;
    work.multiplications += weights * pixels;
    work.whole_multiplications += whole * pixels;
    work.weight_bytes += weights * size_of(packed.weight_dtype);
    work.whole_weight_bytes += whole * size_of(packed.weight_dtype);
}

INTQ_INLINE std::string percent(index_t part, index_t whole) {
    const index_t tenths = whole > 0 ? (part * 1000 + whole / 2) / whole : 0;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

}  // namespace detail

INTQ_INLINE std::span<const runtime::DroppedChannel> dropped_of(const runtime::Program& program, std::int32_t tensor) {
    const auto [first, last] =
        std::equal_range(program.dropped.begin(), program.dropped.end(), tensor, detail::ByTensor{});
    return {first, last};
}

INTQ_INLINE DroppedWork dropped_work(const runtime::Program& program) {
    DroppedWork work;
    for (const runtime::Instruction& instruction : program.instructions) {
        if (instruction.params.kind == kernels::ParamKind::conv) detail::add_work(work, program, instruction);
        if (!dropped_of(program, instruction.output).empty())
            work.layers.push_back(detail::dropped_of_layer(program, instruction));
    }
    return work;
}

INTQ_INLINE DroppedWork dropped_work(const runtime::Program& program, const runtime::Program& whole) {
    DroppedWork work = dropped_work(program);
    // Both have the rest in one order.
    std::size_t next = 0;
    for (const runtime::Instruction& instruction : whole.instructions) {
        const bool is_left = next < program.instructions.size() && program.instructions[next].op == instruction.op &&
                             std::strcmp(program.instructions[next].name, instruction.name) == 0;
        if (is_left)
            ++next;
        else
            work.copies.emplace_back(instruction.name);
    }
    return work;
}

INTQ_INLINE std::string codes_text(const DroppedOfLayer& layer) {
    std::string text;
    for (const std::int32_t code : layer.codes) text += (text.empty() ? "" : " ") + std::to_string(code);
    return text;
}

INTQ_INLINE std::string to_string(const DroppedWork& work) {
    std::string copies;
    for (const std::string& name : work.copies) copies += (copies.empty() ? "" : ", ") + name;
    if (!copies.empty()) copies = "operators that would copy their input are left out: " + copies + "\n";
    if (work.layers.empty()) return copies;
    using io::Align;
    io::TextTable table({{"layer"},
                         {"type"},
                         {"channels", Align::right},
                         {"constant", Align::right},
                         {"unread", Align::right},
                         {"codes"}});
    for (const DroppedOfLayer& layer : work.layers)
        table.add_row({layer.name, layer.type, std::to_string(layer.channels), std::to_string(layer.constant),
                       std::to_string(layer.unread), codes_text(layer)});
    return "channels that no output depends on are left out: " + std::to_string(work.multiplications) + " of " +
           std::to_string(work.whole_multiplications) + " multiplications are left (" +
           detail::percent(work.multiplications, work.whole_multiplications) + "), " +
           std::to_string(work.weight_bytes) + " of " + std::to_string(work.whole_weight_bytes) +
           " bytes of weights (" + detail::percent(work.weight_bytes, work.whole_weight_bytes) + ")\n" + table.str() +
           copies;
}

INTQ_INLINE Tensor with_dropped_channels(const runtime::Program& program, std::int32_t tensor, const Tensor& kept) {
    const auto dropped = dropped_of(program, tensor);
    if (dropped.empty()) return kept;
    const runtime::ProgramTensor& known = program.tensor(tensor);
    const int axis = known.channel_axis();
    Shape shape = kept.shape();
    const index_t channels = shape[axis] + static_cast<index_t>(dropped.size());
    shape[axis] = channels;
    Tensor whole = Tensor::empty(shape, kept.dtype(), kept.layout());
    const auto bytes = static_cast<std::size_t>(size_of(kept.dtype()));
    const std::byte* from = kept.data();
    std::byte* to = whole.data();
    // In memory the channels of a pixel follow each other.
    for (index_t pixel = 0; pixel < whole.size() / channels; ++pixel) {
        auto next = dropped.begin();
        for (index_t c = 0; c < channels; ++c, to += bytes) {
            if (next != dropped.end() && next->channel == c) {
                const auto code = static_cast<std::int16_t>((next++)->code);
                const auto narrow = static_cast<std::int8_t>(code);
                std::memcpy(to, bytes == 1 ? static_cast<const void*>(&narrow) : &code, bytes);
            } else {
                std::memcpy(to, from, bytes);
                from += bytes;
            }
        }
    }
    whole.set_qparams(kept.qparams());
    return whole;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_DROPPED_CHANNELS_HPP
