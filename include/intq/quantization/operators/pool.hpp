// SPDX-License-Identifier: MIT
//
// max_pool2d, avg_pool2d and adaptive_avg_pool2d on codes. Long because averages have several forms on codes. Layer:
// quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_POOL_HPP
#define INTQ_QUANTIZATION_OPERATORS_POOL_HPP

#include <cstdint>
#include <memory>
#include <optional>

#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The scale stays.
std::int32_t add_max_pool(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window,
                          const program::LayerName& layer);

/// An output with the input's scale and zero point is divided on the tflite family; others are requantized, for windows
/// without padding.
std::int32_t add_avg_pool(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window, PoolDivisor divisor,
                          const OwnedQParams& output, const program::LayerName& layer);
/// The same with bounds.
/// @param of_values  by arith::make_average_of_values(), if the target has it for the codes
std::int32_t add_avg_pool(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window, PoolDivisor divisor,
                          const OwnedQParams& output, const arith::OutputCodes& codes, const program::LayerName& layer,
                          bool of_values = false);

/// Requantized whatever the output's scale, as in TFLite's MEAN; for a window without padding.
std::int32_t add_mean(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window,
                      const OwnedQParams& output, const program::LayerName& layer);

/// The sum of a window without padding: arith::make_sum().
std::int32_t add_window_sum(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window,
                            const OwnedQParams& output, const arith::OutputCodes& codes,
                            const program::LayerName& layer);

class MaxPoolStep : public FloatBackedStep {
public:
    MaxPoolStep(FloatCall call, const Window2d& window);
    OpKind kind() const noexcept override { return OpKind::max_pool2d; }
    const Window2d& window() const noexcept { return window_; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    Window2d window_;
};

/// An average as a target computes it.
struct AverageForm {
    Window2d window{};
    PoolDivisor divisor = PoolDivisor::kernel_cells;
    Padding2d written{};  // padding that becomes a part of the image before: zero points, which count
};

class AvgPoolStep : public FloatBackedStep {
public:
    /// @param flattens  the output is (N, C): only for a window that is the whole image or line
    AvgPoolStep(FloatCall call, const AverageForm& form, bool flattens = false);
    OpKind kind() const noexcept override { return OpKind::avg_pool2d; }
    /// On the image with written().
    const Window2d& window() const noexcept { return form_.window; }
    PoolDivisor divisor() const noexcept { return form_.divisor; }
    const Padding2d& written() const noexcept { return form_.written; }
    /// The same average as ONNX Runtime's QLinearAveragePool computes it, on targets that have its rule.
    std::shared_ptr<const AvgPoolStep> of_values() const;
    INTQ_INLINE std::optional<OwnedQParams> accumulator_qparams(const QuantizedTensor& input,
                                                                const Shape& output) const override;
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    float part_of_cell() const noexcept;
    std::int32_t image(Lowering& l, const QuantizedNode& node) const;
    std::int32_t add_sum_of_cells(Lowering& l, const QuantizedNode& node) const;
    std::int32_t add_average_on_grid(Lowering& l, const QuantizedNode& node) const;

    AverageForm form_;
    bool flattens_, of_values_ = false;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <limits>
#    include <set>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/ieee.hpp"
#    include "intq/arith/pool.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/pool.hpp"
#    include "intq/nn/layers/pool.hpp"
#    include "intq/nn/model/call.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/internal/on_grid.hpp"
#    include "intq/quantization/operators/reference.hpp"
#    include "intq/quantization/operators/resize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::int32_t add_pool(program::ProgramBuilder& builder, OpKind op, std::int32_t x,
                                  const kernels::PoolParams& step, DType dtype, const QParams& output,
                                  const program::LayerName& layer) {
    const Shape in = builder.at(x).shape;
    const Size2d out = output_size(step.window, kernels::image_of(in).size);
    Shape shape = in;
    if (in.rank == 4) shape[2] = out.height;
    shape[in.rank - 1] = out.width;
    return builder.push(op, {x}, builder.tensor(dtype, shape, output, layer), builder.keep_params(step), layer);
}

INTQ_INLINE void check_pool(program::ProgramBuilder& builder, OpKind op, std::int32_t x, const Window2d& window,
                            DType output, const program::LayerName& layer) {
    const kernels::ArenaTensor& in = builder.at(x);
    if (in.shape.rank != 3) builder.require_image(x, layer);
    builder.check_use({op, in.dtype, DType::none, output, window, in.shape[1]}, layer);
    throw_if_failed(kernels::check_pool(window, kernels::image_of(in.shape).size, op), layer.name);
}

}  // namespace detail

