// SPDX-License-Identifier: MIT
//
// A network of codes as data: what a test knows of a program besides the program itself, and the program of it.
#ifndef INTQ_TESTS_SUPPORT_SMALL_NETWORK_HPP
#define INTQ_TESTS_SUPPORT_SMALL_NETWORK_HPP

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/elementwise.hpp"
#include "intq/quantization/operators/move.hpp"
#include "intq/quantization/operators/pool.hpp"
#include "intq/quantization/operators/quantize_instructions.hpp"
#include "intq/quantization/operators/resize.hpp"
#include "intq/quantization/operators/unary.hpp"

namespace intq::test {

/// Images of codes, or vectors.
struct NetworkTensor {
    index_t channels = 1;
    Size2d size{};  // 1 x 1 of vectors
    bool is_vector = false;
    OwnedQParams qparams{};  // with the bounds of its codes

    std::int64_t zero_point() const { return qparams.zero_points.empty() ? 0 : qparams.zero_points[0]; }
};

/// One layer. Fields that an operator does not need are not read.
struct NetworkLayer {
    OpKind op = OpKind::none;
    std::string name;
    std::vector<int> inputs;  // numbers of tensors; conv2d and linear: perhaps the operand of a fused add
    int output = 0;           // number of a tensor
    Window2d window{};        // conv2d, linear (the image), pools; slice: its padding on the left is the first column
    index_t groups = 1;       // conv2d
    std::vector<std::int32_t> weights;                   // conv2d, linear: (O, I/groups, KH, KW)
    std::vector<float> weight_scales;                    // (O)
    std::vector<std::int64_t> bias;                      // (O), codes of the accumulator
    std::int64_t lowest = 0, highest = 0;                // clamp of conv2d, linear, add, sub, mul, relu, requantize
    PoolDivisor divisor = PoolDivisor::valid_cells;      // avg_pool2d
    kernels::PadParams pad{};                            // pad
    arith::Resize resize = arith::Resize::nearest;       // interpolate
    TableFunction function = TableFunction::hard_swish;  // lookup_table
    std::vector<std::int32_t> codes;                     // constant: (C, H, W)

    bool has_weights() const { return op == OpKind::conv2d || op == OpKind::linear; }
    bool has_padding() const { return has_window() && !(window.padding == Padding2d{}); }
    bool has_window() const { return has_weights() || op == OpKind::max_pool2d || op == OpKind::avg_pool2d; }
    /// Codes of the image in another order, or some of them.
    bool moves() const { return op == OpKind::slice || op == OpKind::permute || op == OpKind::reshape; }
};

struct Network {
    DType dtype = DType::int8;
    std::vector<NetworkTensor> tensors;
    std::vector<NetworkLayer> layers;
    std::vector<int> inputs, outputs;  // numbers of tensors
    bool has_real_ends = false;        // inputs and outputs of the program are real numbers

    const NetworkTensor& tensor(int number) const { return tensors.at(static_cast<std::size_t>(number)); }
    bool is_depthwise(const NetworkLayer& layer) const {
        return layer.op == OpKind::conv2d && layer.groups > 1 && layer.groups == tensor(layer.inputs[0]).channels &&
               layer.groups == tensor(layer.output).channels;
    }
};

/// A program, and the number in it of each tensor of the network.
struct NetworkProgram {
    std::shared_ptr<program::OwnedProgram> program;
    std::vector<std::int32_t> numbers;
};

namespace detail {

/// Codes of a tensor of one image, or weights, of a type.
inline intq::Tensor tensor_of_codes(const Shape& shape, DType dtype, const std::vector<std::int32_t>& codes) {
    intq::Tensor tensor = intq::Tensor::empty(shape, dtype);
    for (std::size_t i = 0; i < codes.size(); ++i)
        if (dtype == DType::int8)
            tensor.flat<std::int8_t>()[i] = static_cast<std::int8_t>(codes[i]);
        else
            tensor.flat<std::int16_t>()[i] = static_cast<std::int16_t>(codes[i]);
    return tensor;
}

/// Adds the layers of a network to a builder.
class NetworkBuilder {
public:
    NetworkBuilder(const Network& network, const kernels::KernelTable& table, index_t max_batch)
        : network_(network), builder_(table, max_batch), numbers_(network.tensors.size(), -1) {}

