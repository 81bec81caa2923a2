// SPDX-License-Identifier: MIT
//
// mean and sum on codes: a mean of images is an average over the whole image, a mean along other axes an average of
// lines; a sum is an average of lines on another grid. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_INTERNAL_MEAN_HPP
#define INTQ_QUANTIZATION_OPERATORS_INTERNAL_MEAN_HPP

#include "intq/quantization/operators/operator.hpp"

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <optional>
#    include <set>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/pool.hpp"
#    include "intq/core/layout.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/model/call.hpp"
#    include "intq/program/program_builder.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/moved_view.hpp"
#    include "intq/quantization/operators/pool.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The mean or the sum along any axes but the samples'. The axes that stay are the channels of lines, along which the
/// others are averaged: rows of features, averaged over the rows, already lie so.
class LinesMeanStep : public FloatBackedStep {
public:
    /// @param order  the axes that stay, and behind them those of the mean; 0 is the first
    LinesMeanStep(FloatCall call, std::vector<int> order, index_t cells, bool is_sum)
        : FloatBackedStep(std::move(call)), order_(std::move(order)), cells_(cells), is_sum_(is_sum) {}
    OpKind kind() const noexcept override { return OpKind::avg_pool2d; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        const program::LayerName layer = Lowering::layer(node);
        const MovedView x = l.view(node.inputs.at(0));
        const index_t samples = x.shape()[0], channels = x.shape().size() / samples / cells_;
        const auto lines = x.permuted(order_).reshaped(Shape(samples, channels, cells_));
        if (!lines) throw Error(layer.name, "its codes come from more places than one instruction moves");
        const std::int32_t moved = l.write_view(*lines, OpKind::permute, {layer.name + ".lines", layer.type});
        const OwnedQParams& grid = l.qparams(node);
        const arith::OutputCodes codes = l.output_codes(node);
        const Window2d window{.kernel = {1, cells_}, .stride = {1, cells_}};
        const std::int32_t y =
            is_sum_ ? add_window_sum(l.builder(), moved, window, grid, codes, layer)
                    : add_avg_pool(l.builder(), moved, window, PoolDivisor::kernel_cells, grid, codes, layer);
        Shape shape = l.quantized().output(node).shape;
        shape[0] = samples;
        l.set_view(node, OpKind::reshape, MovedView(y, l.builder().at(y).shape).reshaped(shape).value());
    }

private:
    std::vector<int> order_;
    index_t cells_;
    bool is_sum_;
};

namespace operators {

/// Whether the axes are all of an image or line (N, C, …) behind its channels.
INTQ_INLINE bool is_mean_of_image(const std::vector<index_t>& axes, int rank) {
    std::set<index_t> wanted, along;
    for (int axis = 2; axis < rank; ++axis) wanted.insert(axis);
    for (const index_t axis : axes) along.insert(axis < 0 ? axis + rank : axis);
    return (rank == 3 || rank == 4) && along == wanted;
}

INTQ_INLINE std::vector<index_t> reduced_axes(const StepRequest& request) {
    const nn::Arguments arguments = request.arguments();
    return arguments.has(1) ? nn::integers_of(arguments[1]) : std::vector<index_t>();
}

INTQ_INLINE StepPtr make_lines(const StepRequest& request, bool is_sum) {
    const Shape& in = request.inputs.at(0)->shape;
    std::set<int> along;
    for (const index_t axis : reduced_axes(request)) along.insert(request.axis(static_cast<int>(axis)));
    std::vector<int> order;
    for (int axis = 0; axis < in.rank; ++axis)
        if (along.count(axis) == 0) order.push_back(axis);
    index_t cells = 1;
    for (const int axis : along) {
        order.push_back(axis);
        cells *= in[axis];
    }
    return make_as<Step, LinesMeanStep>(request.call, std::move(order), cells, is_sum);
}

INTQ_INLINE void check_reduction(const StepRequest& request, const std::string& name) {
    const std::vector<index_t> axes = reduced_axes(request);
    const int rank = request.inputs.at(0)->shape.rank;
    bool has_samples = axes.empty();
    for (const index_t axis : axes) has_samples = has_samples || request.known_axis(static_cast<int>(axis)) == 0;
    if (has_samples)
        throw request.error("a program keeps axis 0, the samples; a " + name + " along it has no integer form");
    if (rank != 0 && request.output_shape.rank == 1)
        throw request.error("a " + name + " of all of a sample needs keepdim, given " +
                            to_string(request.inputs[0]->shape));
}
INTQ_INLINE void check_mean(const StepRequest& request) { check_reduction(request, "mean"); }
INTQ_INLINE void check_sum(const StepRequest& request) { check_reduction(request, "sum"); }

/// The sum of lines has no step of accumulators.
INTQ_INLINE bool gives_sum_of_image(const StepRequest& request) {
    const std::vector<index_t> axes = reduced_axes(request);
    const int rank = request.inputs.at(0)->shape.rank;
    const bool is_of_image =
        rank != 0 ? is_mean_of_image(axes, rank) : is_mean_of_image(axes, 3) || is_mean_of_image(axes, 4);
    return is_of_image && sums_codes(request);
}

INTQ_INLINE StepPtr make_mean(const StepRequest& request) {
    check_mean(request);
    if (is_mean_of_image(reduced_axes(request), request.inputs.at(0)->shape.rank)) {
        const Size2d kernel = image_size(request);
        return make_as<Step, AvgPoolStep>(request.call, AverageForm{{kernel, kernel, {}, {1, 1}}},
                                          !request.arguments().flag(2));
    }
    return make_lines(request, false);
}

INTQ_INLINE StepPtr make_sum(const StepRequest& request) {
    check_sum(request);
    return make_lines(request, true);
}

inline constexpr QuantizedOperator mean{.name = "mean",
                                        .role = Role::own_output,
                                        .kind = OpKind::avg_pool2d,
                                        .make_step = &make_mean,
                                        .check = &check_mean,
                                        .keeps_scale = &divides_codes,
                                        .grid_use = &grid_use_of_mean,
                                        .takes_clip = true,
                                        .gives_sum = &gives_sum_of_image,
                                        .torch_role = Role::shares_input};
inline constexpr QuantizedOperator sum{.name = "sum",
                                       .role = Role::own_output,
                                       .kind = OpKind::avg_pool2d,
                                       .make_step = &make_sum,
                                       .check = &check_sum,
                                       .takes_clip = true};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_INTERNAL_MEAN_HPP
