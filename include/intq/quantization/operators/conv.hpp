// SPDX-License-Identifier: MIT
//
// conv2d, conv1d, their transposes and linear on codes, with operators fused into them. Long because one file holds a
// family of operators. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_CONV_HPP
#define INTQ_QUANTIZATION_OPERATORS_CONV_HPP

#include <cstdint>
#include <optional>
#include <vector>

#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/kernels/streaming/move.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Data of a layer from a file or another engine, as kernels::Conv2dSpec takes it. Empty vectors provide nothing.
struct GivenCodes {
    std::vector<std::int64_t> bias{};
    std::vector<std::int32_t> bias_int32{};
    std::vector<std::int32_t> multipliers{}, shifts{};  // as many as output channels, or one of each
    std::optional<kernels::CodeBounds> bounds{};        // in place of an activation
};

/// A convolution or linear layer for add_conv(): input, sumin and their qparams come from the tensors.
struct ConvLayer {
    OpKind op = OpKind::conv2d;
    Window2d window{};
    index_t groups = 1;
    Tensor weight{};  // int8 or int16 codes, row_major: (O, C/groups, KH, KW) or (O, I)
    OwnedQParams weight_qparams{};
    Tensor bias{};          // real numbers, (O), or undefined
    OwnedQParams output{};  // dtype int32: the accumulator is the output
    Activation activation = Activation::none;
    GivenCodes given{};
    bool gives_rows = false;  // of images of one row: the output is (N, O, L)

    index_t out_channels() const { return weight.extent(0); }
};

/// A linear layer on rows (row_major, rank 3 and more) computes on the last axis; x, sumin and the output are rows. On
/// images its window is the image, and the output is a vector.
///
/// @param sumin  operand of a fused add
std::int32_t add_conv(program::ProgramBuilder& builder, std::int32_t x, std::optional<std::int32_t> sumin,
                      const ConvLayer& conv, const program::LayerName& layer);

/// s_acc[c] = fmul(s_in, s_w[c]), for each output channel.
std::vector<float> accumulator_scales(float input, const OwnedQParams& weight, index_t out_channels);

/// A layer with weights: x, and the operand of a fused add.
class WeightedStep : public Step {
public:
    OpKind op = OpKind::conv2d;
    Window2d window{};
    index_t groups = 1;
    Tensor weight{};                         // codes, row_major: (O, C/groups, KH, KW) or (O, I)
    OwnedQParams weight_qparams;             // scales raised by docs/arithmetic.md section 3, step 0
    Tensor bias{};                           // real numbers, (O), or undefined
    std::vector<std::int32_t> bias_codes{};  // from a file: the program takes them in place of the real numbers
    bool sumin = false;
    Activation activation = Activation::none;
    /// conv_transpose2d: how the pixels are spread before the convolution, with the zero point between them.
    std::optional<kernels::PadParams> spread{};
    nn::ModulePtr layer{};  // in float, with the weight that the codes represent

    OpKind kind() const noexcept override { return op; }
    INTQ_INLINE std::optional<OwnedQParams> accumulator_qparams(const QuantizedTensor& input,
                                                                const Shape& output) const override;
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;

private:
    /// A linear layer on the last axis of rank 3 and more.
    void lower_rows(Lowering& l, const QuantizedNode& node, const ConvLayer& conv) const;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <memory>
#    include <string>
#    include <utility>

#    include "intq/arith/ieee.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/conv.hpp"
#    include "intq/kernels/packing/pack.hpp"
#    include "intq/nn/float_operators/conv.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/move.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/reference.hpp"
#    include "intq/quantization/operators/resize.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<float> accumulator_scales(float input, const OwnedQParams& weight, index_t out_channels) {
    std::vector<float> scales;
    for (index_t c = 0; c < out_channels; ++c)
        scales.push_back(arith::fmul(input, weight.scales[weight.is_per_channel() ? static_cast<std::size_t>(c) : 0]));
    return scales;
}

