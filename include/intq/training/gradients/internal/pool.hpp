// SPDX-License-Identifier: MIT
//
// Gradients of pooling and resizing. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_POOL_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_POOL_HPP

#include <cstddef>

#include "intq/core/dtype.hpp"
#include "intq/core/op_params.hpp"
#include "intq/nn/float_operators/pool.hpp"
#include "intq/nn/float_operators/resize.hpp"
#include "intq/nn/layers/pool.hpp"
#include "intq/nn/layers/resize.hpp"
#include "intq/tensor/current_executor.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// Images as they are, and (N, C, L) as images of one row.
inline Tensor as_image(const Tensor& x) {
    if (x.rank() != 3) return x.contiguous();
    return x.contiguous().reshape(Shape(x.extent(0), x.extent(1), 1, x.extent(2)));
}

/// dx from visit(plane of x, plane of dx, i, j, gradient of output (i, j)) for all outputs.
template <class T, class Visit> void pool_backward(GradientContext& context, const Visit& visit) {
    const Tensor x = as_image(context.input(0)), dy = as_image(context.gradient());
    Tensor dx = Tensor::zeros(x.shape(), dtype_of<T>);
    const index_t plane = x.extent(2) * x.extent(3);
    current_executor()(x.extent(0) * x.extent(1), [&](index_t p) {
        const T* gradient = dy.flat<T>().data() + p * dy.extent(2) * dy.extent(3);
        for (index_t i = 0; i < dy.extent(2); ++i)
            for (index_t j = 0; j < dy.extent(3); ++j)
                visit(x.flat<T>().data() + p * plane, dx.flat<T>().data() + p * plane, i, j, *gradient++);
    });
    context.add_input(0, dx.reshape(context.input(0).shape()));
}

inline Size2d size_of_image(const Tensor& x) {
    return x.rank() == 3 ? Size2d{1, x.extent(2)} : Size2d{x.extent(2), x.extent(3)};
}

/// Each cell of a mean gets an equal share.
template <class T>
void spread_mean(T* plane, index_t width, const nn::float_operators::WindowCells& cells, double part) {
    cells.for_each(width, [&](index_t at) { plane[at] += static_cast<T>(part); });
}

/// The largest element takes all; among equal ones the first in row order, as in PyTorch.
template <class T> void max_pool2d_backward(GradientContext& context) {
    const Size2d size = size_of_image(context.input(0));
    const Window2d window = context.module_as<nn::MaxPool2d>().window_on(size);
    pool_backward<T>(context, [&](const T* x, T* dx, index_t i, index_t j, T gradient) {
        dx[nn::float_operators::largest_cell(x, window, size, i, j)] += gradient;
    });
}

template <class T> void avg_pool2d_backward(GradientContext& context) {
    const Size2d size = size_of_image(context.input(0));
    const auto pool = context.module_as<nn::AvgPool2d>().window_on(size);
    pool_backward<T>(context, [&](const T*, T* dx, index_t i, index_t j, T gradient) {
        const auto cells = nn::float_operators::window_cells(pool.window, size, i, j);
        const index_t count = nn::float_operators::window_divisor(pool, size, i, j);
        spread_mean(dx, size.width, cells, static_cast<double>(gradient) / static_cast<double>(count));
    });
}

template <class T> void adaptive_avg_pool2d_backward(GradientContext& context) {
    const Size2d out = context.module_as<nn::AdaptiveAvgPool2d>().output();
    const Size2d size = size_of_image(context.input(0));
    pool_backward<T>(context, [&](const T*, T* dx, index_t i, index_t j, T gradient) {
        const auto cells = nn::float_operators::adaptive_cells(size, out, i, j);
        spread_mean(dx, size.width, cells, static_cast<double>(gradient) / static_cast<double>(cells.count()));
    });
}

/// Each output distributes its gradient over the cells that it blends, by their weights.
template <class T> void interpolate_backward(GradientContext& context) {
    const nn::InterpolateOptions options =
        context.has_module() ? context.module_as<nn::Upsample>().options() : nn::interpolate_options(context.inputs());
    const Size2d size = size_of_image(context.input(0));
    const nn::float_operators::Taps taps = nn::float_operators::interpolation_taps(options, size);
    pool_backward<T>(context, [&](const T*, T* dx, index_t i, index_t j, T gradient) {
        const auto &row = taps.rows[static_cast<std::size_t>(i)], &column = taps.columns[static_cast<std::size_t>(j)];
        const auto give = [&](index_t h, index_t w, double part) {
            dx[h * size.width + w] += static_cast<T>(static_cast<double>(gradient) * part);
        };
        give(row.first, column.first, (1.0 - row.weight) * (1.0 - column.weight));
        if (column.weight != 0.0) give(row.first, column.second, (1.0 - row.weight) * column.weight);
        if (row.weight != 0.0) give(row.second, column.first, row.weight * (1.0 - column.weight));
        if (row.weight != 0.0 && column.weight != 0.0) give(row.second, column.second, row.weight * column.weight);
    });
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_POOL_HPP
