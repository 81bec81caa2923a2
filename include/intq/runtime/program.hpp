// SPDX-License-Identifier: MIT
//
// The program: a lowered model as a flat list of instructions over an arena. Layer: runtime (docs/design.md section 6).
//
// Only programs execute integers. A Program owns nothing: its parts are in its builder's memory
// (quantization/convert/lower.hpp on a host; constants on a board).
#ifndef INTQ_RUNTIME_PROGRAM_HPP
#define INTQ_RUNTIME_PROGRAM_HPP

#include <cstdint>
#include <span>

#include "intq/kernels/operators/operator.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

/// One edge of the program.
using ProgramTensor = kernels::ArenaTensor;

/// One step: operands -> output.
struct Instruction {
    OpKind op = OpKind::none;
    std::int16_t rows = 0;           // of the output that it makes at a time, in a group; 0: all
    std::int32_t output = 0;         // index of a ProgramTensor
    std::int32_t first_operand = 0;  // position in Program::operands
    std::int32_t operand_count = 0;
    const char* name = "";                // qualified name of the layer
    const char* type = "";                // its class, as loggers and tables show it
    kernels::InstructionParams params{};  // as the operator's file in kernels/operators/ says; none for one without

    template <class Params> INTQ_ALWAYS_INLINE const Params& params_as() const noexcept {
        return *static_cast<const Params*>(params.data);
    }
};

/// A channel that a program no longer has: its code never changes, or nobody reads it (docs/constant_channels.md).
struct DroppedChannel {
    std::int32_t tensor = 0;    // index of a ProgramTensor
    std::int32_t channel = 0;   // of the tensor with all its channels
    std::int32_t code = 0;      // of each of its elements; of a channel that nobody reads the tensor's zero point
    bool is_constant = true;    // else nobody reads it
    bool is_depthwise = false;  // of the output of a depthwise layer, which lost it with the channel of its input
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const DroppedChannel&, const DroppedChannel&) = default;
};

/// Instructions that run row by row, together: each as soon as another one of them needs its rows. What they write and
/// read of one another may be rings of rows (ArenaTensor::ring; docs/rows.md).
struct RowGroup {
    std::int32_t first = 0;  // instruction
    std::int32_t count = 0;
    index_t workspace = 0;  // bytes of scratch that its steps take

    INTQ_ALWAYS_INLINE constexpr std::int32_t last() const noexcept { return first + count - 1; }
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const RowGroup&, const RowGroup&) = default;
};

/// An input and an output that are the same memory: state, such as a cache, which need not be copied between runs. Each
/// read of the old codes comes before they are written over.
struct StatePair {
    std::int32_t input = 0;  // index of a ProgramTensor
    std::int32_t output = 0;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const StatePair&, const StatePair&) = default;
};

/// A lowered model. Immutable while it runs, so any number of threads may run it, each in its own arena.
struct Program {
    std::span<const Instruction> instructions{};
    std::span<const ProgramTensor> tensors{};
    std::span<const std::int32_t> operands{};  // tensor indices, for all instructions
    std::span<const std::int32_t> inputs{};    // tensor indices; float32, codes, or pixels
    std::span<const std::int32_t> outputs{};
    index_t workspace_offset = 0;  // of the kernels' scratch, in the arena
    index_t workspace_size = 0;
    index_t arena_size = 0;  // bytes that a run needs, at buffer_alignment
    index_t max_batch = 1;
    std::span<const DroppedChannel> dropped{};  // by tensor, then by channel; a run does not read it
    std::span<const RowGroup> groups{};         // in the order of their instructions, none of which is in two
    std::span<const StatePair> states{};        // each input and each output is in one at most

    INTQ_ALWAYS_INLINE constexpr std::span<const std::int32_t> operands_of(
        const Instruction& instruction) const noexcept {
        return operands.subspan(static_cast<std::size_t>(instruction.first_operand),
                                static_cast<std::size_t>(instruction.operand_count));
    }
    INTQ_ALWAYS_INLINE constexpr const ProgramTensor& tensor(std::int32_t index) const noexcept {
        return tensors[static_cast<std::size_t>(index)];
    }
    /// Whether a tensor is an input or an output that is state.
    INTQ_ALWAYS_INLINE constexpr bool is_state(std::int32_t tensor) const noexcept {
        for (const StatePair& state : states)
            if (state.input == tensor || state.output == tensor) return true;
        return false;
    }
    /// The group that has an instruction; null for none.
    INTQ_ALWAYS_INLINE constexpr const RowGroup* group_of(std::int32_t instruction) const noexcept {
        for (const RowGroup& group : groups)
            if (group.first <= instruction && instruction <= group.last()) return &group;
        return nullptr;
    }
};

/// Whether every tensor kept the bounds that were stated for it, and if not, the first code outside them.
struct RunResult {
    std::int32_t tensor = -1;  // index of the tensor; -1: all kept them
    std::int32_t code = 0;

    INTQ_ALWAYS_INLINE constexpr bool ok() const noexcept { return tensor < 0; }
    INTQ_ALWAYS_INLINE constexpr explicit operator bool() const noexcept { return ok(); }
};

/// Called after each instruction: loggers, profilers and tests look at its output.
struct InstructionHook {
    using Function = void (*)(void* context, const Program& program, index_t instruction, const void* output,
                              index_t batch);
    Function function = nullptr;
    void* context = nullptr;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_PROGRAM_HPP
