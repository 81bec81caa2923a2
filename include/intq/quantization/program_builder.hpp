// SPDX-License-Identifier: MIT
//
// ProgramBuilder: makes a runtime program one instruction at a time, and plans its memory. Layer: quantization.
//
// Each function adds one instruction and returns the index of the tensor that it produces. What a target or a
// kernel refuses is thrown as an Error that names the layer.
#ifndef INTQ_QUANTIZATION_PROGRAM_BUILDER_HPP
#define INTQ_QUANTIZATION_PROGRAM_BUILDER_HPP

#include <algorithm>
#include <optional>
#include <utility>

#include "intq/nn/owned_qparams.hpp"
#include "intq/quantization/owned_program.hpp"
#include "intq/runtime/memory_plan.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// Name and class of the layer that an instruction comes from.
struct LayerName {
    std::string name;
    std::string type;
};

/// A convolution or linear layer for the builder: input, sumin and their qparams are those of the tensors.
struct ConvLayer {
    OpKind op = OpKind::conv2d;
    Window2d window{};
    index_t out_channels = 1;
    index_t groups = 1;
    std::vector<std::int16_t> weight_codes;  // (O, I/groups, KH, KW)
    nn::OwnedQParams weight;                 // its dtype is that of the packed weights
    std::vector<float> bias;                 // empty for none
    nn::OwnedQParams output;                 // dtype int32: the accumulator is the output
    Activation activation = Activation::none;
};

class ProgramBuilder {
public:
    /// @param table      kernels of the target and backend; must outlive the program
    /// @param max_batch  images that one run may hold
    ProgramBuilder(const kernels::KernelTable& table, index_t max_batch)
        : table_(&table), max_batch_(max_batch), storage_(std::make_unique<ProgramStorage>()) {
        if (max_batch < 1) throw Error("a program needs a batch of at least 1, given " + std::to_string(max_batch));
    }

    /// A float32 input of (C, H, W) or (C) per image, row_major: quantize makes images channels last.
    std::int32_t input(const Shape& per_image, const std::string& name);
    std::int32_t quantize(std::int32_t x, const nn::OwnedQParams& qparams, const LayerName& layer);
    std::int32_t dequantize(std::int32_t x, const LayerName& layer);
    /// @param sumin  operand of a fused add
    std::int32_t conv(std::int32_t x, std::optional<std::int32_t> sumin, const ConvLayer& conv, const LayerName& layer);
    std::int32_t add(std::int32_t x, std::int32_t y, const nn::OwnedQParams& output, Activation activation,
                     const LayerName& layer);
    std::int32_t relu(std::int32_t x, Activation activation, const LayerName& layer);
    std::int32_t max_pool(std::int32_t x, const Window2d& window, const LayerName& layer);
    std::int32_t avg_pool(std::int32_t x, const Window2d& window, PoolDivisor divisor, const nn::OwnedQParams& output,
                          const LayerName& layer);
    std::int32_t cat(const std::vector<std::int32_t>& inputs, const nn::OwnedQParams& output, const LayerName& layer);
    std::int32_t requantize(std::int32_t x, const nn::OwnedQParams& output, const LayerName& layer);
    /// (C, H, W) images as (C·H·W) vectors in row_major order. A linear layer behind it does not need it: give
    /// it the images and a window of their size.
    std::int32_t flatten(std::int32_t x, const LayerName& layer);

    const Shape& shape(std::int32_t tensor) const { return at(tensor).shape; }
    DType dtype(std::int32_t tensor) const { return at(tensor).dtype; }
    const QParams& qparams(std::int32_t tensor) const { return at(tensor).qparams; }

    /// Plans memory and checks the whole. The builder is empty afterwards.
    std::shared_ptr<OwnedProgram> finish(std::vector<std::int32_t> outputs);

private:
    const runtime::ProgramTensor& at(std::int32_t tensor) const {
        return storage_->tensors.at(static_cast<std::size_t>(tensor));
    }
    arith::CodesOf codes_of(std::int32_t tensor) const;
    arith::OutputCodes output_codes(const QParams& qparams, Activation activation) const;
    const char* keep(const std::string& text) { return storage_->names.emplace_back(text).c_str(); }
    QParams keep(const nn::OwnedQParams& qparams);
    std::int32_t tensor(DType dtype, const Shape& shape, const QParams& qparams, const char* name);
    std::int32_t push(OpKind op, std::vector<std::int32_t> operands, std::int32_t output,
                      runtime::Instruction::Params params, const LayerName& layer);
    void check(const arith::OperatorUse& use, const LayerName& layer) const {
        throw_if_failed(arith::check_constraints(table_->policy().constraints, use), layer.name);
    }
    void require_image(std::int32_t x, const LayerName& layer) const;
    kernels::ConvGeometry geometry(const Window2d& window, Size2d in, const LayerName& layer);
    std::int32_t pool(OpKind op, std::int32_t x, runtime::PoolStep step, DType dtype, const QParams& output,
                      const LayerName& layer);
    void plan();

