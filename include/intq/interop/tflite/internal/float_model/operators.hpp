// SPDX-License-Identifier: MIT
//
// The TFLite operators of models of real numbers, as nodes of ONNX; their table is internal/operators.hpp. Layer:
// interop (docs/design.md section 10).
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_FLOAT_MODEL_OPERATORS_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_FLOAT_MODEL_OPERATORS_HPP

#include <cstdint>

#include "intq/interop/tflite/internal/float_model/float_import.hpp"
#include "intq/interop/tflite/internal/read/names.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace float_model {

void conv_2d(FloatImport& node);
void depthwise_conv_2d(FloatImport& node);
void transpose_conv(FloatImport& node);
void fully_connected(FloatImport& node);
void average_pool_2d(FloatImport& node);
void max_pool_2d(FloatImport& node);
void mean(FloatImport& node);
void sum_of_axes(FloatImport& node);
void add(FloatImport& node);
void sub(FloatImport& node);
void mul(FloatImport& node);
void squared_difference(FloatImport& node);
void batch_matmul(FloatImport& node);
void maximum(FloatImport& node);
void minimum(FloatImport& node);
void relu(FloatImport& node);
void relu6(FloatImport& node);
void relu_n1_to_1(FloatImport& node);
void logistic(FloatImport& node);
void tanh(FloatImport& node);
void hard_swish(FloatImport& node);
void leaky_relu(FloatImport& node);
void exp(FloatImport& node);
void log(FloatImport& node);
void gelu(FloatImport& node);
void sqrt(FloatImport& node);
void rsqrt(FloatImport& node);
void absolute(FloatImport& node);
void neg(FloatImport& node);
void softmax(FloatImport& node);
void log_softmax(FloatImport& node);
void reshape(FloatImport& node);
void transpose(FloatImport& node);
void slice(FloatImport& node);
void concatenation(FloatImport& node);
void pad(FloatImport& node);
void mirror_pad(FloatImport& node);
void resize_bilinear(FloatImport& node);
void resize_nearest_neighbor(FloatImport& node);

}  // namespace float_model

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_float_model)

#    include <algorithm>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/interop/tflite/internal/nodes/options.hpp"
#    include "intq/interop/tflite/internal/nodes/window.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace float_model {

INTQ_INLINE Dims image_dims(const FloatImport& node, std::size_t i) {
    const Dims& dims = node.input(i).dims;
    if (dims.size() != 4)
        throw Error("its input " + in_quotes(node.input(i).name) + " has the shape " + describe_dims(dims) +
                    ", expected 4 axes");
    return dims;
}

INTQ_INLINE Integers pads_of(const Padding2d& p) { return {p.top, p.left, p.bottom, p.right}; }

/// Weight, bias and window of a convolution whose weight is (O, I/groups, KH, KW).
INTQ_INLINE void convolve(FloatImport& node, const Window2d& window, std::int64_t groups, std::vector<float> weight,
                          Dims dims, int activation_field) {
    std::vector<std::string> inputs{node.value(), node.floats("weight", std::move(weight), std::move(dims))};
    if (node.has(2)) inputs.push_back(node.floats("bias", node.elements(2), node.input(2).dims));
    const auto& [kernel, stride, padding, dilation] = window;
    node.set(node.node("Conv", std::move(inputs),
                       {{"dilations", Integers{dilation.height, dilation.width}},
                        {"group", groups},
                        {"pads", pads_of(padding)},
                        {"strides", Integers{stride.height, stride.width}}}),
             node.activation(activation_field));
}

INTQ_INLINE void conv_2d(FloatImport& node) {
    const Dims in = image_dims(node, 0), w = image_dims(node, 1);  // OHWI
    if (w[3] < 1 || in[3] % w[3] != 0) throw Error("a weight of shape " + describe_dims(w) + " does not fit");
    convolve(node, conv_window<fields::Conv2D>(node.options(), in, w), in[3] / w[3],
             moved(node.elements(1), w, {0, 3, 1, 2}), {w[0], w[3], w[1], w[2]}, fields::Conv2D::activation);
}