    NetworkProgram run() {
        for (const int input : network_.inputs) number(input) = add_input(input);
        for (const NetworkLayer& layer : network_.layers) number(layer.output) = add(layer);
        std::vector<std::int32_t> outputs;
        for (const int output : network_.outputs)
            outputs.push_back(network_.has_real_ends
                                  ? quantization::add_dequantize(builder_, number(output),
                                                                 {"dequantize" + std::to_string(output), "dequantize"})
                                  : number(output));
        return {builder_.finish(std::move(outputs)), numbers_};
    }

private:
    std::int32_t& number(int tensor) { return numbers_.at(static_cast<std::size_t>(tensor)); }

    std::int32_t add_input(int input) {
        const NetworkTensor& x = network_.tensor(input);
        const Shape shape(x.channels, x.size.height, x.size.width);
        const std::string name = "input" + std::to_string(input);
        OwnedQParams whole = OwnedQParams::per_tensor(x.qparams.scale(), x.qparams.dtype);
        whole.zero_points = x.qparams.zero_points;
        if (network_.has_real_ends)
            return quantization::add_quantize(builder_, builder_.input(shape, name), x.qparams,
                                              {"quantize" + std::to_string(input), "quantize"});
        const std::int32_t added = builder_.code_input(shape, x.qparams.dtype, whole, name);
        if (!(whole == x.qparams)) builder_.state_bounds(added, x.qparams.quant_min, x.qparams.quant_max);
        return added;
    }

    /// Some rows and columns of an image, its transpose, or a pixel that is repeated.
    std::int32_t add_move(const NetworkLayer& layer, const program::LayerName& name) {
        const NetworkTensor& x = network_.tensor(layer.inputs[0]);
        const NetworkTensor& y = network_.tensor(layer.output);
        const bool is_transposed = layer.op == OpKind::permute, repeats = layer.op == OpKind::reshape;
        const index_t row = repeats ? 0 : x.size.width * x.channels, column = repeats ? 0 : x.channels;
        kernels::MoveParams move;
        move.rank = 3;
        move.extents[0] = y.size.height, move.extents[1] = y.size.width, move.extents[2] = y.channels;
        move.steps[0] = is_transposed ? column : row, move.steps[1] = is_transposed ? row : column, move.steps[2] = 1;
        if (layer.op == OpKind::slice)
            move.offset = layer.window.padding.top * row + layer.window.padding.left * column;
        const std::int32_t from = number(layer.inputs[0]);
        const kernels::ArenaTensor in = builder_.at(from);
        const std::int32_t to = builder_.tensor(
            in.dtype, Shape(builder_.max_batch(), y.channels, y.size.height, y.size.width), in.qparams, name);
        return builder_.push(layer.op, {from}, to, builder_.keep_params(move), name);
    }

    std::int32_t add_weighted(const NetworkLayer& layer, const program::LayerName& name) {
        const index_t out = network_.tensor(layer.output).channels;
        const index_t in = network_.tensor(layer.inputs[0]).channels / layer.groups;
        const Size2d kernel = layer.window.kernel;
        quantization::ConvLayer conv;
        conv.op = layer.op;
        conv.window = layer.window;
        conv.groups = layer.groups;
        conv.weight = tensor_of_codes(Shape(out, in, kernel.height, kernel.width), DType::int8, layer.weights);
        conv.weight_qparams = OwnedQParams::per_channel(layer.weight_scales, 0, DType::int8);
        conv.output = network_.tensor(layer.output).qparams;
        conv.given.bias = layer.bias;
        conv.given.bounds =
            kernels::CodeBounds{static_cast<std::int32_t>(layer.lowest), static_cast<std::int32_t>(layer.highest)};
        std::optional<std::int32_t> sumin;
        if (layer.inputs.size() > 1) sumin = number(layer.inputs[1]);
        return quantization::add_conv(builder_, number(layer.inputs[0]), sumin, conv, name);
    }

