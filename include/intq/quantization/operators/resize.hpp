// SPDX-License-Identifier: MIT
//
// interpolate and pad on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_RESIZE_HPP
#define INTQ_QUANTIZATION_OPERATORS_RESIZE_HPP

#include <cstdint>
#include <memory>
#include <utility>

#include "intq/arith/resize.hpp"
#include "intq/core/op_params.hpp"
#include "intq/kernels/streaming/move.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// How images become others of the size `out`.
struct ResizeLayer {
    arith::Resize rule = arith::Resize::nearest;
    Size2d out{};
    arith::ResizeScales scales{};
};

/// The scale stays.
std::int32_t add_interpolate(program::ProgramBuilder& builder, std::int32_t x, const ResizeLayer& resize,
                             const program::LayerName& layer);

/// Int8 codes to another grid, as ONNX Runtime computes a bilinear resize between DequantizeLinear and QuantizeLinear.
/// @pre the target computes_as_onnx()
std::int32_t add_interpolate_of_values(program::ProgramBuilder& builder, std::int32_t x, const ResizeLayer& resize,
                                       const OwnedQParams& output, const arith::OutputCodes& codes,
                                       const program::LayerName& layer);

/// @param x    images, or (N, C, L) as images of one row
/// @param pad  its fill is a code; the scale stays
std::int32_t add_pad(program::ProgramBuilder& builder, std::int32_t x, const kernels::PadParams& pad,
                     const program::LayerName& layer);

/// Codes of the tensor itself before and behind an axis (nn/float_operators/move.hpp); the scale stays.
///
/// @param axis    of a tensor of a program, not 0
/// @param before, behind  from 0 on; for PadMode::reflect below the extent of the axis
/// @param mode    reflect or replicate
/// @param grid    the grid of x
std::int32_t add_pad_of_codes(program::ProgramBuilder& builder, std::int32_t x, int axis, index_t before,
                              index_t behind, PadMode mode, const OwnedQParams& grid, const program::LayerName& layer);

class InterpolateStep : public FloatBackedStep {
public:
    InterpolateStep(FloatCall call, const ResizeLayer& resize) : FloatBackedStep(std::move(call)), resize_(resize) {}
    OpKind kind() const noexcept override { return OpKind::interpolate; }
    const ResizeLayer& resize() const noexcept { return resize_; }
    /// The same resize as ONNX Runtime computes it, if it is bilinear, on int8 codes, and on a target that
    /// computes_as_onnx().
    std::shared_ptr<const InterpolateStep> of_values() const;
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    std::int32_t add_means_on_grid(Lowering& l, const QuantizedNode& node) const;

    ResizeLayer resize_;
    bool of_values_ = false;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cmath>
#    include <cstddef>
#    include <limits>
#    include <optional>
#    include <span>
#    include <string>
#    include <vector>

#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/resize.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/resize.hpp"
#    include "intq/nn/model/call.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/internal/on_grid.hpp"
#    include "intq/quantization/operators/move.hpp"
#    include "intq/quantization/operators/reference.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::span<arith::ResizeTap> new_taps(program::ProgramBuilder& builder, Size2d out) {
    const index_t taps = kernels::resize_table_size(out);
    const Workspace memory = builder.new_buffer(taps * static_cast<index_t>(sizeof(arith::ResizeTap)));
    return {reinterpret_cast<arith::ResizeTap*>(memory.data), static_cast<std::size_t>(taps)};
}

/// The table from make(memory). A trial has no memory for taps, and its table has none.
template <class Make>
kernels::ResizeTable resize_table(program::ProgramBuilder& builder, Size2d out, const program::LayerName& layer,
                                  const Make& make) {
    if (!builder.is_trial()) return value_or_throw(make(new_taps(builder, out)), layer.name);
    const Result<kernels::ResizeTable> refused = make(std::span<arith::ResizeTap>());
    if (refused.status().code != StatusCode::buffer_too_small) throw_if_failed(refused.status(), layer.name);
    return {};
}

INTQ_INLINE std::int32_t push_interpolate(program::ProgramBuilder& builder, std::int32_t x,
                                          const kernels::ResizeTable& table, Size2d out, const QParams& output,
                                          const program::LayerName& layer) {
    const auto* const params = builder.keep_params(table);
    const kernels::ArenaTensor in = builder.at(x);
    const Shape shape(in.shape[0], in.shape[1], out.height, out.width);
    return builder.push(OpKind::interpolate, {x}, builder.tensor(in.dtype, shape, output, layer), params, layer);
}

