// SPDX-License-Identifier: MIT
//
// Staging: the windows of eight output pixels interleaved eight bytes at a time, as tiles of matrix products read them.
// Layer: kernels (docs/gemm.md).
#ifndef INTQ_KERNELS_STAGING_INTERLEAVED_STAGE_HPP
#define INTQ_KERNELS_STAGING_INTERLEAVED_STAGE_HPP

#include <cstring>

#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/packing/interleaved_layout.hpp"
#include "intq/kernels/window/geometry.hpp"
#include "intq/simd/tiles/matrix_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Writes tiles of output pixels of one group.
///
///     to[d / 8][r][d mod 8] = x(pixel r, tap d / inputs, channel d mod inputs),   0 behind the last tap
///
/// A tap on padding has the zero point. A tile of fewer pixels repeats its last one. Bytes behind the tile, as many as
/// a column of weights, may be written too.
template <class Backend> class InterleavedStager {
    using Tile = simd::MatrixTile<Backend>;
    static constexpr int rows = static_cast<int>(simd::matrix_rows);
    static_assert(simd::matrix_rows == interleaved_tile_rows, "the workspace holds a tile");

public:
    InterleavedStager(const ConvCall& call, index_t group) noexcept
        : packed_(*call.packed),
          in_(call.geometry->in),
          out_(call.geometry->out),
          inputs_(packed_.group_inputs()),
          stride_(packed_.in_channels),
          above_(padding_above(packed_.window, *call.geometry)),
          x_(static_cast<const std::int8_t*>(call.x) + group * inputs_) {
        std::memset(padding_, packed_.input_zero_point, sizeof padding_);
    }

    /// The tile of `count` pixels from `pixel` on.
    void write(index_t pixel, index_t count, std::int8_t* to) const noexcept {
        if (reads_in_place(packed_.window) && inputs_ % simd::matrix_depth == 0)
            return write_in_place(pixel, count, to);
        Place places[rows];
        for (int r = 0; r < rows; ++r) places[r] = place_of(pixel + (r < count ? r : count - 1));
        if (inputs_ % simd::matrix_depth == 0)
            write_taps(places, to);
        else
            write_gathered(places, to);
    }

private:
    /// Where the window of a pixel begins.
    struct Place {
        const std::int8_t* image;
        index_t top, left;
    };

    Place place_of(index_t pixel) const noexcept {
        const index_t line = pixel / out_.width, image = line / out_.height;
        const Size2d stride = packed_.window.stride;
        return {x_ + image * in_.height * in_.width * stride_, (line - image * out_.height) * stride.height - above_,
                (pixel - line * out_.width) * stride.width - packed_.window.padding.left};
    }
    bool is_inside(index_t y, index_t x) const noexcept { return y >= 0 && y < in_.height && x >= 0 && x < in_.width; }
    const std::int8_t* tap(const Place& place, index_t y, index_t x) const noexcept {
        return place.image + ((place.top + y) * in_.width + place.left + x) * stride_;
    }

    void write_in_place(index_t pixel, index_t count, std::int8_t* to) const noexcept {
        const std::int8_t* from[rows];
        for (int r = 0; r < rows; ++r) from[r] = x_ + (pixel + (r < count ? r : count - 1)) * stride_;
        Tile::interleave(from, inputs_, to);
    }

    /// Taps of whole groups: where a row of the window is one run in all pixels, together.
    void write_taps(const Place* places, std::int8_t* to) const noexcept {
        const Window2d& window = packed_.window;
        const bool are_runs = packed_.groups == 1 && window.dilation.width == 1;
        const std::int8_t* from[rows];
        for (index_t ky = 0; ky < window.kernel.height; ++ky) {
            const index_t y = ky * window.dilation.height;
            bool is_run = are_runs;
            for (int r = 0; r < rows; ++r)
                is_run = is_run && is_inside(places[r].top + y, places[r].left) &&
                         places[r].left + window.kernel.width <= in_.width;
            if (is_run) {
                for (int r = 0; r < rows; ++r) from[r] = tap(places[r], y, 0);
                Tile::interleave(from, window.kernel.width * inputs_, to);
                to += window.kernel.width * inputs_ * rows;
                continue;
            }
            for (index_t kx = 0; kx < window.kernel.width; ++kx, to += inputs_ * rows)
                write_tap(places, y, kx * window.dilation.width, to);
        }
    }
    /// One tap; padding is read in parts.
    void write_tap(const Place* places, index_t y, index_t x, std::int8_t* to) const noexcept {
        bool inside[rows];
        for (int r = 0; r < rows; ++r) inside[r] = is_inside(places[r].top + y, places[r].left + x);
        for (index_t k = 0; k < inputs_; k += padding_bytes) {
            const index_t bytes = inputs_ - k < padding_bytes ? inputs_ - k : padding_bytes;
            const std::int8_t* from[rows];
            for (int r = 0; r < rows; ++r) from[r] = inside[r] ? tap(places[r], y, x) + k : padding_;
            Tile::interleave(from, bytes, to + k * rows);
        }
    }

    /// Taps that end within a group: each pixel's window is gathered behind the tile, and then dealt to it.
    void write_gathered(const Place* places, std::int8_t* to) const noexcept {
        const index_t size = packed_.column_size();
        std::int8_t* const line = to + rows * size;
        std::memset(line + size - simd::matrix_depth, 0, simd::matrix_depth);  // behind the last tap
        for (int r = 0; r < rows; ++r) {
            gather(places[r], line);
            for (index_t d = 0; d < size; d += simd::matrix_depth)
                std::memcpy(to + d * rows + r * simd::matrix_depth, line + d, simd::matrix_depth);
        }
    }
    void gather(const Place& place, std::int8_t* to) const noexcept {
        const Window2d& window = packed_.window;
        const index_t height = window.kernel.height, run = window.kernel.width * inputs_;
        const index_t last = place.top + (height - 1) * window.dilation.height;
        if (packed_.groups == 1 && window.dilation.width == 1 && is_inside(place.top, place.left) &&
            place.left + window.kernel.width <= in_.width && last < in_.height) {
            const index_t line = window.dilation.height * in_.width * stride_;
            const std::int8_t* from = tap(place, 0, 0);
            for (index_t ky = 0; ky < height; ++ky, from += line, to += run) copy(from, run, to);
            return;
        }
        for (index_t ky = 0; ky < height; ++ky)
            for (index_t kx = 0; kx < window.kernel.width; ++kx, to += inputs_) {
                const index_t y = ky * window.dilation.height, x = kx * window.dilation.width;
                if (is_inside(place.top + y, place.left + x))
                    copy(tap(place, y, x), inputs_, to);
                else
                    std::memset(to, packed_.input_zero_point, static_cast<std::size_t>(inputs_));
            }
    }
    /// A run of few bytes, for which a call takes longer than the copy: the last eight may overlap those before them.
    static INTQ_ALWAYS_INLINE void copy(const std::int8_t* from, index_t bytes, std::int8_t* to) noexcept {
        if (bytes < 8) {
            for (index_t i = 0; i < bytes; ++i) to[i] = from[i];
            return;
        }
        for (index_t i = 0; i + 8 < bytes; i += 8) std::memcpy(to + i, from + i, 8);
        std::memcpy(to + bytes - 8, from + bytes - 8, 8);
    }

    static constexpr index_t padding_bytes = 64;
    const PackedConv2d& packed_;
    Size2d in_, out_;
    index_t inputs_, stride_, above_;
    const std::int8_t* x_;
    std::int8_t padding_[padding_bytes];
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STAGING_INTERLEAVED_STAGE_HPP
