// SPDX-License-Identifier: MIT
//
// The input of the GEMM skeleton: where the rows of a tile start. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_GEMM_INPUT_HPP
#define INTQ_KERNELS_CONV_GEMM_INPUT_HPP

#include "intq/kernels/conv/input_form.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Shared by the rows of one run: slot s of all images in the geometry's order -> pointers.
template <class X> class RowSource {
public:
    /// @param first  the slot that x starts with, of form blocks
    RowSource(const PackedConv2d& packed, const ConvGeometry& geometry, const X* x, index_t first = 0) noexcept
        : x_(x), channels_(packed.in_channels), out_pixels_(geometry.out_pixels()), first_(first) {
        switch (input_form(packed, geometry)) {
            case InputForm::padded: {
                const Size2d size = padded_size(packed.window, geometry.out);
                image_stride_ = size.height * size.width * channels_;
                line_stride_ = size.width * channels_ * packed.window.stride.height;
                pixel_stride_ = channels_ * packed.window.stride.width;
                tap_stride_ = size.width * channels_ * packed.window.dilation.height;
                width_ = geometry.out.width;
                height_ = geometry.out.height;
                break;
            }
            case InputForm::gathered:
            case InputForm::blocks:
                break;
            default:
                offsets_ = geometry.offsets;
                taps_ = geometry.taps;
                pixels_ = geometry.pixels;
                run_ends_ = geometry.run_ends;
                image_stride_ = geometry.in_pixels() * channels_;
        }
    }

    /// The end of the run of slots that begins at `slot` and has the same padding; at most `last`.
    index_t run_end(index_t slot, index_t last) const noexcept {
        if (run_ends_ == nullptr) return last;
        const index_t image = image_of(slot) * out_pixels_, end = image + run_ends_[slot - image];
        return end < last ? end : last;
    }

    /// The output pixel of the slot that is `r` behind the slot `first` of the same image, counted through all images.
    INTQ_ALWAYS_INLINE index_t pixel(index_t first, index_t r) const noexcept {
        if (pixels_ == nullptr) return first + r;
        const index_t image = image_of(first) * out_pixels_;
        return image + pixels_[first + r - image];
    }
    /// Whether slots follow each other as output pixels do.
    INTQ_ALWAYS_INLINE bool is_in_order() const noexcept { return pixels_ == nullptr; }
    /// Whether some tap of some slot falls on padding.
    bool has_padding() const noexcept { return run_ends_ != nullptr; }
    /// The end of the equally spaced rows from `slot` on, at most `last`: those of 1×1 windows and of matrices all are,
    /// those of images with margins in a line. Rows that have offsets are not: `slot`.
    INTQ_ALWAYS_INLINE index_t spaced_end(index_t slot, index_t last) const noexcept {
        if (offsets_ != nullptr) return slot;
        if (width_ == 0) return last;
        const index_t end = (slot / width_ + 1) * width_;
        return end < last ? end : last;
    }
    /// Where the row of a slot starts, and what is between two equally spaced ones, and between two taps of one.
    /// @pre spaced_end(slot, slot + 1) > slot
    INTQ_ALWAYS_INLINE const X* spaced_row(index_t slot) const noexcept {
        if (width_ == 0) return x_ + (slot - first_) * channels_;
        const X* start = nullptr;
        start_in_margins(x_, slot, 1, &start);
        return start;
    }
    INTQ_ALWAYS_INLINE index_t row_stride() const noexcept { return width_ == 0 ? channels_ : pixel_stride_; }
    INTQ_ALWAYS_INLINE index_t tap_stride() const noexcept { return tap_stride_; }

private:
    template <class, int> friend class RowPointers;
    /// A division is costly where tiles are small: one image needs none.
    INTQ_ALWAYS_INLINE index_t image_of(index_t slot) const noexcept {
        return slot < out_pixels_ ? 0 : slot / out_pixels_;
    }

    // For any number of rows, and not inlined: the same code serves every tile.
    INTQ_NEVER_INLINE void start_with_offsets(const X* x, index_t first_slot, int rows, const X** starts,
                                              const std::int32_t** offsets) const noexcept {
        const index_t image = image_of(first_slot);
        const std::int32_t* from = offsets_ + (first_slot - image * out_pixels_) * taps_;
        const std::int32_t* const end = offsets_ + out_pixels_ * taps_;
        const X* start = x + image * image_stride_;
        for (int r = 0; r < rows; ++r, from += taps_) {
            if (from == end) {
                from = offsets_;
                start += image_stride_;
            }
            starts[r] = start;
            offsets[r] = from;
        }
    }
    INTQ_NEVER_INLINE void start_in_margins(const X* x, index_t first_slot, int rows, const X** starts) const noexcept {
        const index_t image = image_of(first_slot), pixel = first_slot - image * out_pixels_;
        index_t oy = pixel / width_, ox = pixel - oy * width_;
        const X* image_start = x + image * image_stride_;
        const X* start = image_start + oy * line_stride_;
        for (int r = 0; r < rows; ++r, ++ox) {
            if (ox == width_) {
                ox = 0;
                start += line_stride_;
                if (++oy == height_) {
                    oy = 0;
                    start = image_start += image_stride_;
                }
            }
            starts[r] = start + ox * pixel_stride_;
        }
    }

    const X* x_;
    index_t channels_;
    index_t out_pixels_;
    index_t first_;
    const std::int32_t* offsets_ = nullptr;  // of form image, where it is not read in place
    const std::int32_t* pixels_ = nullptr;
    const std::int32_t* run_ends_ = nullptr;
    index_t taps_ = 1;
    index_t image_stride_ = 0;
    index_t width_ = 0, height_ = 0;  // of the output, for form padded; else 0
    index_t line_stride_ = 0, pixel_stride_ = 0, tap_stride_ = 0;
};

