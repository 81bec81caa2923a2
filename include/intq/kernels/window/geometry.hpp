// SPDX-License-Identifier: MIT
//
// Geometry of a window: the data that depend on height, width and batch. Layer: kernels (docs/design.md section 3).
#ifndef INTQ_KERNELS_WINDOW_GEOMETRY_HPP
#define INTQ_KERNELS_WINDOW_GEOMETRY_HPP

#include <cstdint>

#include "intq/core/op_params.hpp"
#include "intq/core/workspace.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The images that a convolution reads and writes, or a band of their rows. Which input pixel a tap reads follows from
/// it and from the window: there are no tables.
struct ConvGeometry {
    index_t batch = 0;
    Size2d in{0, 0};
    Size2d out{0, 0};
    index_t cut = 0;  // rows of the window's upper padding that a band does not have

    INTQ_ALWAYS_INLINE constexpr index_t in_pixels() const noexcept { return in.height * in.width; }
    INTQ_ALWAYS_INLINE constexpr index_t out_pixels() const noexcept { return out.height * out.width; }
};

/// The taps of a window that lie inside the image, along one axis: none where first >= last.
struct ValidTaps {
    index_t first;
    index_t last;  // one past
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const ValidTaps&, const ValidTaps&) = default;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// The taps of the window of output position `out`.
constexpr ValidTaps valid_taps(index_t out, index_t stride, index_t padding, index_t dilation, index_t kernel,
                               index_t extent) noexcept {
    // Few taps lie outside, and small cores have no instruction that divides.
    const index_t start = out * stride - padding;
    ValidTaps taps{0, kernel};
    while (taps.first < kernel && start + taps.first * dilation < 0) ++taps.first;
    while (taps.last > 0 && start + (taps.last - 1) * dilation >= extent) --taps.last;
    return taps;
}

namespace detail {

/// Rows of padding above the rows that a convolution reads.
constexpr index_t padding_above(const Window2d& window, const ConvGeometry& geometry) noexcept {
    return window.padding.top - geometry.cut;
}

/// Whether output pixel p reads input pixel p, and nothing else.
constexpr bool reads_in_place(const Window2d& window) noexcept {
    return window.kernel == Size2d{} && window.stride == Size2d{} && window.padding == Padding2d{};
}

constexpr bool pads(const Window2d& window) noexcept { return !(window.padding == Padding2d{}); }

/// Checks that depend only on the window and the image.
constexpr Status check_geometry_extents(const Window2d& window, Size2d in) noexcept {
    constexpr OpKind op = OpKind::conv2d;
    if (const Status status = check_window(window, op); !status) return status;
    if (const Status status = check_image(in, op); !status) return status;
    if (const Status status = check_span(window, in, op); !status) return status;
    const Size2d out = output_size(window, in);
    if (!product_fits(INT32_MAX, in.height, in.width))
        return {StatusCode::value_out_of_range, op, Field::input, in.width, INT32_MAX / in.height};
    if (!product_fits(INT32_MAX, out.height, out.width))
        return {StatusCode::value_out_of_range, op, Field::output, out.width, INT32_MAX / out.height};
    return {};
}

}  // namespace detail

/// The geometry of a window for one image size.
///
/// @param batch  0 is legal: a run of it reads and writes nothing
/// @return the errors of check_window(), check_image() and check_span(); value_out_of_range where an image has 2^31
///         pixels or the batch is negative
inline Result<ConvGeometry> make_conv2d_geometry(const Window2d& window, index_t batch, Size2d in) noexcept {
    if (const Status status = detail::check_geometry_extents(window, in); !status) return status;
    if (batch < 0 || batch > largest_extent)
        return Status{StatusCode::value_out_of_range, OpKind::conv2d, Field::input, batch,
                      batch < 0 ? 0 : largest_extent};
    return ConvGeometry{batch, in, output_size(window, in)};
}

/// Whether a geometry is the one of a window.
/// @pre the window moves over its image: make_conv2d_geometry() takes both
constexpr bool is_geometry_of(const Window2d& window, const ConvGeometry& geometry) noexcept {
    return geometry.out == output_size(window, geometry.in);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_GEOMETRY_HPP
