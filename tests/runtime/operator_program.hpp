// SPDX-License-Identifier: MIT
//
// A program of the operators that the small program lacks: pixels, sub, mul, tables, softmax, resize, pad, moves, and a
// convolution by groups and one by channels.
#ifndef INTQ_TESTS_RUNTIME_OPERATOR_PROGRAM_HPP
#define INTQ_TESTS_RUNTIME_OPERATOR_PROGRAM_HPP

#include "runtime/small_program.hpp"

namespace intq::test {

/// Images of (4, 4, 3) codes; every tensor has a place of its own.
class OperatorProgram {
public:
    explicit OperatorProgram(const kernels::KernelTable& table) : table_(table) { build(); }
    OperatorProgram(const OperatorProgram&) = delete;
    OperatorProgram& operator=(const OperatorProgram&) = delete;

    runtime::Program program() const {
        runtime::Program p;
        p.instructions = instructions_;
        p.tensors = tensors_;
        p.operands = operands_;
        p.inputs = inputs_;
        p.outputs = outputs_;
        p.workspace_offset = end_;
        p.workspace_size = workspace_;
        p.arena_size = end_ + workspace_;
        p.max_batch = batch;
        return p;
    }

private:
    static constexpr index_t batch = 2, channels = 4;
    static constexpr Codes codes{0.05f, 0, DType::int8};

    std::int32_t tensor(const Shape& shape) {
        tensors_.push_back({DType::int8, shape, codes.for_library(), end_, ""});
        end_ += round_up(tensors_.back().bytes(), buffer_alignment);
        return static_cast<std::int32_t>(tensors_.size() - 1);
    }
    template <class Params>
    std::int32_t push(OpKind op, std::vector<std::int32_t> x, const Shape& shape, const Params& params) {
        auto kept = std::make_shared<Params>(params);
        params_.push_back(kept);
        runtime::Instruction instruction;
        instruction.op = op;
        instruction.output = tensor(shape);
        instruction.first_operand = static_cast<std::int32_t>(operands_.size());
        instruction.operand_count = static_cast<std::int32_t>(x.size());
        instruction.params = kept.get();
        operands_.insert(operands_.end(), x.begin(), x.end());
        instructions_.push_back(instruction);
        return instruction.output;
    }
    Workspace bytes(index_t size) {
        GuardedBuffer& buffer = buffers_.emplace_back(static_cast<std::size_t>(round_up(size, buffer_alignment)));
        return {buffer.as<std::byte>(), size};
    }
    std::int32_t conv(std::int32_t x, index_t groups, const Window2d& window) {
        const Shape in = tensors_[static_cast<std::size_t>(x)].shape;
        Draw draw(static_cast<std::uint64_t>(groups));
        auto& weights = weights_.emplace_back();
        for (index_t i = 0; i < channels * channels / groups * window.kernel.height * window.kernel.width; ++i)
            weights.push_back(static_cast<std::int8_t>(draw.between(-40, 40)));
        kernels::Conv2dSpec spec;
        spec.window = window;
        spec.in_channels = spec.out_channels = channels;
        spec.groups = groups;
        spec.input = spec.output = codes.for_library();
        spec.weight = QParams::per_tensor(0.01f, 0, DType::int8);
        spec.weight_codes = weights.data();
        kernels::ConvParams step;
        step.packed = value_of(
            kernels::pack_conv2d(table_.packing, spec, bytes(kernels::packed_conv2d_size(table_.packing, spec))));
        step.geometry = value_of(kernels::make_conv2d_geometry(window, batch, {in[2], in[3]}));
        need(kernels::conv2d_workspace_size(step.packed, step.geometry));
        return push(OpKind::conv2d, {x}, Shape(batch, channels, step.geometry.out.height, step.geometry.out.width),
                    step);
    }
    /// The codes of a pixel, times a matrix of the second input.
    std::int32_t matmul(std::int32_t x, const Shape& image) {
        const arith::CodesOf of = codes.codes_of();
        const index_t pixels = image.size() / batch / channels;
        kernels::MatmulStepParams step;
        step.numbers = value_of(arith::make_matmul(table_.policy(), of, of, of, codes.output_codes(), channels));
        step.shape = {pixels, channels, channels, {}};
        step.shape.places[0] = {2, {pixels, channels}, {channels, 1}, 0};
        step.shape.places[1] = {2, {channels, channels}, {1, channels}, 0};
        need(kernels::matmul_workspace_size(step.shape, table_.packing, DType::int8));
        return push(OpKind::matmul, {x, inputs_[1]}, Shape(batch, pixels * channels), step);
    }
    /// Rows of the table of entries, by ids that are an input.
    std::int32_t embedding() {
        inputs_.push_back(tensor(Shape(batch, 3 * index_t{sizeof(std::int32_t)})));
        tensors_.back().dtype = DType::int32;
        tensors_.back().shape = Shape(batch, index_t{3});
        tensors_.back().qparams = QParams::per_tensor(1.0f, 0, 0, 15);
        tensors_.back().has_stated_bounds = true;
        const std::int32_t y = push(OpKind::embedding, {inputs_.back()}, Shape(batch, index_t{3}, index_t{16}),
                                    kernels::EmbeddingParams{table_entries_, 16, 16, DType::int8});
        tensors_.back().layout = Layout::row_major;
        return y;
    }
    /// Codes of a third input, of which those that the ids of the last one name are of a fourth.
    std::int32_t index_copy() {
        const std::int32_t ids = inputs_.back();
        inputs_.push_back(tensor(Shape(batch, index_t{16})));
        const std::int32_t x = inputs_.back();
        inputs_.push_back(tensor(Shape(batch, index_t{3})));
        return push(OpKind::index_copy, {x, inputs_.back(), ids}, Shape(batch, index_t{16}),
                    kernels::IndexCopyParams{.rows = 16, .count = 3});
    }
    /// Indices of the largest channel of each pixel.
    std::int32_t argmax(std::int32_t x, const Shape& image) {
        const index_t bytes = index_t{sizeof(std::int32_t)};
        const std::int32_t places = push(OpKind::argmax, {x}, Shape(batch, bytes, image[2], image[3]),
                                         kernels::ArgMaxParams{.count = image[1]});
        tensors_.back().dtype = DType::int32;
        tensors_.back().shape = Shape(batch, index_t{1}, image[2], image[3]);
        return places;
    }
    void need(index_t workspace) { workspace_ = workspace > workspace_ ? workspace : workspace_; }

