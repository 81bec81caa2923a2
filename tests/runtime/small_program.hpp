// SPDX-License-Identifier: MIT
//
// A program with one instruction of each kind, built by hand, and the same network for the oracle.
#ifndef INTQ_TESTS_RUNTIME_SMALL_PROGRAM_HPP
#define INTQ_TESTS_RUNTIME_SMALL_PROGRAM_HPP

#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "intq/kernels/packing/pack.hpp"
#include "intq/runtime/execute.hpp"
#include "intq/runtime/memory_plan.hpp"
#include "kernels/oracle_bridge.hpp"
#include "reference/program.hpp"

namespace intq::test {

template <class T> T value_of(const Result<T>& result) {
    if (!result)
        throw std::logic_error(std::string("could not be made: ") + name_of(result.status().code) + " of " +
                               name_of(result.status().field));
    return *result;
}

/// Images of (3, 6, 5): layout_change, quantize, conv (relu6), conv 1x1, add (relu), max and average pool, cat,
/// requantize, relu, conv with a fused add where the target has one, flatten, linear to int32, dequantize.
class SmallProgram {
public:
    static constexpr index_t max_batch = 3, channels = 3, height = 6, width = 5, wide = 8;

    SmallProgram(const kernels::KernelTable& table, const oracle::Target& target) : table_(&table), target_(target) {
        build();
        plan();
    }
    SmallProgram(const SmallProgram&) = delete;
    SmallProgram& operator=(const SmallProgram&) = delete;

    const kernels::KernelTable& table() const { return *table_; }
    runtime::Program program() const {
        runtime::Program p;
        p.instructions = instructions;
        p.tensors = tensors;
        p.operands = operands;
        p.inputs = inputs;
        p.outputs = outputs;
        p.workspace_offset = workspace_offset;
        p.workspace_size = workspace_size;
        p.arena_size = arena_size;
        p.max_batch = max_batch;
        return p;
    }
    /// What the oracle says of each instruction but the first; see layer_of.
    std::vector<oracle::LayerResult> evaluate(const oracle::RealTensor& x) const {
        return oracle::evaluate(target_, layers_, {x});
    }
    /// Layer of the oracle that instruction i computes; -1 for the change of layout at the start.
    static int layer_of(index_t instruction) { return static_cast<int>(instruction) - 1; }

    static oracle::RealTensor draw_images(index_t batch, std::uint64_t seed) {
        Draw draw(seed);
        oracle::RealTensor x{{}, batch, channels, height, width};
        for (index_t i = 0; i < batch * channels * height * width; ++i) x.values.push_back(draw.real(-3.0f, 3.0f));
        return x;
    }

    // The parts lie open: tests spoil them one at a time.
    std::vector<runtime::Instruction> instructions;
    std::vector<runtime::ProgramTensor> tensors;
    std::vector<std::int32_t> operands, inputs, outputs;
    index_t workspace_offset = 0, workspace_size = 0, arena_size = 0;
    std::deque<kernels::ConvParams> convs;
    std::deque<kernels::PoolParams> pools;
    std::deque<arith::AddParams> adds;
    std::deque<std::vector<kernels::RequantizeParams>> requantizes;
    std::deque<arith::OutputCodes> clamps;

private:
    static Shape image(index_t c, Size2d size) { return Shape{max_batch, c, size.height, size.width}; }

    std::int32_t tensor(DType dtype, const Shape& shape, const QParams& qparams) {
        tensors.push_back({dtype, shape, qparams, 0, ""});
        return static_cast<std::int32_t>(tensors.size() - 1);
    }
    /// Adds an instruction and, where `layer` is given, what the oracle computes in its place.
    void push(OpKind op, std::vector<std::int32_t> x, std::int32_t y, const kernels::InstructionParams& params,
              std::optional<oracle::Layer> layer) {
        runtime::Instruction instruction;
        instruction.op = op;
        instruction.output = y;
        instruction.first_operand = static_cast<std::int32_t>(operands.size());
        instruction.operand_count = static_cast<std::int32_t>(x.size());
        instruction.params = params;
        operands.insert(operands.end(), x.begin(), x.end());
        instructions.push_back(instruction);
        if (!layer) return;
        layer->name = name_of(op);
        if (layer->inputs.empty())
            for (const std::int32_t input : x) layer->inputs.push_back(static_cast<int>(input) - 2);
        layers_.push_back(*layer);
    }
    static oracle::Layer layer(oracle::Op op, const oracle::QParams& out = {}) {
        oracle::Layer result;
        result.op = op;
        result.out = out;
        return result;
    }

