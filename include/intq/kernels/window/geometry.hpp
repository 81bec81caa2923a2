// SPDX-License-Identifier: MIT
//
// Geometry of a window: what depends on height, width and batch. Layer: kernels (docs/design.md section 3).
#ifndef INTQ_KERNELS_WINDOW_GEOMETRY_HPP
#define INTQ_KERNELS_WINDOW_GEOMETRY_HPP

#include <cstdint>

#include "intq/core/op_params.hpp"
#include "intq/core/workspace.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The indirection of a convolution: for each output pixel and tap the input pixel, or -1 on padding.
///
///     offsets[slot · taps + tap] = y·width + x of the tap's input pixel in its image
///
/// A slot is a place in the order of computing: pixels whose taps fall on padding alike follow each other, so that a
/// tile of rows skips a padded tap as a whole. It is independent of channels and of dtype. A 1×1 window with stride 1
/// and no padding needs none (offsets is null): output pixel p reads input pixel p.
struct ConvGeometry {
    index_t batch = 0;
    Size2d in{0, 0};
    Size2d out{0, 0};
    index_t taps = 1;
    const std::int32_t* offsets = nullptr;
    /// (out_pixels()) the output pixel of each slot; null where the order is that of the image.
    const std::int32_t* pixels = nullptr;
    /// (out_pixels()) the first slot after each one that is padded otherwise; null where no tap falls on padding.
    const std::int32_t* run_ends = nullptr;

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

constexpr ValidTaps valid_taps(index_t out, index_t stride, index_t padding, index_t dilation, index_t kernel,
                               index_t extent) noexcept {
    const index_t start = out * stride - padding;
    const index_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const index_t room = extent - start;
    const index_t last = room <= 0 ? 0 : (room + dilation - 1) / dilation;
    return {first, last < kernel ? last : kernel};
}

namespace detail {

constexpr bool reads_in_place(const Window2d& window) noexcept {
    return window.kernel == Size2d{} && window.stride == Size2d{} && window.padding == Padding2d{};
}

constexpr bool pads(const Window2d& window) noexcept { return !(window.padding == Padding2d{}); }

/// Positions along one axis whose taps are valid alike: visited class by class.
class AxisClasses {
public:
    constexpr AxisClasses(index_t out, index_t stride, index_t padding, index_t dilation, index_t kernel,
                          index_t extent) noexcept
        : out_(out), stride_(stride), padding_(padding), dilation_(dilation), kernel_(kernel), extent_(extent) {}

    constexpr ValidTaps taps(index_t at) const noexcept {
        return valid_taps(at, stride_, padding_, dilation_, kernel_, extent_);
    }
    /// The next position after `at` of the same class; out where there is none.
    constexpr index_t next(index_t at) const noexcept {
        const ValidTaps same = taps(at);
        do ++at;
        while (at < out_ && !(taps(at) == same));
        return at;
    }
    /// Whether no earlier position is of the same class.
    constexpr bool leads(index_t at) const noexcept {
        for (index_t i = 0; i < at; ++i)
            if (taps(i) == taps(at)) return false;
        return true;
    }

private:
    index_t out_, stride_, padding_, dilation_, kernel_, extent_;
};

/// Writes the arrays of a geometry, slot by slot.
struct GeometryWriter {
    const Window2d& window;
    const ConvGeometry& geometry;
    std::int32_t* offsets;
    std::int32_t* pixels;
    std::int32_t* run_ends;
    index_t slot = 0;

