// SPDX-License-Identifier: MIT
//
// Float pooling as plain loops. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_POOL_HPP
#define INTQ_NN_FLOAT_OPERATORS_POOL_HPP

#include "intq/core/op_params.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// Throws the Error of a rank that is not 3.
[[noreturn]] void throw_no_line(const char* op, const Shape& given);

/// Largest element of each window; padding never wins. Keeps the qparams of x: the values stay on their grid.
///
/// @param x  (N, C, H, W), row_major; every window must hold at least one cell of the image
Tensor max_pool2d(const Tensor& x, const Window2d& window);

/// Mean of each window, padding as zeros; PoolDivisor says whether padding counts in the divisor.
///
/// @param x       (N, C, H, W), row_major
/// @param window  may be dilated, as in ONNX but not in PyTorch
Tensor avg_pool2d(const Tensor& x, const Window2d& window, PoolDivisor divisor = PoolDivisor::kernel_cells);

/// The cells from which an average is made, and its divisor.
struct AverageWindow {
    Window2d window{};
    PoolDivisor divisor = PoolDivisor::kernel_cells;
    Padding2d counted{};  // the part of the padding whose zeros are valid cells
};
Tensor avg_pool2d(const Tensor& x, const AverageWindow& average);

/// The window of a pool in ceil mode: padding at the ends gives the rest of the image a window too, which starts in the
/// image or in the padding before it.
///
///     out = ceil((in + padding - dilation·(kernel - 1) - 1) / stride) + 1, one less where the last window would start
///           behind the image
///
/// @pre   the window is checked, and the extents are at least 1
/// Source PyTorch, pooling_output_shape; ONNX since opset 19
Window2d ceil_window(const Window2d& window, Size2d in) noexcept;

/// An average in ceil mode: the model's padding counts as before, and cells beyond it do not.
AverageWindow ceil_average(const AverageWindow& average, Size2d in) noexcept;

/// pool() of (N, C, L) as images of one row.
///
/// @throws Error for another rank
template <class Pool> Tensor pool_line(const Tensor& x, const char* op, const Pool& pool) {
    if (x.rank() != 3) throw_no_line(op, x.shape());
    const Tensor y = pool(x.reshape(Shape(x.extent(0), x.extent(1), 1, x.extent(2))));
    return y.reshape(Shape(y.extent(0), y.extent(1), y.extent(3)));
}

/// Mean of the cells from fl(i·in/out) up to ceil((i+1)·in/out) - 1 on each axis, for any output size.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d out);

/// Rows top, top + step.height, … below bottom, and columns in the same way, inside the image.
struct WindowCells {
    index_t top, left, bottom, right;
    Size2d step{};
    index_t count() const noexcept {
        return cells_along(top, bottom, step.height) * cells_along(left, right, step.width);
    }
    /// visit(place in a plane of this width) for each cell.
    template <class Visit> void for_each(index_t width, const Visit& visit) const {
        for (index_t h = top; h < bottom; h += step.height)
            for (index_t w = left; w < right; w += step.width) visit(h * width + w);
    }

private:
    static index_t cells_along(index_t first, index_t last, index_t by) noexcept {
        return last <= first ? index_t{0} : (last - first + by - 1) / by;
    }
};

namespace detail {

void check_pool(const Tensor& x, const Window2d& window, OpKind op);

}  // namespace detail

/// The cells of the window of an output of avg_pool2d.
WindowCells window_cells(const Window2d& window, Size2d in, index_t i, index_t j) noexcept;

/// The divisor of an output's average.
index_t window_divisor(const AverageWindow& average, Size2d in, index_t i, index_t j) noexcept;

/// The cells of the window of an output of adaptive_avg_pool2d.
WindowCells adaptive_cells(Size2d in, Size2d out, index_t i, index_t j) noexcept;