    std::int32_t conv(OpKind op, std::int32_t x, std::optional<std::int32_t> sumin, const Window2d& window,
                      index_t outputs_count, const Codes& in, const Codes& out, Activation activation) {
        const Shape in_shape = tensors[static_cast<std::size_t>(x)].shape;
        const Size2d in_size = in_shape.rank == 4 ? Size2d{in_shape[2], in_shape[3]} : Size2d{};
        Draw draw(static_cast<std::uint64_t>(instructions.size()) + 50);
        oracle::Layer l = layer(op == OpKind::linear ? oracle::Op::linear : oracle::Op::conv2d,
                                out.dtype == DType::int32 ? oracle::int32() : out.for_oracle());
        oracle::Weights& w = l.weighted.weights;
        w.out_channels = outputs_count, w.in_channels = in_shape[1];
        w.kernel_h = window.kernel.height, w.kernel_w = window.kernel.width;
        l.weighted.pad_top = window.padding.top, l.weighted.pad_left = window.padding.left;
        l.weighted.pad_bottom = window.padding.bottom, l.weighted.pad_right = window.padding.right;
        l.activation = for_oracle(activation);
        l.has_sumin = sumin.has_value();
        auto& codes = weights_.emplace_back();
        for (index_t i = 0; i < outputs_count * in_shape[1] * w.kernel_h * w.kernel_w; ++i) {
            codes.push_back(static_cast<std::int8_t>(draw_code(draw, -128, 127)));
            w.codes.push_back(codes.back());
        }
        auto& scales = scales_.emplace_back();
        auto& bias = bias_.emplace_back();
        for (index_t o = 0; o < outputs_count; ++o) {
            scales.push_back(draw.real(0.001f, 0.004f));
            bias.push_back(draw.between(-3000, 3000));
        }
        w.scale = scales;
        w.bias_codes = bias;

        kernels::Conv2dSpec spec;
        spec.op = op;
        spec.window = window;
        spec.in_channels = in_shape[1];
        spec.out_channels = outputs_count;
        spec.output_dtype = out.dtype;
        spec.input = in.for_library();
        spec.weight = QParams::per_channel(scales, {}, 0, -128, 127);
        if (out.dtype != DType::int32) spec.output = out.for_library();
        spec.weight_codes = codes.data();
        spec.bias_codes = bias.data();
        spec.activation = activation;
        arith::SuminOperand operand;
        if (sumin) {
            const QParams& e = tensors[static_cast<std::size_t>(*sumin)].qparams;
            operand = {e.scale(), e.zero_point(), -128, 127};
            spec.sumin = &operand;
        }
        kernels::ConvParams step;
        step.packed = value_of(
            kernels::pack_conv2d(table_->packing, spec, bytes(kernels::packed_conv2d_size(table_->packing, spec))));
        step.geometry = value_of(kernels::make_conv2d_geometry(window, max_batch, in_size));
        const index_t scratch = kernels::conv2d_workspace_size(step.packed, step.geometry);
        if (scratch > workspace_size) workspace_size = scratch;
        const Shape shape =
            op == OpKind::linear ? Shape{max_batch, outputs_count} : image(outputs_count, step.geometry.out);
        QParams qparams = spec.output;
        if (out.dtype == DType::int32) {
            auto& accumulator = scales_.emplace_back();
            for (const float scale : scales) accumulator.push_back(arith::fmul(in.scale, scale));
            qparams = QParams::per_channel(accumulator, {}, 1, INT32_MIN, INT32_MAX);
        }
        const std::int32_t y = tensor(out.dtype, shape, qparams);
        std::vector<std::int32_t> x_list{x};
        if (sumin) x_list.push_back(*sumin);
        push(op, x_list, y, &convs.emplace_back(step), l);
        return y;
    }

    std::int32_t pool(OpKind op, std::int32_t x, const Window2d& window, const Codes& in, const Codes& out) {
        const Shape shape = tensors[static_cast<std::size_t>(x)].shape;
        kernels::PoolParams step{window, {}};
        oracle::Layer l =
            layer(op == OpKind::max_pool2d ? oracle::Op::max_pool : oracle::Op::avg_pool, out.for_oracle());
        l.pool.kernel_h = window.kernel.height, l.pool.kernel_w = window.kernel.width;
        l.pool.stride_h = window.stride.height, l.pool.stride_w = window.stride.width;
        if (op == OpKind::avg_pool2d)
            step.average = value_of(arith::make_average(table_->policy(), in.codes_of(), out.codes_of(),
                                                        out.output_codes(), window.kernel.height * window.kernel.width,
                                                        PoolDivisor::kernel_cells, false));
        const std::int32_t y =
            tensor(DType::int8, image(shape[1], output_size(window, {shape[2], shape[3]})), out.for_library());
        push(op, {x}, y, &pools.emplace_back(step), l);
        return y;
    }