    void write_pixel(index_t oy, index_t ox) noexcept {
        if (pixels != nullptr) pixels[slot] = static_cast<std::int32_t>(oy * geometry.out.width + ox);
        ++slot;
        for (index_t ky = 0; ky < window.kernel.height; ++ky)
            for (index_t kx = 0; kx < window.kernel.width; ++kx) {
                const index_t y = oy * window.stride.height + ky * window.dilation.height - window.padding.top;
                const index_t x = ox * window.stride.width + kx * window.dilation.width - window.padding.left;
                const bool inside = y >= 0 && y < geometry.in.height && x >= 0 && x < geometry.in.width;
                *offsets++ = static_cast<std::int32_t>(inside ? y * geometry.in.width + x : -1);
            }
    }
    /// All pixels whose rows are of one class and whose columns are of one class.
    void write_class(const AxisClasses& rows, index_t first_row, const AxisClasses& columns,
                     index_t first_column) noexcept {
        const index_t first = slot;
        for (index_t oy = first_row; oy < geometry.out.height; oy = rows.next(oy))
            for (index_t ox = first_column; ox < geometry.out.width; ox = columns.next(ox)) write_pixel(oy, ox);
        for (index_t i = first; i < slot; ++i) run_ends[i] = static_cast<std::int32_t>(slot);
    }
    void write_classes() noexcept {
        const AxisClasses rows(geometry.out.height, window.stride.height, window.padding.top, window.dilation.height,
                               window.kernel.height, geometry.in.height);
        const AxisClasses columns(geometry.out.width, window.stride.width, window.padding.left, window.dilation.width,
                                  window.kernel.width, geometry.in.width);
        for (index_t oy = 0; oy < geometry.out.height; ++oy) {
            if (!rows.leads(oy)) continue;
            for (index_t ox = 0; ox < geometry.out.width; ++ox)
                if (columns.leads(ox)) write_class(rows, oy, columns, ox);
        }
    }
    void write_in_order() noexcept {
        for (index_t oy = 0; oy < geometry.out.height; ++oy)
            for (index_t ox = 0; ox < geometry.out.width; ++ox) write_pixel(oy, ox);
    }
};

}  // namespace detail

/// Bytes that make_conv2d_geometry needs; 0 where the input is read in place.
constexpr index_t conv2d_geometry_size(const Window2d& window, Size2d in) noexcept {
    if (detail::reads_in_place(window)) return 0;
    const Size2d out = output_size(window, in);
    const index_t words = window.kernel.height * window.kernel.width + (detail::pads(window) ? 2 : 0);
    return out.height * out.width * words * static_cast<index_t>(sizeof(std::int32_t));
}

/// Builds the geometry of a window for one image size.
///
/// @param storage  conv2d_geometry_size() bytes, aligned to 4; must outlive the geometry
/// @return shape_mismatch where no output pixel exists or an image has 2^31 pixels; buffer_too_small
///
/// Cost     O(output pixels · taps + classes · (output height + width)²)
inline Result<ConvGeometry> make_conv2d_geometry(const Window2d& window, index_t batch, Size2d in,
                                                 Workspace storage) noexcept {
    if (const Status status = check_window(window, OpKind::conv2d); !status) return status;
    ConvGeometry geometry{};
    geometry.batch = batch;
    geometry.in = in;
    geometry.out = output_size(window, in);
    geometry.taps = window.kernel.height * window.kernel.width;
    if (batch < 0) return Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::input, batch, 0};
    if (geometry.out_pixels() <= 0) return Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::output, 0, 1};
    for (const index_t pixels : {geometry.in_pixels(), geometry.out_pixels()})
        if (pixels > INT32_MAX)
            return Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::input, pixels, INT32_MAX};
    const index_t bytes = conv2d_geometry_size(window, in);
    if (bytes == 0) return geometry;
    if (storage.data == nullptr || storage.size < bytes)
        return Status{StatusCode::buffer_too_small, OpKind::conv2d, Field::geometry, storage.size, bytes};
    auto* const offsets = reinterpret_cast<std::int32_t*>(storage.data);
    geometry.offsets = offsets;
    if (!detail::pads(window)) {
        detail::GeometryWriter{window, geometry, offsets, nullptr, nullptr}.write_in_order();
        return geometry;
    }
    std::int32_t* const pixels = offsets + geometry.out_pixels() * geometry.taps;
    std::int32_t* const run_ends = pixels + geometry.out_pixels();
    detail::GeometryWriter{window, geometry, offsets, pixels, run_ends}.write_classes();
    geometry.pixels = pixels;
    geometry.run_ends = run_ends;
    return geometry;
}

/// Whether a geometry was made for this window.
constexpr bool is_geometry_of(const Window2d& window, const ConvGeometry& geometry) noexcept {
    return geometry.taps == window.kernel.height * window.kernel.width &&
           geometry.out == output_size(window, geometry.in) &&
           (geometry.offsets == nullptr) == detail::reads_in_place(window) &&
           (geometry.pixels != nullptr) == detail::pads(window) &&
           (geometry.run_ends != nullptr) == detail::pads(window);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_GEOMETRY_HPP