INTQ_INLINE void depthwise_conv_2d(FloatImport& node) {
    const Dims in = image_dims(node, 0), w = image_dims(node, 1);  // (1, H, W, O)
    if (w[0] != 1 || in[3] < 1 || w[3] % in[3] != 0)
        throw Error("a depthwise weight of shape " + describe_dims(w) + " does not fit");
    convolve(node, conv_window<fields::DepthwiseConv2D>(node.options(), in, w), in[3],
             moved(node.elements(1), w, {3, 0, 1, 2}), {w[3], 1, w[1], w[2]}, fields::DepthwiseConv2D::activation);
}

INTQ_INLINE void transpose_conv(FloatImport& node) {
    const Dims in = image_dims(node, 2), w = image_dims(node, 1), out = node.output().dims;  // OHWI
    if (out.size() != 4) throw Error("its output has the shape " + describe_dims(out) + ", expected 4 axes");
    const auto [stride, rows, columns] = transposed_window(node.options(), in, w, out);
    Integers pads(4), more(2);
    for (std::size_t axis = 0; axis < 2; ++axis) {
        const auto [before, after] = axis == 0 ? rows : columns;
        const index_t reach = w[axis + 1] - 1;
        pads[axis] = reach - before;
        pads[axis + 2] = (std::max)(reach - after, index_t{0});
        more[axis] = (std::max)(after - reach, index_t{0});
    }
    std::vector<std::string> inputs{
        node.value(2), node.floats("weight", moved(node.elements(1), w, {3, 0, 1, 2}), {w[3], w[0], w[1], w[2]})};
    if (node.has(3)) inputs.push_back(node.floats("bias", node.elements(3), node.input(3).dims));
    node.set(node.node("ConvTranspose", std::move(inputs),
                       {{"output_padding", more}, {"pads", pads}, {"strides", Integers{stride.height, stride.width}}}),
             node.activation(fields::TransposeConv::activation));
}

INTQ_INLINE void fully_connected(FloatImport& node) {
    const Dims w = node.input(1).dims, in = node.input().dims;
    if (w.size() != 2 || w[1] < 1 || count_of(in) % w[1] != 0 || in.empty())
        throw Error("a weight of shape " + describe_dims(w) + " does not fit an input of shape " + describe_dims(in));
    require_rows_of_inputs(node.options());
    std::string x = node.in_file_order();
    if (in.size() != 2 || in[1] != w[1]) x = node.node("Reshape", {x, node.whole("rows", {count_of(in) / w[1], w[1]})});
    std::vector<std::string> inputs{x, node.floats("weight", node.elements(1), w)};
    if (node.has(2)) inputs.push_back(node.floats("bias", node.elements(2), node.input(2).dims));
    std::string y = node.node("Gemm", std::move(inputs), {{"transB", std::int64_t{1}}});
    const Dims& out = node.output().dims;
    if (out.size() != 2) {
        y = node.node("Reshape", {y, node.whole("shape", Integers(out.begin(), out.end()))});
        y = node.permute(y, to_channels_second(out.size()));
    }
    node.set(y, node.activation(fields::FullyConnected::activation));
}

INTQ_INLINE void pool(FloatImport& node, const char* op_type) {
    const Window2d window = pool_window(node.options(), image_dims(node, 0));
    node.set(node.node(op_type, {node.value()},
                       {{"kernel_shape", Integers{window.kernel.height, window.kernel.width}},
                        {"pads", pads_of(window.padding)},
                        {"strides", Integers{window.stride.height, window.stride.width}}}),
             node.activation(fields::Pool2D::activation));
}

INTQ_INLINE void average_pool_2d(FloatImport& node) { pool(node, "AveragePool"); }
INTQ_INLINE void max_pool_2d(FloatImport& node) { pool(node, "MaxPool"); }

