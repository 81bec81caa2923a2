// SPDX-License-Identifier: MIT
//
// KeptOutputs: the outputs of a program's instructions in a run, for tools that look at it layer by layer.
// Layer: program (docs/design.md section 6).
#ifndef INTQ_PROGRAM_KEPT_OUTPUTS_HPP
#define INTQ_PROGRAM_KEPT_OUTPUTS_HPP

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "intq/runtime/program.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// The outputs of a program's instructions in one run, with the samples of all its batches in one tensor.
///
///     KeptOutputs kept(owned.program(), images.extent(0));
///     owned.run(images, serial, kept.hook());
///     const Tensor codes = kept.tensor(instruction.output).value();
///
/// The program must outlive it. It is for one run of one thread, and must not move before the run ends.
///
/// Memory   the tensors', all of it before the run, because a hook must not throw
class KeptOutputs {
public:
    /// @param samples  of the run
    /// @param tensors  the tensors of the program that are kept, by their numbers; empty: all
    KeptOutputs(const runtime::Program& program, index_t samples, std::span<const std::int32_t> tensors = {});

    runtime::InstructionHook hook() noexcept { return {&keep, this}; }

    /// A tensor of the program, in the program's layout: codes or accumulators that carry their qparams, or real
    /// values. It has the channels that were dropped from the program too (with_dropped_channels()). Empty where no
    /// instruction wrote it in the run, and where it was not kept.
    std::optional<Tensor> tensor(std::int32_t number) const;

private:
    struct Output {
        Tensor samples{};
        index_t written = 0;
    };
    static void keep(void* context, const runtime::Program& program, index_t instruction, const void* output,
                     index_t batch);

    const runtime::Program& program_;
    std::vector<Output> outputs_;  // by instruction
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>
#    include <cstddef>
#    include <cstring>

#    include "intq/core/assert.hpp"
#    include "intq/program/dropped_channels.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE KeptOutputs::KeptOutputs(const runtime::Program& program, index_t samples,
                                     std::span<const std::int32_t> tensors)
    : program_(program), outputs_(program.instructions.size()) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const std::int32_t number = program.instructions[i].output;
        if (!tensors.empty() && std::find(tensors.begin(), tensors.end(), number) == tensors.end()) continue;
        const runtime::ProgramTensor& y = program.tensor(number);
        Shape shape = y.shape;
        shape[0] = samples;
        outputs_[i].samples = Tensor::empty(shape, y.dtype, y.layout);
    }
}

INTQ_INLINE void KeptOutputs::keep(void* context, const runtime::Program& program, index_t instruction,
                                   const void* output, index_t batch) {
    const auto i = static_cast<std::size_t>(instruction);
    Output& kept = static_cast<KeptOutputs*>(context)->outputs_[i];
    if (!kept.samples.defined()) return;
    INTQ_ASSERT(kept.written + batch <= kept.samples.extent(0));
    const index_t sample = program.tensor(program.instructions[i].output).bytes() / program.max_batch;
    std::memcpy(kept.samples.data() + kept.written * sample, output, static_cast<std::size_t>(batch * sample));
    kept.written += batch;
}

INTQ_INLINE std::optional<Tensor> KeptOutputs::tensor(std::int32_t number) const {
    for (std::size_t i = outputs_.size(); i-- > 0;) {
        if (program_.instructions[i].output != number) continue;
        const Output& kept = outputs_[i];
        if (!kept.samples.defined() || kept.written != kept.samples.extent(0)) return std::nullopt;
        Tensor result = kept.samples;
        const runtime::ProgramTensor& known = program_.tensor(number);
        if (known.dtype != DType::float32) result.set_qparams(OwnedQParams::of(known.qparams, known.dtype));
        return with_dropped_channels(program_, number, result);
    }
    return std::nullopt;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_KEPT_OUTPUTS_HPP