/// The place in its plane of the first largest element in the window of an output of max_pool2d, or of the last NaN; -1
/// where the window holds no cell of the image.
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

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <string>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_pool(const Tensor& x, const Window2d& window, OpKind op) {
    if (x.rank() != 4)
        throw Error(std::string(name_of(op)) + ": the input must have rank 4, given " + to_string(x.shape()));
    throw_if_failed(check_window(window, op));
    const Padding2d& p = window.padding;
    const index_t high = window.dilation.height * (window.kernel.height - 1),
                  wide = window.dilation.width * (window.kernel.width - 1);
    if (p.top > high || p.bottom > high || p.left > wide || p.right > wide)
        throw Error(std::string(name_of(op)) + ": padding must be smaller than the kernel, given padding (" +
                    std::to_string((std::max)(p.top, p.bottom)) + ", " + std::to_string((std::max)(p.left, p.right)) +
                    ") and windows of " + std::to_string(high + 1) + " x " + std::to_string(wide + 1));
}

}  // namespace detail

INTQ_INLINE WindowCells window_cells(const Window2d& window, Size2d in, index_t i, index_t j) noexcept {
    const index_t top = i * window.stride.height - window.padding.top;
    const index_t left = j * window.stride.width - window.padding.left;
    const auto inside = [](index_t first, index_t step) {
        return first >= 0 ? first : first + (step - 1 - first) / step * step;
    };
    const Size2d& step = window.dilation;
    return {inside(top, step.height), inside(left, step.width),
            (std::min)(top + step.height * (window.kernel.height - 1) + 1, in.height),
            (std::min)(left + step.width * (window.kernel.width - 1) + 1, in.width), step};
}

INTQ_INLINE index_t window_divisor(const AverageWindow& average, Size2d in, index_t i, index_t j) noexcept {
    Window2d window = average.window;
    if (average.divisor == PoolDivisor::kernel_cells) return window.kernel.height * window.kernel.width;
    const Padding2d& counted = average.counted;  // as a part of the image
    window.padding.top -= counted.top;
    window.padding.left -= counted.left;
    return window_cells(window, {in.height + counted.top + counted.bottom, in.width + counted.left + counted.right}, i,
                        j)
        .count();
}

INTQ_INLINE WindowCells adaptive_cells(Size2d in, Size2d out, index_t i, index_t j) noexcept {
    return {i * in.height / out.height, j * in.width / out.width, ((i + 1) * in.height + out.height - 1) / out.height,
            ((j + 1) * in.width + out.width - 1) / out.width};
}

namespace detail {

/// The shape of a pool's output. The first window and the last may see no cell of the image.
INTQ_INLINE Tensor pooled_shape(const Tensor& x, const Shape& shape, const Window2d& window, const char* refusal) {
    x.expect_dtype("flat", DType::float32);
    const Size2d in{x.extent(2), x.extent(3)};
    for (const auto& [i, j] : {Size2d{0, 0}, Size2d{shape[2] - 1, shape[3] - 1}})
        if (window_cells(window, in, i, j).count() == 0) throw Error(refusal);
    Tensor y = Tensor::of_shape(shape);
    y.set_qparams(x.qparams());
    return y;
}

/// Calls visit(plane of the input, i, j, output element) for all outputs.
template <class Visit> void for_each_output(const Tensor& input, Tensor& y, const Visit& visit) {
    const float* plane = input.flat<float>().data();
    float* to = y.flat<float>().data();
    const index_t planes = y.extent(0) * y.extent(1);
    for (index_t p = 0; p < planes; ++p, plane += input.extent(2) * input.extent(3))
        for (index_t i = 0; i < y.extent(2); ++i)
            for (index_t j = 0; j < y.extent(3); ++j) visit(plane, i, j, *to++);
}

INTQ_INLINE double sum_of(const float* plane, index_t width, const WindowCells& cells) {
    double sum = 0;
    cells.for_each(width, [&](index_t at) { sum += static_cast<double>(plane[at]); });
    return sum;
}

}  // namespace detail

INTQ_INLINE void throw_no_line(const char* op, const Shape& given) {
    throw Error(std::string(op) + ": the input must have rank 3 (N, C, L), given " + to_string(given));
}