    const kernels::KernelTable* table_;
    index_t max_batch_;
    index_t workspace_ = 0;
    index_t workspace_offset_ = 0;
    index_t arena_ = 0;
    std::unique_ptr<ProgramStorage> storage_;
};

// ---------------------------------------------------------------------------------------------------------------------

inline arith::CodesOf ProgramBuilder::codes_of(std::int32_t tensor) const {
    const runtime::ProgramTensor& t = at(tensor);
    return {t.qparams.scale(), t.qparams.zero_point(), t.dtype};
}

inline arith::OutputCodes ProgramBuilder::output_codes(const QParams& qparams, Activation activation) const {
    return arith::make_output_codes(qparams.quant_min(), qparams.quant_max(), qparams.zero_point(), qparams.scale(),
                                    activation);
}

inline QParams ProgramBuilder::keep(const nn::OwnedQParams& qparams) {
    if (!qparams.is_per_channel()) return qparams.view();
    const std::vector<float>& scales = storage_->scales.emplace_back(qparams.scales);
    return QParams::per_channel(scales, {}, qparams.axis, qparams.quant_min, qparams.quant_max);
}

inline std::int32_t ProgramBuilder::tensor(DType dtype, const Shape& shape, const QParams& qparams, const char* name) {
    storage_->tensors.push_back({dtype, shape, qparams, 0, name});
    return static_cast<std::int32_t>(storage_->tensors.size() - 1);
}

