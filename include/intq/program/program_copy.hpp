// SPDX-License-Identifier: MIT
//
// ProgramCopy: a program copied part by part into storage of its own, with layers that are packed again. Layer:
// program.
//
// What packs a program for another backend and what changes its instructions begin from it.
#ifndef INTQ_PROGRAM_PROGRAM_COPY_HPP
#define INTQ_PROGRAM_PROGRAM_COPY_HPP

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "intq/kernels/operators/conv.hpp"
#include "intq/kernels/packing/repack.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/program/row_plan.hpp"
#include "intq/runtime/program.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// The codes of a packed layer's weights, in the order of Conv2dSpec::weight_codes, as the bytes of their type.
std::vector<std::byte> weight_codes_of(const kernels::PackedConv2d& packed);

/// A copy under construction. Nothing of the program that it was made of is referred to afterwards.
///
/// One thread at a time uses an object.
class ProgramCopy {
public:
    /// @param table  the kernels that the program is packed for, or a table that describes them
    /// @param to     those that its copy is packed for; the copy keeps the table
    ProgramCopy(const runtime::Program& program, const kernels::KernelTable& table, const kernels::KernelTable& to);

    const runtime::Program& program() const noexcept { return program_; }
    ProgramStorage& storage() noexcept { return *storage_; }

    /// A tensor with a name and scales of its own, all of whose rows are held.
    runtime::ProgramTensor copy_of(runtime::ProgramTensor tensor);
    /// An instruction with names and parameters of its own, in no group; its layer is packed again.
    ///
    /// @param x  the copy's tensor that is its first operand, behind all instructions that write it; not read of a
    ///           constant, which has none
    runtime::Instruction copy_of(runtime::Instruction instruction, std::int32_t x);
    /// The same for a layer of which some channels are left.
    ///
    /// @param weight_codes  the part's, in the order of Conv2dSpec::weight_codes
    /// @param weight_sums   of all weights of each channel of the whole layer
    runtime::Instruction copy_of_part(runtime::Instruction layer, std::int32_t x, kernels::LayerPart part,
                                      std::span<const std::byte> weight_codes,
                                      std::span<const std::int64_t> weight_sums);
    /// Memory for constants.
    Workspace new_buffer(index_t size) { return storage_->buffers.emplace_back(size).workspace(); }
    /// Keeps parameters as long as the copy lives.
    template <class Params> const Params* keep_params(const Params& params) {
        auto kept = std::make_shared<Params>(params);
        storage_->params.push_back(kept);
        return kept.get();
    }

    /// Plans the memory of the copy, and checks it.
    ///
    /// @throws Error naming what check_program() refuses
    std::shared_ptr<OwnedProgram> finish(const RowOptions& rows = {});

private:
    /// Whether a tensor of the copy has no negative code, and its golden runs were recorded on such codes.
    bool is_nonnegative(std::int32_t tensor) const;
    static void copy_memory(void* context, const kernels::ParamField& field);
    void copy_params(runtime::Instruction& instruction);
    void copy_names(runtime::Instruction& instruction);
    const char* text(const char* given) { return storage_->names.emplace_back(given).c_str(); }

    const runtime::Program& program_;
    kernels::ParamContext context_;
    std::shared_ptr<kernels::KernelTable> to_;
    std::unique_ptr<ProgramStorage> storage_;
};

/// A copy of a whole program.
///
/// @param table  the kernels that it is packed for, or a table that describes them
/// @param to     those that its copy is packed for
/// @param rows   how the copy runs
/// @throws Error naming what check_program() refuses
std::shared_ptr<OwnedProgram> copy_program(const runtime::Program& program, const kernels::KernelTable& table,
                                           const kernels::KernelTable& to, const RowOptions& rows);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <cstdint>
#    include <cstring>
#    include <utility>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/operator_table.hpp"
#    include "intq/program/program_builder.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<std::byte> weight_codes_of(const kernels::PackedConv2d& packed) {
    const index_t count = packed.out_channels * packed.group_inputs() * packed.taps();
    std::vector<std::byte> codes(static_cast<std::size_t>(count * size_of(packed.weight_dtype)));
    kernels::unpack_weights(packed, codes.data());
    return codes;
}

INTQ_INLINE ProgramCopy::ProgramCopy(const runtime::Program& program, const kernels::KernelTable& table,
                                     const kernels::KernelTable& to)
    : program_(program),
      context_{&table.packing},
      to_(std::make_shared<kernels::KernelTable>(to)),
      storage_(std::make_unique<ProgramStorage>()) {
    storage_->params.push_back(to_);
}

