// SPDX-License-Identifier: MIT
//
// TFLite's windows: padding SAME and VALID. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_NODES_WINDOW_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_NODES_WINDOW_HPP

#include "intq/core/op_params.hpp"
#include "intq/interop/tflite/internal/nodes/operator_import.hpp"
#include "intq/io/flatbuffer.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// Whether an option says SAME; VALID is the other one.
bool is_same(const io::FlatTable& options, int field);

/// A window with the padding that the option says.
///
///     total = max((ceil(in / stride) - 1)·stride + dilation·(kernel - 1) + 1 - in, 0), half of it before, rounded down
///
/// @param in  NHWC
Window2d padded_window(const io::FlatTable& options, const Dims& in, Window2d window, int padding_field);

/// Rows or columns around pixels that stand `stride` apart, so that a window without padding gives `out` of them.
///
///     before = k - 1 - p,   after = out + p - 1 - (in - 1)·stride,   p cells of the result cut at its begin
struct Around {
    index_t before, after;
};
Around around(index_t in, index_t out, index_t kernel, index_t stride, bool same);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_nodes)

#    include <algorithm>
#    include <string>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/io/describe.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE bool is_same(const io::FlatTable& options, int field) {
    const auto rule = options.number<std::int8_t>(field, 0);
    if (rule != 0 && rule != static_cast<std::int8_t>(PaddingRule::valid))
        throw Error("the padding " + std::to_string(rule) + " is none of SAME and VALID");
    return rule == static_cast<std::int8_t>(PaddingRule::same);
}

INTQ_INLINE Window2d padded_window(const io::FlatTable& options, const Dims& in, Window2d window, int padding_field) {
    throw_if_failed(check_window(window, OpKind::conv2d), "its window");
    throw_if_failed(check_image({in[1], in[2]}, OpKind::conv2d), "its input");
    if (!is_same(options, padding_field)) return window;
    const auto sides = [](index_t extent, index_t kernel, index_t stride, index_t dilation) {
        const index_t cells = (extent + stride - 1) / stride;
        const index_t total = (std::max)((cells - 1) * stride + dilation * (kernel - 1) + 1 - extent, index_t{0});
        return std::pair(total / 2, total - total / 2);
    };
    const auto& [kernel, stride, padding, dilation] = window;
    const auto [top, bottom] = sides(in[1], kernel.height, stride.height, dilation.height);
    const auto [left, right] = sides(in[2], kernel.width, stride.width, dilation.width);
    window.padding = {top, left, bottom, right};
    return window;
}

INTQ_INLINE Around around(index_t in, index_t out, index_t kernel, index_t stride, bool same) {
    const index_t cells = same ? (out + stride - 1) / stride : (out - kernel + stride) / stride;
    const index_t reach = (cells - 1) * stride + kernel - out;
    const index_t cut = reach > 0 ? reach / 2 : 0;
    return {kernel - 1 - cut, out + cut - 1 - (in - 1) * stride};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_nodes)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_NODES_WINDOW_HPP
