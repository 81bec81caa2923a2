// SPDX-License-Identifier: MIT
//
// The input of the GEMM skeleton: where the rows of a tile start. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_GEMM_INPUT_HPP
#define INTQ_KERNELS_CONV_GEMM_INPUT_HPP

#include "intq/kernels/packing/input_form.hpp"
#include "intq/kernels/window/regions.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// The rows of one task: slot -> where its window starts in the input, and its pixel in the output.
///
/// Slots are the output pixels of all images in the order of computing: region after region, image after image, line
/// after line. So tiles are of one region, whose windows have the same taps on padding, and go over lines and images.
/// Output pixels that read the input in place are one line. Where code is to be small, slots are in the output's
/// order, and a tile is of one line.
///
///     x[slot][ky][kx] = start(slot) + (ky - first row)·row_step() + (kx - first column)·column_step()
/// @tparam Stages  whether the backend has staged copies, stages_input
template <class X, bool Stages> class RowSource {
public:
    static constexpr bool goes_by_lines = INTQ_SMALL && !Stages;

    /// @param first  the slot that x starts with, of form blocks
    RowSource(const PackedConv2d& packed, const ConvGeometry& geometry, const X* x, index_t first = 0) noexcept
        : window_(packed.window), geometry_(geometry), x_(x), out_pixels_(geometry.out_pixels()) {
        const index_t channels = packed.in_channels;
        const Window2d& window = packed.window;
        if constexpr (Stages) {
            switch (input_form(packed)) {
                case InputForm::padded: {
                    const Size2d size = padded_size(window, geometry.out);
                    set_steps(size, channels, window);
                    enter_only({{0, geometry.out.height, {0, window.kernel.height}}, {0, geometry.out.width, {0, 1}}},
                               geometry.batch);
                    return;
                }
                case InputForm::gathered:
                case InputForm::blocks:
                    pixel_step_ = channels;
                    origin_ = -first * channels;
                    enter_line(geometry.batch * out_pixels_, {1, 1});
                    return;
                case InputForm::image:
                case InputForm::tiles:  // of other kernels
                    break;
            }
        }
        if (reads_in_place(window)) {
            pixel_step_ = channels;
            enter_line(geometry.batch * out_pixels_, {1, 1});
            return;
        }
        set_steps(geometry.in, channels, window);
        if (!pads(window) && out_pixels_ == 1) {
            pixel_step_ = image_step_;
            enter_line(geometry.batch, window.kernel);
        } else {
            images_ = geometry.batch;
            corner_ = -(padding_above(window, geometry) * geometry.in.width + window.padding.left) * channels;
            if constexpr (goes_by_lines)
                enter_line_of(0);
            else
                enter_region(first_region(window_, geometry_), 0);
        }
    }

    /// Moves to a slot.
    ///
    /// @return the end of the slots from it on whose windows have the same taps on padding, at most `last`
    index_t enter(index_t slot, index_t last) noexcept {
        if (slot != slot_) move_to(slot);
        return region_end_ < last ? region_end_ : last;
    }

    // Of the region of the slot: taps inside the image.
    INTQ_ALWAYS_INLINE const ValidTaps& rows() const noexcept { return region_.rows.taps; }
    INTQ_ALWAYS_INLINE const ValidTaps& columns() const noexcept { return region_.columns.taps; }
    INTQ_ALWAYS_INLINE bool has_taps() const noexcept { return region_.has_taps(); }
    INTQ_ALWAYS_INLINE bool has_padding() const noexcept { return has_padding_; }
    /// Elements between two taps of a column of the window, and of a row.
    INTQ_ALWAYS_INLINE index_t row_step() const noexcept { return row_step_; }
    INTQ_ALWAYS_INLINE index_t column_step() const noexcept { return column_step_; }

    /// The end of the equally spaced rows from the slot on, at most `last`: those of a line of its region. Then the
    /// first of them, and the elements between two.
    INTQ_ALWAYS_INLINE index_t spaced_end(index_t last) const noexcept {
        const index_t end = slot_ + region_.width() - column_;
        return end < last ? end : last;
    }
    /// Whether the slot and those that follow it are such rows.
    INTQ_ALWAYS_INLINE bool is_line_of(index_t count) const noexcept {
        if (goes_by_lines) return true;
        return column_ + count <= region_.width() && has_taps();
    }
    INTQ_ALWAYS_INLINE const X* spaced_start() const noexcept {
        return x_ + (line_start(image_, row_) + column_ * pixel_step_);
    }
    INTQ_ALWAYS_INLINE index_t spaced_step() const noexcept { return pixel_step_; }

    /// Where the windows of the slot and of those that follow it start, at an input channel: at their first tap.
    // Not inlined, and for any number of rows: the same code serves every tile.
    INTQ_NEVER_INLINE void starts(index_t channel, int count, const X** starts) const noexcept {
        if (!has_taps()) {
            for (int r = 0; r < count; ++r) starts[r] = x_;
            return;
        }
        index_t image = image_, row = row_, column = column_, line = line_start(image, row) + channel;
        for (int r = 0; r < count; ++r, ++column) {
            if (column == region_.width()) {
                column = 0;
                if (++row == region_.height()) {
                    row = 0;
                    ++image;
                }
                line = line_start(image, row) + channel;
            }
            starts[r] = x_ + (line + column * pixel_step_);
        }
    }

    /// Whether the pixels of the slot and of those that follow it in its region are in the output's order.
    INTQ_ALWAYS_INLINE bool is_in_order() const noexcept { return is_whole_ || goes_by_lines; }
    /// The output pixel of the slot, counted through all images; and of those that follow it.
    INTQ_ALWAYS_INLINE index_t pixel() const noexcept {
        return goes_by_lines ? slot_ : pixel_of(image_, row_) + column_;
    }
    INTQ_NEVER_INLINE void pixels(index_t count, index_t* at) const noexcept {
        index_t image = image_, row = row_, column = column_, line = pixel_of(image, row);
        for (index_t r = 0; r < count; ++r, ++column) {
            if (column == region_.width()) {
                column = 0;
                if (++row == region_.height()) {
                    row = 0;
                    ++image;
                }
                line = pixel_of(image, row);
            }
            at[r] = line + column;
        }
    }

private:
    INTQ_ALWAYS_INLINE index_t line_start(index_t image, index_t row) const noexcept {
        return origin_ + image * image_step_ + row * line_step_;
    }
    INTQ_ALWAYS_INLINE index_t pixel_of(index_t image, index_t row) const noexcept {
        return image * out_pixels_ + (region_.rows.first + row) * geometry_.out.width + region_.columns.first;
    }

    void set_steps(Size2d in, index_t channels, const Window2d& window) noexcept {
        const index_t line = in.width * channels;
        image_step_ = in.height * line;
        line_step_ = window.stride.height * line;
        row_step_ = window.dilation.height * line;
        pixel_step_ = window.stride.width * channels;
        column_step_ = window.dilation.width * channels;
    }
    /// All slots are one line, of a window whose taps are all inside.
    void enter_line(index_t length, Size2d kernel) noexcept {
        is_line_ = true;
        enter_only({{0, 1, {0, kernel.height}}, {0, length, {0, kernel.width}}}, 1);
    }
    void enter_only(const Region& region, index_t images) noexcept {
        images_ = images;
        region_ = region;
        region_end_ = images * region.pixels();
        is_whole_ = true;
    }
    void enter_region(const Region& region, index_t begin) noexcept {
        region_ = region;
        region_begin_ = slot_ = begin;
        region_end_ = begin + images_ * region.pixels();
        image_ = row_ = column_ = 0;
        is_whole_ = region.pixels() == out_pixels_;
        has_padding_ = !(region.rows.taps == ValidTaps{0, window_.kernel.height} &&
                         region.columns.taps == ValidTaps{0, window_.kernel.width});
        origin_ = corner_ + region.rows.first * line_step_ + region.rows.taps.first * row_step_ +
                  region.columns.first * pixel_step_ + region.columns.taps.first * column_step_;
    }

    /// The rest of the slot's line whose windows have the same taps inside the image.
    void enter_line_of(index_t slot) noexcept {
        const Size2d out = geometry_.out;
        const index_t line = quotient(slot, out.width), image = quotient(line, out.height);
        const index_t row = line - image * out.height;
        const AxisRegion rows = axis_region(row_axis(window_, geometry_), row);
        enter_region({{row, row + 1, rows.taps}, axis_region(column_axis(window_, geometry_), slot - line * out.width)},
                     slot);
        region_end_ = slot + region_.width();
        origin_ += image * image_step_;
    }

    INTQ_NEVER_INLINE void move_to(index_t slot) noexcept {
        if constexpr (goes_by_lines) {
            if (!is_line_) return enter_line_of(slot);
            column_ = slot_ = slot;
            return;
        }
        if (slot < region_begin_) enter_region(first_region(window_, geometry_), 0);
        while (slot >= region_end_ && region_.rows.first < geometry_.out.height)
            enter_region(next_region(window_, geometry_, region_), region_end_);
        const index_t width = region_.width(), height = region_.height();
        // Divisions are costly where tiles are small: a step to the next line takes none, nor one back to the first.
        if (slot < slot_) {
            slot_ = region_begin_;
            image_ = row_ = column_ = 0;
        }
        if (slot - slot_ <= width) {
            column_ += slot - slot_;
            if (column_ >= width && height * images_ > 1) {
                column_ -= width;
                if (++row_ == height) {
                    row_ = 0;
                    ++image_;
                }
            }
        } else {
            const index_t pixel = slot - region_begin_, lines = height * images_ == 1 ? 0 : quotient(pixel, width);
            column_ = pixel - lines * width;
            image_ = images_ == 1 ? 0 : quotient(lines, height);
            row_ = lines - image_ * height;
        }
        slot_ = slot;
    }

    const Window2d& window_;
    const ConvGeometry& geometry_;
    const X* x_;
    index_t out_pixels_;
    index_t images_ = 1;  // whose pixels follow each other in a region
    // Elements from the first tap of a pixel to that of the next one, of the next line, and of the next image; and
    // between taps.
    index_t pixel_step_ = 0, line_step_ = 0, image_step_ = 0;
    index_t row_step_ = 0, column_step_ = 0;
    index_t corner_ = 0;  // of the first window: beyond the image where it is padded
    Region region_{};
    index_t region_begin_ = 0, region_end_ = 0;  // slots
    bool is_line_ = false, is_whole_ = false, has_padding_ = false;
    index_t origin_ = 0;  // the first tap inside the image of the region's first pixel
    index_t slot_ = 0;
    index_t image_ = 0, row_ = 0, column_ = 0;  // in the region
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_GEMM_INPUT_HPP
