// SPDX-License-Identifier: MIT
//
// Max and average pooling on codes, channels in the lanes. Layer: kernels.
#ifndef INTQ_KERNELS_POOL_HPP
#define INTQ_KERNELS_POOL_HPP

#include <limits>

#include "intq/arith/pool.hpp"
#include "intq/core/op_params.hpp"
#include "intq/kernels/channel_walk.hpp"
#include "intq/kernels/geometry.hpp"
#include "intq/simd/select.hpp"

namespace intq::inline INTQ_ABI::kernels {

/// One run of a pooling, as a function pointer takes it. x and y are channels last.
struct PoolCall {
    const Window2d* window = nullptr;
    const arith::AverageParams* average = nullptr;  // not read by max
    const void* x = nullptr;
    void* y = nullptr;
    index_t batch = 0;
    index_t channels = 0;
    Size2d in{0, 0};
    Size2d out{0, 0};
    const Executor* executor = nullptr;
};

/// @return ok; kernel, stride or padding errors; padding as large as the kernel, where a window would see no
///         cell; shape_mismatch where there is no output
constexpr Status check_pool(const Window2d& window, Size2d in, OpKind op) noexcept {
    if (const Status status = check_window(window, op); !status) return status;
    const index_t reach_y = window.dilation.height * (window.kernel.height - 1) + 1;
    const index_t reach_x = window.dilation.width * (window.kernel.width - 1) + 1;
    for (const index_t pad : {window.padding.top, window.padding.bottom})
        if (pad >= reach_y) return {StatusCode::value_out_of_range, op, Field::padding, pad, reach_y - 1};
    for (const index_t pad : {window.padding.left, window.padding.right})
        if (pad >= reach_x) return {StatusCode::value_out_of_range, op, Field::padding, pad, reach_x - 1};
    const Size2d out = output_size(window, in);
    if (out.height < 1 || out.width < 1) return {StatusCode::shape_mismatch, op, Field::output, 0, 1};
    return {};
}

namespace detail {

/// The valid cells of one output pixel: `rows` rows of `columns` cells.
template <class Code> struct Cells {
    const Code* first;  // channel 0
    index_t rows, columns;
    index_t row_step, column_step;  // in elements

    /// visit(cell) for each, pointing at its channel `channel`.
    template <class Visit> INTQ_ALWAYS_INLINE void for_each(index_t channel, Visit&& visit) const {
        const Code* row = first + channel;
        for (index_t y = 0; y < rows; ++y, row += row_step) {
            const Code* cell = row;
            for (index_t x = 0; x < columns; ++x, cell += column_step) visit(cell);
        }
    }
};

/// pixel(cells, y) for each output pixel.
template <class Code, class Pixel> void for_each_window(const PoolCall& call, Pixel&& pixel) {
    const Window2d& w = *call.window;
    (*call.executor)(call.batch * call.out.height, [&](index_t row) {
        const index_t image = row / call.out.height, oy = row % call.out.height;
        const Code* const x = static_cast<const Code*>(call.x) + image * call.in.height * call.in.width * call.channels;
        Code* const y = static_cast<Code*>(call.y) + row * call.out.width * call.channels;
        const ValidTaps ys =
            valid_taps(oy, w.stride.height, w.padding.top, w.dilation.height, w.kernel.height, call.in.height);
        const index_t top = oy * w.stride.height - w.padding.top + ys.first * w.dilation.height;
        for (index_t ox = 0; ox < call.out.width; ++ox) {
            const ValidTaps xs =
                valid_taps(ox, w.stride.width, w.padding.left, w.dilation.width, w.kernel.width, call.in.width);
            const index_t left = ox * w.stride.width - w.padding.left + xs.first * w.dilation.width;
            const Cells<Code> cells{x + (top * call.in.width + left) * call.channels, ys.last - ys.first,
                                    xs.last - xs.first, w.dilation.height * call.in.width * call.channels,
                                    w.dilation.width * call.channels};
            pixel(cells, y + ox * call.channels);
        }
    });
}

}  // namespace detail

/// y = the largest code among the valid cells; exact, the scale stays.
/// @pre check_pool() is ok
template <class Backend, class Code> void max_pool2d_codes(const PoolCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    constexpr index_t width = L::template packed_width<Code>();
    detail::for_each_window<Code>(call, [&](const detail::Cells<Code>& cells, Code* y) {
        const auto lowest = L::set_packed(std::numeric_limits<Code>::lowest());
        index_t c = 0;
        for (; c + width <= call.channels; c += width) {
            auto largest = lowest;
            cells.for_each(c, [&](const Code* cell) INTQ_ALWAYS_INLINE_LAMBDA {
                largest = L::max_packed(largest, L::load_packed(cell));
            });
            L::store_packed(y + c, largest);
        }
        if (const index_t rest = call.channels - c; rest > 0) {
            auto largest = lowest;
            cells.for_each(c, [&](const Code* cell) INTQ_ALWAYS_INLINE_LAMBDA {
                largest = L::max_packed(largest, L::load_packed(cell, rest));
            });
            L::store_packed(y + c, largest, rest);
        }
    });
}

/// y = average of the window by the target's rule; see arith/pool.hpp.
/// @pre check_pool() is ok; average made by arith::make_average
template <class Backend, class Code> void avg_pool2d_codes(const PoolCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    constexpr index_t width = L::width();
    const arith::Average<L> average(*call.average);
    detail::for_each_window<Code>(call, [&](const detail::Cells<Code>& cells, Code* y) {
        const auto code = [&](auto sum) INTQ_ALWAYS_INLINE_LAMBDA {
            return average.code(sum, cells.rows * cells.columns, *call.average);
        };
        detail::for_each_four_vectors<L>(
            call.channels,
            [&](index_t channel) INTQ_ALWAYS_INLINE_LAMBDA {
                auto a = L::set(std::int32_t{0}), b = a, c = a, d = a;
                cells.for_each(channel, [&](const Code* cell) INTQ_ALWAYS_INLINE_LAMBDA {
                    a = L::add(a, L::load(cell));
                    b = L::add(b, L::load(cell + width));
                    c = L::add(c, L::load(cell + 2 * width));
                    d = L::add(d, L::load(cell + 3 * width));
                });
                if constexpr (std::is_same_v<Code, std::int8_t>) {
                    L::store_four(y + channel, code(a), code(b), code(c), code(d));
                } else {
                    L::store(y + channel, code(a));
                    L::store(y + channel + width, code(b));
                    L::store(y + channel + 2 * width, code(c));
                    L::store(y + channel + 3 * width, code(d));
                }
            },
            [&](index_t channel, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                auto sum = L::set(std::int32_t{0});
                cells.for_each(channel, [&](const Code* cell)
                                            INTQ_ALWAYS_INLINE_LAMBDA { sum = L::add(sum, L::load(cell, lanes)); });
                L::store(y + channel, code(sum), lanes);
            });
    });
}

}  // namespace intq::inline INTQ_ABI::kernels

#endif  // INTQ_KERNELS_POOL_HPP