namespace detail {

INTQ_INLINE Shape conv_output_shape(const kernels::ArenaTensor& in, const ConvLayer& conv, Size2d out) {
    const index_t batch = in.shape[0], channels = conv.out_channels();
    if (in.layout == Layout::row_major) {
        Shape rows = in.shape;
        rows[rows.rank - 1] = channels;
        return rows;
    }
    if (conv.op == OpKind::linear) return Shape(batch, channels);
    if (in.shape.rank == 3 || conv.gives_rows) return Shape(batch, channels, out.width);
    return Shape(batch, channels, out.height, out.width);
}

INTQ_INLINE kernels::Conv2dSpec conv_spec(const kernels::ArenaTensor& in, const ConvLayer& conv) {
    kernels::Conv2dSpec spec;
    spec.op = conv.op;
    spec.window = conv.window;
    spec.in_channels = in.shape[in.channel_axis()];
    spec.out_channels = conv.out_channels();
    spec.groups = conv.groups;
    spec.input_dtype = in.dtype;
    spec.input = in.qparams;
    spec.weight_dtype = conv.weight.dtype();
    spec.weight = conv.weight_qparams.view();
    spec.weight_codes = conv.weight.data();
    spec.output_dtype = conv.output.dtype;
    if (conv.output.dtype != DType::int32) spec.output = conv.output.view();
    spec.activation = conv.activation;
    if (conv.bias.defined()) spec.bias = conv.bias.flat<float>().data();
    return spec;
}

/// Throws if there are not as many given numbers as channels. `requantize` must outlive the spec.
INTQ_INLINE void take_given(kernels::Conv2dSpec& spec, const GivenCodes& given, kernels::GivenRequantize& requantize,
                            const program::LayerName& layer) {
    const auto channels = static_cast<std::size_t>(spec.out_channels);
    const auto check_count = [&](const char* what, std::size_t count) {
        if (count != channels)
            throw Error(layer.name, std::to_string(count) + " " + what + " are given for " + std::to_string(channels) +
                                        " output channels");
    };
    if (!given.bias.empty()) {
        check_count("bias codes", given.bias.size());
        spec.bias_codes = given.bias.data();
    }
    if (!given.bias_int32.empty()) {
        check_count("bias codes", given.bias_int32.size());
        spec.bias_codes_int32 = given.bias_int32.data();
    }
    if (!given.multipliers.empty()) {
        if (given.multipliers.size() != 1) check_count("multipliers", given.multipliers.size());
        if (given.shifts.size() != given.multipliers.size())
            throw Error(layer.name, std::to_string(given.shifts.size()) + " shifts are given for " +
                                        std::to_string(given.multipliers.size()) + " multipliers");
        requantize = {given.multipliers.data(), given.shifts.data(), static_cast<index_t>(given.multipliers.size())};
        spec.requantize = &requantize;
    }
    if (given.bounds) spec.bounds = &*given.bounds;
}

/// Ways to keep the sum of a layer in its accumulator, except those that the layer already uses.
///
/// @param input  the name of the layer's input
INTQ_INLINE std::string ways_out(const kernels::Conv2dSpec& spec, const arith::PolicyRecord& target,
                                 const char* input) {
    if (spec.bias_codes_int32 != nullptr && spec.input_dtype == DType::int16 && spec.output_dtype != DType::int32)
        return std::string("; ways out: an int64 bias, whose sums have 64 bits, or narrower bounds of the codes of ") +
               in_quotes(input) +
               ", which each run then checks. The int32 bias says that sums have 32 bits, and a library that adds in "
               "them without such a proof relies on the data";
    std::string ways;
    if (spec.output_dtype == DType::int32)
        ways += "a quantizer of the output, so that the accumulator is not handed out, ";
    if (spec.input_dtype == DType::int16) ways += "int8 activations, ";
    if (spec.output_dtype != DType::int32 &&
        target.for_weights(spec.weight_dtype).accumulator_bits(spec.input_dtype) < 64)
        ways += "a target with 64-bit accumulators (meta), ";
    return "; ways out: " + ways + (ways.empty() ? "" : "or ") + "a larger weight scale";
}

/// @param input  the name of the layer's input
INTQ_INLINE kernels::PackedConv2d pack(program::ProgramBuilder& builder, kernels::Conv2dSpec spec, const char* input,
                                       const program::LayerName& layer) {
    const kernels::PackingRules& rules = builder.table().packing;
    spec.wide_sum = kernels::needs_wide_sum(rules, spec);
    const Workspace storage = builder.new_buffer(kernels::packed_conv2d_size(rules, spec));
    const Result<kernels::PackedConv2d> packed = kernels::pack_conv2d(rules, spec, storage);
    if (packed.status().code == StatusCode::accumulator_overflow && !program::is_scale_of_zeros(spec.output))
        throw Error(layer.name, describe(packed.status()) + ways_out(spec, builder.target(), input));
    return program::made_or_throw(packed, spec.output, layer);
}

INTQ_INLINE arith::SuminOperand sumin_operand(const program::ProgramBuilder& builder, std::int32_t sumin, DType dtype,
                                              const program::LayerName& layer) {
    const kernels::ArenaTensor& e = builder.at(sumin);
    if (e.dtype != dtype)
        throw Error(layer.name, "the operand of a fused add must have the input's dtype " +
                                    std::string(name_of(dtype)) + ", given " + name_of(e.dtype));
    return {e.qparams.scale(), e.qparams.zero_point(), e.qparams.quant_min(), e.qparams.quant_max()};
}

}  // namespace detail

