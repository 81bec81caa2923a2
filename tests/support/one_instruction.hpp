// SPDX-License-Identifier: MIT
//
// A program with one instruction, built by hand.
#ifndef INTQ_TESTS_SUPPORT_ONE_INSTRUCTION_HPP
#define INTQ_TESTS_SUPPORT_ONE_INSTRUCTION_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "intq/runtime/execute.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"

namespace intq::test {

/// x (, y) -> z in an arena; the parts lie open.
struct OneInstruction {
    runtime::Instruction instruction{};
    std::vector<runtime::ProgramTensor> tensors;
    std::vector<std::int32_t> operands, outputs;

    OneInstruction(OpKind op, DType dtype, std::vector<Shape> shapes, const kernels::InstructionParams& params) {
        index_t offset = 0;
        for (const Shape& shape : shapes) {
            tensors.push_back({dtype, shape, QParams::per_tensor(0.05f, 0, dtype), offset, ""});
            offset += round_up(tensors.back().bytes(), buffer_alignment);
        }
        for (std::size_t i = 0; i + 1 < shapes.size(); ++i) operands.push_back(static_cast<std::int32_t>(i));
        outputs = {static_cast<std::int32_t>(operands.size())};
        instruction = {op, 0, outputs[0], 0, static_cast<std::int32_t>(operands.size()), "", "", params};
        arena_size = offset;
    }
    /// @param workspace  bytes behind the tensors
    runtime::Program program(index_t workspace = 0) const {
        runtime::Program p;
        p.instructions = std::span(&instruction, 1);
        p.tensors = tensors;
        p.operands = operands;
        p.inputs = operands;
        p.outputs = outputs;
        p.workspace_offset = arena_size;
        p.workspace_size = round_up(workspace, buffer_alignment);
        p.arena_size = arena_size + p.workspace_size;
        p.max_batch = tensors[0].shape[0];
        return p;
    }
    Status check(const kernels::KernelTable& table) const { return runtime::check_program(program(), table); }
    /// The bytes of the output after a run on all inputs.
    template <class Code> std::vector<Code> run(const kernels::KernelTable& table, const std::vector<Code>& x) const {
        REQUIRE(check(table).ok());
        GuardedBuffer arena(static_cast<std::size_t>(arena_size));
        for (const std::int32_t operand : operands)
            std::memcpy(runtime::tensor_data(program(), arena.as<std::byte>(), operand), x.data(),
                        x.size() * sizeof(Code));
        runtime::execute(program(), table, arena.as<std::byte>(), tensors[0].shape[0]);
        CHECK(arena.is_intact());
        std::vector<Code> z(static_cast<std::size_t>(tensors.back().shape.size()));
        std::memcpy(z.data(), runtime::tensor_data(program(), arena.as<std::byte>(), outputs[0]),
                    z.size() * sizeof(Code));
        return z;
    }
    index_t arena_size = 0;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_ONE_INSTRUCTION_HPP
