// SPDX-License-Identifier: MIT
//
// Float pooling as plain loops. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_POOL_HPP
#define INTQ_NN_FLOAT_OPERATORS_POOL_HPP

#include "intq/core/op_params.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// Largest element of each window; padding never wins. Keeps the qparams of x: the values stay on their grid.
///
/// @param x  (N, C, H, W), row_major; every window must hold at least one cell of the image
Tensor max_pool2d(const Tensor& x, const Window2d& window);

/// Mean of each window, padding as zeros; PoolDivisor says whether padding counts in the divisor.
///
/// @param x  (N, C, H, W), row_major
Tensor avg_pool2d(const Tensor& x, const Window2d& window, PoolDivisor divisor = PoolDivisor::kernel_cells);

/// Mean of the cells from fl(i·in/out) up to ceil((i+1)·in/out) - 1 on each axis, for any output size.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d out);

namespace detail {

struct Cells {
    index_t top, left, bottom, right;  // [top, bottom) × [left, right), inside the image
    index_t count() const noexcept { return (bottom - top) * (right - left); }
};

void check_pool(const Tensor& x, const Window2d& window, OpKind op);

/// The cells under an output of avg_pool2d.
Cells window_cells(const Window2d& window, Size2d in, index_t i, index_t j) noexcept;

/// What an average over a window divides by.
index_t window_divisor(const Window2d& window, const Cells& cells, PoolDivisor divisor) noexcept;

/// The cells under an output of adaptive_avg_pool2d.
Cells adaptive_cells(Size2d in, Size2d out, index_t i, index_t j) noexcept;

/// The place in its plane of the first largest element under an output of max_pool2d, or of the last NaN; -1 where
/// the window holds no cell of the image.
template <class T>
index_t largest_cell(const T* plane, const Window2d& window, Size2d in, index_t i, index_t j) noexcept {
    index_t best = -1;
    for (index_t u = 0; u < window.kernel.height; ++u)
        for (index_t v = 0; v < window.kernel.width; ++v) {
            const index_t h = i * window.stride.height + u * window.dilation.height - window.padding.top;
            const index_t w = j * window.stride.width + v * window.dilation.width - window.padding.left;
            if (h < 0 || h >= in.height || w < 0 || w >= in.width) continue;
            const T value = plane[h * in.width + w];
            if (best < 0 || value > plane[best] || value != value) best = h * in.width + w;
        }
    return best;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <string>

#    include "intq/io/error.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_pool(const Tensor& x, const Window2d& window, OpKind op) {
    if (x.rank() != 4)
        throw Error(std::string(name_of(op)) + ": the input must have rank 4, given " + to_string(x.shape()));
    throw_if_failed(check_window(window, op));
    const Padding2d& p = window.padding;
    if (p.top >= window.kernel.height || p.bottom >= window.kernel.height || p.left >= window.kernel.width ||
        p.right >= window.kernel.width)
        throw Error(std::string(name_of(op)) + ": padding must be smaller than the kernel");
}

INTQ_INLINE Cells window_cells(const Window2d& window, Size2d in, index_t i, index_t j) noexcept {
    const index_t top = i * window.stride.height - window.padding.top;
    const index_t left = j * window.stride.width - window.padding.left;
    return {std::max<index_t>(top, 0), std::max<index_t>(left, 0), std::min(top + window.kernel.height, in.height),
            std::min(left + window.kernel.width, in.width)};
}

INTQ_INLINE index_t window_divisor(const Window2d& window, const Cells& cells, PoolDivisor divisor) noexcept {
    return divisor == PoolDivisor::kernel_cells ? window.kernel.height * window.kernel.width : cells.count();
}

INTQ_INLINE Cells adaptive_cells(Size2d in, Size2d out, index_t i, index_t j) noexcept {
    return {i * in.height / out.height, j * in.width / out.width, ((i + 1) * in.height + out.height - 1) / out.height,
            ((j + 1) * in.width + out.width - 1) / out.width};
}

// Calls visit(plane of the input, i, j, output element) for all outputs.
template <class Visit> void for_each_output(const Tensor& input, Tensor& y, const Visit& visit) {
    const float* plane = input.flat<float>().data();
    float* to = y.flat<float>().data();
    const index_t planes = y.extent(0) * y.extent(1);
    for (index_t p = 0; p < planes; ++p, plane += input.extent(2) * input.extent(3))
        for (index_t i = 0; i < y.extent(2); ++i)
            for (index_t j = 0; j < y.extent(3); ++j) visit(plane, i, j, *to++);
}

INTQ_INLINE double sum_of(const float* plane, index_t width, const Cells& cells) {
    double sum = 0;
    for (index_t h = cells.top; h < cells.bottom; ++h)
        for (index_t w = cells.left; w < cells.right; ++w) sum += static_cast<double>(plane[h * width + w]);
    return sum;
}

}  // namespace detail

INTQ_INLINE Tensor max_pool2d(const Tensor& x, const Window2d& window) {
    detail::check_pool(x, window, OpKind::max_pool2d);
    const index_t height = x.extent(2), width = x.extent(3);
    const Size2d out = detail::windowed_size("max_pool2d", window, x.shape());
    Tensor y = Tensor::empty(Shape(x.extent(0), x.extent(1), out.height, out.width));
    const Tensor input = x.contiguous();
    detail::for_each_output(input, y, [&](const float* plane, index_t i, index_t j, float& result) {
        const index_t best = detail::largest_cell(plane, window, {height, width}, i, j);
        if (best < 0) throw Error("max_pool2d: a window lies in the padding only");
        result = plane[best];
    });
    y.set_qparams(x.qparams());
    return y;
}

INTQ_INLINE Tensor avg_pool2d(const Tensor& x, const Window2d& window, PoolDivisor divisor) {
    detail::check_pool(x, window, OpKind::avg_pool2d);
    if (!(window.dilation == Size2d{1, 1})) throw Error("avg_pool2d: dilation must be 1");
    const index_t height = x.extent(2), width = x.extent(3);
    const Size2d out = detail::windowed_size("avg_pool2d", window, x.shape());
    Tensor y = Tensor::empty(Shape(x.extent(0), x.extent(1), out.height, out.width));
    const Tensor input = x.contiguous();
    detail::for_each_output(input, y, [&](const float* plane, index_t i, index_t j, float& result) {
        const detail::Cells cells = detail::window_cells(window, {height, width}, i, j);
        const index_t count = detail::window_divisor(window, cells, divisor);
        result = static_cast<float>(detail::sum_of(plane, width, cells) / static_cast<double>(count));
    });
    return y;
}

INTQ_INLINE Tensor adaptive_avg_pool2d(const Tensor& x, Size2d out) {
    if (x.rank() != 4) throw Error("adaptive_avg_pool2d: the input must have rank 4, given " + to_string(x.shape()));
    if (out.height < 1 || out.width < 1 || x.extent(2) < 1 || x.extent(3) < 1)
        throw Error("adaptive_avg_pool2d: extents must be at least 1, given " + to_string(x.shape()));
    const index_t height = x.extent(2), width = x.extent(3);
    Tensor y = Tensor::empty(Shape(x.extent(0), x.extent(1), out.height, out.width));
    const Tensor input = x.contiguous();
    detail::for_each_output(input, y, [&](const float* plane, index_t i, index_t j, float& result) {
        const detail::Cells cells = detail::adaptive_cells({height, width}, out, i, j);
        result = static_cast<float>(detail::sum_of(plane, width, cells) / static_cast<double>(cells.count()));
    });
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_POOL_HPP
