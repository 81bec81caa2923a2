// SPDX-License-Identifier: MIT
//
// Staging of windows: the columns that some output pixels of a line read. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_WINDOW_STAGE_HPP
#define INTQ_KERNELS_CONV_WINDOW_STAGE_HPP

#include <cstdint>
#include <cstring>

#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/packing/input_form.hpp"
#include "intq/simd/tiles/window_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Writes columns as WindowLayout says, padding as the zero point.
template <class Backend> class WindowStager {
    using Tile = simd::WindowTile<Backend>;
    static constexpr index_t most = 16;  // bytes of a cell

public:
    /// @param to  the first column
    WindowStager(const ConvCall& call, index_t group, const WindowLayout& layout, std::int8_t* to) noexcept
        : packed_(*call.packed),
          in_(call.geometry->in),
          at_(layout),
          x_(static_cast<const std::int8_t*>(call.x) + group * packed_.group_inputs()),
          to_(to),
          pixel_(packed_.in_channels),
          line_(in_.width * pixel_),
          channels_(packed_.group_inputs()) {}

    /// The windows of `count` pixels of an output line from column `first` on.
    void stage(index_t image, index_t line, index_t first, index_t count) const noexcept {
        const Window2d& window = packed_.window;
        const std::int8_t* const x = x_ + image * in_.height * line_;
        const index_t top = line * window.stride.height - window.padding.top;
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
    void fill(std::int8_t* to, index_t bytes) const noexcept {
        std::memset(to, packed_.input_zero_point, static_cast<std::size_t>(bytes));
    }

    const PackedConv2d& packed_;
    Size2d in_;
    const WindowLayout& at_;
    const std::int8_t* x_;
    std::int8_t* to_;
    index_t pixel_, line_, channels_;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_WINDOW_STAGE_HPP
