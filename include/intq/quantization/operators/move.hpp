// SPDX-License-Identifier: MIT
//
// Operators that move codes and share their qparams: slice, split, chunk, permute, transpose, reshape, expand,
// flatten, identity, dropout; and cat, which requantizes its inputs. Long because one file holds a family of operators.
// Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_MOVE_HPP
#define INTQ_QUANTIZATION_OPERATORS_MOVE_HPP

#include <cstdint>
#include <vector>

#include "intq/core/op_kind.hpp"
#include "intq/core/shape.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A tensor whose extents of 1 repeat, as one of `shape`; the scale stays.
std::int32_t add_expand(program::ProgramBuilder& builder, std::int32_t x, const Shape& shape,
                        const program::LayerName& layer);

/// Along an axis, but not the axis of samples; each input is requantized to the scale of the output.
std::int32_t add_cat(program::ProgramBuilder& builder, const std::vector<std::int32_t>& inputs, int axis,
                     const OwnedQParams& output, const program::LayerName& layer);

class CatStep : public FloatBackedStep {
public:
    CatStep(FloatCall call, int axis);
    OpKind kind() const noexcept override { return OpKind::cat; }
    int axis() const noexcept { return axis_; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    int axis_;
};

/// Axes start_axis to end_axis become one; neither is negative. An image that becomes a vector is written only for
/// readers other than linear layers.
class FlattenStep : public FloatBackedStep {
public:
    FlattenStep(FloatCall call, int start_axis, int end_axis);
    OpKind kind() const noexcept override { return OpKind::flatten; }
    int start_axis() const noexcept { return start_axis_; }
    int end_axis() const noexcept { return end_axis_; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    int start_axis_, end_axis_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cstddef>
#    include <limits>
#    include <numeric>
#    include <optional>
#    include <string>
#    include <string_view>
#    include <utility>

#    include "intq/core/layout.hpp"
#    include "intq/graph/interpreter.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/streaming/elementwise_call.hpp"
#    include "intq/kernels/streaming/move.hpp"
#    include "intq/kernels/streaming/quantize.hpp"
#    include "intq/nn/float_operators/move.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/model/call.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/internal/on_grid.hpp"
#    include "intq/quantization/operators/reference.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::int32_t add_expand(program::ProgramBuilder& builder, std::int32_t x, const Shape& shape,
                                    const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    if (!kernels::is_broadcast(in.shape, shape, shape))
        throw Error(layer.name,
                    "an operand of shape " + to_string(in.shape) + " cannot be repeated to " + to_string(shape));
    builder.check_use({OpKind::reshape, in.dtype, DType::none, in.dtype}, layer);
    const auto steps = tensor_detail::strides_of(in.shape, Layout::channels_last);
    kernels::MoveParams move;
    const auto append = [&](int axis) {
        move.extents[move.rank] = shape[axis];
        move.steps[move.rank++] = in.shape[axis] == 1 ? 0 : steps[static_cast<std::size_t>(axis)];
    };
    move.rank = 0;
    for (int axis = 2; axis < shape.rank; ++axis) append(axis);
    append(1);
    return builder.push(OpKind::reshape, {x}, builder.tensor(in.dtype, shape, in.qparams, layer),
                        builder.keep_params(move), layer);
}

/// Axes of a tensor of codes in another order; the scale stays, as in all moves of codes.
class PermuteStep : public FloatBackedStep {
public:
    /// @param axes  axis i of the output is axis axes[i] of the input
    PermuteStep(FloatCall call, std::vector<int> axes) : FloatBackedStep(std::move(call)), axes_(std::move(axes)) {}
    OpKind kind() const noexcept override { return OpKind::permute; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set_changed_view(node, kind(), [&](const MovedView& view) { return std::optional(view.permuted(axes_)); });
    }

private:
    std::vector<int> axes_;
};

/// Elements of one axis, from a first one, with a step.
class SliceStep : public FloatBackedStep {
public:
    SliceStep(FloatCall call, int axis, index_t first, index_t count, index_t step)
        : FloatBackedStep(std::move(call)), axis_(axis), first_(first), count_(count), step_(step) {}
    OpKind kind() const noexcept override { return OpKind::slice; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set_changed_view(node, kind(),
                           [&](const MovedView& view) { return view.sliced(axis_, first_, count_, step_); });
    }

private:
    int axis_;
    index_t first_, count_, step_;
};

/// The same elements in another shape.
class ReshapeStep : public FloatBackedStep {
public:
    ReshapeStep(FloatCall call, Shape shape) : FloatBackedStep(std::move(call)), shape_(shape) {}
    OpKind kind() const noexcept override { return OpKind::reshape; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        if (shape_ == l.quantized().input(node, 0).shape) return l.pass(node);
        if (shape_.rank == 2 && l.quantized().input(node, 0).shape.rank == 4 && !l.lies_by_rows(node.inputs[0]))
            return l.set_flattened_image(node);
        l.set_changed_view(node, kind(), [&](const MovedView& view) {
            Shape shape = shape_;
            shape[0] = view.shape()[0];
            return view.reshaped(shape);
        });
    }

private:
    Shape shape_;
};

/// Axes of one element repeated. Along the samples only a tensor of the model is, which a program has for each of them.
class ExpandStep : public FloatBackedStep {
public:
    ExpandStep(FloatCall call, Shape shape) : FloatBackedStep(std::move(call)), shape_(shape) {}
    OpKind kind() const noexcept override { return OpKind::reshape; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        const Shape& in = l.quantized().input(node, 0).shape;
        const auto of_samples = [](Shape shape, index_t samples) {
            shape[0] = samples;
            return shape;
        };
        if (of_samples(in, 1) == of_samples(shape_, 1)) return l.pass(node);
        l.set_changed_view(node, kind(), [&](const MovedView& view) -> std::optional<MovedView> {
            const index_t samples = view.shape()[0];
            Shape ones = of_samples(shape_, samples);
            for (int axis = 1; axis < ones.rank; ++axis) {
                const int own = axis - (ones.rank - in.rank);
                ones[axis] = own > 0 ? in[own] : 1;
            }
            const std::optional<MovedView> same_rank = view.reshaped(ones);
            return same_rank ? std::optional(same_rank->expanded(of_samples(shape_, samples))) : std::nullopt;
        });
    }

private:
    Shape shape_;
};

namespace operators {

INTQ_INLINE std::vector<int> axes_in_order(int rank) {
    std::vector<int> axes(static_cast<std::size_t>(rank));
    for (int axis = 0; axis < rank; ++axis) axes[static_cast<std::size_t>(axis)] = axis;
    return axes;
}

/// Codes of a sample stay in it.
INTQ_INLINE void require_whole_samples(const StepRequest& request, std::optional<int> axis) {
    if (axis == 0) throw request.error("a program keeps axis 0, the samples, whole");
}

INTQ_INLINE void check_slice(const StepRequest& request) {
    require_whole_samples(request, request.known_axis(request.integer(1, 0)));
    nn::float_operators::slice_range(1, 0, 1, request.arguments().integer(4, 1));  // refuses a step below 1
}
/// Of split and chunk.
INTQ_INLINE void check_pieces(const StepRequest& request) {
    require_whole_samples(request, request.known_axis(request.integer(2, 0)));
    const nn::Value& pieces = request.arguments()[1];
    if (std::string_view(request.node.function()->name) == nn::chunk_function.name) {
        nn::float_operators::chunk_size(1, pieces.integer());
    } else if (!pieces.is_tuple()) {
        nn::float_operators::piece_sizes(1, pieces.integer());
    } else {
        for (const index_t size : nn::integers_of(pieces))
            if (size < 0) throw request.error("a piece of a split cannot have " + std::to_string(size) + " elements");
    }
}

/// Elements of an axis that is not the batch axis.
INTQ_INLINE StepPtr slice_step(const StepRequest& request, FloatCall call, int axis, index_t first, index_t step) {
    require_whole_samples(request, axis);
    if (request.output_shape.size() == 0)
        throw request.error("nothing is left of " + to_string(request.inputs.at(0)->shape));
    return make_as<Step, SliceStep>(std::move(call), axis, first, request.output_shape[axis], step);
}

INTQ_INLINE StepPtr make_slice(const StepRequest& request) {
    const nn::Arguments arguments = request.arguments();
    const int axis = request.axis(request.integer(1, 0));
    const index_t step = arguments.integer(4, 1), extent = request.inputs.at(0)->shape[axis];
    const auto range = nn::float_operators::slice_range(extent, arguments.integer(2, 0),
                                                        arguments.integer(3, nn::slice_stop(step)), step);
    // A longer step takes the first element only.
    return slice_step(request, request.call, axis, range.first, std::clamp(step, -extent, extent));
}

/// One piece of a split or chunk: the slice of its input that getitem names.
INTQ_INLINE StepPtr make_item(const StepRequest& request) {
    const graph::Node& source = *request.node.args().at(0).node();
    graph::ArgumentList constants(source.args().begin() + 1, source.args().end());
    std::vector<nn::Value> values{nn::Value()};
    for (nn::Value& value : graph::Interpreter::resolve(constants, {})) values.push_back(std::move(value));
    const nn::Arguments arguments{values};
    const int axis = request.axis(static_cast<int>(arguments.integer(2, 0)));
    const index_t extent = request.inputs.at(0)->shape[axis];
    std::vector<index_t> sizes;
    if (arguments[1].is_tuple())
        sizes = nn::integers_of(arguments[1]);
    else if (std::string_view(source.function()->name) == nn::chunk_function.name)
        sizes =
            nn::float_operators::piece_sizes(extent, nn::float_operators::chunk_size(extent, arguments[1].integer()));
    else
        sizes = nn::float_operators::piece_sizes(extent, arguments[1].integer());
    const int item = request.integer(1, 0), count = static_cast<int>(sizes.size());
    const auto piece = static_cast<std::size_t>(item < 0 ? item + count : item);
    const index_t first = std::accumulate(sizes.begin(), sizes.begin() + static_cast<index_t>(piece), index_t{0});
    FloatCall call;
    call.function = &nn::slice_function;
    call.arguments = {request.call.arguments.at(0),
                      {-1, nn::Value(axis)},
                      {-1, nn::Value(first)},
                      {-1, nn::Value(first + sizes.at(piece))}};
    return slice_step(request, std::move(call), axis, first, 1);
}

INTQ_INLINE void require_first_axis(const StepRequest& request, bool stays) {
    if (!stays) throw request.error("a program keeps axis 0, the samples, in its place");
}

INTQ_INLINE void check_permute(const StepRequest& request) {
    const auto axes = nn::float_operators::permuted_axes(nn::integers_after(request.arguments(), 1));
    require_first_axis(request, !axes.empty() && axes[0] == 0);
}
INTQ_INLINE void check_transpose(const StepRequest& request) {
    const auto a = request.known_axis(request.integer(1, 0)), b = request.known_axis(request.integer(2, 0));
    require_first_axis(request, a == b || (a != 0 && b != 0));
}

INTQ_INLINE StepPtr permute_step(const StepRequest& request, std::vector<int> axes) {
    require_first_axis(request, !axes.empty() && axes[0] == 0);
    return make_as<Step, PermuteStep>(request.call, std::move(axes));
}

INTQ_INLINE StepPtr make_permute(const StepRequest& request) {
    std::vector<int> axes;
    for (const index_t axis : nn::integers_after(request.arguments(), 1))
        axes.push_back(request.axis(static_cast<int>(axis)));
    return permute_step(request, std::move(axes));
}

INTQ_INLINE StepPtr make_transpose(const StepRequest& request) {
    std::vector<int> axes = axes_in_order(request.output_shape.rank);
    std::swap(axes.at(static_cast<std::size_t>(request.axis(request.integer(1, 0)))),
              axes.at(static_cast<std::size_t>(request.axis(request.integer(2, 0)))));
    return permute_step(request, std::move(axes));
}

INTQ_INLINE void check_reshape(const StepRequest& request) {
    nn::float_operators::check_reshape(nn::integers_after(request.arguments(), 1));
}

INTQ_INLINE StepPtr make_reshape(const StepRequest& request) {
    const Shape &in = request.inputs.at(0)->shape, &out = request.output_shape;
    if (out.rank < 1 || in[0] != out[0])
        throw request.error("a program keeps axis 0, the samples, given " + to_string(in) + " to " + to_string(out));
    return make_as<Step, ReshapeStep>(request.call, out);
}

INTQ_INLINE void check_expand(const StepRequest& request) {
    nn::float_operators::check_expand(nn::integers_after(request.arguments(), 1));
}

INTQ_INLINE StepPtr make_expand(const StepRequest& request) {
    const Shape &in = request.inputs.at(0)->shape, &out = request.output_shape;
    const FloatArgument& given = request.call.arguments.at(1);
    const bool of_samples = (given.is_list ? given.list.at(0) : given).is_samples;
    const bool keeps_samples = in.rank == out.rank && in.rank > 0 && in[0] == out[0];
    const bool is_constant = of_samples && in.rank > 0 && in[0] == 1;
    if (!keeps_samples && !is_constant)
        throw request.error("a program keeps axis 0, the samples, given " + to_string(in) + " to " + to_string(out) +
                            "; a tensor of the model is expanded to size(x, 0)");
    if (out.size() == 0) throw request.error("nothing is left of " + to_string(in));
    return make_as<Step, ExpandStep>(request.call, out);
}

inline constexpr QuantizedOperator slice{.name = "slice",
                                         .role = Role::shares_input,
                                         .kind = OpKind::slice,
                                         .make_step = &make_slice,
                                         .check = &check_slice};
inline constexpr QuantizedOperator permute{.name = "permute",
                                           .role = Role::shares_input,
                                           .kind = OpKind::permute,
                                           .make_step = &make_permute,
                                           .check = &check_permute};
inline constexpr QuantizedOperator transpose{.name = "transpose",
                                             .role = Role::shares_input,
                                             .kind = OpKind::permute,
                                             .make_step = &make_transpose,
                                             .check = &check_transpose};
inline constexpr QuantizedOperator reshape{.name = "reshape",
                                           .role = Role::shares_input,
                                           .kind = OpKind::reshape,
                                           .make_step = &make_reshape,
                                           .check = &check_reshape};
inline constexpr QuantizedOperator expand{.name = "expand",
                                          .role = Role::shares_input,
                                          .kind = OpKind::reshape,
                                          .make_step = &make_expand,
                                          .check = &check_expand};
// The whole leaves no trace; each piece is a slice of it. PyTorch splits real values.
inline constexpr QuantizedOperator split{.name = "split",
                                         .role = Role::shares_input,
                                         .kind = OpKind::slice,
                                         .check = &check_pieces,
                                         .gives_tuple = true,
                                         .torch_role = Role::float_only};
inline constexpr QuantizedOperator chunk{.name = "chunk",
                                         .role = Role::shares_input,
                                         .kind = OpKind::slice,
                                         .check = &check_pieces,
                                         .gives_tuple = true,
                                         .torch_role = Role::float_only};
inline constexpr QuantizedOperator getitem{
    .name = "getitem", .role = Role::item, .kind = OpKind::slice, .make_step = &make_item};

}  // namespace operators

INTQ_INLINE std::int32_t add_cat(program::ProgramBuilder& builder, const std::vector<std::int32_t>& inputs, int axis,
                                 const OwnedQParams& output, const program::LayerName& layer) {
    if (inputs.empty()) throw Error(layer.name, "cat needs at least one input");
    const QParams out = builder.keep(output);
    std::vector<kernels::RequantizeParams> params;
    Shape shape = builder.at(inputs[0]).shape;
    shape[axis] = 0;
    for (const std::int32_t x : inputs) {
        builder.check_use({OpKind::cat, builder.at(x).dtype, DType::none, output.dtype}, layer);
        Shape expected = builder.at(x).shape;
        if (expected.rank == shape.rank) expected[axis] = shape[axis];
        if (!(expected == shape))
            throw Error(layer.name, "cat along axis " + std::to_string(axis) +
                                        " needs inputs that agree in the other axes, given " +
                                        to_string(builder.at(x).shape) + " beside " +
                                        to_string(builder.at(inputs[0]).shape));
        shape[axis] += builder.at(x).shape[axis];
        params.push_back(program::made_or_throw(
            kernels::make_requantize(builder.target(), builder.codes_of(x), program::ProgramBuilder::codes_of(output),
                                     program::ProgramBuilder::output_codes(out)),
            out, layer));
    }
    const auto* const kept = builder.keep_params(std::move(params));
    return builder.push(OpKind::cat, inputs,
                        builder.tensor(output.dtype, shape, out, layer, builder.at(inputs[0]).layout),
                        {kept->data(), static_cast<index_t>(kept->size())}, layer);
}

INTQ_INLINE CatStep::CatStep(FloatCall call, int axis) : FloatBackedStep(std::move(call)), axis_(axis) {}

INTQ_INLINE void CatStep::lower(Lowering& l, const QuantizedNode& node) const {
    const program::LayerName layer = Lowering::layer(node);
    const OwnedQParams& output = l.qparams(node);
    std::vector<std::int32_t> parts;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const std::int32_t part = l.elements(node, i);
        const bool by_table = has_onnx_table(l.builder().target(), l.builder().at(part).dtype, output.dtype);
        parts.push_back(by_table ? add_on_grid(l.builder(), part, output, {},
                                               {layer.name + ".part_" + std::to_string(i), layer.type})
                                 : part);
    }
    l.set_elements(node, add_cat(l.builder(), parts, axis_, output, layer));
}

INTQ_INLINE FlattenStep::FlattenStep(FloatCall call, int start_axis, int end_axis)
    : FloatBackedStep(std::move(call)), start_axis_(start_axis), end_axis_(end_axis) {}

INTQ_INLINE void FlattenStep::lower(Lowering& l, const QuantizedNode& node) const {
    const Shape& in = l.quantized().input(node, 0).shape;
    if (start_axis_ == 1 && end_axis_ == in.rank - 1 && in.rank == 4 && !l.lies_by_rows(node.inputs[0]))
        return l.set_flattened_image(node);
    if (start_axis_ == end_axis_) return l.pass(node);
    l.set_changed_view(node, OpKind::reshape, [&](const MovedView& view) {
        Shape shape = l.quantized().output(node).shape;
        shape[0] = view.shape()[0];
        return view.reshaped(shape);
    });
}

namespace operators {

INTQ_INLINE void check_cat(const StepRequest& request) {
    if (request.known_axis(request.integer(1, 0)) == 0)
        throw request.error("a program keeps axis 0, the samples; a cat along it has no integer form");
}

INTQ_INLINE StepPtr make_cat(const StepRequest& request) {
    check_cat(request);
    return make_as<Step, CatStep>(request.call, request.axis(request.integer(1, 0)));
}

/// The first and the last of the axes that become one, as given.
INTQ_INLINE std::pair<int, int> flattened_axes(const StepRequest& request) {
    if (const auto* flatten = dynamic_cast<const nn::Flatten*>(request.module))
        return {flatten->start_axis(), flatten->end_axis()};
    return {request.integer(1, 0), request.integer(2, -1)};
}

INTQ_INLINE void check_flatten(const StepRequest& request) {
    const auto [start, end] = flattened_axes(request);
    const auto first = request.known_axis(start), last = request.known_axis(end);
    if (first && last && *first > *last)
        throw request.error("flatten: axis " + std::to_string(start) + " comes after axis " + std::to_string(end));
    if (first == 0 && last != 0)
        throw request.error("a program keeps axis 0, the samples; a flatten from axis 0 on has no integer form");
}

INTQ_INLINE StepPtr make_flatten(const StepRequest& request) {
    check_flatten(request);
    const auto [start, end] = flattened_axes(request);
    return make_as<Step, FlattenStep>(request.call, request.axis(start), request.axis(end));
}

inline constexpr QuantizedOperator cat{
    .name = "cat", .role = Role::cat, .kind = OpKind::cat, .make_step = &make_cat, .check = &check_cat};
inline constexpr QuantizedOperator flatten{.name = "flatten",
                                           .role = Role::shares_input,
                                           .kind = OpKind::flatten,
                                           .make_step = &make_flatten,
                                           .check = &check_flatten,
                                           .channel_factors = ChannelFactors::flattened};
inline constexpr QuantizedOperator identity{
    .name = "identity", .role = Role::shares_input, .channel_factors = ChannelFactors::anywhere};
inline constexpr QuantizedOperator dropout{.name = "dropout",
                                           .role = Role::shares_input,
                                           .torch_role = Role::own_output,
                                           .channel_factors = ChannelFactors::anywhere};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_MOVE_HPP