/// Where the rows of one tile start, tap by tap. All rows are of one run: padded alike.
template <class X, int Rows> class RowPointers {
public:
    INTQ_ALWAYS_INLINE RowPointers(const RowSource<X>& source, index_t channel, index_t first_slot) noexcept
        : channels_(source.channels_), tap_stride_(source.tap_stride_), has_offsets_(source.offsets_ != nullptr) {
        const X* const x = source.x_ + channel;
        if (!has_offsets_ && source.width_ == 0) {
            const X* const first = source.spaced_row(first_slot) + channel;
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) start_[r] = first + r * channels_;
            return;
        }
        const X* starts[array_size(Rows)];  // in memory, so that start_ need not be
        if (has_offsets_)
            source.start_with_offsets(x, first_slot, Rows, starts, offsets_);
        else
            source.start_in_margins(x, first_slot, Rows, starts);
        INTQ_UNROLL
        for (int r = 0; r < Rows; ++r) start_[r] = starts[r];
    }
    /// The offsets of the first row, by tap; null where rows have none.
    const std::int32_t* first_offsets() const noexcept { return offsets_[0]; }
    /// Whether a tap falls on padding, of all rows alike.
    INTQ_ALWAYS_INLINE bool is_padding(index_t tap) const noexcept { return has_offsets_ && offsets_[0][tap] < 0; }
    /// Taps from `tap` on, at least that one, to the end of its row of a window, or to the first one on padding.
    INTQ_ALWAYS_INLINE index_t valid_taps(index_t tap, index_t width) const noexcept {
        if (width == 1) return 1;
        index_t last = tap + 1;
        for (const index_t end = (tap / width + 1) * width; last < end && !is_padding(last);) ++last;
        return last - tap;
    }
    INTQ_ALWAYS_INLINE void at(index_t tap, const X** pointers) const noexcept {
        if (has_offsets_) {
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) pointers[r] = start_[r] + offsets_[r][tap] * channels_;
        } else {
            const index_t offset = tap * tap_stride_;
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) pointers[r] = start_[r] + offset;
        }
    }

private:
    index_t channels_;
    index_t tap_stride_;
    bool has_offsets_;
    const X* start_[array_size(Rows)];
    const std::int32_t* offsets_[array_size(Rows)] = {};
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_GEMM_INPUT_HPP
