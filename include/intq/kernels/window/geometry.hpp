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

/// The indirection of a convolution: for each output pixel and tap the input pixel, or -1 on padding.
///
///     offsets[slot · taps + tap] = y·width + x of the tap's input pixel in its image
///
/// A slot is a place in the order of computing. Pixels with the same taps on padding are adjacent, so a tile of rows
/// skips a padded tap as a whole. The geometry is independent of channels and dtype. A 1×1 window with stride 1 and no
/// padding needs none (offsets is null): output pixel p reads input pixel p.
///
/// Only read by a run, so any number of threads may share one.
struct ConvGeometry {
    index_t batch = 0;
    Size2d in{0, 0};
    Size2d out{0, 0};
    index_t taps = 1;
    const std::int32_t* offsets = nullptr;
    /// (out_pixels()) the output pixel of each slot; null where slots are in image order.
    const std::int32_t* pixels = nullptr;
    /// (out_pixels()) for each slot, the first later one whose padding differs; null where no tap falls on padding.
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

    /// Windows that lie in padding as a whole are alike.
    constexpr ValidTaps taps(index_t at) const noexcept {
        const ValidTaps taps = valid_taps(at, stride_, padding_, dilation_, kernel_, extent_);
        return taps.first < taps.last ? taps : ValidTaps{0, 0};
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

/// Goes over the slots of a geometry in the order of computing.
///
/// @tparam Take  slot(slot, pixel), tap(index, input pixel or -1), run(first slot, one past the last): false ends it
template <class Take> class GeometryWalk {
public:
    constexpr GeometryWalk(const Window2d& window, const ConvGeometry& geometry, Take& take) noexcept
        : window_(window), geometry_(geometry), take_(take) {}

    /// Whether nothing was refused.
    bool go() noexcept { return pads(window_) ? classes() : in_order(); }

private:
    bool pixel(index_t oy, index_t ox) noexcept {
        const Size2d in = geometry_.in;
        if (!take_.slot(slot_, oy * geometry_.out.width + ox)) return false;
        index_t index = slot_++ * geometry_.taps;
        for (index_t ky = 0; ky < window_.kernel.height; ++ky)
            for (index_t kx = 0; kx < window_.kernel.width; ++kx, ++index) {
                const index_t y = oy * window_.stride.height + ky * window_.dilation.height - window_.padding.top;
                const index_t x = ox * window_.stride.width + kx * window_.dilation.width - window_.padding.left;
                const bool inside = y >= 0 && y < in.height && x >= 0 && x < in.width;
                if (!take_.tap(index, static_cast<std::int32_t>(inside ? y * in.width + x : -1))) return false;
            }
        return true;
    }
    /// All pixels whose rows are of one class and whose columns are of one class.
    bool pixels_of_class(const AxisClasses& rows, index_t first_row, const AxisClasses& columns,
                         index_t first_column) noexcept {
        const index_t first = slot_;
        for (index_t oy = first_row; oy < geometry_.out.height; oy = rows.next(oy))
            for (index_t ox = first_column; ox < geometry_.out.width; ox = columns.next(ox))
                if (!pixel(oy, ox)) return false;
        return take_.run(first, slot_);
    }
    bool classes() noexcept {
        const AxisClasses rows(geometry_.out.height, window_.stride.height, window_.padding.top,
                               window_.dilation.height, window_.kernel.height, geometry_.in.height);
        const AxisClasses columns(geometry_.out.width, window_.stride.width, window_.padding.left,
                                  window_.dilation.width, window_.kernel.width, geometry_.in.width);
        for (index_t oy = 0; oy < geometry_.out.height; ++oy) {
            if (!rows.leads(oy)) continue;
            for (index_t ox = 0; ox < geometry_.out.width; ++ox)
                if (columns.leads(ox) && !pixels_of_class(rows, oy, columns, ox)) return false;
        }
        return true;
    }
    bool in_order() noexcept {
        for (index_t oy = 0; oy < geometry_.out.height; ++oy)
            for (index_t ox = 0; ox < geometry_.out.width; ++ox)
                if (!pixel(oy, ox)) return false;
        return true;
    }

    const Window2d& window_;
    const ConvGeometry& geometry_;
    Take& take_;
    index_t slot_ = 0;
};

/// Writes the arrays of a geometry.
struct GeometryWriter {
    std::int32_t* offsets;
    std::int32_t* pixels;
    std::int32_t* run_ends;

    bool slot(index_t slot, index_t pixel) noexcept {
        if (pixels != nullptr) pixels[slot] = static_cast<std::int32_t>(pixel);
        return true;
    }
    bool tap(index_t index, std::int32_t pixel) noexcept {
        offsets[index] = pixel;
        return true;
    }
    bool run(index_t first, index_t last) noexcept {
        for (index_t i = first; i < last; ++i) run_ends[i] = static_cast<std::int32_t>(last);
        return true;
    }
};

/// Compares them with the arrays that would be written.
struct GeometryReader {
    const ConvGeometry& geometry;

    bool slot(index_t slot, index_t pixel) noexcept {
        return geometry.pixels == nullptr || geometry.pixels[slot] == pixel;
    }
    bool tap(index_t index, std::int32_t pixel) noexcept { return geometry.offsets[index] == pixel; }
    bool run(index_t first, index_t last) noexcept {
        for (index_t i = first; i < last; ++i)
            if (geometry.run_ends[i] != last) return false;
        return true;
    }
};

/// Largest extent of the arrays, so that no buffer size leaves index_t.
inline constexpr index_t largest_geometry = PTRDIFF_MAX / 8;

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
    const index_t words = window.kernel.height * window.kernel.width + 2;
    if (!product_fits(largest_geometry, out.height, out.width, words))
        return {StatusCode::value_out_of_range, op, Field::geometry, words,
                largest_geometry / (out.height * out.width)};
    return {};
}

}  // namespace detail