INTQ_INLINE kernels::ArenaTensor image_to_resize(program::ProgramBuilder& builder, std::int32_t x,
                                                 const program::LayerName& layer) {
    builder.require_image(x, layer);
    const kernels::ArenaTensor in = builder.at(x);
    builder.check_use({OpKind::interpolate, in.dtype, DType::none, in.dtype}, layer);
    return in;
}

}  // namespace detail

INTQ_INLINE std::int32_t add_interpolate(program::ProgramBuilder& builder, std::int32_t x, const ResizeLayer& resize,
                                         const program::LayerName& layer) {
    const kernels::ArenaTensor in = detail::image_to_resize(builder, x, layer);
    const auto table = detail::resize_table(builder, resize.out, layer, [&](std::span<arith::ResizeTap> memory) {
        return kernels::make_resize_table(resize.rule, {in.shape[2], in.shape[3]}, resize.out, memory, resize.scales);
    });
    return detail::push_interpolate(builder, x, table, resize.out, in.qparams, layer);
}

INTQ_INLINE std::int32_t add_interpolate_of_values(program::ProgramBuilder& builder, std::int32_t x,
                                                   const ResizeLayer& resize, const OwnedQParams& output,
                                                   const arith::OutputCodes& codes, const program::LayerName& layer) {
    const kernels::ArenaTensor in = detail::image_to_resize(builder, x, layer);
    const auto table = detail::resize_table(builder, resize.out, layer, [&](std::span<arith::ResizeTap> memory) {
        return kernels::make_resize_table_of_values(builder.target(), resize.rule, {in.shape[2], in.shape[3]},
                                                    resize.out, memory, resize.scales, builder.codes_of(x),
                                                    program::ProgramBuilder::codes_of(output), codes);
    });
    return detail::push_interpolate(builder, x, table, resize.out, builder.keep(output), layer);
}

INTQ_INLINE std::shared_ptr<const InterpolateStep> InterpolateStep::of_values() const {
    auto step = std::make_shared<InterpolateStep>(*this);
    step->of_values_ = true;
    return step;
}

INTQ_INLINE std::int32_t add_pad(program::ProgramBuilder& builder, std::int32_t x, const kernels::PadParams& pad,
                                 const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    if (in.shape.rank != 3) builder.require_image(x, layer);
    builder.check_use({OpKind::pad, in.dtype, DType::none, in.dtype}, layer);
    const Size2d size = kernels::image_of(in.shape).size;
    throw_if_failed(kernels::check_pad(pad, size, OpKind::pad), layer.name);
    const Size2d out = kernels::padded_size(pad, size);
    Shape shape = in.shape;
    if (in.shape.rank == 4) shape[2] = out.height;
    shape[in.shape.rank - 1] = out.width;
    return builder.push(OpKind::pad, {x}, builder.tensor(in.dtype, shape, in.qparams, layer), builder.keep_params(pad),
                        layer);
}

INTQ_INLINE std::int32_t InterpolateStep::add_means_on_grid(Lowering& l, const QuantizedNode& node) const {
    program::ProgramBuilder& builder = l.builder();
    const program::LayerName layer = Lowering::layer(node);
    const std::int32_t fine =
        add_fine_codes(builder, l.input(node), kind(), l.qparams(node), {layer.name + ".fine", layer.type});
    const std::int32_t means = add_interpolate(builder, fine, resize_, {layer.name + ".means", layer.type});
    return add_on_grid(builder, means, l.qparams(node), {}, layer);
}

INTQ_INLINE void InterpolateStep::lower(Lowering& l, const QuantizedNode& node) const {
    const program::LayerName layer = Lowering::layer(node);
    const bool is_bilinear = !arith::is_nearest(resize_.rule);
    if (of_values_ && is_bilinear &&
        has_onnx_table(l.builder().target(), l.quantized().input(node, 0).dtype, l.qparams(node).dtype))
        return l.set(node,
                     add_interpolate_of_values(l.builder(), l.input(node), resize_, l.qparams(node),
                                               program::ProgramBuilder::output_codes(l.qparams(node).view()), layer));
    if (is_bilinear && !keeps_grid(l.quantized(), node)) return l.set(node, add_means_on_grid(l, node));
    const std::int32_t x =
        add_on_grid(l.builder(), l.input(node), l.qparams(node), {}, {layer.name + ".grid", layer.type});
    l.set(node, add_interpolate(l.builder(), x, resize_, layer));
}