// The remaining axes are moved into the library's order behind the reduction, unless they are in it already.
INTQ_INLINE void reduce(FloatImport& node, const char* op_type) {
    const std::size_t rank = node.input().dims.size();
    Integers axes;
    std::vector<bool> gone(rank, false);
    for (const std::int64_t axis : node.integers(1)) {
        const int at = checked_axis(axis, rank);
        if (!gone[static_cast<std::size_t>(at)]) axes.push_back(program_axis(at, rank));
        gone[static_cast<std::size_t>(at)] = true;
    }
    const bool keeps = node.options().flag(fields::Reducer::keeps_dims);
    std::string y =
        node.node(op_type, {node.value(), node.whole("axes", axes)}, {{"keepdims", std::int64_t{keeps ? 1 : 0}}});
    if (keeps) return node.set(y);
    // The remaining axes, in the order of the result; and where the library wants them.
    Integers stays;
    for (const std::int64_t axis : to_channels_second(rank))
        if (!gone[static_cast<std::size_t>(axis)]) stays.push_back(axis);
    Integers sorted = stays, order;
    std::sort(sorted.begin(), sorted.end());
    for (const std::int64_t axis : to_channels_second(sorted.size()))
        order.push_back(std::find(stays.begin(), stays.end(), sorted[static_cast<std::size_t>(axis)]) - stays.begin());
    node.set(node.permute(y, order));
}

INTQ_INLINE void mean(FloatImport& node) { reduce(node, "ReduceMean"); }
INTQ_INLINE void sum_of_axes(FloatImport& node) { reduce(node, "ReduceSum"); }

/// Two operands that broadcast.
INTQ_INLINE std::vector<std::string> operands_of(FloatImport& node) {
    const std::size_t rank = node.output().dims.size();
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
        if (!node.input(i).is_constant() && node.input(i).dims.size() != rank)
            throw Error("operands of different numbers of axes are not supported");
    const std::string x = node.value(0);
    return {x, node.value(1)};
}

INTQ_INLINE void two(FloatImport& node, const char* op_type, int activation_field) {
    node.set(node.node(op_type, operands_of(node)), node.activation(activation_field));
}

INTQ_INLINE void add(FloatImport& node) { two(node, "Add", fields::Add::activation); }
INTQ_INLINE void sub(FloatImport& node) { two(node, "Sub", fields::Sub::activation); }
INTQ_INLINE void mul(FloatImport& node) { two(node, "Mul", fields::Mul::activation); }
INTQ_INLINE void squared_difference(FloatImport& node) {
    const std::string difference = node.node("Sub", operands_of(node));
    node.set(node.node("Mul", {difference, difference}));
}

/// A matrix of BATCH_MATMUL with the axes of the file, or with the last two of them exchanged.
INTQ_INLINE std::string matrix(FloatImport& node, std::size_t i, bool exchanged) {
    const FileTensor& tensor = node.input(i);
    const std::size_t rank = tensor.dims.size();
    if (rank < 2)
        throw Error("the operand " + in_quotes(tensor.name) + " of shape " + describe_dims(tensor.dims) +
                    " is no matrix");
    const bool is_constant = tensor.is_constant();
    Integers order = to_file_order(rank);
    if (is_constant) std::sort(order.begin(), order.end());
    if (exchanged) std::swap(order[rank - 1], order[rank - 2]);
    if (!is_constant) return node.permute(node.value(i), order);
    Dims dims;
    for (const std::int64_t axis : order) dims.push_back(tensor.dims[static_cast<std::size_t>(axis)]);
    std::vector<float> values = moved(node.elements(i), tensor.dims, order);
    // One matrix for all is a weight.
    while (dims.size() > 2 && dims[0] == 1 && dims.size() <= node.input(1 - i).dims.size()) dims.erase(dims.begin());
    return node.floats("operand", std::move(values), std::move(dims));
}

INTQ_INLINE void batch_matmul(FloatImport& node) {
    using Options = fields::BatchMatMul;
    const std::string x = matrix(node, 0, node.options().flag(Options::adj_x));
    node.set_from_file_order(node.node("MatMul", {x, matrix(node, 1, node.options().flag(Options::adj_y))}));
}

