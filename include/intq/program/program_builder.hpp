// SPDX-License-Identifier: MIT
//
// ProgramBuilder: makes a runtime program one instruction at a time, and plans its memory. Layer: program.
//
// Each function adds one instruction and returns the index of the tensor that it produces. A refusal of a target or a
// kernel is thrown as an Error that names the layer.
#ifndef INTQ_PROGRAM_PROGRAM_BUILDER_HPP
#define INTQ_PROGRAM_PROGRAM_BUILDER_HPP

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "intq/arith/constraints.hpp"
#include "intq/arith/elementwise.hpp"
#include "intq/arith/quantize.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/program/lifetimes.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/program/row_plan.hpp"
#include "intq/runtime/program.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// Name and class of the layer that an instruction comes from.
struct LayerName {
    std::string name;
    std::string type;
};

/// Whether a scale comes from data that was all zero.
bool is_scale_of_zeros(const QParams& qparams);

/// Throws the refusal of a maker. Where the scale of the output comes from data that was all zero, the error says so:
/// it is the smallest scale, to which most accumulators cannot be requantized.
void throw_if_refused(const Status& made, const QParams& output, const LayerName& layer);

/// The result of a maker, or throw_if_refused().
template <class T> T made_or_throw(const Result<T>& made, const QParams& output, const LayerName& layer) {
    throw_if_refused(made.status(), output, layer);
    return *made;
}

/// A program under construction: tensors, instructions, and the memory that parameters need. The functions that add an
/// operator are beside its step, in quantization/operators/.
///
/// One thread at a time uses an object; the finished program is immutable.
class ProgramBuilder {
public:
    /// @param table      kernels of the target and backend; must outlive the program
    /// @param max_batch  images that one run may hold
    ProgramBuilder(const kernels::KernelTable& table, index_t max_batch);

    /// A float32 input of (C, H, W) or (C) per image, row_major: quantize makes images channels last.
    std::int32_t input(const Shape& per_image, const std::string& name);
    /// Integers that an operator reads as they are, such as token ids; state_ids() says which.
    std::int32_t id_input(const Shape& per_image, const std::string& name) {
        return code_input(per_image, DType::int32, OwnedQParams::per_tensor(1.0f, DType::int32), name);
    }
    /// States that a tensor's integers are in [0, count), which a run compares; of several counts the smallest.
    /// @throws Error for a tensor of another type, or no id
    void state_ids(std::int32_t tensor, index_t count);
    /// An input of codes or accumulators; images are channels last, rows of features row_major.
    std::int32_t code_input(const Shape& per_image, DType dtype, const OwnedQParams& qparams, const std::string& name,
                            Layout layout = Layout::channels_last);
    /// (C, H, W) images, or (C, L), as (C·H·W) vectors in row_major order. A linear layer does not need it: pass it the
    /// images and a window of their size.
    std::int32_t flatten(std::int32_t x, const LayerName& layer);
    /// The same tensor in another layout: rows of features are row_major, images channels_last.
    std::int32_t change_layout(std::int32_t x, Layout layout, const LayerName& layer);
    /// States that an input and an output are the same memory (runtime::StatePair).
    void state_pair(std::int32_t input, std::int32_t output) { storage_->states.push_back({input, output}); }
    /// Plans memory and checks the whole. The builder is empty afterwards.
    std::shared_ptr<OwnedProgram> finish(std::vector<std::int32_t> outputs);

    // --- for the functions that add an operator ----------------------------------------------------------------------

    const kernels::KernelTable& table() const noexcept { return *table_; }
    const arith::PolicyRecord& target() const noexcept;
    index_t max_batch() const noexcept { return max_batch_; }
    const kernels::ArenaTensor& at(std::int32_t tensor) const;
    /// A new tensor.
    std::int32_t tensor(DType dtype, const Shape& shape, const QParams& qparams, const LayerName& layer,
                        Layout layout = Layout::channels_last);
    /// States bounds of a tensor's codes, which layers added later rely on and each run checks.
    ///
    /// @throws Error for a tensor of other types than int8 and int16, for bounds that are not codes, and for bounds
    ///         that do not contain 0 and the zero point
    void state_bounds(std::int32_t tensor, std::int64_t lowest, std::int64_t highest);
    /// A new instruction; returns its output.
    ///
    /// @param params  kept by keep_params(); null for an operator without
    std::int32_t push(OpKind op, std::vector<std::int32_t> operands, std::int32_t output,
                      const kernels::InstructionParams& params, const LayerName& layer);