INTQ_INLINE std::int32_t add_conv(program::ProgramBuilder& builder, std::int32_t x, std::optional<std::int32_t> sumin,
                                  const ConvLayer& conv, const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    const bool by_rows = in.layout == Layout::row_major;
    if (in.shape.rank < 2 || (in.shape.rank > 4 && !by_rows))
        throw Error(layer.name, "an input of rank 2 to 4 is needed, given " + to_string(in.shape));
    const kernels::ImageOf image = kernels::image_of(in);
    const index_t kernel = conv.window.kernel.height * conv.window.kernel.width;
    const index_t weights = conv.out_channels() * (conv.groups > 0 ? image.channels / conv.groups : 0) * kernel;
    if (conv.weight.size() != weights)
        throw Error(layer.name, "the weight has " + std::to_string(conv.weight.size()) + " elements, expected " +
                                    std::to_string(weights));
    throw_if_failed(check_window(conv.window, OpKind::conv2d), layer.name);
    kernels::Conv2dSpec spec = detail::conv_spec(in, conv);
    spec.input_is_nonnegative = builder.is_nonnegative(x);
    kernels::GivenRequantize requantize;
    detail::take_given(spec, conv.given, requantize, layer);
    arith::SuminOperand operand;
    if (sumin) {
        operand = detail::sumin_operand(builder, *sumin, in.dtype, layer);
        spec.sumin = &operand;
    }
    kernels::ConvParams step;
    step.packed = detail::pack(builder, spec, in.name, layer);
    step.geometry =
        value_or_throw(kernels::make_conv2d_geometry(conv.window, builder.max_batch(), image.size), layer.name);

    const Shape shape = detail::conv_output_shape(in, conv, step.geometry.out);
    QParams output = spec.output;
    if (conv.output.dtype == DType::int32)
        output = builder.keep(
            OwnedQParams::per_channel(accumulator_scales(in.qparams.scale(), conv.weight_qparams, conv.out_channels()),
                                      by_rows ? shape.rank - 1 : 1, DType::int32));
    std::vector<std::int32_t> operands{x};
    if (sumin) operands.push_back(*sumin);
    const std::int32_t y = builder.tensor(conv.output.dtype, shape, output, layer, in.layout);
    return builder.push(conv.op, std::move(operands), y, builder.keep_params(step), layer);
}

INTQ_INLINE std::optional<OwnedQParams> WeightedStep::accumulator_qparams(const QuantizedTensor& input,
                                                                          const Shape& output) const {
    return OwnedQParams::per_channel(accumulator_scales(input.qparams.scale(), weight_qparams, weight.extent(0)),
                                     op == OpKind::linear ? output.rank - 1 : 1, DType::int32);
}

