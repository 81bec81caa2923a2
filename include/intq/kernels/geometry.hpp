// SPDX-License-Identifier: MIT
//
// Geometry of a window: what depends on height, width and batch. Layer: kernels (DESIGN section 3).
#ifndef INTQ_KERNELS_GEOMETRY_HPP
#define INTQ_KERNELS_GEOMETRY_HPP

#include <cstdint>

#include "intq/core/op_params.hpp"
#include "intq/core/workspace.hpp"

namespace intq::inline INTQ_ABI::kernels {

/// The indirection of a convolution: for each output pixel and tap the input pixel, or -1 on padding.
///
///     offsets[pixel · taps + tap] = y·width + x of the tap's input pixel in its image
///
/// It is independent of channels and of dtype. A 1×1 window with stride 1 and no padding needs none
/// (offsets is null): output pixel p reads input pixel p.
struct ConvGeometry {
    index_t batch = 0;
    Size2d in{0, 0};
    Size2d out{0, 0};
    index_t taps = 1;
    const std::int32_t* offsets = nullptr;

    constexpr index_t in_pixels() const noexcept { return in.height * in.width; }
    constexpr index_t out_pixels() const noexcept { return out.height * out.width; }
};

namespace detail {

constexpr bool reads_in_place(const Window2d& window) noexcept {
    return window.kernel == Size2d{} && window.stride == Size2d{} && window.padding == Padding2d{};
}

/// Input coordinate of a tap, or -1 on padding.
constexpr index_t tap_coordinate(index_t out, index_t tap, index_t stride, index_t dilation, index_t padding,
                                 index_t extent) noexcept {
    const index_t at = out * stride + tap * dilation - padding;
    return at >= 0 && at < extent ? at : -1;
}

inline void fill_offsets(const Window2d& window, const ConvGeometry& geometry, std::int32_t* offsets) noexcept {
    for (index_t oy = 0; oy < geometry.out.height; ++oy)
        for (index_t ox = 0; ox < geometry.out.width; ++ox)
            for (index_t ky = 0; ky < window.kernel.height; ++ky)
                for (index_t kx = 0; kx < window.kernel.width; ++kx) {
                    const index_t y = tap_coordinate(oy, ky, window.stride.height, window.dilation.height,
                                                     window.padding.top, geometry.in.height);
                    const index_t x = tap_coordinate(ox, kx, window.stride.width, window.dilation.width,
                                                     window.padding.left, geometry.in.width);
                    *offsets++ = static_cast<std::int32_t>(y < 0 || x < 0 ? -1 : y * geometry.in.width + x);
                }
}

}  // namespace detail

/// Bytes that make_conv2d_geometry needs; 0 where the input is read in place.
constexpr index_t conv2d_geometry_size(const Window2d& window, Size2d in) noexcept {
    const Size2d out = output_size(window, in);
    return detail::reads_in_place(window) ? 0
                                          : out.height * out.width * window.kernel.height * window.kernel.width *
                                                static_cast<index_t>(sizeof(std::int32_t));
}

/// Builds the geometry of a window for one image size.
///
/// @param storage  conv2d_geometry_size() bytes, aligned to 4; must outlive the geometry
/// @return shape_mismatch where no output pixel exists or an image has 2^31 pixels; buffer_too_small
///
/// Cost     O(output pixels · taps)
inline Result<ConvGeometry> make_conv2d_geometry(const Window2d& window, index_t batch, Size2d in,
                                                 Workspace storage) noexcept {
    if (const Status status = check_window(window, OpKind::conv2d); !status) return status;
    ConvGeometry geometry;
    geometry.batch = batch;
    geometry.in = in;
    geometry.out = output_size(window, in);
    geometry.taps = window.kernel.height * window.kernel.width;
    if (batch < 0) return Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::input, batch, 0};
    if (geometry.out_pixels() <= 0) return Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::output, 0, 1};
    if (geometry.in_pixels() > INT32_MAX)
        return Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::input, geometry.in_pixels(), INT32_MAX};
    const index_t bytes = conv2d_geometry_size(window, in);
    if (bytes == 0) return geometry;
    if (storage.data == nullptr || storage.size < bytes)
        return Status{StatusCode::buffer_too_small, OpKind::conv2d, Field::geometry, storage.size, bytes};
    auto* offsets = reinterpret_cast<std::int32_t*>(storage.data);
    detail::fill_offsets(window, geometry, offsets);
    geometry.offsets = offsets;
    return geometry;
}

/// Whether a geometry was made for this window.
constexpr bool is_geometry_of(const Window2d& window, const ConvGeometry& geometry) noexcept {
    return geometry.taps == window.kernel.height * window.kernel.width &&
           geometry.out == output_size(window, geometry.in) &&
           (geometry.offsets == nullptr) == detail::reads_in_place(window);
}

}  // namespace intq::inline INTQ_ABI::kernels

#endif  // INTQ_KERNELS_GEOMETRY_HPP