INTQ_INLINE runtime::ProgramTensor ProgramCopy::copy_of(runtime::ProgramTensor tensor) {
    const QParams& q = tensor.qparams;
    tensor.name = text(tensor.name);
    tensor.ring = 0;
    if (q.is_per_channel()) {
        std::vector<float>& scales = storage_->scales.emplace_back();
        std::vector<std::int32_t>& zero_points = storage_->zero_points.emplace_back();
        for (index_t channel = 0; channel < q.count(); ++channel) {
            scales.push_back(q.scale(channel));
            if (!q.is_symmetric()) zero_points.push_back(q.zero_point(channel));
        }
        tensor.qparams = QParams::per_channel(scales, zero_points, q.axis(), q.quant_min(), q.quant_max());
    }
    return tensor;
}

INTQ_INLINE void ProgramCopy::copy_names(runtime::Instruction& instruction) {
    instruction.name = text(instruction.name);
    instruction.type = text(instruction.type);
    instruction.rows = 0;
}

INTQ_INLINE bool ProgramCopy::is_nonnegative(std::int32_t tensor) const {
    return storage_->tensors.at(static_cast<std::size_t>(tensor)).qparams.quant_min() >= 0 &&
           is_nonnegative_in(*storage_, *to_, tensor);
}

INTQ_INLINE runtime::Instruction ProgramCopy::copy_of(runtime::Instruction instruction, std::int32_t x) {
    copy_names(instruction);
    if (instruction.params.kind != kernels::ParamKind::conv) {
        if (instruction.params.kind != kernels::ParamKind::none) copy_params(instruction);
        return instruction;
    }
    auto params = instruction.params_as<kernels::ConvParams>();
    const std::vector<std::byte> codes = weight_codes_of(params.packed);
    const bool has_no_negative = is_nonnegative(x);
    const Workspace memory = new_buffer(kernels::repacked_conv2d_size(to_->packing, params.packed, has_no_negative));
    params.packed = value_or_throw(
        kernels::repack_conv2d(to_->packing, params.packed, codes.data(), memory, has_no_negative), "packing a layer");
    instruction.params = keep_params(params);
    return instruction;
}

INTQ_INLINE runtime::Instruction ProgramCopy::copy_of_part(runtime::Instruction layer, std::int32_t x,
                                                           kernels::LayerPart part,
                                                           std::span<const std::byte> weight_codes,
                                                           std::span<const std::int64_t> weight_sums) {
    copy_names(layer);
    part.input_is_nonnegative = is_nonnegative(x);
    auto params = layer.params_as<kernels::ConvParams>();
    const Workspace memory = new_buffer(kernels::repacked_part_size(to_->packing, params.packed, part));
    params.packed = value_or_throw(
        kernels::repack_part(to_->packing, params.packed, part, weight_codes.data(), weight_sums, memory),
        "packing a layer");
    layer.params = keep_params(params);
    return layer;
}

/// The structs as they are, and the memory that they point to.
INTQ_INLINE void ProgramCopy::copy_params(runtime::Instruction& instruction) {
    const kernels::ParamStruct& params = kernels::find_operator(instruction.op)->params;
    const auto structs = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(instruction.params.size));
    const auto* const from = static_cast<const std::byte*>(instruction.params.data);
    const kernels::ParamVisitor visitor{this, &copy_memory, nullptr, kernels::ParamVisitor::Demands::nothing};
    for (index_t at = 0; at < instruction.params.size; at += params.size)
        throw_if_failed(params.visit(from + at, structs->data() + at, context_, visitor), instruction.name);
    instruction.params.data = structs->data();
    storage_->params.push_back(structs);
}

INTQ_INLINE void ProgramCopy::copy_memory(void* context, const kernels::ParamField& field) {
    if (field.memory == nullptr || field.count == 0) return;
    const index_t bytes = field.count * size_of(field.type);
    const Workspace memory = static_cast<ProgramCopy*>(context)->new_buffer(bytes);
    std::memcpy(memory.data, *field.memory, static_cast<std::size_t>(bytes));
    *field.memory = memory.data;
}

INTQ_INLINE std::shared_ptr<OwnedProgram> ProgramCopy::finish(const RowOptions& rows) {
    return plan_program(std::move(storage_), program_.max_batch, *to_, rows);
}

INTQ_INLINE std::shared_ptr<OwnedProgram> copy_program(const runtime::Program& program,
                                                       const kernels::KernelTable& table,
                                                       const kernels::KernelTable& to, const RowOptions& rows) {
    ProgramCopy copy(program, table, to);
    ProgramStorage& storage = copy.storage();
    const auto assign = [](auto& list, auto from) { list.assign(from.begin(), from.end()); };
    assign(storage.operands, program.operands);
    assign(storage.inputs, program.inputs);
    assign(storage.outputs, program.outputs);
    assign(storage.dropped, program.dropped);
    assign(storage.states, program.states);
    for (const runtime::ProgramTensor& tensor : program.tensors) storage.tensors.push_back(copy.copy_of(tensor));
    for (const runtime::Instruction& instruction : program.instructions) {
        const auto operands = program.operands_of(instruction);
        storage.instructions.push_back(copy.copy_of(instruction, operands.empty() ? -1 : operands[0]));
    }
    return copy.finish(rows);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_PROGRAM_COPY_HPP
