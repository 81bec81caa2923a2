// SPDX-License-Identifier: MIT
//
// What every instruction of a lowered model wrote in a run.
#ifndef INTQ_TESTS_SUPPORT_KEPT_TENSORS_HPP
#define INTQ_TESTS_SUPPORT_KEPT_TENSORS_HPP

#include <cstring>
#include <map>
#include <string>

#include "intq/quantization/convert/lower.hpp"

namespace intq::test {

/// Codes of the tensors of a run, by the name of the layer that wrote them, in logical order.
inline std::map<std::string, intq::Tensor> run_and_keep(const quantization::LoweredModel& model,
                                                        const intq::Tensor& x) {
    std::map<std::string, intq::Tensor> kept;
    runtime::InstructionHook hook;
    hook.context = &kept;
    hook.function = [](void* context, const runtime::Program& program, index_t i, const void* output, index_t batch) {
        const runtime::Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
        const runtime::ProgramTensor& y = program.tensor(instruction.output);
        Shape shape = y.shape;
        shape[0] = batch;
        intq::Tensor copy = intq::Tensor::empty(shape, y.dtype, y.layout);
        std::memcpy(copy.data(), output, static_cast<std::size_t>(copy.bytes()));
        (*static_cast<std::map<std::string, intq::Tensor>*>(context))[instruction.name] = copy.contiguous();
    };
    model.whole_program().run(x, serial, hook);
    return kept;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_KEPT_TENSORS_HPP
