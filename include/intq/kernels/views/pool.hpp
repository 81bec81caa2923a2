// SPDX-License-Identifier: MIT
//
// max_pool2d and avg_pool2d of codes as functions on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_POOL_HPP
#define INTQ_KERNELS_VIEWS_POOL_HPP

#include "intq/arith/pool.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/op_params.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/views/code_view.hpp"
#include "intq/kernels/views/elementwise.hpp"
#include "intq/kernels/window/pool.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// Extents of the images of a pooling.
template <class X, class Out>
constexpr Status check_pool_images(const X& x, const Window2d& window, const Out& out, OpKind op) noexcept {
    if (const Status status = check_pool(window, size_of_image(x), op); !status) return status;
    const Size2d size = output_size(window, size_of_image(x));
    return check_extents(Shape{x.extent(0), x.extent(1), size.height, size.width}, out.shape(), op, Field::output);
}

template <class X, class Out>
constexpr PoolCall pool_call(const X& x, const Window2d& window, const arith::AverageParams* average, const Out& out,
                             const Executor& executor) noexcept {
    return {.window = &window,
            .average = average,
            .x = x.data(),
            .y = out.data(),
            .batch = x.extent(0),
            .channels = x.extent(1),
            .in = size_of_image(x),
            .out = size_of_image(out),
            .executor = &executor};
}

}  // namespace detail

/// @return ok; the errors of check_pool(); shape_mismatch of output, with the first extents that differ from
///         output_size()
template <CodeImage X, CodeImage Out>
requires SameCodes<X, Out>
constexpr Status check_max_pool2d(const X& x, const Window2d& window, const Out& out) noexcept {
    return detail::check_pool_images(x, window, out, OpKind::max_pool2d);
}

/// The largest code of each window. Scale and zero point stay, and padding is never the largest.
///
///     out[n][c][i][j] = max of x[n][c][i·stride + k·dilation - padding] over the cells of the window in the image
///
/// @param x       int8 or int16 codes, channels_last
/// @param window  needs no parameters made of it
/// @param out     typed as x, of output_size(); must not overlap it
/// @pre   check_max_pool2d()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(outputs · kernel)
template <class Backend = simd::default_backend, CodeImage X, CodeImage Out>
requires SameCodes<X, Out> && CodeOutput<Out>
void max_pool2d(const X& x, const Window2d& window, const Out& out, const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_max_pool2d(x, window, out).ok());
    max_pool2d_codes<Backend, typename X::value_type>(detail::pool_call(x, window, nullptr, out, executor));
}

/// Parameters of avg_pool2d() for a target; see arith::make_average().
///
/// @return the parameters; the errors of check_window() and arith::make_average()
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::AverageParams> make_avg_pool2d(const Window2d& window, const arith::CodesOf& in,
                                                       const arith::CodesOf& out,
                                                       PoolDivisor divisor = PoolDivisor::kernel_cells) noexcept {
    if (const Status status = check_window(window, OpKind::avg_pool2d); !status) return status;
    return arith::make_average(TargetType::policy, in, out, detail::all_codes(out, Activation::none),
                               window.kernel.height * window.kernel.width, divisor, !(window.padding == Padding2d{}));
}

/// @return ok; the errors of check_pool() and arith::check_average_params(); shape_mismatch of output, with the first
///         extents that differ from output_size(), and of kernel where the parameters were made for another window
template <class TargetType, CodeImage X, CodeImage Out>
requires arith::Target<TargetType> && SameCodes<X, Out>
constexpr Status check_avg_pool2d(const X& x, const Window2d& window, const arith::AverageParams& params,
                                  const Out& out) noexcept {
    constexpr OpKind op = OpKind::avg_pool2d;
    if (const Status status = detail::check_pool_images(x, window, out, op); !status) return status;
    const index_t cells = window.kernel.height * window.kernel.width;
    if (params.kernel_cells != cells)
        return {StatusCode::shape_mismatch, op, Field::kernel, params.kernel_cells, cells};
    return arith::check_average_params(TargetType::policy, params, dtype_of<typename X::element_type>,
                                       !(window.padding == Padding2d{}));
}

/// The average of each window, by the target's rule.
///
///     out[n][c][i][j] = requantize(sum of x[n][c][i·stride + k - padding] over the window / cells)
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param x       int8 or int16 codes, channels_last
/// @param params  made by make_avg_pool2d() for the same target and window
/// @param out     typed as x, of output_size(); must not overlap it
/// @pre   check_avg_pool2d()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(outputs · kernel)
/// Source   docs/arithmetic.md section 4
template <class TargetType, class Backend = simd::default_backend, CodeImage X, CodeImage Out>
requires arith::Target<TargetType> && SameCodes<X, Out> && CodeOutput<Out>
void avg_pool2d(const X& x, const Window2d& window, const arith::AverageParams& params, const Out& out,
                const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_avg_pool2d<TargetType>(x, window, params, out).ok());
    avg_pool2d_codes<TargetType, Backend, typename X::value_type>(detail::pool_call(x, window, &params, out, executor));
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_POOL_HPP
