// SPDX-License-Identifier: MIT
//
// pad: channels-last images of codes on a larger field, their pixels next to each other or apart. Layer: kernels.
//
// Apart, it is the first half of a transposed convolution: the image between whose pixels stride - 1 zeros stand.
#ifndef INTQ_KERNELS_STREAMING_PAD_HPP
#define INTQ_KERNELS_STREAMING_PAD_HPP

#include <cstring>

#include "intq/core/executor.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/status.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Where the pixels go. Negative padding crops.
struct PadParams {
    Padding2d padding{};
    Size2d step{};          // from pixel to pixel
    std::int32_t fill = 0;  // code of the cells without a pixel
};

/// Extents of the output; at least 0.
///
///     out = step·(in - 1) + 1 + padding
constexpr Size2d padded_size(const PadParams& pad, Size2d in) noexcept {
    const auto along = [](index_t extent, index_t before, index_t after, index_t step) {
        const index_t size = extent < 1 ? 0 : step * (extent - 1) + 1 + before + after;
        return size < 0 ? index_t{0} : size;
    };
    return {along(in.height, pad.padding.top, pad.padding.bottom, pad.step.height),
            along(in.width, pad.padding.left, pad.padding.right, pad.step.width)};
}

/// @return ok; value_out_of_range of stride (a step below 1), padding (beyond 2^24), input (an extent beyond 2^24);
///         shape_mismatch of output where nothing is left
constexpr Status check_pad(const PadParams& pad, Size2d in, OpKind op) noexcept {
    constexpr index_t limit = index_t{1} << 24;
    for (const index_t step : {pad.step.height, pad.step.width})
        if (step < 1 || step > limit) return {StatusCode::value_out_of_range, op, Field::stride, step, 1};
    for (const index_t side : {pad.padding.top, pad.padding.left, pad.padding.bottom, pad.padding.right})
        if (side < -limit || side > limit) return {StatusCode::value_out_of_range, op, Field::padding, side, limit};
    for (const index_t extent : {in.height, in.width})
        if (extent < 1 || extent > limit) return {StatusCode::value_out_of_range, op, Field::input, extent, limit};
    const Size2d out = padded_size(pad, in);
    if (out.height < 1 || out.width < 1) return {StatusCode::shape_mismatch, op, Field::output, 0, 1};
    return {};
}

/// One run of a pad. x and y are channels last.
struct PadCall {
    const PadParams* params = nullptr;
    const void* x = nullptr;
    void* y = nullptr;
    index_t batch = 0;
    index_t channels = 0;
    Size2d in{0, 0};
    const Executor* executor = nullptr;
};

/// y[n][i][j] = x[n][(i - top) / step][(j - left) / step] where that is a pixel, else fill.
///
/// @tparam Code  int8 or int16
/// @pre check_pad() is ok; y must not overlap x
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(outputs); bound by memory
template <class Code> void pad_codes(const PadCall& call) INTQ_NOEXCEPT {
    const PadParams& pad = *call.params;
    const Size2d out = padded_size(pad, call.in);
    const index_t pixel = call.channels, row_size = out.width * pixel;
    const auto fill = static_cast<Code>(pad.fill);
    (*call.executor)(call.batch * out.height, [&](index_t row) {
        Code* const to = static_cast<Code*>(call.y) + row * row_size;
        for (index_t k = 0; k < row_size; ++k) to[k] = fill;
        const index_t at = row % out.height - pad.padding.top, i = at / pad.step.height;
        if (at < 0 || at % pad.step.height != 0 || i >= call.in.height) return;
        const Code* const from =
            static_cast<const Code*>(call.x) + (row / out.height * call.in.height + i) * call.in.width * pixel;
        for (index_t j = 0; j < call.in.width; ++j) {
            const index_t column = j * pad.step.width + pad.padding.left;
            if (column >= 0 && column < out.width)
                std::memcpy(to + column * pixel, from + j * pixel, static_cast<std::size_t>(pixel) * sizeof(Code));
        }
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_PAD_HPP
