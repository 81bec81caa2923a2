// SPDX-License-Identifier: MIT
//
// AVERAGE_POOL_2D, MAX_POOL_2D and MEAN. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_POOL_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_POOL_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void average_pool_2d(OperatorImport& node);
void max_pool_2d(OperatorImport& node);
void mean(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <algorithm>
#    include <optional>
#    include <set>
#    include <string>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/tflite/internal/nodes/window.hpp"
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

/// The first and the number of the axes, which must be adjacent and behind the samples' axis.
INTQ_INLINE std::pair<std::size_t, std::size_t> mean_axes(const OperatorImport& node) {
    std::set<int> axes;
    for (const std::int64_t axis : node.integers(1))
        axes.insert(checked_axis(axis, node.input().dims.size()) + node.added_axes());
    if (axes.empty() || *axes.begin() == 0)
        throw Error("a mean over " + std::string(axes.empty() ? "no axis" : "the samples") + " is not supported");
    if (static_cast<std::size_t>(*axes.rbegin() - *axes.begin()) + 1 != axes.size())
        throw Error("a mean over axes that are not side by side is not supported");
    return {static_cast<std::size_t>(*axes.begin()), axes.size()};
}

// An image has the axes before the mean's as rows, the mean's as columns, and the axes behind them as channels.
INTQ_INLINE void mean(OperatorImport& node) {
    node.require_inputs(2, 2);
    const Dims in = node.dims();
    const auto [first, count] = mean_axes(node);
    const auto product = [&](std::size_t from, std::size_t to) {
        index_t all = 1;
        for (std::size_t axis = from; axis < to; ++axis) all *= in[axis];
        return all;
    };
    const index_t rows = product(1, first), cells = product(first, first + count),
                  channels = product(first + count, in.size());
    const std::int32_t image = node.shaped(0, {in[0], rows, cells, channels});
    Dims out = in;
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(first),
               end = begin + static_cast<std::ptrdiff_t>(count);
    std::fill(begin, end, 1);
    if (!node.options().flag(fields::Reducer::keeps_dims)) out.erase(begin, end);
    const Window2d window{{1, cells}, {1, cells}, {}, {1, 1}};
    node.set(quantization::add_mean(node.builder(), image, window, node.output_qparams(), node.layer()),
             std::move(out));
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_POOL_HPP
