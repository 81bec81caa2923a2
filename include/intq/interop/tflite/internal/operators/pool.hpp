// SPDX-License-Identifier: MIT
//
// AVERAGE_POOL_2D, MAX_POOL_2D, MEAN and SUM. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_POOL_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_POOL_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void average_pool_2d(OperatorImport& node);
void max_pool_2d(OperatorImport& node);
void mean(OperatorImport& node);
void sum_of_axes(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <optional>
#    include <set>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/litert.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/tflite/internal/nodes/window.hpp"
#    include "intq/interop/tflite/internal/operators/moved.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/program/program_builder.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/pool.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// Averages of uint8 codes round halves up, and those of int8 codes away from zero.
INTQ_INLINE void require_no_halves(const Window2d& window) {
    if (window.kernel.height % 2 == 0 || window.kernel.width % 2 == 0 || window.padding != Padding2d{})
        throw Error(
            "averages of uint8 codes over an even number of cells, or at a padded edge, are not supported: "
            "LiteRT rounds their halves by another rule");
}

INTQ_INLINE void pool_2d(OperatorImport& node, bool is_max) {
    node.require_inputs(1, 1);
    node.require_same_qparams(node.input(), node.output());
    const Dims in = node.dims();
    if (in.size() != 4) throw Error("its input has the shape " + describe_dims(in) + ", expected 4 axes");
    const Window2d window = pool_window(node.options(), in);
    if (!is_max && node.input().offset != 0) require_no_halves(window);
    const FusedActivation activation = node.activation(fields::Pool2D::activation);
    const bool clamps = activation != FusedActivation::none;
    const program::LayerName name = node.layer(clamps ? "pool" : nullptr);
    const std::int32_t y = is_max ? quantization::add_max_pool(node.builder(), node.x(), window, name)
                                  : quantization::add_avg_pool(node.builder(), node.x(), window,
                                                               PoolDivisor::valid_cells, node.output_qparams(), name);
    node.set(clamps ? quantization::add_clamp(node.builder(), y, node.codes(activation), node.layer()) : y);
}

INTQ_INLINE void average_pool_2d(OperatorImport& node) { pool_2d(node, false); }
INTQ_INLINE void max_pool_2d(OperatorImport& node) { pool_2d(node, true); }

/// The axes of a reduction, behind the samples' axis.
INTQ_INLINE std::set<int> reduced_axes(const OperatorImport& node) {
    std::set<int> axes;
    for (const std::int64_t axis : node.integers(1))
        axes.insert(checked_axis(axis, node.input().dims.size()) + node.added_axes());
    if (axes.empty() || *axes.begin() == 0)
        throw Error("a reduction over " + std::string(axes.empty() ? "no axis" : "the samples") + " is not supported");
    return axes;
}

/// The axes of an image side by side: those that stay and lie before the last reduced one are rows, the reduced ones
/// columns, and those behind them channels.
struct ReducedImage {
    std::vector<int> order;  // of the file's axes
    Dims dims;
};

INTQ_INLINE ReducedImage reduced_image(const Dims& in, const std::set<int>& axes) {
    ReducedImage image{{0}, {in[0], 1, 1, 1}};
    const auto append = [&](int from, int end, bool is_reduced, std::size_t as) {
        for (int axis = from; axis < end; ++axis) {
            if ((axes.count(axis) != 0) != is_reduced) continue;
            image.order.push_back(axis);
            image.dims[as] *= in[static_cast<std::size_t>(axis)];
        }
    };
    const int last = *axes.rbegin(), rank = static_cast<int>(in.size());
    append(1, last, false, 1);
    append(1, last + 1, true, 2);
    append(last + 1, rank, false, 3);
    return image;
}

/// Writes the image of axes that are apart, which is one move of codes.
INTQ_INLINE std::int32_t moved_image(OperatorImport& node, const ReducedImage& image) {
    if (std::is_sorted(image.order.begin(), image.order.end())) return node.shaped(0, image.dims);
    const std::size_t rank = image.order.size();
    std::vector<int> axes(rank);
    for (std::size_t axis = 0; axis < rank; ++axis)
        axes[static_cast<std::size_t>(program_axis(static_cast<int>(axis), rank))] =
            program_axis(image.order[axis], rank);
    return add_view(node, OpKind::permute, view_of(node, 0, node.dims()).permuted(axes), image.dims, "moved");
}

INTQ_INLINE void reduce(OperatorImport& node, bool is_sum) {
    node.require_inputs(2, 2);
    const Dims in = node.dims();
    const std::set<int> axes = reduced_axes(node);
    const ReducedImage image = reduced_image(in, axes);
    const std::int32_t x = moved_image(node, image);
    Dims out;
    const bool keeps_dims = node.options().flag(fields::Reducer::keeps_dims);
    for (std::size_t axis = 0; axis < in.size(); ++axis) {
        const bool stays = axes.count(static_cast<int>(axis)) == 0;
        if (stays || keeps_dims) out.push_back(stays ? in[axis] : 1);
    }
    const Window2d window{{1, image.dims[2]}, {1, image.dims[2]}, {}, {1, 1}};
    const OwnedQParams grid = node.output_qparams();
    node.set(is_sum ? quantization::add_window_sum(node.builder(), x, window, grid, node.codes(FusedActivation::none),
                                                   node.layer())
                    : quantization::add_mean(node.builder(), x, window, grid, node.layer()),
             std::move(out));
}

INTQ_INLINE void mean(OperatorImport& node) { reduce(node, false); }

/// LiteRT 2.3 runs its reference kernel of uint8 codes for all types.
INTQ_INLINE void sum_of_axes(OperatorImport& node) {
    node.require_inputs(2, 2);
    if (node.input().offset == 0 && node.target().same_arithmetic(target::litert::policy))
        throw Error("LiteRT's reference kernel reads the bytes of " + describe_type(node.input()) +
                    " codes as uint8 codes; import the model for target::tflite, whose sum is that of the codes");
    reduce(node, true);
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_POOL_HPP