inline std::int32_t ProgramBuilder::push(OpKind op, std::vector<std::int32_t> operands, std::int32_t output,
                                         runtime::Instruction::Params params, const LayerName& layer) {
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

inline std::int32_t ProgramBuilder::input(const Shape& per_image, const std::string& name) {
    Shape shape;
    shape.rank = per_image.rank + 1;
    shape[0] = max_batch_;
    for (int axis = 0; axis < per_image.rank; ++axis) shape[axis + 1] = per_image[axis];
    const std::int32_t given = tensor(DType::float32, shape, {}, keep(name));
    storage_->inputs.push_back(given);
    if (shape.rank == 4 && shape[1] > 1) storage_->tensors[static_cast<std::size_t>(given)].layout = Layout::row_major;
    return given;
}

inline std::int32_t ProgramBuilder::quantize(std::int32_t x, const nn::OwnedQParams& qparams, const LayerName& layer) {
    check({OpKind::quantize, at(x).dtype, DType::none, qparams.dtype}, layer);
    const QParams kept = keep(qparams);
    throw_if_failed(kernels::check_quantize_params(kept, qparams.dtype, at(x).shape, table_->policy().quantize),
                    layer.name);
    return push(OpKind::quantize, {x}, tensor(qparams.dtype, at(x).shape, kept, keep(layer.name)), {nullptr}, layer);
}

inline std::int32_t ProgramBuilder::dequantize(std::int32_t x, const LayerName& layer) {
    check({OpKind::dequantize, at(x).dtype, DType::none, DType::float32}, layer);
    return push(OpKind::dequantize, {x}, tensor(DType::float32, at(x).shape, {}, keep(layer.name)), {nullptr}, layer);
}

inline void ProgramBuilder::require_image(std::int32_t x, const LayerName& layer) const {
    if (at(x).shape.rank != 4)
        throw Error(layer.name, "an input of rank 4 (N, C, H, W) is needed, given " + nn::to_string(at(x).shape));
}

inline kernels::ConvGeometry ProgramBuilder::geometry(const Window2d& window, Size2d in, const LayerName& layer) {
    throw_if_failed(check_window(window, OpKind::conv2d), layer.name);
    const AlignedBytes& bytes = storage_->buffers.emplace_back(kernels::conv2d_geometry_size(window, in));
    return value_or_throw(kernels::make_conv2d_geometry(window, max_batch_, in, bytes.workspace()), layer.name);
}

inline std::int32_t ProgramBuilder::conv(std::int32_t x, std::optional<std::int32_t> sumin, const ConvLayer& conv,
                                         const LayerName& layer) {
    const runtime::ProgramTensor in = at(x);
    if (in.shape.rank != 4 && in.shape.rank != 2)
        throw Error(layer.name, "an input of rank 4 or 2 is needed, given " + nn::to_string(in.shape));
    const bool is_image = in.shape.rank == 4;
    kernels::Conv2dSpec spec;
    spec.op = conv.op;
    spec.window = conv.window;
    spec.in_channels = in.shape[1];
    spec.out_channels = conv.out_channels;
    spec.groups = conv.groups;
    spec.input_dtype = in.dtype;
    spec.input = in.qparams;
    spec.weight_dtype = conv.weight.dtype;
    spec.weight = conv.weight.view();
    spec.output_dtype = conv.output.dtype;
    if (conv.output.dtype != DType::int32) spec.output = conv.output.view();
    spec.activation = conv.activation;
    if (!conv.bias.empty()) spec.bias = conv.bias.data();
    const index_t kernel = conv.window.kernel.height * conv.window.kernel.width;
    const index_t weights = conv.out_channels * (conv.groups > 0 ? in.shape[1] / conv.groups : 0) * kernel;
    if (static_cast<index_t>(conv.weight_codes.size()) != weights)
        throw Error(layer.name, "the weight has " + std::to_string(conv.weight_codes.size()) + " elements, expected " +
                                    std::to_string(weights));
    std::vector<std::int8_t> narrow;
    if (conv.weight.dtype == DType::int8) {
        for (const std::int16_t code : conv.weight_codes) narrow.push_back(static_cast<std::int8_t>(code));
        spec.weight_codes = narrow.data();
    } else {
        spec.weight_codes = conv.weight_codes.data();
    }
    arith::SuminOperand operand;
    if (sumin) {
        const QParams& e = at(*sumin).qparams;
        if (at(*sumin).dtype != in.dtype)
            throw Error(layer.name, "the operand of a fused add must have the input's dtype " +
                                        std::string(name_of(in.dtype)) + ", given " + name_of(at(*sumin).dtype));
        operand = {e.scale(), e.zero_point(), e.quant_min(), e.quant_max()};
        spec.sumin = &operand;
    }
    AlignedBytes storage(kernels::packed_conv2d_size(table_->packing, spec));
    runtime::ConvStep step;
    const Result<kernels::PackedConv2d> packed = kernels::pack_conv2d(table_->packing, spec, storage.workspace());
    if (packed.status().code == StatusCode::accumulator_overflow)
        throw Error(
            layer.name,
            describe(packed.status()) +
                "; ways out: int8 activations, a target with 64-bit accumulators (meta), or a larger weight scale");
    step.packed = value_or_throw(packed, layer.name);
    storage_->buffers.push_back(storage);
    step.geometry = geometry(conv.window, is_image ? Size2d{in.shape[2], in.shape[3]} : Size2d{}, layer);
    workspace_ = std::max(workspace_, kernels::conv2d_workspace_size(step.packed, step.geometry));

    const bool is_vector = conv.op == OpKind::linear;
    const Size2d out = step.geometry.out;
    const Shape shape =
        is_vector ? Shape(max_batch_, conv.out_channels) : Shape(max_batch_, conv.out_channels, out.height, out.width);
    QParams output = spec.output;
    if (conv.output.dtype == DType::int32) {
        nn::OwnedQParams accumulator = nn::OwnedQParams::per_channel({}, 1, DType::int32);
        for (index_t c = 0; c < conv.out_channels; ++c)
            accumulator.scales.push_back(arith::fmul(in.qparams.scale(), spec.weight.scale(c)));
        output = keep(accumulator);
    }
    std::vector<std::int32_t> operands{x};
    if (sumin) operands.push_back(*sumin);
    const runtime::ConvStep* const kept = &storage_->convs.emplace_back(step);
    return push(conv.op, std::move(operands), tensor(conv.output.dtype, shape, output, keep(layer.name)),
                {.conv = kept}, layer);
}

inline std::int32_t ProgramBuilder::add(std::int32_t x, std::int32_t y, const nn::OwnedQParams& output,
                                        Activation activation, const LayerName& layer) {
    if (!(at(x).shape == at(y).shape))
        throw Error(layer.name, "add needs operands of one shape, given " + nn::to_string(at(x).shape) + " and " +
                                    nn::to_string(at(y).shape));
    if (at(x).dtype != at(y).dtype)
        throw Error(layer.name, "add needs operands of one dtype, given " + std::string(name_of(at(x).dtype)) +
                                    " and " + name_of(at(y).dtype));
    check({OpKind::add, at(x).dtype, DType::none, output.dtype, {}, at(x).shape[1]}, layer);
    const QParams out = keep(output);
    const arith::CodesOf codes{out.scale(), out.zero_point(), output.dtype};
    const auto* const params = &storage_->adds.emplace_back(value_or_throw(
        arith::make_add(table_->policy(), codes_of(x), codes_of(y), codes, output_codes(out, activation)), layer.name));
    return push(OpKind::add, {x, y}, tensor(output.dtype, at(x).shape, out, keep(layer.name)), {.add = params}, layer);
}

inline std::int32_t ProgramBuilder::relu(std::int32_t x, Activation activation, const LayerName& layer) {
    check({OpKind::relu, at(x).dtype, DType::none, at(x).dtype}, layer);
    const arith::OutputCodes* const codes = &storage_->clamps.emplace_back(output_codes(at(x).qparams, activation));
    return push(OpKind::relu, {x}, tensor(at(x).dtype, at(x).shape, at(x).qparams, keep(layer.name)), {.clamp = codes},
                layer);
}

inline std::int32_t ProgramBuilder::pool(OpKind op, std::int32_t x, runtime::PoolStep step, DType dtype,
                                         const QParams& output, const LayerName& layer) {
    const Shape in = at(x).shape;
    const Size2d out = output_size(step.window, {in[2], in[3]});
    const runtime::PoolStep* const kept = &storage_->pools.emplace_back(step);
    return push(op, {x}, tensor(dtype, Shape(max_batch_, in[1], out.height, out.width), output, keep(layer.name)),
                {.pool = kept}, layer);
}

inline std::int32_t ProgramBuilder::max_pool(std::int32_t x, const Window2d& window, const LayerName& layer) {
    require_image(x, layer);
    check({OpKind::max_pool2d, at(x).dtype, DType::none, at(x).dtype, window, at(x).shape[1]}, layer);
    throw_if_failed(kernels::check_pool(window, {at(x).shape[2], at(x).shape[3]}, OpKind::max_pool2d), layer.name);
    return pool(OpKind::max_pool2d, x, {window, {}}, at(x).dtype, at(x).qparams, layer);
}

inline std::int32_t ProgramBuilder::avg_pool(std::int32_t x, const Window2d& window, PoolDivisor divisor,
                                             const nn::OwnedQParams& output, const LayerName& layer) {
    require_image(x, layer);
    check({OpKind::avg_pool2d, at(x).dtype, DType::none, output.dtype, window, at(x).shape[1]}, layer);
    throw_if_failed(kernels::check_pool(window, {at(x).shape[2], at(x).shape[3]}, OpKind::avg_pool2d), layer.name);
    const QParams out = keep(output);
    const arith::CodesOf codes{out.scale(), out.zero_point(), output.dtype};
    const bool has_padding = !(window.padding == Padding2d{});
    const auto average =
        value_or_throw(arith::make_average(table_->policy(), codes_of(x), codes, output_codes(out, Activation::none),
                                           window.kernel.height * window.kernel.width, divisor, has_padding),
                       layer.name);
    return pool(OpKind::avg_pool2d, x, {window, average}, output.dtype, out, layer);
}

inline std::int32_t ProgramBuilder::requantize(std::int32_t x, const nn::OwnedQParams& output, const LayerName& layer) {
    check({OpKind::requantize, at(x).dtype, DType::none, output.dtype}, layer);
    const QParams out = keep(output);
    const arith::CodesOf codes{out.scale(), out.zero_point(), output.dtype};
    const auto& params = storage_->requantizes.emplace_back(
        1, value_or_throw(
               kernels::make_requantize(table_->policy(), codes_of(x), codes, output_codes(out, Activation::none)),
               layer.name));
    return push(OpKind::requantize, {x}, tensor(output.dtype, at(x).shape, out, keep(layer.name)),
                {.requantize = params.data()}, layer);
}

inline std::int32_t ProgramBuilder::cat(const std::vector<std::int32_t>& inputs, const nn::OwnedQParams& output,
                                        const LayerName& layer) {
    if (inputs.empty()) throw Error(layer.name, "cat needs at least one input");
    const QParams out = keep(output);
    const arith::CodesOf codes{out.scale(), out.zero_point(), output.dtype};
    auto& params = storage_->requantizes.emplace_back();
    Shape shape = at(inputs[0]).shape;
    shape[1] = 0;
    for (const std::int32_t x : inputs) {
        check({OpKind::cat, at(x).dtype, DType::none, output.dtype}, layer);
        Shape expected = at(x).shape;
        expected[1] = shape[1];
        if (!(expected == shape))
            throw Error(layer.name, "cat along the channels needs inputs that agree in the other axes, given " +
                                        nn::to_string(at(x).shape) + " beside " + nn::to_string(at(inputs[0]).shape));
        shape[1] += at(x).shape[1];
        params.push_back(value_or_throw(
            kernels::make_requantize(table_->policy(), codes_of(x), codes, output_codes(out, Activation::none)),
            layer.name));
    }
    return push(OpKind::cat, inputs, tensor(output.dtype, shape, out, keep(layer.name)), {.requantize = params.data()},
                layer);
}

inline std::int32_t ProgramBuilder::flatten(std::int32_t x, const LayerName& layer) {
    require_image(x, layer);
    const Shape in = at(x).shape;
    const QParams qparams = at(x).qparams;
    if (qparams.is_per_channel() && in[2] * in[3] != 1)
        throw Error(layer.name, "flatten of an int32 accumulator of shape " + nn::to_string(in) +
                                    " is not possible: its scales are per channel");
    if (at(x).layout == Layout::row_major)
        x = push(OpKind::layout_change, {x}, tensor(at(x).dtype, in, qparams, keep(layer.name)), {nullptr}, layer);
    return push(OpKind::layout_change, {x},
                tensor(at(x).dtype, Shape(max_batch_, in[1] * in[2] * in[3]), qparams, keep(layer.name)), {nullptr},
                layer);
}

inline void ProgramBuilder::plan() {
    std::vector<runtime::Lifetime> lives(storage_->tensors.size() + 1);
    const auto end = static_cast<std::int32_t>(storage_->instructions.size());
    for (std::size_t i = 0; i < storage_->tensors.size(); ++i) lives[i] = {storage_->tensors[i].bytes(), end, -1, 0};
    const auto touch = [&](std::int32_t tensor, std::int32_t when) {
        runtime::Lifetime& life = lives[static_cast<std::size_t>(tensor)];
        life.first = std::min(life.first, when);
        life.last = std::max(life.last, when);
    };
    for (const std::int32_t tensor : storage_->inputs) touch(tensor, -1);
    for (const std::int32_t tensor : storage_->outputs) touch(tensor, end);
    for (std::int32_t i = 0; i < end; ++i) {
        const runtime::Instruction& instruction = storage_->instructions[static_cast<std::size_t>(i)];
        touch(instruction.output, i);
        for (std::int32_t k = 0; k < instruction.operand_count; ++k)
            touch(storage_->operands[static_cast<std::size_t>(instruction.first_operand + k)], i);
    }
    lives.back() = {workspace_, -1, end, 0};
    const auto placed = std::make_unique<bool[]>(lives.size());
    const index_t arena = runtime::plan_memory(lives, std::span<bool>(placed.get(), lives.size()));
    for (std::size_t i = 0; i < storage_->tensors.size(); ++i) storage_->tensors[i].offset = lives[i].offset;
    arena_ = arena;
    workspace_offset_ = lives.back().offset;
}

inline std::shared_ptr<OwnedProgram> ProgramBuilder::finish(std::vector<std::int32_t> outputs) {
    storage_->outputs = std::move(outputs);
    if (storage_->outputs.empty()) throw Error("a program needs an output");
    plan();
    runtime::Program program;
    program.instructions = storage_->instructions;
    program.tensors = storage_->tensors;
    program.operands = storage_->operands;
    program.inputs = storage_->inputs;
    program.outputs = storage_->outputs;
    program.workspace_offset = workspace_offset_;
    program.workspace_size = workspace_;
    program.arena_size = arena_;
    program.max_batch = max_batch_;
    throw_if_failed(runtime::check_program(program, *table_), "the lowered program");
    return std::make_shared<OwnedProgram>(std::move(storage_), program, *table_);
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_PROGRAM_BUILDER_HPP