INTQ_INLINE std::int32_t add_max_pool(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window,
                                      const program::LayerName& layer) {
    detail::check_pool(builder, OpKind::max_pool2d, x, window, builder.at(x).dtype, layer);
    const kernels::ArenaTensor in = builder.at(x);
    return detail::add_pool(builder, OpKind::max_pool2d, x, {window, {}}, in.dtype, in.qparams, layer);
}

INTQ_INLINE std::int32_t add_avg_pool(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window,
                                      PoolDivisor divisor, const OwnedQParams& output,
                                      const program::LayerName& layer) {
    return add_avg_pool(builder, x, window, divisor, output, program::ProgramBuilder::output_codes(output.view()),
                        layer);
}

INTQ_INLINE std::int32_t add_avg_pool(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window,
                                      PoolDivisor divisor, const OwnedQParams& output, const arith::OutputCodes& codes,
                                      const program::LayerName& layer, bool of_values) {
    detail::check_pool(builder, OpKind::avg_pool2d, x, window, output.dtype, layer);
    const QParams out = builder.keep(output);
    const bool has_padding = !(window.padding == Padding2d{});
    const bool has_values =
        output.dtype == DType::int8 && builder.target().has_average(arith::AverageRule::sum_of_values);
    const auto make = of_values && has_values ? arith::make_average_of_values : arith::make_average;
    const auto average =
        program::made_or_throw(make(builder.target(), builder.codes_of(x), program::ProgramBuilder::codes_of(output),
                                    codes, window.kernel.height * window.kernel.width, divisor, has_padding),
                               out, layer);
    return detail::add_pool(builder, OpKind::avg_pool2d, x, {window, average}, output.dtype, out, layer);
}

INTQ_INLINE std::int32_t add_mean(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window,
                                  const OwnedQParams& output, const program::LayerName& layer) {
    detail::check_pool(builder, OpKind::avg_pool2d, x, window, output.dtype, layer);
    const QParams out = builder.keep(output);
    const auto average = program::made_or_throw(
        arith::make_mean(builder.target(), builder.codes_of(x), program::ProgramBuilder::codes_of(output),
                         program::ProgramBuilder::output_codes(out), window.kernel.height * window.kernel.width),
        out, layer);
    return detail::add_pool(builder, OpKind::avg_pool2d, x, {window, average}, output.dtype, out, layer);
}

INTQ_INLINE std::int32_t add_window_sum(program::ProgramBuilder& builder, std::int32_t x, const Window2d& window,
                                        const OwnedQParams& output, const arith::OutputCodes& codes,
                                        const program::LayerName& layer) {
    detail::check_pool(builder, OpKind::avg_pool2d, x, window, output.dtype, layer);
    const QParams out = builder.keep(output);
    const auto sum = program::made_or_throw(
        arith::make_sum(builder.target(), builder.codes_of(x), program::ProgramBuilder::codes_of(output), codes,
                        window.kernel.height * window.kernel.width),
        out, layer);
    return detail::add_pool(builder, OpKind::avg_pool2d, x, {window, sum}, output.dtype, out, layer);
}

INTQ_INLINE MaxPoolStep::MaxPoolStep(FloatCall call, const Window2d& window)
    : FloatBackedStep(std::move(call)), window_(window) {}

