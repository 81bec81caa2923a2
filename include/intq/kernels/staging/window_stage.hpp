// SPDX-License-Identifier: MIT
//
// Staging of windows: the columns that some output pixels of a line read. Layer: kernels.
#ifndef INTQ_KERNELS_STAGING_WINDOW_STAGE_HPP
#define INTQ_KERNELS_STAGING_WINDOW_STAGE_HPP

#include <cstdint>
#include <cstring>

#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/packing/input_form.hpp"
#include "intq/simd/tiles/window_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Writes columns of codes X as WindowLayout says, padding as the zero point.
template <class Backend, class X> class WindowStager {
    using Tile = simd::WindowTile<Backend>;
    static constexpr auto element = static_cast<index_t>(sizeof(X));
    static constexpr index_t most = 16;  // bytes of a cell

public:
    /// @param to  the first column
    WindowStager(const ConvCall& call, index_t group, const WindowLayout& layout, std::int8_t* to) noexcept
        : packed_(*call.packed),
          in_(call.geometry->in),
          above_(padding_above(packed_.window, *call.geometry)),
          at_(layout),
          x_(static_cast<const std::int8_t*>(call.x) + group * packed_.group_inputs() * element),
          to_(to),
          pixel_(packed_.in_channels * element),
          line_(in_.width * pixel_),
          channels_(packed_.group_inputs() * element) {}

    /// The windows of `count` pixels of an output line from column `first` on.
    void stage(index_t image, index_t line, index_t first, index_t count) const noexcept {
        const Window2d& window = packed_.window;
        const std::int8_t* const x = x_ + image * in_.height * line_;
        const index_t top = line * window.stride.height - above_;
        index_t left = first * window.stride.width - window.padding.left;
        if (at_.shares) return stage_columns(x, top, left, 1, (count - 1) * at_.pitch + window.kernel.width, to_);
        for (std::int8_t* to = to_; count > 0; --count, left += window.stride.width, to += at_.pitch * at_.column)
            stage_columns(x, top, left, window.dilation.width, window.kernel.width, to);
    }

private:
    /// `count` columns of the image, `step` apart.
    void stage_columns(const std::int8_t* x, index_t top, index_t left, index_t step, index_t count,
                       std::int8_t* to) const noexcept {
        index_t before = 0;
        while (before < count && left + before * step < 0) ++before;
        index_t end = count;
        while (end > before && left + (end - 1) * step >= in_.width) --end;
        fill(to, before * at_.column);
        fill(to + end * at_.column, (count - end) * at_.column);
        if (end == before) return;
        to += before * at_.column;
        const std::int8_t* from = x + top * line_ + (left + before * step) * pixel_;
        for (index_t ky = 0; ky < packed_.window.kernel.height; ++ky, to += channels_) {
            const index_t y = top + ky * packed_.window.dilation.height;
            if (y < 0 || y >= in_.height)
                fill_row(to, end - before);
            else
                copy_row(from, to, end - before, step * pixel_);
            from += packed_.window.dilation.height * line_;
        }
    }
    void copy_row(const std::int8_t* from, std::int8_t* to, index_t count, index_t step) const noexcept {
        for (index_t c = 0; c < channels_; c += most)
            Tile::copy_cells(from + c, to + c, count, step, at_.column, channels_ - c < most ? channels_ - c : most);
    }
    void fill_row(std::int8_t* to, index_t count) const noexcept {
        for (; count > 0; --count, to += at_.column) fill(to, channels_);
    }
    /// The zero point of int16 is 0.
    void fill(std::int8_t* to, index_t bytes) const noexcept {
        std::memset(to, sizeof(X) == 1 ? packed_.input_zero_point : 0, static_cast<std::size_t>(bytes));
    }

    const PackedConv2d& packed_;
    Size2d in_;
    index_t above_;
    const WindowLayout& at_;
    const std::int8_t* x_;
    std::int8_t* to_;
    index_t pixel_, line_, channels_;  // bytes
};

/// Pixels whose windows are equally far apart, staged or where they lie.
struct WindowRun {
    const std::int8_t* x;
    index_t pitch;  // bytes
    index_t first;  // among all output pixels
    index_t count;
};

/// run_pixels(group, run, layout) for all pixels, in runs.
template <class Backend, class X, class RunPixels>
INTQ_ALWAYS_INLINE void for_each_window_run(const ConvCall& call, RunPixels&& run_pixels) INTQ_NOEXCEPT {
    const PackedConv2d& packed = *call.packed;
    const ConvGeometry& geometry = *call.geometry;
    constexpr auto element = static_cast<index_t>(sizeof(X));
    const WindowLayout layout(packed, geometry, element);
    auto* const staged = reinterpret_cast<std::int8_t*>(call.workspace) + layout.sums;
    const Size2d out = geometry.out;
    for (index_t group = 0; group < packed.groups; ++group) {
        const index_t pixel = packed.in_channels * element;
        const auto* const x = static_cast<const std::int8_t*>(call.x) + group * packed.group_inputs() * element;
        if (layout.in_place && packed.window.stride == Size2d{}) {  // all pixels are beside each other
            run_pixels(group, {x, pixel, 0, geometry.batch * geometry.out_pixels()}, layout);
            continue;
        }
        const WindowStager<Backend, X> stager(call, group, layout, staged);
        for (index_t line = 0; line < geometry.batch * out.height; ++line) {
            const index_t image = line / out.height, row = line - image * out.height;
            if (layout.in_place) {
                const index_t from = (image * geometry.in.height + row * packed.window.stride.height);
                run_pixels(group,
                           {x + from * geometry.in.width * pixel, packed.window.stride.width * pixel, line * out.width,
                            out.width},
                           layout);
                continue;
            }
            for (index_t first = 0; first < out.width; first += layout.pixels) {
                const index_t left = out.width - first, count = left < layout.pixels ? left : layout.pixels;
                stager.stage(image, row, first, count);
                run_pixels(group, {staged, layout.pitch * layout.column, line * out.width + first, count}, layout);
            }
        }
    }
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STAGING_WINDOW_STAGE_HPP
