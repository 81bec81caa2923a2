// SPDX-License-Identifier: MIT
//
// pack_program: a program for the kernels of another machine. Layer: deploy (docs/to_a_microcontroller.md).
//
// The target decides the codes and the backend their speed (docs/design.md section 1), so a program of one backend
// becomes that of another without the model that it was made of: weights move to their places in the other order, and
// the arena is planned anew, for the scratch of the other kernels.
#ifndef INTQ_DEPLOY_PACK_PROGRAM_HPP
#define INTQ_DEPLOY_PACK_PROGRAM_HPP

#include <memory>
#include <string>

#include "intq/kernels/table/rows.hpp"
#include "intq/program/owned_program.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

/// What the kernels of a backend take, as a table without kernels: a program is lowered and packed for it, checked
/// against it and written, and not run. No unit needs the backend's instructions for that.
///
/// @param table    of the same target on any backend, which lives as long as the result
/// @param backend  of simd/base/backends.hpp
/// @throws Error for a name that is no backend's, with those that are
kernels::KernelTable describe_kernels(const kernels::KernelTable& table, const std::string& backend);

/// Packs a program for a backend.
///
/// @param program  of the target of `table`; nothing of it is referred to afterwards
/// @param table    the kernels that the program is packed for, or describe_kernels()
/// @param to       those of the same target that it shall be packed for; the program keeps a copy of the table
/// @throws Error for a program that check_program() refuses, and for tables of two targets
///
/// Result   the same bytes as lowering the model for that backend, and the same codes: golden runs stay valid
/// Cost     O(constants), and the plan of the arena
std::shared_ptr<program::OwnedProgram> pack_program(const runtime::Program& program, const kernels::KernelTable& table,
                                                    const kernels::KernelTable& to);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include <cstddef>
#    include <cstring>
#    include <span>
#    include <utility>
#    include <vector>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/conv.hpp"
#    include "intq/kernels/operators/operator_table.hpp"
#    include "intq/kernels/packing/packing_table.hpp"
#    include "intq/kernels/packing/repack.hpp"
#    include "intq/program/program_builder.hpp"
#    include "intq/runtime/check.hpp"
#    include "intq/runtime/program_file.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Copies a program into storage of its own, with its layers packed for other kernels.
class ProgramPacker {
public:
    ProgramPacker(const runtime::Program& program, const kernels::KernelTable& table, const kernels::KernelTable& to)
        : program_(program),
          context_{&table.packing},
          to_(std::make_shared<kernels::KernelTable>(to)),
          storage_(std::make_unique<program::ProgramStorage>()) {
        storage_->params.push_back(to_);
    }

    std::shared_ptr<program::OwnedProgram> packed() {
        const auto copy = [](auto& to, auto from) { to.assign(from.begin(), from.end()); };
        copy(storage_->operands, program_.operands);
        copy(storage_->inputs, program_.inputs);
        copy(storage_->outputs, program_.outputs);
        for (const runtime::ProgramTensor& tensor : program_.tensors) add(tensor);
        for (const runtime::Instruction& instruction : program_.instructions) add(instruction);
        return program::plan_program(std::move(storage_), program_.max_batch, *to_);
    }

private:
    void add(runtime::ProgramTensor tensor) {
        const QParams& q = tensor.qparams;
        tensor.name = text(tensor.name);
        if (q.is_per_channel()) {
            std::vector<float>& scales = storage_->scales.emplace_back();
            std::vector<std::int32_t>& zero_points = storage_->zero_points.emplace_back();
            for (index_t channel = 0; channel < q.count(); ++channel) {
                scales.push_back(q.scale(channel));
                if (!q.is_symmetric()) zero_points.push_back(q.zero_point(channel));
            }
            tensor.qparams = QParams::per_channel(scales, zero_points, q.axis(), q.quant_min(), q.quant_max());
        }
        storage_->tensors.push_back(tensor);
    }

