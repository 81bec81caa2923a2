// SPDX-License-Identifier: MIT
//
// In which form a layer reads its input, and the workspace that this takes. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_INPUT_FORM_HPP
#define INTQ_KERNELS_PACKING_INPUT_FORM_HPP

#include "intq/kernels/packing/int16_line_layout.hpp"
#include "intq/kernels/packing/interleaved_layout.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/kernels/packing/paired_layout.hpp"
#include "intq/kernels/packing/window_layout.hpp"
#include "intq/kernels/window/geometry.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// How rows find their activations in the input or in its staged copy.
enum class InputForm : std::uint8_t {
    image,     // as the input is
    gathered,  // one pixel for each output pixel, as a strided 1×1 window reads
    padded,    // images with their margins, so that a row of a window is one run of elements
    blocks,    // the input itself: the kernel converts rows as it comes to them
    tiles,     // the input itself: the kernel stages the pixels of a tile or of a line, in the workspace
};

/// Bytes of converted rows that a kernel keeps on its stack, of form blocks: at most, and where rows are short, so that
/// they and a panel stay in the L1 cache.
inline constexpr index_t staged_block_bytes = 64 * 1024;
inline constexpr index_t near_block_bytes = 16 * 1024;
/// Rows that a block should have at least: each reads all panels anew.
inline constexpr index_t staged_block_rows = 42;
/// Weights beyond this are read from far away for each block: then the whole input is converted first.
inline constexpr index_t block_weight_bytes = 256 * 1024;

/// Whether enough rows fit into a block, for an input that is read in place.
constexpr bool fits_in_blocks(const PackedConv2d& packed) noexcept {
    const index_t element = size_of(staged_input(packed.packing, packed.input_dtype));
    return reads_in_place(packed.window) && packed.groups == 1 &&
           packed.in_channels * element * staged_block_rows <= staged_block_bytes &&
           packed.group_weights() * element <= block_weight_bytes;
}

/// Elements of a block.
/// @pre fits_in_blocks()
constexpr index_t near_block_elements(index_t channels, index_t element) noexcept {
    const index_t least = channels * staged_block_rows, nearby = near_block_bytes / element;
    return least > nearby ? least : nearby;
}

constexpr InputForm input_form(const PackedConv2d& packed) noexcept {
    if (packed.merges_row) return InputForm::padded;
    if (packed.has_whole_windows()) return InputForm::tiles;
    if (packed.is_depthwise || !is_staged(packed)) return InputForm::image;
    if (fits_in_blocks(packed)) return InputForm::blocks;
    const bool is_strided = packed.taps() == 1 && !pads(packed.window) && !reads_in_place(packed.window);
    return is_strided ? InputForm::gathered : InputForm::image;
}

/// Whether a backend has layers that read a staged copy, apart from those whose kernel stages the pixels of a tile.
template <class Backend>
inline constexpr bool stages_input = [] {
    for (const simd::Packing& packing : {Backend::int8_packing, Backend::int16_packing, Backend::wide_packing})
        if (simd::widens(packing.staging) || (packing.depth > 1 && packing.staging < simd::Staging::paired))
            return true;
    return false;
}();

/// The part of an image with margins that its windows read.
constexpr Size2d padded_size(const Window2d& window, Size2d out) noexcept {
    return {(out.height - 1) * window.stride.height + (window.kernel.height - 1) * window.dilation.height + 1,
            (out.width - 1) * window.stride.width + window.kernel.width};
}

/// The staged copy of an image; empty where the kernel converts rows as it comes to them.
constexpr Size2d staged_image(const PackedConv2d& packed, const ConvGeometry& geometry) noexcept {
    switch (input_form(packed)) {
        case InputForm::blocks:
        case InputForm::tiles:
            return {0, 0};
        case InputForm::gathered:
            return geometry.out;
        case InputForm::padded:
            return padded_size(packed.window, geometry.out);
        case InputForm::image:
            break;
    }
    return geometry.in;
}

/// Elements of the staged copy, with those that a whole group reads beyond the last one: there the weights are zero.
constexpr index_t staged_size(const PackedConv2d& packed, const ConvGeometry& geometry) noexcept {
    const Size2d image = staged_image(packed, geometry);
    if (image.height == 0) return 0;
    return geometry.batch * (image.height * image.width) * packed.in_channels + packed.packing.depth;
}

}  // namespace detail

/// Bytes of workspace for one run: the staged input, where the backend's tile wants another form of it. PTRDIFF_MAX
/// where no memory could hold them.
inline index_t conv2d_workspace_size(const PackedConv2d& packed, const ConvGeometry& geometry) noexcept {
    if (packed.is_paired_depthwise() && packed.input_dtype == DType::int16)
        return round_up(detail::Int16LineLayout(packed.window, geometry).bytes(packed.window), buffer_alignment);
    if (packed.is_paired_depthwise())
        return round_up(detail::PairedLineLayout(packed.window, geometry).bytes(packed.window), buffer_alignment);
    if (packed.is_paired()) return round_up(detail::paired_bytes(packed, geometry), buffer_alignment);
    if (packed.stages_depthwise_windows())
        return round_up(detail::DepthwiseWindowLayout(packed.window, geometry).bytes(), buffer_alignment);
    if (packed.lists_taps()) return round_up(detail::window_taps_bytes(packed), buffer_alignment);
    if (packed.interleaves_rows()) return round_up(detail::interleaved_bytes(packed), buffer_alignment);
    if (packed.stages_windows())
        return round_up(detail::WindowLayout(packed, geometry, size_of(packed.input_dtype)).bytes(), buffer_alignment);
    if (!detail::is_staged(packed)) return 0;
    const Size2d image = detail::staged_image(packed, geometry);
    if (image.height > 0 && geometry.batch > 0 &&
        !product_fits(PTRDIFF_MAX / 8, geometry.batch, image.height, image.width, packed.in_channels))
        return PTRDIFF_MAX;
    return round_up(
        detail::staged_size(packed, geometry) * size_of(detail::staged_input(packed.packing, packed.input_dtype)),
        buffer_alignment);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_INPUT_FORM_HPP
