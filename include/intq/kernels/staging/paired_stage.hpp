// SPDX-License-Identifier: MIT
//
// Staging of paired activations: the windows of one tile of output pixels, side by side. Layer: kernels.
#ifndef INTQ_KERNELS_STAGING_PAIRED_STAGE_HPP
#define INTQ_KERNELS_STAGING_PAIRED_STAGE_HPP

#include <cstdint>
#include <cstring>

#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/packing/input_form.hpp"
#include "intq/simd/tiles/paired_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Writes the codes of a window, a multiple of four at a time, as words of a tile.
///
/// @tparam X     the type of the codes
/// @tparam Rows  of the tile: an integral constant, or int where one code serves all
template <class Backend, class X, class Rows> class PairedWords {
    using Tile = simd::PairedTile<Backend>;

public:
    /// @param to    the first word of the pixel's row
    /// @param code  of padding
    INTQ_ALWAYS_INLINE PairedWords(std::int32_t* to, Rows rows, std::int32_t code) noexcept
        : to_(to),
          rows_(rows),
          padding_(static_cast<std::int32_t>(static_cast<std::uint32_t>(code & 0xffff) * 0x10001u)) {}

    INTQ_ALWAYS_INLINE void copy(const X* from, index_t count) noexcept {
        const X* const end = from + count;
        if constexpr (!INTQ_SMALL) {
            for (const X* const last = end - count % 16; from != last; from += 16, to_ += 8 * rows_) {
                INTQ_UNROLL
                for (int i = 0; i < 4; ++i) Tile::stage(from + 4 * i, to_ + 2 * rows_ * i, rows_);
            }
        }
        for (; from != end; from += 4, to_ += 2 * rows_) Tile::stage(from, to_, rows_);
    }
    INTQ_ALWAYS_INLINE void fill(index_t count) noexcept {
        for (std::int32_t* const end = to_ + count / 2 * rows_; to_ != end; to_ += rows_) *to_ = padding_;
    }

private:
    std::int32_t* to_;
    [[no_unique_address]] Rows rows_;
    std::int32_t padding_;
};

/// Writes them as they are, one behind the other.
template <class X> class PairedCodes {
public:
    INTQ_ALWAYS_INLINE PairedCodes(X* to, std::int32_t code) noexcept : to_(to), padding_(static_cast<X>(code)) {}

    /// Words, of which the last ones overlap.
    INTQ_ALWAYS_INLINE void copy(const X* from, index_t count) noexcept {
        if (count >= 4) {
            for (index_t i = 0; i + 4 <= count; i += 4) std::memcpy(to_ + i, from + i, 4 * sizeof(X));
            if (count % 4 != 0) std::memcpy(to_ + count - 4, from + count - 4, 4 * sizeof(X));
            to_ += count;
        } else {
            for (; count > 0; --count) *to_++ = *from++;
        }
    }
    INTQ_ALWAYS_INLINE void fill(index_t count) noexcept {
        for (; count > 0; --count) *to_++ = padding_;
    }

private:
    X* to_;
    X padding_;
};

/// Writes words or codes, where code is to be small: one walk over the window serves both.
template <class Backend, class X> class PairedSink {
public:
    INTQ_ALWAYS_INLINE PairedSink(const PairedWords<Backend, X, int>& words, const PairedCodes<X>& codes,
                                  bool gathers) noexcept
        : words_(words), codes_(codes), gathers_(gathers) {}

    INTQ_OUT_OF_LINE void copy(const X* from, index_t count) noexcept {
        gathers_ ? codes_.copy(from, count) : words_.copy(from, count);
    }
    INTQ_OUT_OF_LINE void fill(index_t count) noexcept { gathers_ ? codes_.fill(count) : words_.fill(count); }
    /// The words of the codes.
    INTQ_ALWAYS_INLINE void copy_gathered(const X* codes, index_t count) noexcept {
        if (!gathers_) return;
        gathers_ = false;
        copy(codes, count);
    }

private:
    PairedWords<Backend, X, int> words_;
    PairedCodes<X> codes_;
    bool gathers_;
};