    void build() {
        const Size2d size{height, width};
        const bool affine = table_->policy().zero_points;
        const Codes in{0.02f, affine ? -7 : 0, DType::int8}, first{0.05f, affine ? -128 : 0, DType::int8},
            second{0.08f, 0, DType::int8};
        const Codes sum{0.1f, affine ? 5 : 0, DType::int8}, joined{0.09f, 0, DType::int8},
            narrow{0.07f, 0, DType::int8};
        const Codes last{0.11f, 0, DType::int8};
        const Window2d same{{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}, halves{{2, 2}, {2, 2}, {}, {1, 1}};

        const std::int32_t given = tensor(DType::float32, image(channels, size), {});
        tensors.back().layout = Layout::row_major;
        inputs = {given};
        const std::int32_t images = tensor(DType::float32, image(channels, size), {});
        push(OpKind::layout_change, {given}, images, nullptr, std::nullopt);
        const std::int32_t q = tensor(DType::int8, image(channels, size), in.for_library());
        oracle::Layer quantize = layer(oracle::Op::quantize, in.for_oracle());
        quantize.inputs = {0};
        push(OpKind::quantize, {images}, q, nullptr, quantize);
        const std::int32_t a = conv(OpKind::conv2d, q, {}, same, wide, in, first, Activation::relu6);
        const std::int32_t b = conv(OpKind::conv2d, a, {}, {}, wide, first, second, Activation::none);

        const std::int32_t added = tensor(DType::int8, image(wide, size), sum.for_library());
        oracle::Layer add = layer(oracle::Op::add, sum.for_oracle());
        add.activation = oracle::Activation::relu;
        push(OpKind::add, {a, b}, added,
             &adds.emplace_back(value_of(arith::make_add(table_->policy(), first.codes_of(), second.codes_of(),
                                                         sum.codes_of(), sum.output_codes(Activation::relu)))),
             add);

        const std::int32_t largest = pool(OpKind::max_pool2d, added, halves, sum, sum);
        const std::int32_t mean = pool(OpKind::avg_pool2d, added, halves, sum, sum);
        const std::int32_t cat = tensor(DType::int8, image(2 * wide, {3, 2}), joined.for_library());
        const auto from_sum = value_of(
            kernels::make_requantize(table_->policy(), sum.codes_of(), joined.codes_of(), joined.output_codes()));
        push(OpKind::cat, {largest, mean}, cat, {requantizes.emplace_back(2, from_sum).data(), 2},
             layer(oracle::Op::cat, joined.for_oracle()));
        const std::int32_t r = tensor(DType::int8, image(2 * wide, {3, 2}), narrow.for_library());
        const auto to_narrow = value_of(
            kernels::make_requantize(table_->policy(), joined.codes_of(), narrow.codes_of(), narrow.output_codes()));
        push(OpKind::requantize, {cat}, r, requantizes.emplace_back(1, to_narrow).data(),
             layer(oracle::Op::requantize, narrow.for_oracle()));
        const std::int32_t positive = tensor(DType::int8, image(2 * wide, {3, 2}), narrow.for_library());
        push(OpKind::relu, {r}, positive, &clamps.emplace_back(narrow.output_codes(Activation::relu)),
             layer(oracle::Op::relu));

        const std::optional<std::int32_t> sumin = table_->policy().fused_add ? std::optional(r) : std::nullopt;
        const std::int32_t c = conv(OpKind::conv2d, positive, sumin, same, 2 * wide, narrow, last, Activation::relu);
        const std::int32_t flat = tensor(DType::int8, Shape{max_batch, 2 * wide * 6}, last.for_library());
        push(OpKind::layout_change, {c}, flat, nullptr, layer(oracle::Op::flatten));
        const std::int32_t logits =
            conv(OpKind::linear, flat, {}, {}, 10, last, {1.0f, 0, DType::int32}, Activation::none);
        const std::int32_t reals = tensor(DType::float32, Shape{max_batch, 10}, {});
        push(OpKind::dequantize, {logits}, reals, nullptr, layer(oracle::Op::dequantize));
        outputs = {reals};
    }

    void plan() {
        const auto end = static_cast<std::int32_t>(instructions.size());
        std::vector<runtime::Lifetime> lives;
        for (const runtime::ProgramTensor& t : tensors) lives.push_back({t.bytes(), end, -1, 0});
        const auto touch = [&](std::int32_t t, std::int32_t when) {
            runtime::Lifetime& life = lives[static_cast<std::size_t>(t)];
            if (when < life.first) life.first = when;
            if (when > life.last) life.last = when;
        };
        touch(inputs[0], -1);
        touch(outputs[0], end);
        for (std::int32_t i = 0; i < end; ++i) {
            const runtime::Instruction& instruction = instructions[static_cast<std::size_t>(i)];
            touch(instruction.output, i);
            for (std::int32_t k = 0; k < instruction.operand_count; ++k)
                touch(operands[static_cast<std::size_t>(instruction.first_operand + k)], i);
        }
        lives.push_back({workspace_size, -1, end, 0});
        const auto placed = std::make_unique<bool[]>(lives.size());
        arena_size = runtime::plan_memory(lives, std::span<bool>(placed.get(), lives.size()));
        for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].offset = lives[i].offset;
        workspace_offset = lives.back().offset;
    }

    Workspace bytes(index_t size) {
        GuardedBuffer& buffer = buffers_.emplace_back(static_cast<std::size_t>(size));
        return {buffer.as<std::byte>(), size};
    }

    const kernels::KernelTable* table_;
    oracle::Target target_;
    std::vector<oracle::Layer> layers_;
    std::deque<GuardedBuffer> buffers_;
    std::deque<std::vector<std::int8_t>> weights_;
    std::deque<std::vector<float>> scales_;
    std::deque<std::vector<std::int64_t>> bias_;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_RUNTIME_SMALL_PROGRAM_HPP
