// SPDX-License-Identifier: MIT
//
// Max and average pooling on codes, channels in the lanes. Layer: kernels.
#ifndef INTQ_KERNELS_POOL_HPP
#define INTQ_KERNELS_POOL_HPP

#include "intq/arith/pool.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/op_params.hpp"
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

/// The taps of a window that lie inside the image, along one axis.
struct ValidTaps {
    index_t first;
    index_t last;  // one past
};
constexpr ValidTaps valid_taps(index_t out, index_t stride, index_t padding, index_t dilation, index_t kernel,
                               index_t extent) noexcept {
    const index_t start = out * stride - padding;
    const index_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const index_t room = extent - start;
    const index_t last = room <= 0 ? 0 : (room + dilation - 1) / dilation;
    return {first, last < kernel ? last : kernel};
}

/// finish(y, column, reduce over the valid cells of combine, number of valid cells) for each output pixel.
template <class L, class Code, class Combine, class Finish>
void pool(const PoolCall& call, typename L::i32 start, Combine combine, Finish finish) {
    const Window2d& w = *call.window;
    (*call.executor)(call.batch * call.out.height, [&](index_t row) {
        const index_t image = row / call.out.height, oy = row % call.out.height;
        const Code* const x = static_cast<const Code*>(call.x) + image * call.in.height * call.in.width * call.channels;
        Code* const y = static_cast<Code*>(call.y) + row * call.out.width * call.channels;
        const ValidTaps ys =
            valid_taps(oy, w.stride.height, w.padding.top, w.dilation.height, w.kernel.height, call.in.height);
        for (index_t ox = 0; ox < call.out.width; ++ox) {
            const ValidTaps xs =
                valid_taps(ox, w.stride.width, w.padding.left, w.dilation.width, w.kernel.width, call.in.width);
            const index_t origin_y = oy * w.stride.height - w.padding.top,
                          origin_x = ox * w.stride.width - w.padding.left;
            for (index_t c = 0; c < call.channels; c += L::width()) {
                const index_t count = call.channels - c < L::width() ? call.channels - c : L::width();
                auto reduced = start;
                for (index_t ky = ys.first; ky < ys.last; ++ky)
                    for (index_t kx = xs.first; kx < xs.last; ++kx) {
                        const index_t pixel =
                            (origin_y + ky * w.dilation.height) * call.in.width + origin_x + kx * w.dilation.width;
                        reduced = combine(reduced, L::load(x + pixel * call.channels + c, count));
                    }
                const index_t valid = (ys.last - ys.first) * (xs.last - xs.first);
                L::store(y + ox * call.channels + c, finish(reduced, valid), count);
            }
        }
    });
}

}  // namespace detail

/// y = the largest code among the valid cells; exact, the scale stays.
/// @pre check_pool() is ok
template <class Backend, class Code> void max_pool2d_codes(const PoolCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    detail::pool<L, Code>(
        call, L::set(std::int32_t{INT32_MIN}), [](auto a, auto b) INTQ_ALWAYS_INLINE_LAMBDA { return L::max(a, b); },
        [](auto largest, index_t) INTQ_ALWAYS_INLINE_LAMBDA { return largest; });
}

/// y = average of the window by the target's rule; see arith/pool.hpp.
/// @pre check_pool() is ok; average made by arith::make_average
template <class Backend, class Code> void avg_pool2d_codes(const PoolCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const arith::Average<L> average(*call.average);
    detail::pool<L, Code>(
        call, L::set(std::int32_t{0}), [](auto a, auto b) INTQ_ALWAYS_INLINE_LAMBDA { return L::add(a, b); },
        [&](auto sum, index_t valid) INTQ_ALWAYS_INLINE_LAMBDA { return average.code(sum, valid, *call.average); });
}

}  // namespace intq::inline INTQ_ABI::kernels

#endif  // INTQ_KERNELS_POOL_HPP
