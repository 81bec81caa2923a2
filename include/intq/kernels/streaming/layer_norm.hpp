// SPDX-License-Identifier: MIT
//
// Layer, RMS and group norm of codes. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_LAYER_NORM_HPP
#define INTQ_KERNELS_STREAMING_LAYER_NORM_HPP

#include <array>

#include "intq/arith/lanes.hpp"
#include "intq/arith/layer_norm.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/quotient.hpp"
#include "intq/kernels/streaming/layer_norm_call.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// y = requantize(weighted(normalized(x))), by the formulas of arith/layer_norm.hpp
///
/// @tparam Policy  requantize policy for sums of 32 bits
/// @pre check_layer_norm_params() is ok for pixels·count elements; weight within ±2^30, bias within ±2^29; y may be x,
///      and must not overlap it otherwise
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(n): two passes over what is normalized together
template <class Policy, class X, class Y> void layer_norm_codes(const LayerNormCall& call) INTQ_NOEXCEPT {
    using L = arith::scalar_lanes;
    const arith::LayerNormParams& params = *call.params;
    const arith::OutputLanes<L> out(params.codes);
    const auto channel = Policy::template load<L>(params.words.data(), 1);
    const index_t step = call.groups * call.count;
    (*call.executor)(call.samples * call.groups, [&](index_t task) {
        const index_t sample = call.groups == 1 ? task : quotient(task, call.groups),
                      group = task - sample * call.groups;
        const index_t first = sample * call.pixels * step + group * call.count;
        const X* x = static_cast<const X*>(call.x) + first;
        Y* y = static_cast<Y*>(call.y) + first;
        const std::int32_t* const weight = call.weight + group * call.count;
        const std::int32_t* const bias = call.bias + group * call.count;
        std::int64_t sum = 0, squares = 0;
        for (index_t pixel = 0; pixel < call.pixels; ++pixel)
            for (index_t k = 0; k < call.count; ++k) {
                const std::int32_t code = x[pixel * step + k] - params.zero_point;
                sum += params.is_centered ? code : 0;
                squares += std::int64_t{code} * code;
            }
        const arith::Deviation deviation(call.pixels * call.count, sum, squares, params.epsilon);
        for (index_t pixel = 0; pixel < call.pixels; ++pixel, x += step, y += step)
            for (index_t k = 0; k < call.count; ++k) {
                const std::int32_t u = deviation.normalized(x[k] - params.zero_point);
                const std::int32_t acc = arith::weighted(u, weight[k], bias[k]);
                y[k] = static_cast<Y>(Policy::template apply<L>(acc, channel, out));
            }
    });
}

namespace detail {

template <class Policy, class X, class Y>
inline constexpr LayerNormRow layer_norm_row{dtype_of<X>, dtype_of<Y>, &layer_norm_codes<Policy, X, Y>};

/// The same code for every backend.
template <class TargetType, class Backend>
inline constexpr auto layer_norm_rows = [] {
    using Policy = arith::RequantizePolicy<TargetType, std::int32_t>;
    return std::array{layer_norm_row<Policy, std::int8_t, std::int8_t>,
                      layer_norm_row<Policy, std::int16_t, std::int16_t>};
}();

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_LAYER_NORM_HPP