/// Constant padding of height and width, whose fill is a code on the grid of the output.
class PadStep : public FloatBackedStep {
public:
    PadStep(FloatCall call, const Padding2d& padding, double value)
        : FloatBackedStep(std::move(call)), padding_(padding), value_(value) {}
    OpKind kind() const noexcept override { return OpKind::pad; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        const program::LayerName layer = Lowering::layer(node);
        const OwnedQParams& output = l.qparams(node);
        const std::int32_t x = add_on_grid(l.builder(), l.input(node), output, {}, {layer.name + ".grid", layer.type});
        const std::int32_t fill = code_of_value(l.builder().target(), value_, output.view(), output.dtype);
        l.set(node, add_pad(l.builder(), x, {padding_, {1, 1}, fill}, layer));
    }

private:
    Padding2d padding_;
    double value_;
};

/// The padding is made of slices, where a step of -1 mirrors and 0 repeats, and a cat.
INTQ_INLINE std::int32_t add_pad_of_codes(program::ProgramBuilder& builder, std::int32_t x, int axis, index_t before,
                                          index_t behind, PadMode mode, const OwnedQParams& grid,
                                          const program::LayerName& layer) {
    if (before == 0 && behind == 0) return x;
    const kernels::ArenaTensor in = builder.at(x);
    const auto steps = tensor_detail::strides_of(in.shape, Layout::channels_last);
    const index_t last = in.shape[axis] - 1, beside = mode == PadMode::reflect ? 1 : 0;
    const auto codes = [&](index_t first, index_t count, const char* name) {
        Shape shape = in.shape;
        shape[axis] = count;
        kernels::MoveParams move;
        move.rank = 0;
        const auto append = [&](int from) {
            move.extents[move.rank] = shape[from];
            move.steps[move.rank++] = steps[static_cast<std::size_t>(from)] * (from == axis ? -beside : 1);
        };
        for (int from = 2; from < shape.rank; ++from) append(from);
        append(1);
        move.offset = first * steps[static_cast<std::size_t>(axis)];
        const program::LayerName part{layer.name + name + std::to_string(axis), layer.type};
        builder.check_use({OpKind::slice, in.dtype, DType::none, in.dtype}, part);
        return builder.push(OpKind::slice, {x}, builder.tensor(in.dtype, shape, in.qparams, part),
                            builder.keep_params(move), part);
    };
    std::vector<std::int32_t> parts;
    if (before > 0) parts.push_back(codes(beside * before, before, ".before_axis_"));
    parts.push_back(x);
    if (behind > 0) parts.push_back(codes(last - beside, behind, ".behind_axis_"));
    return add_cat(builder, parts, axis, grid, layer);
}

/// Padding of height and width with codes of the image, which stay on its grid.
class PadOfCodesStep : public FloatBackedStep {
public:
    PadOfCodesStep(FloatCall call, std::vector<index_t> sides, PadMode mode)
        : FloatBackedStep(std::move(call)), sides_(std::move(sides)), mode_(mode) {}
    OpKind kind() const noexcept override { return OpKind::pad; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        const program::LayerName layer = Lowering::layer(node);
        const OwnedQParams& output = l.qparams(node);
        std::int32_t y = add_on_grid(l.builder(), l.input(node), output, {}, {layer.name + ".grid", layer.type});
        const int rank = l.builder().at(y).shape.rank;
        for (std::size_t i = 0; i < sides_.size(); i += 2) {
            const bool is_last = i + 2 >= sides_.size() || (sides_[i + 2] == 0 && sides_[i + 3] == 0);
            const program::LayerName name{is_last ? layer.name : layer.name + ".width", layer.type};
            y = add_pad_of_codes(l.builder(), y, rank - 1 - static_cast<int>(i / 2), sides_[i], sides_[i + 1], mode_,
                                 output, name);
        }
        l.set(node, y);
    }

private:
    std::vector<index_t> sides_;  // two an axis, from the last one on
    PadMode mode_;
};

