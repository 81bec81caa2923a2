// SPDX-License-Identifier: MIT
#include "limits.hpp"

#include <algorithm>

namespace intq_bench {

namespace {

using intq::index_t;

index_t round_up_division(index_t a, index_t b) { return (a + b - 1) / b; }

/// Taps of the window that lie inside the image, for an output at `position` along one axis.
index_t taps_inside(index_t position, index_t stride, index_t padding, index_t kernel, index_t extent) {
    const index_t first = position * stride - padding;
    return std::max(index_t{0}, std::min(first + kernel, extent) - std::max(first, index_t{0}));
}

/// Dots of all outputs of one vector of channels: the sum over the pixels.
double dots_of_image(const LayerShape& shape, index_t depth) {
    const intq::Window2d& w = shape.window;
    const intq::Size2d out = shape.out();
    const index_t channels = shape.channels / shape.groups;
    index_t rows = 0, dots_of_row = 0;
    for (index_t y = 0; y < out.height; ++y)
        rows += taps_inside(y, w.stride.height, w.padding.top, w.kernel.height, shape.in.height);
    for (index_t x = 0; x < out.width; ++x) {
        const index_t taps = taps_inside(x, w.stride.width, w.padding.left, w.kernel.width, shape.in.width);
        dots_of_row += round_up_division(taps * channels, depth);
    }
    return static_cast<double>(rows * dots_of_row);
}

}  // namespace

std::optional<double> limit_of_peak(const LayerShape& shape, intq::DType input, const PeakLoop& loop) {
    if (shape.is_depthwise()) {
        const bool is_known = input == intq::DType::int8 && shape.window.kernel == intq::Size2d{3, 3};
        if (!is_known || loop.depth != 4 || loop.instructions != 1) return std::nullopt;
        const double unpacking = shape.window.stride.width == 1 ? 8.0 : 12.0;
        return 9.0 / (12.0 + unpacking + 15.0);
    }
    const double epilogue = (input == intq::DType::float32 ? 2.0 : 3.75) / loop.instructions;
    const intq::Size2d out = shape.out();
    const index_t vectors = shape.groups * round_up_division(shape.outputs / shape.groups, loop.lanes);
    const double pixels = static_cast<double>(out.height * out.width);
    const double dots = static_cast<double>(vectors) * (dots_of_image(shape, loop.depth) + epilogue * pixels);
    const double nominal =
        pixels * static_cast<double>(shape.outputs * shape.depth()) / static_cast<double>(loop.lanes * loop.depth);
    return nominal / dots;
}

double bytes_of(const LayerShape& shape, intq::DType input, intq::DType weight, intq::DType output) {
    return static_cast<double>(shape.in_elements() * size_of(input) + shape.weight_elements() * size_of(weight) +
                               shape.out_elements() * size_of(output));
}

}  // namespace intq_bench