INTQ_INLINE void MaxPoolStep::lower(Lowering& l, const QuantizedNode& node) const {
    l.set(node, add_max_pool(l.builder(), l.input(node), window_, Lowering::layer(node)));
}

INTQ_INLINE AvgPoolStep::AvgPoolStep(FloatCall call, const AverageForm& form, bool flattens)
    : FloatBackedStep(std::move(call)), form_(form), flattens_(flattens) {}

INTQ_INLINE std::shared_ptr<const AvgPoolStep> AvgPoolStep::of_values() const {
    auto step = std::make_shared<AvgPoolStep>(*this);
    step->of_values_ = true;
    return step;
}

INTQ_INLINE float AvgPoolStep::part_of_cell() const noexcept {
    return arith::fdiv(1.0f, static_cast<float>(form_.window.kernel.height * form_.window.kernel.width));
}

/// The program's tensor for the input, with the padding that counts.
INTQ_INLINE std::int32_t AvgPoolStep::image(Lowering& l, const QuantizedNode& node) const {
    const std::int32_t x = l.input(node);
    if (form_.written == Padding2d{}) return x;
    const program::LayerName layer = Lowering::layer(node);
    const std::int32_t zero_point = l.builder().at(x).qparams.zero_point();
    return add_pad(l.builder(), x, {form_.written, {1, 1}, zero_point}, {layer.name + ".pad", layer.type});
}

INTQ_INLINE std::optional<OwnedQParams> AvgPoolStep::accumulator_qparams(const QuantizedTensor& input,
                                                                         const Shape& output) const {
    if (!(form_.window.padding == Padding2d{}) || !(form_.written == Padding2d{})) return std::nullopt;
    const float scale = arith::fmul(input.qparams.scale(), part_of_cell());
    return OwnedQParams::per_channel(std::vector<float>(static_cast<std::size_t>(output[1]), scale), 1, DType::int32);
}

/// Limit of the cells of a mean whose accumulator is the output. As many codes of 8 bits reach the end of 32 bits.
inline constexpr index_t largest_sum_of_cells = index_t{1} << 24;

namespace detail {

/// A tensor like another one, of one channel.
INTQ_INLINE std::int32_t first_channel(program::ProgramBuilder& builder, std::int32_t x,
                                       const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    Shape shape = in.shape;
    shape[1] = 1;
    return builder.tensor(in.dtype, shape, in.qparams, layer, in.layout);
}

}  // namespace detail

/// The sum is a depthwise convolution whose weights are 1, with the scale of one part of the mean.
INTQ_INLINE std::int32_t AvgPoolStep::add_sum_of_cells(Lowering& l, const QuantizedNode& node) const {
    const index_t cells = form_.window.kernel.height * form_.window.kernel.width;
    if (cells > largest_sum_of_cells)
        throw Error(node.layer(), "its accumulator would be a sum of " + std::to_string(cells) + " cells, at most " +
                                      std::to_string(largest_sum_of_cells) + " are supported; give it a quantizer");
    std::int32_t x = l.input(node);
    // All channels are refused alike, so a trial asks for one.
    if (l.builder().is_trial()) x = detail::first_channel(l.builder(), x, Lowering::layer(node));
    const index_t channels = l.builder().at(x).shape[1];
    ConvLayer conv;
    conv.window = form_.window;
    conv.groups = channels;
    conv.weight = Tensor::zeros(Shape(channels, 1, form_.window.kernel.height, form_.window.kernel.width), DType::int8);
    for (std::int8_t& code : conv.weight.flat<std::int8_t>()) code = 1;
    conv.weight_qparams = OwnedQParams::per_channel(
        std::vector<float>(static_cast<std::size_t>(channels), part_of_cell()), 0, DType::int8);
    conv.output = l.qparams(node);
    return add_conv(l.builder(), x, std::nullopt, conv, Lowering::layer(node));
}