    void add(runtime::Instruction instruction) {
        instruction.name = text(instruction.name);
        instruction.type = text(instruction.type);
        if (instruction.params.kind == kernels::ParamKind::conv)
            instruction.params = repacked(instruction.params_as<kernels::ConvParams>());
        else if (instruction.params.kind != kernels::ParamKind::none)
            copy_params(instruction);
        storage_->instructions.push_back(instruction);
    }

    kernels::InstructionParams repacked(const kernels::ConvParams& from) {
        const kernels::PackedConv2d& packed = from.packed;
        std::vector<std::byte> codes(static_cast<std::size_t>(packed.out_channels * packed.group_inputs() *
                                                              packed.taps() * size_of(packed.weight_dtype)));
        kernels::unpack_weights(packed, codes.data());
        const Workspace memory = new_buffer(kernels::repacked_conv2d_size(to_->packing, packed));
        auto params = std::make_shared<kernels::ConvParams>(from);
        params->packed =
            value_or_throw(kernels::repack_conv2d(to_->packing, packed, codes.data(), memory), "packing a layer");
        storage_->params.push_back(params);
        return params.get();
    }

    /// The structs as they are, and the memory that they point to.
    void copy_params(runtime::Instruction& instruction) {
        const kernels::ParamStruct& params = kernels::find_operator(instruction.op)->params;
        const auto structs =
            std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(instruction.params.size));
        const auto* const from = static_cast<const std::byte*>(instruction.params.data);
        const kernels::ParamVisitor visitor{this, &copy_memory, nullptr, kernels::ParamVisitor::Demands::nothing};
        for (index_t at = 0; at < instruction.params.size; at += params.size)
            throw_if_failed(params.visit(from + at, structs->data() + at, context_, visitor), instruction.name);
        instruction.params.data = structs->data();
        storage_->params.push_back(structs);
    }
    static void copy_memory(void* context, const kernels::ParamField& field) {
        if (field.memory == nullptr || field.count == 0) return;
        const index_t bytes = field.count * size_of(field.type);
        const Workspace memory = static_cast<ProgramPacker*>(context)->new_buffer(bytes);
        std::memcpy(memory.data, *field.memory, static_cast<std::size_t>(bytes));
        *field.memory = memory.data;
    }

    const char* text(const char* given) { return storage_->names.emplace_back(given).c_str(); }
    Workspace new_buffer(index_t size) { return storage_->buffers.emplace_back(size).workspace(); }

    const runtime::Program& program_;
    kernels::ParamContext context_;
    std::shared_ptr<kernels::KernelTable> to_;
    std::unique_ptr<program::ProgramStorage> storage_;
};

}  // namespace detail

INTQ_INLINE kernels::KernelTable describe_kernels(const kernels::KernelTable& table, const std::string& backend) {
    const kernels::BackendPacking* const packing = kernels::find_packing(backend.c_str());
    if (packing == nullptr) {
        std::string names;
        for (const kernels::BackendPacking& each : kernels::backend_packings)
            names += (names.empty() ? "" : ", ") + std::string(each.backend);
        throw Error("there is no backend " + in_quotes(backend) + "; the backends: " + names);
    }
    kernels::KernelTable described = table;
    described.backend = packing->backend;
    described.packing = packing->rules;
    described.packing.policy = table.packing.policy;
    described.stage = nullptr;
    return described;
}

INTQ_INLINE std::shared_ptr<program::OwnedProgram> pack_program(const runtime::Program& program,
                                                                const kernels::KernelTable& table,
                                                                const kernels::KernelTable& to) {
    if (!table.policy().same_arithmetic(to.policy()))
        throw Error(std::string("a program of the target ") + table.policy().name +
                    " is not packed for kernels of the target " + to.policy().name);
    throw_if_failed(runtime::check_program(program, table), "the program to pack");
    return detail::ProgramPacker(program, table, to).packed();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)
#endif  // INTQ_DEPLOY_PACK_PROGRAM_HPP
