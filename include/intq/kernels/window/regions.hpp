// SPDX-License-Identifier: MIT
//
// Regions: rectangles of output pixels whose windows have the same taps inside the image. Layer: kernels.
#ifndef INTQ_KERNELS_WINDOW_REGIONS_HPP
#define INTQ_KERNELS_WINDOW_REGIONS_HPP

#include "intq/kernels/window/geometry.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// A window along one axis.
struct WindowAxis {
    index_t stride, padding, dilation, kernel;
    index_t in, out;  // extents
};
constexpr WindowAxis row_axis(const Window2d& window, const ConvGeometry& geometry) noexcept {
    return {window.stride.height,   padding_above(window, geometry),
            window.dilation.height, window.kernel.height,
            geometry.in.height,     geometry.out.height};
}
constexpr WindowAxis column_axis(const Window2d& window, const ConvGeometry& geometry) noexcept {
    return {window.stride.width, window.padding.left, window.dilation.width,
            window.kernel.width, geometry.in.width,   geometry.out.width};
}

/// Output positions [first, last) of one axis whose windows have the same taps inside the image.
struct AxisRegion {
    index_t first, last;
    ValidTaps taps;
};

/// The run that begins at `first`, which begins one.
///
/// The taps of a position p are [ceil((padding - p·stride) / dilation), ceil((in + padding - p·stride) / dilation)),
/// both cut to the window: neither end grows with p, and the run ends where one of them falls. It goes at least to
/// where the tap before the first one enters the image, or the last one leaves it.
INTQ_OUT_OF_LINE constexpr AxisRegion axis_region(const WindowAxis& axis, index_t first) noexcept {
    const ValidTaps taps = valid_taps(first, axis.stride, axis.padding, axis.dilation, axis.kernel, axis.in);
    index_t last = axis.out;
    if (taps.first > 0) {
        const index_t enters = axis.padding - (taps.first - 1) * axis.dilation;
        index_t position = first + 1;
        while (position * axis.stride < enters) ++position;
        if (position < last) last = position;
    }
    if (taps.last > 0) {  // from the end: behind a run in the middle are the positions of one border
        const index_t leaves = axis.in + axis.padding - (taps.last - 1) * axis.dilation;
        while (last > first + 1 && (last - 1) * axis.stride >= leaves) --last;
    }
    return {first, last, taps};
}

/// A rectangle of output pixels, and the taps of their windows that are inside the image.
struct Region {
    AxisRegion rows, columns;

    constexpr index_t height() const noexcept { return rows.last - rows.first; }
    constexpr index_t width() const noexcept { return columns.last - columns.first; }
    constexpr index_t pixels() const noexcept { return height() * width(); }
    constexpr bool has_taps() const noexcept {
        return rows.taps.first < rows.taps.last && columns.taps.first < columns.taps.last;
    }
};

/// The region that begins at the first pixel, and the one behind a region: first all columns of its rows. Behind the
/// last one, rows.first is the output's height.
constexpr Region first_region(const Window2d& window, const ConvGeometry& geometry) noexcept {
    return {axis_region(row_axis(window, geometry), 0), axis_region(column_axis(window, geometry), 0)};
}
constexpr Region next_region(const Window2d& window, const ConvGeometry& geometry, const Region& region) noexcept {
    const WindowAxis columns = column_axis(window, geometry);
    if (region.columns.last < columns.out) return {region.rows, axis_region(columns, region.columns.last)};
    const WindowAxis rows = row_axis(window, geometry);
    if (region.rows.last < rows.out) return {axis_region(rows, region.rows.last), axis_region(columns, 0)};
    return {{rows.out, rows.out, {0, 0}}, {0, 0, {0, 0}}};
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_REGIONS_HPP