/// For a target whose averages keep the scale if windows have different numbers of cells: an average on another grid is
/// requantized, from finer codes.
INTQ_INLINE std::int32_t AvgPoolStep::add_average_on_grid(Lowering& l, const QuantizedNode& node) const {
    program::ProgramBuilder& builder = l.builder();
    const program::LayerName layer = Lowering::layer(node);
    const std::int32_t fine =
        add_fine_codes(builder, image(l, node), kind(), l.qparams(node), {layer.name + ".fine", layer.type});
    const bool is_fine = builder.at(fine).dtype != l.quantized().input(node, 0).dtype;
    OwnedQParams grid = l.quantized().input(node, 0).qparams;
    if (is_fine) grid = OwnedQParams::per_tensor(builder.at(fine).qparams.scale(), DType::int16);
    const std::int32_t average =
        add_avg_pool(builder, fine, form_.window, form_.divisor, grid, {layer.name + ".average", layer.type});
    return add_on_grid(builder, average, l.qparams(node), {}, layer);
}

INTQ_INLINE void AvgPoolStep::lower(Lowering& l, const QuantizedNode& node) const {
    const program::LayerName layer = Lowering::layer(node);
    const bool keeps_scale = l.builder().target().average == arith::AverageRule::divide_codes;
    const bool has_padding = !(form_.window.padding == Padding2d{});
    std::int32_t result = -1;
    if (l.qparams(node).dtype == DType::int32)
        result = add_sum_of_cells(l, node);
    else if (keeps_scale && has_padding && !keeps_grid(l.quantized(), node))
        result = add_average_on_grid(l, node);
    else
        result = add_avg_pool(l.builder(), image(l, node), form_.window, form_.divisor, l.qparams(node),
                              l.output_codes(node), layer, of_values_);
    l.set(node, flattens_ ? l.builder().flatten(result, layer) : result);
}