/// The windows of a group of channels, pixel by pixel in the order of the output.
///
///     row of a pixel = x[window row][window column][channel of the group], padding as the zero point
///
/// Four codes at a time become two words, for which the parts of a window that lie in the image must be whole words.
/// Where channels are no multiple of four, the window is first gathered as codes.
template <class Backend, class X> class PairedStager {
public:
    /// @param words  the tile, and behind it the codes of a window
    PairedStager(const ConvCall& call, index_t group, std::byte* words) noexcept
        : packed_(*call.packed),
          in_(call.geometry->in),
          out_(call.geometry->out),
          pixel_stride_(packed_.in_channels),
          line_stride_(in_.width * pixel_stride_),
          image_(static_cast<const X*>(call.x) + group * packed_.group_inputs()),
          words_(reinterpret_cast<std::int32_t*>(words)),
          codes_(reinterpret_cast<X*>(words + paired_words_bytes(packed_, *call.geometry))),
          channels_(packed_.group_inputs()),
          is_run_(packed_.groups == 1 && packed_.window.dilation.width == 1),
          above_(padding_above(packed_.window, *call.geometry)) {
        if (channels_ % 4 == 0) return;
        const index_t codes = packed_.taps() * channels_, size = packed_.column_size();
        for (index_t i = codes; i < size; ++i) codes_[i] = 0;  // their weights are zero too
    }

    /// Makes a pixel the next one.
    INTQ_ALWAYS_INLINE void go_to(index_t pixel) noexcept {
        const index_t line = pixel / out_.width, image = line / out_.height;
        row_ = line - image * out_.height;
        column_ = pixel - line * out_.width;
        top_ = row_ * packed_.window.stride.height - above_;
        left_ = column_ * packed_.window.stride.width - packed_.window.padding.left;
        image_ += (image - at_image_) * in_.height * line_stride_;
        at_image_ = image;
    }

    /// The words of the next `count` pixels in a tile of so many rows.
    template <class Rows> INTQ_ALWAYS_INLINE const std::int32_t* tile(Rows rows, index_t count) noexcept {
        for (index_t r = 0; r < count; ++r) {
            stage_pixel(rows, words_ + r);
            next();
        }
        return words_;
    }

private:
    template <class Rows> INTQ_ALWAYS_INLINE void stage_pixel(Rows rows, std::int32_t* to) noexcept {
        PairedWords<Backend, X, Rows> words(to, rows, packed_.input_zero_point);
        PairedCodes<X> codes(codes_, packed_.input_zero_point);
        if constexpr (INTQ_SMALL) {
            PairedSink<Backend, X> sink(words, codes, channels_ % 4 != 0);
            visit(sink);
            sink.copy_gathered(codes_, packed_.column_size());
            return;
        }
        const Size2d kernel = packed_.window.kernel;
        const bool is_inside =
            !pads(packed_.window) ||
            (top_ >= 0 && left_ >= 0 && top_ + (kernel.height - 1) * packed_.window.dilation.height < in_.height &&
             left_ + kernel.width <= in_.width);
        if (is_run_ && is_inside && kernel.width * channels_ % 4 == 0) return visit_inside(words);
        if (channels_ % 4 == 0) return visit(words);
        if (is_run_ && is_inside)
            visit_inside(codes);
        else
            visit(codes);
        words.copy(codes_, packed_.column_size());
    }

    /// The window of a pixel without padding, whose rows are runs.
    template <class Sink> INTQ_ALWAYS_INLINE void visit_inside(Sink& sink) const noexcept {
        const X* line = image_ + top_ * line_stride_ + left_ * pixel_stride_;
        for (index_t ky = 0; ky < packed_.window.kernel.height; ++ky) {
            sink.copy(line, packed_.window.kernel.width * channels_);
            line += packed_.window.dilation.height * line_stride_;
        }
    }

    /// The window of the pixel, row by row.
    template <class Sink> INTQ_ALWAYS_INLINE void visit(Sink& sink) const noexcept {
        const Window2d& window = packed_.window;
        const X* line = image_ + top_ * line_stride_;
        index_t y = top_;
        for (index_t ky = 0; ky < window.kernel.height; ++ky) {
            if (y < 0 || y >= in_.height)
                sink.fill(window.kernel.width * channels_);
            else if (!INTQ_SMALL && is_run_)
                visit_run(sink, line);
            else
                visit_taps(sink, line);
            y += window.dilation.height;
            line += window.dilation.height * line_stride_;
        }
    }
    /// The taps of a row, which lie beside each other.
    template <class Sink> INTQ_ALWAYS_INLINE void visit_run(Sink& sink, const X* line) const noexcept {
        const index_t width = packed_.window.kernel.width;
        const index_t before = left_ < 0 ? (-left_ < width ? -left_ : width) : 0, room = in_.width - left_;
        const index_t last = room < width ? (room > before ? room : before) : width;
        sink.fill(before * channels_);
        sink.copy(line + (left_ + before) * pixel_stride_, (last - before) * channels_);
        sink.fill((width - last) * channels_);
    }
    template <class Sink> INTQ_ALWAYS_INLINE void visit_taps(Sink& sink, const X* line) const noexcept {
        index_t x = left_;
        for (index_t kx = 0; kx < packed_.window.kernel.width; ++kx, x += packed_.window.dilation.width) {
            if (x < 0 || x >= in_.width)
                sink.fill(channels_);
            else
                sink.copy(line + x * pixel_stride_, channels_);
        }
    }

    INTQ_ALWAYS_INLINE void next() noexcept {
        const Window2d& window = packed_.window;
        left_ += window.stride.width;
        if (++column_ < out_.width) return;
        column_ = 0;
        left_ = -window.padding.left;
        top_ += window.stride.height;
        if (++row_ < out_.height) return;
        row_ = 0;
        top_ = -above_;
        image_ += in_.height * line_stride_;
        ++at_image_;
    }

    const PackedConv2d& packed_;
    Size2d in_, out_;
    index_t pixel_stride_, line_stride_;
    const X* image_;
    std::int32_t* words_;
    X* codes_;
    index_t channels_;
    bool is_run_;
    index_t at_image_ = 0, row_ = 0, column_ = 0;  // of the next pixel
    index_t above_, top_ = -above_, left_ = -packed_.window.padding.left;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STAGING_PAIRED_STAGE_HPP