    void build() {
        const arith::PolicyRecord& policy = table_.policy();
        const Shape image(batch, channels, index_t{4}, index_t{3}), large(batch, channels, index_t{6}, index_t{5});
        const arith::OutputCodes out = codes.output_codes();
        const arith::CodesOf of = codes.codes_of();
        inputs_ = {tensor(image), tensor(image)};
        std::int32_t x =
            push(OpKind::sub, {inputs_[0], inputs_[1]}, image, value_of(arith::make_sub(policy, of, of, of, out)));
        for (int i = 0; i < 256; ++i) table_entries_[i] = static_cast<std::int8_t>(127 - i);
        inputs_.push_back(tensor(image));
        tensors_.back().dtype = DType::uint8;
        tensors_.back().layout = Layout::row_major;
        const std::int32_t pixels = push(OpKind::quantize_image, {inputs_[2]}, image,
                                         kernels::QuantizeImageParams{table_entries_, 1, DType::int8});
        x = push(OpKind::sub, {x, pixels}, image, value_of(arith::make_sub(policy, of, of, of, out)));
        const std::int32_t constant = push(OpKind::constant, {}, image,
                                           kernels::ConstantParams{table_entries_, image.size() / batch, DType::int8});
        x = push(OpKind::sub, {x, constant}, image, value_of(arith::make_sub(policy, of, of, of, out)));
        x = push(OpKind::mul, {x, inputs_[1]}, image, value_of(arith::make_mul(policy, of, of, of, out)));
        x = conv(x, channels, {{3, 2}, {1, 1}, {1, 1, 1, 0}, {1, 1}});
        x = conv(x, 2, {{2, 2}, {1, 1}, {1, 0, 0, 1}, {1, 1}});
        x = push(OpKind::lookup_table, {x}, image, kernels::LookUpParams{table_entries_, arith::int8_table_size});
        x = push(OpKind::pad, {x}, large, kernels::PadParams{{1, 1, 1, 1}, {1, 1}, -7});
        x = push(OpKind::interpolate, {x}, image,
                 value_of(kernels::make_resize_table(arith::Resize::half_pixel, {6, 5}, {4, 3}, taps_)));
        if (policy.computes_as_onnx())  // a row of its own
            x = push(OpKind::interpolate, {x}, image,
                     value_of(kernels::make_resize_table_of_values(policy, arith::Resize::align_corners, {4, 3}, {4, 3},
                                                                   taps_of_values_, {}, of, of, out)));
        kernels::SoftmaxParams softmax;
        softmax.tables = value_of(policy.softmax == arith::SoftmaxRule::requantized
                                      ? arith::make_softmax_tables(of)
                                      : arith::make_fixed_point_softmax_tables(policy, of));
        softmax.requantize = value_of(kernels::make_requantize(policy, arith::softmax_probability, of, out));
        softmax.count = channels;
        need(2 * image.size());
        x = push(OpKind::softmax, {x}, image, softmax);
        kernels::LogSoftmaxParams log_softmax;
        static_cast<void>(arith::make_log_softmax_tables(of, log_entries_));
        log_softmax.step = value_of(arith::make_log_softmax_step(of));
        log_softmax.requantize.words = value_of(arith::make_log_softmax_words(policy, of));
        log_softmax.requantize.codes = out;
        log_softmax.count = channels;
        log_softmax.entry_count = arith::log_softmax_entries(DType::int8);
        log_softmax.entries = log_entries_;
        x = push(OpKind::log_softmax, {x}, image, log_softmax);
        kernels::LayerNormStepParams norm;
        norm.norm = value_of(arith::make_layer_norm(policy, of, of, out, channels, 1e-5, {0}));
        norm.count = channels;
        for (index_t c = 0; c < channels; ++c) norm_[0][c] = (1 << 29) - static_cast<std::int32_t>(c << 24);
        norm.weight = norm_[0], norm.bias = norm_[1];
        x = push(OpKind::layer_norm, {x}, image, norm);
        if (!table_.matmul.empty()) x = matmul(x, image);
        kernels::MoveParams move;
        move.rank = 2;
        move.extents[0] = 3, move.extents[1] = 16;
        move.steps[0] = 1, move.steps[1] = 3;
        for (const OpKind op : {OpKind::permute, OpKind::reshape, OpKind::slice}) x = push(op, {x}, image, move);
        const kernels::PoolParams average{
            {{2, 2}, {1, 1}, {}, {1, 1}},
            value_of(arith::make_average(policy, of, of, out, 4, PoolDivisor::valid_cells, false))};
        x = push(OpKind::avg_pool2d, {x}, Shape(batch, channels, index_t{3}, index_t{2}), average);
        // The tflite family and fp32 have two rules of an average, which have rows of their own.
        const kernels::PoolParams mean{
            {{3, 2}, {3, 2}, {}, {1, 1}},
            policy.has_average(arith::AverageRule::sum_of_values) && codes.dtype == DType::int8
                ? value_of(arith::make_average_of_values(policy, of, of, out, 6, PoolDivisor::valid_cells, false))
                : value_of(arith::make_mean(policy, of, of, out, 6))};
        x = push(OpKind::avg_pool2d, {x}, Shape(batch, channels, index_t{1}, index_t{1}), mean);
        const std::int32_t places = argmax(inputs_[1], image), rows = embedding();
        outputs_ = {x, rows, index_copy(), places};
    }

    const kernels::KernelTable& table_;
    std::vector<runtime::Instruction> instructions_;
    std::vector<runtime::ProgramTensor> tensors_;
    std::vector<std::int32_t> operands_, inputs_, outputs_;
    index_t end_ = 0, workspace_ = 0;
    std::deque<std::shared_ptr<const void>> params_;
    std::deque<GuardedBuffer> buffers_;
    std::deque<std::vector<std::int8_t>> weights_;
    std::int8_t table_entries_[arith::int8_table_size];
    std::int32_t norm_[2][channels] = {};
    std::uint32_t log_entries_[arith::log_softmax_entries(DType::int8)] = {};
    std::vector<arith::ResizeTap> taps_ = std::vector<arith::ResizeTap>(16);
    std::vector<arith::ResizeTap> taps_of_values_ = std::vector<arith::ResizeTap>(7);
};

}  // namespace intq::test

#endif  // INTQ_TESTS_RUNTIME_OPERATOR_PROGRAM_HPP