namespace operators {

INTQ_INLINE nn::InterpolateOptions interpolate_options(const StepRequest& request) {
    const auto* upsample = dynamic_cast<const nn::Upsample*>(request.module);
    return upsample != nullptr ? upsample->options() : nn::interpolate_options(request.arguments());
}

INTQ_INLINE void check_interpolate(const StepRequest& request) {
    nn::float_operators::check_interpolate_options(interpolate_options(request));
}

INTQ_INLINE StepPtr make_interpolate(const StepRequest& request) {
    const nn::InterpolateOptions options = interpolate_options(request);
    const Shape &in = request.inputs.at(0)->shape, &out = request.output_shape;
    if (in.rank != 4) throw request.error("an input of rank 4 is needed, given " + to_string(in));
    return make_as<Step, InterpolateStep>(
        request.call, ResizeLayer{options.rule, Size2d{out[2], out[3]}, nn::float_operators::resize_scales(options)});
}

INTQ_INLINE bool pads_with_constant(const StepRequest& request) {
    return nn::pad_mode(request.arguments()) == PadMode::constant;
}

/// The constant of a pad; 0 for a pad that repeats codes of its input, since 0 is on its grid too.
INTQ_INLINE double pad_value(const StepRequest& request) {
    return pads_with_constant(request) ? request.arguments().optional_number(3).value_or(0.0) : 0.0;
}

INTQ_INLINE void check_pad_arguments(const StepRequest& request) {
    const auto sides = nn::integers_of(request.arguments()[1]);
    const Shape& in = request.inputs.at(0)->shape;
    const std::size_t most = in.rank == 3 ? 2 : in.rank == 0 || in.rank == 4 ? 4 : 0;
    if (sides.size() > most || sides.size() % 2 != 0)
        throw request.error(
            "a pad has an integer form for height and width of (N, C, H, W) and for the last axis of (N, C, L), "
            "given " +
            std::to_string(sides.size()) + " numbers" + (in.rank == 0 ? "" : " for " + to_string(in)));
    constexpr double mask = -std::numeric_limits<double>::infinity();
    if (const double value = pad_value(request); !std::isfinite(value) && value != mask)
        throw request.error("a pad with " + std::to_string(value) +
                            " has no integer form, because no code represents it");
}

INTQ_INLINE StepPtr make_pad(const StepRequest& request) {
    check_pad_arguments(request);
    const auto sides = nn::integers_of(request.arguments()[1]);
    if (!pads_with_constant(request))
        return make_as<Step, PadOfCodesStep>(request.call, sides, nn::pad_mode(request.arguments()));
    const auto side = [&](std::size_t i) { return i < sides.size() ? sides[i] : index_t{0}; };
    return make_as<Step, PadStep>(request.call, Padding2d{side(2), side(0), side(3), side(1)}, pad_value(request));
}

/// A bilinear mean of codes may lie between two codes; its range is the input's.
INTQ_INLINE std::optional<GridUse> grid_use_of_interpolate(const StepRequest& request) {
    const arith::Resize rule = interpolate_options(request).rule;
    if (rule != arith::Resize::half_pixel && rule != arith::Resize::align_corners) return std::nullopt;
    GridUse use;
    use.rounds = true;
    use.may_own = false;
    return use;
}

/// A fill may lie between two codes, or beyond all. The lowest float and -inf are masks, which become the lowest code:
/// they enter no range.
INTQ_INLINE std::optional<GridUse> grid_use_of_pad(const StepRequest& request) {
    const auto fill = static_cast<float>(pad_value(request));
    if (fill == 0.0f || fill <= std::numeric_limits<float>::lowest()) return std::nullopt;
    GridUse use;
    use.numbers = {fill};
    return use;
}

// A bilinear mean of codes, or a fill, may lie between two codes.
inline constexpr QuantizedOperator interpolate{.name = "interpolate",
                                               .role = Role::own_output,
                                               .kind = OpKind::interpolate,
                                               .make_step = &make_interpolate,
                                               .check = &check_interpolate,
                                               .keeps_scale = &keeps_scale_always,
                                               .grid_use = &grid_use_of_interpolate,
                                               .torch_role = Role::shares_input,
                                               .channel_factors = ChannelFactors::of_planes};
inline constexpr QuantizedOperator pad{.name = "pad",
                                       .role = Role::own_output,
                                       .kind = OpKind::pad,
                                       .make_step = &make_pad,
                                       .check = &check_pad_arguments,
                                       .keeps_scale = &keeps_scale_always,
                                       .grid_use = &grid_use_of_pad};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_RESIZE_HPP
