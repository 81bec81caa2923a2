// SPDX-License-Identifier: MIT
//
// Session: runs of a program that keep its state in their arena, such as the caches of a decoder. Layer: program.
#ifndef INTQ_PROGRAM_SESSION_HPP
#define INTQ_PROGRAM_SESSION_HPP

#include <memory>
#include <span>
#include <vector>

#include "intq/core/executor.hpp"
#include "intq/core/shape.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// A sequence of runs. What a run writes into its state (runtime::StatePair), the next one reads where it lies.
///
/// One thread at a time uses an object; any number of objects may have one program.
class Session {
public:
    /// @param batch  sequences that run at once, each with a state of its own
    /// @throws Error for a program without state, for another machine's, and for a batch beyond max_batch()
    explicit Session(std::shared_ptr<const OwnedProgram> program, index_t batch = 1);

    /// One step.
    ///
    /// @param inputs  one for each input of the program that is no state, (batch, …), in any layout
    /// @return one tensor for each output that is no state, logical order, row_major
    /// @throws Error as OwnedProgram::run(); after one for codes outside of bounds, reset()
    std::vector<Tensor> run(std::span<const Tensor> inputs, const Executor& executor = serial);

    /// Begins new sequences: all state is 0. So it is at first.
    void reset();

private:
    std::shared_ptr<const OwnedProgram> program_;
    index_t batch_;
    AlignedBytes arena_;
    std::vector<std::int32_t> inputs_, outputs_;  // that are no state
};

/// The inputs or outputs of a program that are no state.
std::vector<std::int32_t> without_state(const runtime::Program& program, std::span<const std::int32_t> list);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <cstddef>
#    include <cstdint>
#    include <cstring>
#    include <string>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/runtime/execute.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<std::int32_t> without_state(const runtime::Program& program,
                                                    std::span<const std::int32_t> list) {
    std::vector<std::int32_t> result(list.begin(), list.end());
    std::erase_if(result, [&](std::int32_t tensor) { return program.is_state(tensor); });
    return result;
}

INTQ_INLINE Session::Session(std::shared_ptr<const OwnedProgram> program, index_t batch)
    : program_(std::move(program)), batch_(batch), arena_(program_->arena_bytes()) {
    const runtime::Program& of = program_->program();
    require_kernels(program_->table());
    if (of.states.empty()) throw Error("the program has no state; run() of the program itself needs no session");
    if (batch < 1 || batch > of.max_batch)
        throw Error("a session of this program has 1 to " + std::to_string(of.max_batch) + " sequences, given " +
                    std::to_string(batch));
    inputs_ = without_state(of, of.inputs);
    outputs_ = without_state(of, of.outputs);
    reset();
}

INTQ_INLINE void Session::reset() { runtime::reset_states(program_->program(), arena_.data()); }

INTQ_INLINE std::vector<Tensor> Session::run(std::span<const Tensor> inputs, const Executor& executor) {
    const runtime::Program& program = program_->program();
    runtime::Program own = program;
    own.inputs = inputs_;
    if (const index_t given = check_inputs(own, inputs); given != batch_)
        throw Error("the session has " + std::to_string(batch_) + " sequences, given " + std::to_string(given));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Tensor x = as_read(program.tensor(inputs_[i]), inputs[i]);
        std::memcpy(runtime::tensor_data(program, arena_.data(), inputs_[i]), x.data(),
                    static_cast<std::size_t>(x.bytes()));
    }
    const auto result = runtime::execute(program, program_->table(), arena_.data(), batch_, executor);
    if (!result) throw_broken_bounds(program, result);
    std::vector<Tensor> outputs;
    for (const std::int32_t output : outputs_) {
        const runtime::ProgramTensor& y = program.tensor(output);
        Tensor tensor = Tensor::empty(detail::with_batch(y.shape, batch_), y.dtype, y.layout);
        std::memcpy(tensor.data(), runtime::tensor_data(program, arena_.data(), output),
                    static_cast<std::size_t>(tensor.bytes()));
        outputs.push_back(tensor.contiguous());
    }
    return outputs;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_SESSION_HPP