/// Bytes that make_conv2d_geometry needs; 0 where the input is read in place, and for a window or image that it
/// refuses.
constexpr index_t conv2d_geometry_size(const Window2d& window, Size2d in) noexcept {
    if (!detail::check_geometry_extents(window, in).ok() || detail::reads_in_place(window)) return 0;
    const Size2d out = output_size(window, in);
    const index_t words = window.kernel.height * window.kernel.width + (detail::pads(window) ? 2 : 0);
    return out.height * out.width * words * static_cast<index_t>(sizeof(std::int32_t));
}

/// The extents of a geometry without its arrays; the errors of make_conv2d_geometry() except of memory.
inline Result<ConvGeometry> conv2d_geometry_extents(const Window2d& window, index_t batch, Size2d in) noexcept {
    if (const Status status = detail::check_geometry_extents(window, in); !status) return status;
    if (batch < 0 || batch > largest_extent)
        return Status{StatusCode::value_out_of_range, OpKind::conv2d, Field::input, batch,
                      batch < 0 ? 0 : largest_extent};
    ConvGeometry geometry{};
    geometry.batch = batch;
    geometry.in = in;
    geometry.out = output_size(window, in);
    geometry.taps = window.kernel.height * window.kernel.width;
    return geometry;
}

/// Builds the geometry of a window for one image size.
///
/// @param storage  conv2d_geometry_size() bytes, aligned to 4; must outlive the geometry
/// @param batch    0 is legal: a run of it reads and writes nothing
/// @return the errors of check_window(), check_image() and check_span(); value_out_of_range where an image has 2^31
///         pixels or the batch is negative; buffer_too_small, missing or misaligned geometry
///
/// Cost     O(output pixels · taps + classes · (output height + width)²)
inline Result<ConvGeometry> make_conv2d_geometry(const Window2d& window, index_t batch, Size2d in,
                                                 Workspace storage) noexcept {
    const Result<ConvGeometry> extents = conv2d_geometry_extents(window, batch, in);
    if (!extents) return extents.status();
    ConvGeometry geometry = *extents;
    const index_t bytes = conv2d_geometry_size(window, in);
    if (bytes == 0) return geometry;
    if (storage.size < bytes)
        return Status{StatusCode::buffer_too_small, OpKind::conv2d, Field::geometry, storage.size, bytes};
    if (storage.data == nullptr) return Status{StatusCode::missing, OpKind::conv2d, Field::geometry, 0, bytes};
    if (const auto beyond = reinterpret_cast<std::uintptr_t>(storage.data) % alignof(std::int32_t); beyond != 0)
        return Status{StatusCode::misaligned, OpKind::conv2d, Field::geometry, static_cast<index_t>(beyond),
                      alignof(std::int32_t)};
    auto* const offsets = reinterpret_cast<std::int32_t*>(storage.data);
    std::int32_t* const pixels = offsets + geometry.out_pixels() * geometry.taps;
    std::int32_t* const run_ends = pixels + geometry.out_pixels();
    const bool pads = detail::pads(window);
    detail::GeometryWriter writer{offsets, pads ? pixels : nullptr, pads ? run_ends : nullptr};
    detail::GeometryWalk(window, geometry, writer).go();
    geometry.offsets = offsets;
    geometry.pixels = writer.pixels;
    geometry.run_ends = writer.run_ends;
    return geometry;
}

/// Whether a geometry has the extents of a window.
/// @pre the window moves over its image: make_conv2d_geometry() takes both
constexpr bool has_extents_of(const Window2d& window, const ConvGeometry& geometry) noexcept {
    return geometry.taps == window.kernel.height * window.kernel.width &&
           geometry.out == output_size(window, geometry.in);
}

/// Whether a geometry was made for this window.
constexpr bool is_geometry_of(const Window2d& window, const ConvGeometry& geometry) noexcept {
    return has_extents_of(window, geometry) && (geometry.offsets == nullptr) == detail::reads_in_place(window) &&
           (geometry.pixels != nullptr) == detail::pads(window) &&
           (geometry.run_ends != nullptr) == detail::pads(window);
}

/// Whether its arrays, which may come from anywhere, are as make_conv2d_geometry() writes them.
///
/// @pre is_geometry_of(), for extents that make_conv2d_geometry() takes
/// Cost as make_conv2d_geometry()
inline bool holds_geometry(const Window2d& window, const ConvGeometry& geometry) noexcept {
    if (geometry.offsets == nullptr) return true;
    detail::GeometryReader reader{geometry};
    return detail::GeometryWalk(window, geometry, reader).go();
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_GEOMETRY_HPP
