// SPDX-License-Identifier: MIT
//
// The table of a resize, one run of it as a function pointer takes it, and its row. Layer: kernels
// (docs/arithmetic.md section 4).
#ifndef INTQ_KERNELS_WINDOW_RESIZE_CALL_HPP
#define INTQ_KERNELS_WINDOW_RESIZE_CALL_HPP

#include <span>

#include "intq/arith/resize.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/op_params.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Which cells each output row and column reads; made once for a shape, on caller's memory.
struct ResizeTable {
    std::span<const arith::ResizeTap> rows;     // (out.height)
    std::span<const arith::ResizeTap> columns;  // (out.width)
    Size2d in{0, 0};
    arith::Blend blend = arith::Blend::of_256ths;
    arith::ResizeGrids grids{};  // of Blend::of_values; for others the scale stays
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Taps that make_resize_table() needs.
constexpr index_t resize_table_size(Size2d out) noexcept { return out.height + out.width; }

/// @return ok; value_out_of_range of scale where a factor does not map one extent to the other
constexpr Status check_resize_scale(arith::Resize rule, const arith::ResizeScale& scale, index_t in,
                                    index_t out) noexcept {
    if (scale.origin == arith::ResizeOrigin::extents) return {};
    const index_t wanted = arith::resized_extent(scale, in);
    if (wanted == out && (rule != arith::Resize::align_corners || arith::aligns_corners(scale, in))) return {};
    return {StatusCode::value_out_of_range, OpKind::none, Field::scale, out, wanted};
}

namespace detail {

/// Taps of all rows, then of all columns: tap(d, in, out, scale).
template <class Tap>
constexpr void fill_taps(std::span<arith::ResizeTap> memory, Size2d in, Size2d out, const arith::ResizeScales& scales,
                         const Tap& tap) noexcept {
    std::size_t i = 0;
    for (index_t y = 0; y < out.height; ++y) memory[i++] = tap(y, in.height, out.height, scales.height);
    for (index_t x = 0; x < out.width; ++x) memory[i++] = tap(x, in.width, out.width, scales.width);
}

}  // namespace detail

/// The table of a resize.
///
/// @param memory  resize_table_size(out) taps, which outlive the table
/// @param scales  of a model that states factors, not the size; by extents they are in / out
/// @return the table; value_out_of_range of input or output where an extent is not in 1 … arith::largest_resized, and
///         of scale where a factor does not map this input to this output; buffer_too_small of storage, in taps
constexpr Result<ResizeTable> make_resize_table(arith::Resize rule, Size2d in, Size2d out,
                                                std::span<arith::ResizeTap> memory,
                                                const arith::ResizeScales& scales = {}) noexcept {
    constexpr OpKind op = OpKind::none;
    for (const index_t extent : {in.height, in.width})
        if (extent < 1 || extent > arith::largest_resized)
            return Status{StatusCode::value_out_of_range, op, Field::input, extent, 1};
    for (const index_t extent : {out.height, out.width})
        if (extent < 1 || extent > arith::largest_resized)
            return Status{StatusCode::value_out_of_range, op, Field::output, extent, 1};
    const arith::ResizeScales used = arith::scales_between(scales, in, out);
    if (const Status status = check_resize_scale(rule, used.height, in.height, out.height); !status) return status;
    if (const Status status = check_resize_scale(rule, used.width, in.width, out.width); !status) return status;
    if (static_cast<index_t>(memory.size()) < resize_table_size(out))
        return Status{StatusCode::buffer_too_small, op, Field::storage, static_cast<index_t>(memory.size()),
                      resize_table_size(out)};
    detail::fill_taps(memory, in, out, used, [rule](auto... place) { return arith::resize_tap(rule, place...); });
    const auto height = static_cast<std::size_t>(out.height), width = static_cast<std::size_t>(out.width);
    return ResizeTable{memory.first(height), memory.subspan(height, width), in,
                       arith::is_nearest(rule) ? arith::Blend::nearest : arith::Blend::of_256ths};
}

/// The table of a bilinear resize of int8 codes that is computed as ONNX Runtime does between DequantizeLinear and
/// QuantizeLinear (arith::BilinearOfValues).
///
/// @return the errors of make_resize_table(), check_codes(), check_result() and check_resize_grids();
///         value_out_of_range of kernel for a nearest rule
constexpr Result<ResizeTable> make_resize_table_of_values(const arith::PolicyRecord& policy, arith::Resize rule,
                                                          Size2d in, Size2d out, std::span<arith::ResizeTap> memory,
                                                          const arith::ResizeScales& scales, const arith::CodesOf& from,
                                                          const arith::CodesOf& to,
                                                          const arith::OutputCodes& codes) noexcept {
    constexpr OpKind op = OpKind::interpolate;
    if (arith::is_nearest(rule)) return Status{StatusCode::value_out_of_range, op, Field::kernel, 0, 0};
    if (const Status status = arith::check_codes(policy, from, op, Field::input); !status) return status;
    if (const Status status = arith::check_result(policy, to, codes, op); !status) return status;
    const Result<ResizeTable> in_parts = make_resize_table(rule, in, out, memory, scales);
    if (!in_parts) return in_parts;
    ResizeTable table = *in_parts;
    table.blend = arith::Blend::of_values;
    table.grids = {from.zero_point, from.scale, to.scale, codes};
    if (const Status status = arith::check_resize_grids(policy, table.grids, from.dtype); !status) return status;
    detail::fill_taps(memory, in, out, arith::scales_between(scales, in, out),
                      [rule](auto... place) { return arith::resize_tap_of_values(rule, place...); });
    return table;
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// One run of interpolate, as a function pointer takes it. x and y are channels last.
struct InterpolateCall {
    const ResizeTable* table = nullptr;
    const void* x = nullptr;
    void* y = nullptr;
    index_t batch = 0;
    index_t channels = 0;
    const Executor* executor = nullptr;
    // Of one image, where a run writes some rows alone:
    index_t first = 0;     // the first of them
    index_t rows = 0;      // how many; 0: all
    index_t in_first = 0;  // the row of the input with which x begins
};

struct InterpolateRow {
    DType dtype;
    bool of_values;  // of Blend::of_values; another row serves all others
    void (*run)(const InterpolateCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_RESIZE_CALL_HPP