    /// Each keeps its argument as long as the program lives.
    template <class Params> const Params* keep_params(Params params) {
        auto kept = std::make_shared<Params>(std::move(params));
        keep_alive(kept);
        return kept.get();
    }
    QParams keep(const OwnedQParams& qparams);
    /// Memory for packed weights, geometries and tables, which the program counts as its constants.
    Workspace new_buffer(index_t size);
    /// Lets new_buffer() throw where all buffers together would have more bytes.
    void limit_buffers(index_t bytes) noexcept { most_buffers_ = bytes; }
    /// Says that the program will not be run: data that depend only on the size of images need not be made.
    void set_trial() noexcept { is_trial_ = true; }
    bool is_trial() const noexcept { return is_trial_; }

    /// Throws where the target's constraint table refuses a use.
    void check_use(const arith::OperatorUse& use, const LayerName& layer) const;
    void require_image(std::int32_t x, const LayerName& layer) const;
    /// Whether the instructions so far show that a tensor has no negative code.
    bool is_nonnegative(std::int32_t x) const;
    arith::CodesOf codes_of(std::int32_t tensor) const;
    static arith::CodesOf codes_of(const OwnedQParams& qparams);
    static arith::OutputCodes output_codes(const QParams& qparams, Activation activation = Activation::none);

private:
    void keep_alive(std::shared_ptr<const void> params);
    const char* keep(const std::string& text);
    std::int32_t add_tensor(DType dtype, const Shape& shape, const QParams& qparams, const char* name);
    Shape with_batch(const Shape& per_image) const;

    const kernels::KernelTable* table_;
    index_t max_batch_;
    index_t most_buffers_ = (std::numeric_limits<index_t>::max)();
    index_t buffers_ = 0;
    bool is_trial_ = false;
    std::unique_ptr<ProgramStorage> storage_;
};

/// Whether the instructions of a program that is being made show that a tensor of int8 has no negative code. Its grid
/// has one zero point, which is not negative either.
bool is_nonnegative_in(const ProgramStorage& storage, const kernels::KernelTable& table, std::int32_t tensor);