namespace operators {

/// Height and width of the first input; (N, C, L) are images of one row.
INTQ_INLINE Size2d image_size(const StepRequest& request) {
    return kernels::image_of(request.inputs.at(0)->shape).size;
}

INTQ_INLINE StepPtr make_max_pool(const StepRequest& request) {
    const auto& pool = dynamic_cast<const nn::MaxPool2d&>(*request.module);
    return make_as<Step, MaxPoolStep>(request.call, pool.window_on(image_size(request)));
}

INTQ_INLINE bool divides_codes(const arith::PolicyRecord& target) {
    return target.average == arith::AverageRule::divide_codes;
}

/// Padding that counts is written if ceil mode counts it in some of the windows, or the target divides by the cells of
/// the image.
INTQ_INLINE AverageForm average_form(const StepRequest& request) {
    const auto& pool = dynamic_cast<const nn::AvgPool2d&>(*request.module);
    const bool knows_size = request.inputs.at(0)->shape.rank != 0;
    const auto average = knows_size ? pool.window_on(image_size(request))
                                    : nn::float_operators::AverageWindow{pool.window(), pool.divisor(), {}};
    AverageForm form{average.window, average.divisor, average.counted};
    if (divides_codes(request.target) && average.divisor == PoolDivisor::kernel_cells)
        form.written = average.window.padding;
    Padding2d& rest = form.window.padding;
    rest = {rest.top - form.written.top, rest.left - form.written.left, rest.bottom - form.written.bottom,
            rest.right - form.written.right};
    return form;
}

/// Whether the target divides as asked, any scale shows.
INTQ_INLINE void check_avg_pool(const StepRequest& request) {
    const auto [window, divisor, written] = average_form(request);
    arith::CodesOf like = program::ProgramBuilder::codes_of(request.inputs.at(0)->qparams);
    like.scale = 1.0f;
    const auto average = arith::make_average(
        request.target, like, like, program::ProgramBuilder::output_codes(request.inputs[0]->qparams.view()),
        window.kernel.height * window.kernel.width, divisor, !(window.padding == Padding2d{}));
    if (!average) throw request.error(describe(average.status()));
}

INTQ_INLINE StepPtr make_avg_pool(const StepRequest& request) {
    check_avg_pool(request);
    return make_as<Step, AvgPoolStep>(request.call, average_form(request));
}

INTQ_INLINE StepPtr make_adaptive_avg_pool(const StepRequest& request) {
    const Shape& in = request.inputs.at(0)->shape;
    if (in.rank != 3 && in.rank != 4)
        throw request.error("an input of rank 4 (N, C, H, W) or 3 (N, C, L) is needed, given " + to_string(in));
    const Size2d size = image_size(request);
    const Size2d out = dynamic_cast<const nn::AdaptiveAvgPool2d&>(*request.module).output();
    if (size.height % out.height != 0 || size.width % out.width != 0)
        throw request.error("an adaptive average pool from " + to_string(in) + " to " + std::to_string(out.height) +
                            " x " + std::to_string(out.width) +
                            " has windows of different size; only even splits have an integer form");
    const Size2d kernel{size.height / out.height, size.width / out.width};
    return make_as<Step, AvgPoolStep>(request.call, AverageForm{{kernel, kernel, {}, {1, 1}}});
}

template <class Pool> Window2d window_of(const nn::Module& module) {
    return dynamic_cast<const Pool&>(module).window();
}
INTQ_INLINE bool sums_codes(const StepRequest& request) {
    return request.target.average == arith::AverageRule::float_scale_sum;
}

/// The form of an average over the whole image, however large.
INTQ_INLINE std::optional<GridUse> grid_use_of_mean(const StepRequest&) {
    GridUse use;
    use.rounds = true;
    use.cells = std::numeric_limits<double>::infinity();
    return use;
}
INTQ_INLINE std::optional<GridUse> grid_use_of_avg_pool(const StepRequest& request) {
    const Window2d& window = window_of<nn::AvgPool2d>(*request.module);
    const Size2d kernel = window.kernel;
    const int rank = request.inputs.at(0)->shape.rank;
    GridUse use;
    use.rounds = true;
    use.cells = static_cast<double>(kernel.height) * static_cast<double>(kernel.width);
    use.may_own = (rank == 3 || rank == 4) && window.padding == Padding2d{} && kernel == image_size(request);
    return use;
}
INTQ_INLINE std::optional<GridUse> grid_use_of_adaptive(const StepRequest& request) {
    std::optional<GridUse> use = grid_use_of_mean(request);
    const auto& pool = dynamic_cast<const nn::AdaptiveAvgPool2d&>(*request.module);
    use->may_own = pool.output() == Size2d{1, 1};
    return use;
}

inline constexpr QuantizedOperator max_pool2d{.name = "max_pool2d",
                                              .role = Role::shares_input,
                                              .kind = OpKind::max_pool2d,
                                              .make_step = &make_max_pool,
                                              .window = &window_of<nn::MaxPool2d>,
                                              .channel_factors = ChannelFactors::of_planes};
inline constexpr QuantizedOperator avg_pool2d{.name = "avg_pool2d",
                                              .role = Role::own_output,
                                              .kind = OpKind::avg_pool2d,
                                              .make_step = &make_avg_pool,
                                              .check = &check_avg_pool,
                                              .window = &window_of<nn::AvgPool2d>,
                                              .keeps_scale = &divides_codes,
                                              .grid_use = &grid_use_of_avg_pool,
                                              .takes_clip = true,
                                              .torch_role = Role::shares_input,
                                              .channel_factors = ChannelFactors::of_planes};
inline constexpr QuantizedOperator adaptive_avg_pool2d{.name = "adaptive_avg_pool2d",
                                                       .role = Role::own_output,
                                                       .kind = OpKind::avg_pool2d,
                                                       .make_step = &make_adaptive_avg_pool,
                                                       .keeps_scale = &divides_codes,
                                                       .grid_use = &grid_use_of_adaptive,
                                                       .takes_clip = true,
                                                       .gives_sum = &sums_codes,
                                                       .torch_role = Role::shares_input,
                                                       .channel_factors = ChannelFactors::of_planes};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_POOL_HPP