INTQ_INLINE void WeightedStep::lower(Lowering& l, const QuantizedNode& node) const {
    ConvLayer conv{op, window, groups, weight, weight_qparams, bias, l.qparams(node), activation, {}, false};
    if (conv.output.dtype != DType::int32) {
        const arith::OutputCodes codes = l.output_codes(node, activation);
        if (l.is_bounded(node.output)) {  // they include the activation's
            conv.given.bounds = kernels::CodeBounds{codes.lowest, codes.highest};
            conv.activation = Activation::none;
        }
    }
    if (!bias_codes.empty()) {
        // As codes of a model of ours: an int32 bias would choose TFLite's sums of 32 bits for int16 activations.
        conv.given.bias.assign(bias_codes.begin(), bias_codes.end());
        conv.bias = {};
    }
    if (op == OpKind::linear && l.quantized().input(node, 0).shape.rank > 2) return lower_rows(l, node, conv);
    std::int32_t x;
    if (const auto image = l.image_behind(node.inputs[0]); image && op == OpKind::linear) {
        const Shape& in = l.quantized().tensor(*image).shape;
        conv.window.kernel = {in[2], in[3]};
        x = l.tensor(*image);
    } else {
        x = l.input(node);
    }
    if (spread) {
        kernels::PadParams pad = *spread;
        const Shape in = l.builder().at(x).shape;
        pad.fill = l.builder().at(x).qparams.zero_point();
        conv.gives_rows = in.rank == 3;
        if (conv.gives_rows) {  // the same memory, as images of one row
            const auto image = MovedView(x, in).reshaped(Shape(in[0], in[1], 1, in[2]));
            x = l.write_view(*image, OpKind::reshape, Lowering::layer(node));
        }
        x = add_pad(l.builder(), x, pad, Lowering::layer(node));
    }
    const program::LayerName name = Lowering::layer(node);
    std::optional<std::int32_t> operand;
    if (sumin) {
        operand = l.input(node, 1);
        Shape shape = l.quantized().output(node).shape;
        shape[0] = l.builder().max_batch();
        if (!(l.builder().at(*operand).shape == shape)) operand = add_expand(l.builder(), *operand, shape, name);
    }
    l.set(node, add_conv(l.builder(), x, operand, conv, name));
}

INTQ_INLINE void WeightedStep::lower_rows(Lowering& l, const QuantizedNode& node, const ConvLayer& conv) const {
    const program::LayerName name = Lowering::layer(node);
    const std::int32_t x = l.rows(node.inputs[0], name);
    const auto operand = sumin ? std::optional<std::int32_t>(l.rows(node.inputs[1], name)) : std::nullopt;
    l.set_rows(node, add_conv(l.builder(), x, operand, conv, name));
}

INTQ_INLINE void WeightedStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    graph::ArgumentList args{reference.real_input(node, 0)};
    if (sumin) args.emplace_back(reference.real_input(node, 1));
    graph::Node& value = reference.call(node, layer, std::move(args));
    if (reference.quantized().output(node).dtype == DType::int32)
        reference.set_real(node, value);
    else
        reference.quantize_output(node, value);
}