/// Plans the rows and the memory of a program whose tables are complete, and checks the whole.
///
/// @param table  must outlive the program
/// @throws Error naming what check_program() refuses
std::shared_ptr<OwnedProgram> plan_program(std::unique_ptr<ProgramStorage> storage, index_t max_batch,
                                           const kernels::KernelTable& table, const RowOptions& rows = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE bool is_scale_of_zeros(const QParams& qparams) {
    return !qparams.is_per_channel() && qparams.scale() <= arith::RangeRule{}.smallest_scale;
}

INTQ_INLINE void throw_if_refused(const Status& made, const QParams& output, const LayerName& layer) {
    if (made.ok()) return;
    const bool is_of_scales =
        made.code == StatusCode::scale_out_of_range || made.code == StatusCode::accumulator_overflow;
    if (is_of_scales && is_scale_of_zeros(output))
        throw Error(layer.name, describe(made) +
                                    "; its output was 0 in all data that its scale comes from, so that this is the "
                                    "smallest one: calibrate on data where it is not, or give its quantizer a scale by "
                                    "set_qparams()");
    throw_if_failed(made, layer.name);
}

INTQ_INLINE QParams ProgramBuilder::keep(const OwnedQParams& qparams) {
    if (!qparams.is_per_channel()) return qparams.view();
    const std::vector<float>& scales = storage_->scales.emplace_back(qparams.scales);
    const std::vector<std::int32_t>& zero_points = storage_->zero_points.emplace_back(qparams.zero_points);
    return QParams::per_channel(scales, zero_points, qparams.axis, qparams.quant_min, qparams.quant_max);
}

INTQ_INLINE std::int32_t ProgramBuilder::push(OpKind op, std::vector<std::int32_t> operands, std::int32_t output,
                                              const kernels::InstructionParams& params, const LayerName& layer) {
    runtime::Instruction instruction;
    instruction.op = op;
    instruction.output = output;
    instruction.first_operand = static_cast<std::int32_t>(storage_->operands.size());
    instruction.operand_count = static_cast<std::int32_t>(operands.size());
    instruction.name = keep(layer.name);
    instruction.type = keep(layer.type);
    instruction.params = params;
    storage_->operands.insert(storage_->operands.end(), operands.begin(), operands.end());
    storage_->instructions.push_back(instruction);
    return output;
}

INTQ_INLINE Shape ProgramBuilder::with_batch(const Shape& per_image) const {
    Shape shape;
    shape.rank = per_image.rank + 1;
    shape[0] = max_batch_;
    for (int axis = 0; axis < per_image.rank; ++axis) shape[axis + 1] = per_image[axis];
    return shape;
}

INTQ_INLINE std::int32_t ProgramBuilder::input(const Shape& per_image, const std::string& name) {
    const Shape shape = with_batch(per_image);
    const std::int32_t given = add_tensor(DType::float32, shape, {}, keep(name));
    storage_->inputs.push_back(given);
    if (shape.rank >= 3 && shape[1] > 1) storage_->tensors[static_cast<std::size_t>(given)].layout = Layout::row_major;
    return given;
}

INTQ_INLINE std::int32_t ProgramBuilder::code_input(const Shape& per_image, DType dtype, const OwnedQParams& qparams,
                                                    const std::string& name, Layout layout) {
    const std::int32_t given = add_tensor(dtype, with_batch(per_image), keep(qparams), keep(name));
    storage_->tensors.back().layout = layout;
    storage_->inputs.push_back(given);
    return given;
}

INTQ_INLINE std::int32_t ProgramBuilder::flatten(std::int32_t x, const LayerName& layer) {
    if (at(x).shape.rank != 3) require_image(x, layer);
    const Shape in = at(x).shape;
    const QParams qparams = at(x).qparams;
    const index_t features = in.size() / in[0];
    if (qparams.is_per_channel() && features != in[1])
        throw Error(layer.name, "flatten of an int32 accumulator of shape " + to_string(in) +
                                    " is not possible: its scales are per channel");
    if (at(x).layout == Layout::row_major)
        x = push(OpKind::layout_change, {x}, tensor(at(x).dtype, in, qparams, layer), nullptr, layer);
    return push(OpKind::layout_change, {x}, tensor(at(x).dtype, Shape(max_batch_, features), qparams, layer), nullptr,
                layer);
}

INTQ_INLINE std::int32_t ProgramBuilder::change_layout(std::int32_t x, Layout layout, const LayerName& layer) {
    const kernels::ArenaTensor in = at(x);
    return push(OpKind::layout_change, {x}, tensor(in.dtype, in.shape, in.qparams, layer, layout), nullptr, layer);
}

namespace detail {

/// What a storage holds so far, without a place in an arena.
INTQ_INLINE runtime::Program view_of(const ProgramStorage& storage) {
    runtime::Program program;
    program.instructions = storage.instructions;
    program.tensors = storage.tensors;
    program.operands = storage.operands;
    program.inputs = storage.inputs;
    program.outputs = storage.outputs;
    program.dropped = storage.dropped;
    program.states = storage.states;
    return program;
}

}  // namespace detail

INTQ_INLINE bool is_nonnegative_in(const ProgramStorage& storage, const kernels::KernelTable& table,
                                   std::int32_t tensor) {
    const runtime::ProgramTensor& t = storage.tensors.at(static_cast<std::size_t>(tensor));
    return t.dtype == DType::int8 && !t.qparams.is_per_channel() && t.qparams.zero_point() >= 0 &&
           runtime::lowest_code_of(detail::view_of(storage), table, tensor, storage.instructions.size()) >= 0;
}

INTQ_INLINE std::shared_ptr<OwnedProgram> plan_program(std::unique_ptr<ProgramStorage> storage, index_t max_batch,
                                                       const kernels::KernelTable& table, const RowOptions& rows) {
    runtime::Program program = detail::view_of(*storage);
    program.max_batch = max_batch;
    if (rows.mode != RowMode::off) {
        RowPlan plan = plan_rows(program, table, rows);
        plan.apply(storage->instructions, storage->tensors);
        storage->groups = std::move(plan.groups);
        program.groups = storage->groups;
    }
    place_in_arena(program, storage->tensors, table);
    throw_if_failed(runtime::check_program(program, table), "the lowered program");
    return std::make_shared<OwnedProgram>(std::move(storage), program, table);
}

INTQ_INLINE std::shared_ptr<OwnedProgram> ProgramBuilder::finish(std::vector<std::int32_t> outputs) {
    storage_->outputs = std::move(outputs);
    if (storage_->outputs.empty()) throw Error("a program needs an output");
    // The patterns of a self test are codes of a tensor's range: a layer that was made for such codes gets no others.
    for (std::size_t i = 0; i < storage_->tensors.size(); ++i) {
        QParams& q = storage_->tensors[i].qparams;
        if (is_nonnegative_in(*storage_, *table_, static_cast<std::int32_t>(i)))
            q = QParams::per_tensor(q.scale(), q.zero_point(), 0, q.quant_max());
    }
    return plan_program(std::move(storage_), max_batch_, *table_);
}

INTQ_INLINE ProgramBuilder::ProgramBuilder(const kernels::KernelTable& table, index_t max_batch)
    : table_(&table), max_batch_(max_batch), storage_(std::make_unique<ProgramStorage>()) {
    if (max_batch < 1 || max_batch > largest_extent)
        throw Error("a program needs a batch from 1 to " + std::to_string(largest_extent) + ", given " +
                    std::to_string(max_batch));
}

INTQ_INLINE const arith::PolicyRecord& ProgramBuilder::target() const noexcept { return table_->policy(); }

INTQ_INLINE const kernels::ArenaTensor& ProgramBuilder::at(std::int32_t tensor) const {
    return storage_->tensors.at(static_cast<std::size_t>(tensor));
}

INTQ_INLINE std::int32_t ProgramBuilder::tensor(DType dtype, const Shape& shape, const QParams& qparams,
                                                const LayerName& layer, Layout layout) {
    const std::int32_t made = add_tensor(dtype, shape, qparams, keep(layer.name));
    storage_->tensors.back().layout = layout;
    return made;
}

INTQ_INLINE void ProgramBuilder::state_bounds(std::int32_t tensor, std::int64_t lowest, std::int64_t highest) {
    kernels::ArenaTensor& t = storage_->tensors.at(static_cast<std::size_t>(tensor));
    const QParams& q = t.qparams;
    const std::string bounds = "the bounds " + std::to_string(lowest) + " and " + std::to_string(highest);
    if ((t.dtype != DType::int8 && t.dtype != DType::int16) || q.is_per_channel())
        throw Error(t.name, bounds + " are of codes of int8 or int16, and the tensor has " + name_of(t.dtype));
    if (lowest < lowest_code(t.dtype) || highest > highest_code(t.dtype) || lowest >= highest)
        throw Error(t.name, bounds + " are no two codes of " + name_of(t.dtype) + ", the lower one first");
    if (lowest > 0 || highest < 0 || lowest > q.zero_point() || highest < q.zero_point())
        throw Error(t.name,
                    bounds + " must have 0 and the zero point " + std::to_string(q.zero_point()) + " between them");
    t.qparams = QParams::per_tensor(q.scale(), q.zero_point(), (std::max)(lowest, q.quant_min()),
                                    (std::min)(highest, q.quant_max()));
    t.has_stated_bounds = true;
}

INTQ_INLINE void ProgramBuilder::state_ids(std::int32_t tensor, index_t count) {
    kernels::ArenaTensor& t = storage_->tensors.at(static_cast<std::size_t>(tensor));
    if (t.dtype != DType::int32 || count < 1 || count > INT32_MAX)
        throw Error(t.name, std::to_string(count) + " ids of " + name_of(t.dtype) +
                                " are not possible; expected int32, and 1 to 2^31 - 1");
    const std::int64_t highest = t.has_stated_bounds ? (std::min)(t.qparams.quant_max(), count - 1) : count - 1;
    t.qparams = QParams::per_tensor(1.0f, 0, 0, highest);
    t.has_stated_bounds = true;
}

INTQ_INLINE Workspace ProgramBuilder::new_buffer(index_t size) {
    if (size > most_buffers_ - buffers_)
        throw Error("the weights, the places of windows and the tables of the program would have more than " +
                    std::to_string(most_buffers_) + " bytes");
    buffers_ += size;
    return storage_->buffers.emplace_back(size).workspace();
}

INTQ_INLINE void ProgramBuilder::check_use(const arith::OperatorUse& use, const LayerName& layer) const {
    throw_if_failed(arith::check_constraints(table_->policy().constraints, use), layer.name);
}

INTQ_INLINE void ProgramBuilder::require_image(std::int32_t x, const LayerName& layer) const {
    if (at(x).shape.rank != 4)
        throw Error(layer.name, "an input of rank 4 (N, C, H, W) is needed, given " + to_string(at(x).shape));
}

INTQ_INLINE bool ProgramBuilder::is_nonnegative(std::int32_t x) const {
    return is_nonnegative_in(*storage_, *table_, x);
}

INTQ_INLINE arith::CodesOf ProgramBuilder::codes_of(std::int32_t tensor) const {
    const kernels::ArenaTensor& t = at(tensor);
    return {t.qparams.scale(), t.qparams.zero_point(), t.dtype};
}

INTQ_INLINE arith::CodesOf ProgramBuilder::codes_of(const OwnedQParams& qparams) {
    const QParams view = qparams.view();
    return {view.scale(), view.zero_point(), qparams.dtype};
}

INTQ_INLINE arith::OutputCodes ProgramBuilder::output_codes(const QParams& qparams, Activation activation) {
    return arith::make_output_codes(qparams.quant_min(), qparams.quant_max(), qparams.zero_point(), qparams.scale(),
                                    activation);
}

INTQ_INLINE const char* ProgramBuilder::keep(const std::string& text) {
    return storage_->names.emplace_back(text).c_str();
}

INTQ_INLINE std::int32_t ProgramBuilder::add_tensor(DType dtype, const Shape& shape, const QParams& qparams,
                                                    const char* name) {
    storage_->tensors.push_back({dtype, shape, qparams, 0, name});
    return static_cast<std::int32_t>(storage_->tensors.size() - 1);
}

INTQ_INLINE void ProgramBuilder::keep_alive(std::shared_ptr<const void> params) {
    storage_->params.push_back(std::move(params));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_PROGRAM_BUILDER_HPP