    std::int32_t add_constant(const NetworkLayer& layer, const program::LayerName& name) {
        const NetworkTensor& y = network_.tensor(layer.output);
        return quantization::add_constant(
            builder_, tensor_of_codes(Shape(1, y.channels, y.size.height, y.size.width), y.qparams.dtype, layer.codes),
            y.qparams, name);
    }

    std::int32_t add(const NetworkLayer& layer) {
        using namespace quantization;
        const program::LayerName name{layer.name, name_of(layer.op)};
        const OwnedQParams& output = network_.tensor(layer.output).qparams;
        arith::OutputCodes codes = program::ProgramBuilder::output_codes(output.view());
        codes.lowest = static_cast<std::int32_t>(layer.lowest),
        codes.highest = static_cast<std::int32_t>(layer.highest);
        const std::int32_t x = layer.inputs.empty() ? -1 : number(layer.inputs[0]);
        const std::int32_t y = layer.inputs.size() < 2 ? -1 : number(layer.inputs[1]);
        switch (layer.op) {
            case OpKind::conv2d:
            case OpKind::linear:
                return add_weighted(layer, name);
            case OpKind::constant:
                return add_constant(layer, name);
            case OpKind::add:
            case OpKind::sub:
                return add_sum(builder_, layer.op, x, y, output, codes, name);
            case OpKind::mul:
                return add_mul(builder_, x, y, output, codes, std::nullopt, name);
            case OpKind::relu:
                return add_clamp(builder_, x, codes, name);
            case OpKind::requantize:
                return add_requantize(builder_, x, output, codes, std::nullopt, name);
            case OpKind::lookup_table:
                return add_look_up(builder_, x, {layer.function, 0.25}, output, name);
            case OpKind::max_pool2d:
                return add_max_pool(builder_, x, layer.window, name);
            case OpKind::avg_pool2d:
                return add_avg_pool(builder_, x, layer.window, layer.divisor, output, name);
            case OpKind::interpolate:
                return add_interpolate(builder_, x, {layer.resize, network_.tensor(layer.output).size}, name);
            case OpKind::pad:
                return add_pad(builder_, x, layer.pad, name);
            case OpKind::slice:
            case OpKind::permute:
            case OpKind::reshape:
                return add_move(layer, name);
            case OpKind::flatten:
                return builder_.flatten(x, name);
            case OpKind::cat: {
                std::vector<std::int32_t> parts;
                for (const int part : layer.inputs) parts.push_back(number(part));
                return add_cat(builder_, parts, 1, output, name);
            }
            default:
                throw Error(layer.name, "no layer of small networks");
        }
    }

    const Network& network_;
    program::ProgramBuilder builder_;
    std::vector<std::int32_t> numbers_;
};

}  // namespace detail

/// The whole program of a network.
///
/// @throws Error of the builder, which names the layer
inline NetworkProgram build(const Network& network, const kernels::KernelTable& table, index_t max_batch) {
    return detail::NetworkBuilder(network, table, max_batch).run();
}

/// A line a layer: operator, tensors, shapes, and what tells one layer from another; for messages of tests.
inline std::string to_string(const Network& network) {
    const auto shape = [&](int t) {
        const NetworkTensor& x = network.tensor(t);
        return std::to_string(t) + ":" + std::to_string(x.channels) + "x" + std::to_string(x.size.height) + "x" +
               std::to_string(x.size.width);
    };
    std::string text;
    for (const NetworkLayer& layer : network.layers) {
        text += layer.name + " " + shape(layer.output) + " of";
        for (const int x : layer.inputs) text += " " + shape(x);
        if (layer.has_padding()) text += ", padded";
        if (layer.groups > 1) text += ", groups " + std::to_string(layer.groups);
        text += ", clamp " + std::to_string(layer.lowest) + " to " + std::to_string(layer.highest) + ", zero point " +
                std::to_string(network.tensor(layer.output).zero_point()) + "\n";
    }
    text += "outputs";
    for (const int output : network.outputs) text += " " + std::to_string(output);
    return text + "\n";
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_SMALL_NETWORK_HPP