namespace operators {

/// The qparams of the operand of a fused add; null if there is none.
INTQ_INLINE const OwnedQParams* operand_of(const StepRequest& request, const nn::Fusion& fusion) {
    if (!fusion.add) return nullptr;
    if (!request.target.fused_add)
        throw request.error(std::string("the target ") + request.target.name + " has no fused add");
    const QuantizedTensor& sumin = *request.inputs.at(1);
    const Shape& shape = request.output_shape;
    if (!kernels::is_broadcast(shape, sumin.shape, shape) || (shape.rank < 3 && !(sumin.shape == shape)))
        throw request.error("the fused add needs an operand of the output's shape " + to_string(shape) +
                            ", or one that is repeated to it, given " + to_string(sumin.shape));
    return &sumin.qparams;
}

INTQ_INLINE void require_finite(const StepRequest& request, const Tensor& tensor, const char* name) {
    if (!tensor.defined()) return;
    const Tensor values = tensor.contiguous();
    for (std::size_t i = 0; i < values.flat<float>().size(); ++i)
        if (!arith::is_finite(values.flat<float>()[i]))
            throw request.error("element " + std::to_string(i) + " of the " + name + " is NaN or infinite");
}

/// The part that all layers with weights share.
INTQ_INLINE std::shared_ptr<WeightedStep> weighted_step(const StepRequest& request, OpKind op) {
    const auto& prepared = dynamic_cast<const PreparedWeight&>(*request.module);
    const nn::Weighted& layer = prepared.layer();
    auto step = std::make_shared<WeightedStep>();
    require_finite(request, layer.weight(), "weight");
    require_finite(request, layer.bias(), "bias");
    step->op = op;
    const DeployedWeight deployed = prepared.deployed(prepared.weight_qparams());
    step->bias = deployed.bias;
    step->sumin = layer.fusion().add;
    step->activation = layer.fusion().activation;
    step->weight_qparams =
        raise_weight_scales(request.target, deployed.qparams, step->bias, request.inputs.at(0)->qparams,
                            operand_of(request, layer.fusion()), prepared.hands_out_accumulator());
    step->weight = quantize(deployed.weight, step->weight_qparams, request.target.quantize);
    return step;
}

/// The layer, fused or not, with the weight and bias of a step and no batch norm.
template <class Layer> nn::ModulePtr with_weight(const Layer& layer, const WeightedStep& step) {
    Layer plain(layer);
    plain.remove_norm();
    plain.set_weight(dequantize(step.weight, step.weight_qparams));
    if (step.bias.defined()) plain.set_bias(step.bias);
    const nn::Fusion fusion = layer.fusion();
    if (!fusion.add && fusion.activation == Activation::none) return make_as<nn::Module, Layer>(plain);
    return make_as<nn::Module, nn::Fused<Layer>>(plain, fusion);
}

INTQ_INLINE StepPtr make_conv2d(const StepRequest& request) {
    const auto& conv = dynamic_cast<const nn::Conv2d&>(*request.module);
    auto step = weighted_step(request, OpKind::conv2d);
    step->window = conv.options().window;
    step->groups = conv.options().groups;
    step->layer = with_weight(conv, *step);
    return step;
}

INTQ_INLINE StepPtr make_linear(const StepRequest& request) {
    auto step = weighted_step(request, OpKind::linear);
    step->layer = with_weight(dynamic_cast<const nn::Linear&>(*request.module), *step);
    return step;
}

INTQ_INLINE StepPtr make_conv1d(const StepRequest& request) {
    const auto& conv = dynamic_cast<const nn::Conv1d&>(*request.module);
    auto step = weighted_step(request, OpKind::conv2d);
    step->window = conv.window();
    step->groups = conv.options().groups;
    step->layer = with_weight(conv, *step);
    return step;
}

/// Padding p of a transposed convolution cuts; the rest of the window's reach is added on each side.
INTQ_INLINE kernels::PadParams spread_of(const nn::ConvTranspose2dOptions& options) {
    const Window2d& w = options.window;
    const index_t reach_y = w.dilation.height * (w.kernel.height - 1),
                  reach_x = w.dilation.width * (w.kernel.width - 1);
    return {
        {reach_y - w.padding.top, reach_x - w.padding.left, reach_y - w.padding.bottom + options.output_padding.height,
         reach_x - w.padding.right + options.output_padding.width},
        w.stride,
        0};
}

/// @param step  with the codes of the layer's own weight
INTQ_INLINE StepPtr transposed_step(std::shared_ptr<WeightedStep> step, const nn::ConvTranspose2dOptions& options) {
    step->groups = options.groups;
    step->window = {options.window.kernel, {1, 1}, {}, options.window.dilation};
    step->spread = spread_of(options);
    // The weight codes of the equivalent convolution of an image with spread pixels.
    using nn::float_operators::turned_weight;
    if (step->weight.rank() == 3) step->weight = nn::float_operators::images_of_rows(step->weight);
    step->weight = step->weight.dtype() == DType::int8 ? turned_weight<std::int8_t>(step->weight, options.groups)
                                                       : turned_weight<std::int16_t>(step->weight, options.groups);
    if (step->weight_qparams.is_per_channel()) {
        const std::vector<float> in_group = step->weight_qparams.scales;
        step->weight_qparams.axis = 0;
        step->weight_qparams.scales.clear();
        for (index_t g = 0; g < options.groups; ++g)
            step->weight_qparams.scales.insert(step->weight_qparams.scales.end(), in_group.begin(), in_group.end());
    }
    return step;
}

INTQ_INLINE StepPtr make_conv_transpose2d(const StepRequest& request) {
    const auto& conv = dynamic_cast<const nn::ConvTranspose2d&>(*request.module);
    auto step = weighted_step(request, OpKind::conv2d);
    step->layer = with_weight(conv, *step);
    return transposed_step(std::move(step), conv.options());
}

INTQ_INLINE StepPtr make_conv_transpose1d(const StepRequest& request) {
    const auto& conv = dynamic_cast<const nn::ConvTranspose1d&>(*request.module);
    auto step = weighted_step(request, OpKind::conv2d);
    step->layer = with_weight(conv, *step);
    return transposed_step(std::move(step), conv.as_2d());
}

template <class Layer>
std::shared_ptr<nn::Weighted> prepare_layer(const nn::Weighted& layer, std::shared_ptr<FakeQuantize> weight,
                                            const arith::PolicyRecord& target) {
    return make_as<nn::Weighted, Prepared<Layer>>(dynamic_cast<const Layer&>(layer), layer.fusion(), std::move(weight),
                                                  target);
}

INTQ_INLINE Window2d conv2d_window(const nn::Module& module) {
    return dynamic_cast<const nn::Conv2d&>(module).options().window;
}

inline constexpr QuantizedOperator conv2d{.name = "conv2d",
                                          .role = Role::weighted,
                                          .kind = OpKind::conv2d,
                                          .make_step = &make_conv2d,
                                          .window = &conv2d_window,
                                          .prepare = &prepare_layer<nn::Conv2d>};
inline constexpr QuantizedOperator linear{.name = "linear",
                                          .role = Role::weighted,
                                          .kind = OpKind::linear,
                                          .make_step = &make_linear,
                                          .prepare = &prepare_layer<nn::Linear>};

INTQ_INLINE Window2d conv1d_window(const nn::Module& module) {
    return dynamic_cast<const nn::Conv1d&>(module).window();
}
INTQ_INLINE Window2d conv_transpose2d_window(const nn::Module& module) {
    return dynamic_cast<const nn::ConvTranspose2d&>(module).options().window;
}

inline constexpr QuantizedOperator conv1d{.name = "conv1d",
                                          .role = Role::weighted,
                                          .kind = OpKind::conv2d,
                                          .make_step = &make_conv1d,
                                          .window = &conv1d_window,
                                          .prepare = &prepare_layer<nn::Conv1d>};
INTQ_INLINE Window2d conv_transpose1d_window(const nn::Module& module) {
    return dynamic_cast<const nn::ConvTranspose1d&>(module).as_2d().window;
}
inline constexpr QuantizedOperator conv_transpose1d{.name = "conv_transpose1d",
                                                    .role = Role::weighted,
                                                    .kind = OpKind::conv2d,
                                                    .make_step = &make_conv_transpose1d,
                                                    .window = &conv_transpose1d_window,
                                                    .prepare = &prepare_layer<nn::ConvTranspose1d>};
inline constexpr QuantizedOperator conv_transpose2d{.name = "conv_transpose2d",
                                                    .role = Role::weighted,
                                                    .kind = OpKind::conv2d,
                                                    .make_step = &make_conv_transpose2d,
                                                    .window = &conv_transpose2d_window,
                                                    .prepare = &prepare_layer<nn::ConvTranspose2d>};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_CONV_HPP