INTQ_INLINE Window2d ceil_window(const Window2d& window, Size2d in) noexcept {
    const auto added = [](index_t extent, index_t first, index_t last, index_t reach, index_t stride) {
        const index_t room = extent + first + last - reach;
        if (room < 0) return index_t{0};
        index_t windows = (room + stride - 1) / stride + 1;
        if ((windows - 1) * stride >= extent + first) --windows;
        return std::max<index_t>((windows - 1) * stride - room, 0);
    };
    const auto& [kernel, stride, padding, dilation] = window;
    Window2d result = window;
    result.padding.bottom +=
        added(in.height, padding.top, padding.bottom, dilation.height * (kernel.height - 1) + 1, stride.height);
    result.padding.right +=
        added(in.width, padding.left, padding.right, dilation.width * (kernel.width - 1) + 1, stride.width);
    return result;
}

INTQ_INLINE AverageWindow ceil_average(const AverageWindow& average, Size2d in) noexcept {
    AverageWindow reaching{ceil_window(average.window, in), PoolDivisor::valid_cells, average.counted};
    if (reaching.window == average.window) return average;
    if (average.divisor == PoolDivisor::kernel_cells) reaching.counted = average.window.padding;
    return reaching;
}

INTQ_INLINE Tensor max_pool2d(const Tensor& x, const Window2d& window) {
    detail::check_pool(x, window, OpKind::max_pool2d);
    const index_t height = x.extent(2), width = x.extent(3);
    const Size2d out = detail::windowed_size("max_pool2d", window, x.shape());
    const Shape shape(x.extent(0), x.extent(1), out.height, out.width);
    if (detail::is_of_shapes(x))
        return detail::pooled_shape(x, shape, window, "max_pool2d: a window lies in the padding only");
    Tensor y = Tensor::empty(shape);
    const Tensor input = x.contiguous();
    detail::for_each_output(input, y, [&](const float* plane, index_t i, index_t j, float& result) {
        const index_t best = largest_cell(plane, window, {height, width}, i, j);
        if (best < 0) throw Error("max_pool2d: a window lies in the padding only");
        result = plane[best];
    });
    y.set_qparams(x.qparams());
    return y;
}

INTQ_INLINE Tensor avg_pool2d(const Tensor& x, const Window2d& window, PoolDivisor divisor) {
    return avg_pool2d(x, AverageWindow{window, divisor, {}});
}

INTQ_INLINE Tensor avg_pool2d(const Tensor& x, const AverageWindow& average) {
    const Window2d& window = average.window;
    detail::check_pool(x, window, OpKind::avg_pool2d);
    const index_t height = x.extent(2), width = x.extent(3);
    const Size2d out = detail::windowed_size("avg_pool2d", window, x.shape());
    const Shape shape(x.extent(0), x.extent(1), out.height, out.width);
    if (detail::is_of_shapes(x))
        return detail::pooled_shape(x, shape, window, "avg_pool2d: a window sees no cell of the image");
    Tensor y = Tensor::empty(shape);
    const Tensor input = x.contiguous();
    detail::for_each_output(input, y, [&](const float* plane, index_t i, index_t j, float& result) {
        const WindowCells cells = window_cells(window, {height, width}, i, j);
        if (cells.count() == 0) throw Error("avg_pool2d: a window sees no cell of the image");
        const index_t count = window_divisor(average, {height, width}, i, j);
        result = static_cast<float>(detail::sum_of(plane, width, cells) / static_cast<double>(count));
    });
    return y;
}

INTQ_INLINE Tensor adaptive_avg_pool2d(const Tensor& x, Size2d out) {
    if (x.rank() != 4) throw Error("adaptive_avg_pool2d: the input must have rank 4, given " + to_string(x.shape()));
    if (out.height < 1 || out.width < 1 || x.extent(2) < 1 || x.extent(3) < 1)
        throw Error("adaptive_avg_pool2d: extents must be at least 1, given " + to_string(x.shape()));
    const index_t height = x.extent(2), width = x.extent(3);
    const Shape shape(x.extent(0), x.extent(1), out.height, out.width);
    if (detail::is_of_shapes(x)) return x.expect_dtype("flat", DType::float32), Tensor::of_shape(shape);
    Tensor y = Tensor::empty(shape);
    const Tensor input = x.contiguous();
    detail::for_each_output(input, y, [&](const float* plane, index_t i, index_t j, float& result) {
        const WindowCells cells = adaptive_cells({height, width}, out, i, j);
        result = static_cast<float>(detail::sum_of(plane, width, cells) / static_cast<double>(cells.count()));
    });
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_POOL_HPP