/// Of a value and one number, which ONNX's importer makes a clamp.
INTQ_INLINE void extreme(FloatImport& node, const char* op_type) {
    std::vector<std::string> inputs;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
        inputs.push_back(node.input(i).is_constant() ? node.floats("bound", node.elements(i), node.input(i).dims)
                                                     : node.value(i));
    node.set(node.node(op_type, std::move(inputs)));
}

INTQ_INLINE void maximum(FloatImport& node) { extreme(node, "Max"); }
INTQ_INLINE void minimum(FloatImport& node) { extreme(node, "Min"); }

INTQ_INLINE void relu(FloatImport& node) { node.set(node.value(), FusedActivation::relu); }
INTQ_INLINE void relu6(FloatImport& node) { node.set(node.value(), FusedActivation::relu6); }
INTQ_INLINE void relu_n1_to_1(FloatImport& node) { node.set(node.value(), FusedActivation::relu_n1_to_1); }
INTQ_INLINE void logistic(FloatImport& node) { node.set(node.node("Sigmoid", {node.value()})); }
INTQ_INLINE void tanh(FloatImport& node) { node.set(node.node("Tanh", {node.value()})); }
INTQ_INLINE void hard_swish(FloatImport& node) { node.set(node.node("HardSwish", {node.value()})); }
INTQ_INLINE void leaky_relu(FloatImport& node) {
    const float alpha = node.options().number<float>(fields::LeakyRelu::alpha, 0.0f);
    node.set(node.node("LeakyRelu", {node.value()}, {{"alpha", alpha}}));
}

INTQ_INLINE void exp(FloatImport& node) { node.set(node.node("Exp", {node.value()})); }
INTQ_INLINE void log(FloatImport& node) { node.set(node.node("Log", {node.value()})); }
INTQ_INLINE void sqrt(FloatImport& node) { node.set(node.node("Sqrt", {node.value()})); }
INTQ_INLINE void rsqrt(FloatImport& node) { node.set(node.node("Reciprocal", {node.node("Sqrt", {node.value()})})); }
INTQ_INLINE void absolute(FloatImport& node) { node.set(node.node("Abs", {node.value()})); }
INTQ_INLINE void neg(FloatImport& node) { node.set(node.node("Neg", {node.value()})); }
INTQ_INLINE void gelu(FloatImport& node) {
    const bool by_tanh = node.options().flag(fields::Gelu::approximate);
    node.set(node.node("Gelu", {node.value()}, {{"approximate", std::string(by_tanh ? "tanh" : "none")}}));
}

INTQ_INLINE void along_last_axis(FloatImport& node, const char* op_type) {
    const std::size_t rank = node.input().dims.size();
    node.set(node.node(op_type, {node.value()}, {{"axis", std::int64_t{rank < 2 ? 0 : 1}}}));
}

INTQ_INLINE void softmax(FloatImport& node) {
    if (const float beta = node.options().number<float>(fields::Softmax::beta, 0.0f); beta != 1.0f)
        throw Error("its beta is " + std::to_string(beta) + ", expected 1");
    along_last_axis(node, "Softmax");
}
INTQ_INLINE void log_softmax(FloatImport& node) { along_last_axis(node, "LogSoftmax"); }

INTQ_INLINE void reshape(FloatImport& node) {
    const Dims& out = node.output().dims;
    if (count_of(out) != count_of(node.input().dims))
        throw Error("a tensor of shape " + describe_dims(node.input().dims) + " cannot become one of shape " +
                    describe_dims(out));
    node.set_from_file_order(
        node.node("Reshape", {node.in_file_order(), node.whole("shape", Integers(out.begin(), out.end()))}));
}

