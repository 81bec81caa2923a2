// SPDX-License-Identifier: MIT
//
// TFLite's windows, from an operator's options and extents. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_NODES_WINDOW_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_NODES_WINDOW_HPP

#include <cstdint>

#include "intq/core/op_params.hpp"
#include "intq/interop/tflite/internal/nodes/operator_import.hpp"
#include "intq/io/flatbuffer.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// A window with the padding, SAME or VALID, that the option names.
///
///     total = max((ceil(in / stride) - 1)·stride + dilation·(kernel - 1) + 1 - in, 0), half of it before, rounded down
///
/// @param in  NHWC
Window2d padded_window(const io::FlatTable& options, const Dims& in, Window2d window, int padding_field);

/// The window of a convolution.
///
/// @tparam Options  fields::Conv2D or fields::DepthwiseConv2D
/// @param weight    its kernel is in axes 1 and 2
template <class Options> Window2d conv_window(const io::FlatTable& options, const Dims& in, const Dims& weight) {
    const auto option = [&](int field, std::int32_t otherwise) { return options.number(field, otherwise); };
    return padded_window(options, in,
                         {{weight[1], weight[2]},
                          {option(Options::stride_h, 0), option(Options::stride_w, 0)},
                          {},
                          {option(Options::dilation_h, 1), option(Options::dilation_w, 1)}},
                         Options::padding);
}

/// The window of an average or of a maximum.
Window2d pool_window(const io::FlatTable& options, const Dims& in);

/// Rows or columns around pixels that are `stride` apart, so that a window without padding makes `out` of them.
///
///     before = k - 1 - p,   after = out + p - 1 - (in - 1)·stride,   p cells cut at the beginning of the result
struct Around {
    index_t before, after;
};

/// How far apart a transposed convolution puts its pixels, and the rows and columns around them.
struct TransposedWindow {
    Size2d stride;
    Around rows, columns;
};

/// @param in, out  NHWC
/// @param weight   OHWI
TransposedWindow transposed_window(const io::FlatTable& options, const Dims& in, const Dims& weight, const Dims& out);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_nodes)

#    include <algorithm>
#    include <string>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// Whether an option says SAME; VALID is the other one.
INTQ_INLINE bool is_same(const io::FlatTable& options, int field) {
    const auto rule = options.number<std::int8_t>(field, 0);
    if (rule != 0 && rule != static_cast<std::int8_t>(PaddingRule::valid))
        throw Error("the padding " + std::to_string(rule) + " is neither SAME nor VALID");
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

INTQ_INLINE Window2d pool_window(const io::FlatTable& options, const Dims& in) {
    using Options = fields::Pool2D;
    const auto option = [&](int field) { return options.number<std::int32_t>(field, 0); };
    return padded_window(options, in,
                         {{option(Options::height), option(Options::width)},
                          {option(Options::stride_h), option(Options::stride_w)},
                          {},
                          {1, 1}},
                         Options::padding);
}

INTQ_INLINE Around around(index_t in, index_t out, index_t kernel, index_t stride, bool same) {
    const index_t cells = same ? (out + stride - 1) / stride : (out - kernel + stride) / stride;
    if (cells != in)
        throw Error("an output of " + std::to_string(out) + " cells is one of " + std::to_string(cells) +
                    " cells of the input, which has " + std::to_string(in));
    const index_t reach = (cells - 1) * stride + kernel - out;
    const index_t cut = reach > 0 ? reach / 2 : 0;
    return {kernel - 1 - cut, out + cut - 1 - (in - 1) * stride};
}

INTQ_INLINE TransposedWindow transposed_window(const io::FlatTable& options, const Dims& in, const Dims& weight,
                                               const Dims& out) {
    using Options = fields::TransposeConv;
    const auto option = [&](int field) { return options.number<std::int32_t>(field, 0); };
    const Size2d stride{option(Options::stride_h), option(Options::stride_w)};
    throw_if_failed(check_window({{weight[1], weight[2]}, stride, {}, {1, 1}}, OpKind::conv2d), "its window");
    const bool same = is_same(options, Options::padding);
    return {stride, around(in[1], out[1], weight[1], stride.height, same),
            around(in[2], out[2], weight[2], stride.width, same)};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_nodes)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_NODES_WINDOW_HPP
