// SPDX-License-Identifier: MIT
//
// The program: a lowered model as a flat list of instructions over an arena. Layer: runtime (DESIGN section 6).
//
// It is the one thing that executes integers. A Program owns nothing: its parts lie in memory of whoever built
// it (quantization/lower.hpp on a host; constants on a board).
#ifndef INTQ_RUNTIME_PROGRAM_HPP
#define INTQ_RUNTIME_PROGRAM_HPP

#include <cstdint>
#include <span>

#include "intq/arith/elementwise.hpp"
#include "intq/arith/pool.hpp"
#include "intq/core/layout.hpp"
#include "intq/core/qparams.hpp"
#include "intq/kernels/elementwise.hpp"
#include "intq/kernels/geometry.hpp"
#include "intq/kernels/packed_conv2d.hpp"

namespace intq::inline INTQ_ABI::runtime {

/// One edge of the program; the batch is that of the run.
struct ProgramTensor {
    DType dtype = DType::none;
    Shape shape{};          // logical (N, C, H, W) or (N, C); N is the largest batch
    QParams qparams{};      // not read for float32; int32 accumulators have a scale per channel
    index_t offset = 0;     // bytes from the arena's start, a multiple of buffer_alignment
    const char* name = "";  // qualified name of what produced it, for loggers
    /// Of images: row_major where a caller writes them as planes, which quantize and layout_change read; every
    /// instruction writes channels_last.
    Layout layout = Layout::channels_last;

    constexpr index_t elements_per_image() const noexcept {
        return shape.rank > 0 && shape[0] > 0 ? shape.size() / shape[0] : 0;
    }
    constexpr index_t bytes() const noexcept { return shape.size() * size_of(dtype); }
};

/// Parameters of a convolution or linear instruction.
struct ConvStep {
    kernels::PackedConv2d packed{};
    kernels::ConvGeometry geometry{};  // its batch is set by each run
};

/// Parameters of a pooling instruction.
struct PoolStep {
    Window2d window{};
    arith::AverageParams average{};  // not read by max_pool2d
};

/// One step: operands -> output. Which pointer counts is the kind's.
struct Instruction {
    OpKind op = OpKind::none;
    std::int32_t output = 0;         // index of a ProgramTensor
    std::int32_t first_operand = 0;  // position in Program::operands
    std::int32_t operand_count = 0;
    const char* name = "";  // qualified name of the layer
    const char* type = "";  // its class, as loggers and tables show it
    union Params {
        const void* none;
        const ConvStep* conv;                         // conv2d, linear: x (, sumin)
        const arith::AddParams* add;                  // add: x, y
        const kernels::RequantizeParams* requantize;  // requantize: one; cat: one an operand
        const PoolStep* pool;                         // max_pool2d, avg_pool2d
        const arith::OutputCodes* clamp;              // relu
    } params{nullptr};
};

/// A lowered model.
struct Program {
    std::span<const Instruction> instructions{};
    std::span<const ProgramTensor> tensors{};
    std::span<const std::int32_t> operands{};  // tensor indices, for all instructions
    std::span<const std::int32_t> inputs{};    // tensor indices; float32, or codes
    std::span<const std::int32_t> outputs{};
    index_t workspace_offset = 0;  // of the kernels' scratch, in the arena
    index_t workspace_size = 0;
    index_t arena_size = 0;  // bytes that a run needs, at buffer_alignment
    index_t max_batch = 1;

    constexpr std::span<const std::int32_t> operands_of(const Instruction& instruction) const noexcept {
        return operands.subspan(static_cast<std::size_t>(instruction.first_operand),
                                static_cast<std::size_t>(instruction.operand_count));
    }
    constexpr const ProgramTensor& tensor(std::int32_t index) const noexcept {
        return tensors[static_cast<std::size_t>(index)];
    }
};

}  // namespace intq::inline INTQ_ABI::runtime

#endif  // INTQ_RUNTIME_PROGRAM_HPP