INTQ_INLINE void transpose(FloatImport& node) {
    const std::size_t rank = node.input().dims.size();
    const Integers order = node.integers(1);
    if (order.size() != rank) throw Error("it orders another number of axes than the input has");
    Integers turned;
    for (const std::int64_t axis : to_channels_second(rank))
        turned.push_back(program_axis(checked_axis(order[static_cast<std::size_t>(axis)], rank), rank));
    node.set(node.permute(node.value(), turned));
}

INTQ_INLINE void slice(FloatImport& node) {
    const Integers begin = node.integers(1), size = node.integers(2);
    const Dims& dims = node.input().dims;
    if (begin.size() != dims.size() || size.size() != dims.size())
        throw Error("it has another number of begins or sizes than the input has axes");
    Integers starts, ends, axes;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        starts.push_back(begin[axis]);
        ends.push_back(size[axis] < 0 ? dims[axis] : begin[axis] + size[axis]);
        axes.push_back(program_axis(static_cast<int>(axis), dims.size()));
    }
    node.set(node.node(
        "Slice", {node.value(), node.whole("starts", starts), node.whole("ends", ends), node.whole("axes", axes)}));
}

INTQ_INLINE void concatenation(FloatImport& node) {
    std::vector<std::string> inputs;
    const std::size_t rank = node.output().dims.size();
    for (std::size_t i = 0; i < node.input_count(); ++i) inputs.push_back(node.value(i));
    const int axis = checked_axis(node.option(fields::Concatenation::axis, 0), rank);
    node.set(node.node("Concat", std::move(inputs), {{"axis", std::int64_t{program_axis(axis, rank)}}}),
             node.activation(fields::Concatenation::activation));
}

/// The second input of PAD in ONNX's order: the cells before every axis, then those behind.
INTQ_INLINE std::string amounts_of(FloatImport& node) {
    const Integers amounts = node.integers(1);
    const std::size_t rank = node.input().dims.size();
    if (amounts.size() != 2 * rank) throw Error("it has another number of amounts than two for each axis");
    Integers pads;
    for (const std::size_t end : {std::size_t{0}, std::size_t{1}})
        for (const std::int64_t axis : to_channels_second(rank))
            pads.push_back(amounts[2 * static_cast<std::size_t>(axis) + end]);
    return node.whole("pads", pads);
}

INTQ_INLINE void pad(FloatImport& node) { node.set(node.node("Pad", {node.value(), amounts_of(node)})); }

INTQ_INLINE void mirror_pad(FloatImport& node) {
    require_reflect(node.options());
    node.set(node.node("Pad", {node.value(), amounts_of(node)}, {{"mode", std::string("reflect")}}));
}

INTQ_INLINE std::string resize(FloatImport& node, const char* mode, const char* place, const char* nearest) {
    const Dims out = node.output().dims;
    if (out.size() != 4 || image_dims(node, 0).size() != 4) throw Error("its output has no 4 axes");
    std::vector<onnx::Attribute> attributes{{"mode", std::string(mode)},
                                            {"coordinate_transformation_mode", std::string(place)}};
    if (nearest != nullptr) attributes.push_back({"nearest_mode", std::string(nearest)});
    return node.node("Resize", {node.value(), "", "", node.whole("sizes", {out[0], out[3], out[1], out[2]})},
                     std::move(attributes));
}

INTQ_INLINE void resize_bilinear(FloatImport& node) {
    const auto [corners, half_pixel] = resize_places<fields::ResizeBilinear>(node.options());
    if (!corners && !half_pixel)
        throw Error("it has neither half_pixel_centers nor align_corners, which is not supported");
    node.set(resize(node, "linear", corners ? "align_corners" : "half_pixel", nullptr));
}

INTQ_INLINE void resize_nearest_neighbor(FloatImport& node) {
    const auto [corners, half_pixel] = resize_places<fields::ResizeNearest>(node.options());
    if (corners) throw Error("it has align_corners, which is not supported");
    node.set(
        resize(node, "nearest", half_pixel ? "half_pixel" : "asymmetric", half_pixel ? "round_prefer_ceil" : "floor"));
}

}  // namespace float_model

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_float_model)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_FLOAT_MODEL_OPERATORS_HPP
