// SPDX-License-Identifier: MIT
//
// Functions on Values that reduce: sum, mean. As layers they are methods of FloatFunctional. Layer: nn
// (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_REDUCE_HPP
#define INTQ_NN_LAYERS_REDUCE_HPP

#include <initializer_list>
#include <span>

#include "intq/nn/model/call.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

Value evaluate_sum(std::span<const Value> values);
Value evaluate_mean(std::span<const Value> values);

}  // namespace detail

inline constexpr Function sum_function{"sum", &detail::evaluate_sum};
inline constexpr Function mean_function{"mean", &detail::evaluate_mean};

/// Along axes, which are dropped, or become 1 with keepdim; no axes: over all elements.
Value sum(const Value& x, std::initializer_list<index_t> axes = {}, bool keepdim = false);
Value mean(const Value& x, std::initializer_list<index_t> axes = {}, bool keepdim = false);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include <vector>

#    include "intq/nn/float_operators/reduce.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Value evaluate_reduce(Tensor (*reduce)(const Tensor&, std::span<const index_t>, bool),
                                  std::span<const Value> values) {
    const Arguments arguments(values);
    const auto axes = arguments.has(1) ? integers_of(arguments[1]) : std::vector<index_t>();
    return reduce(arguments.tensor(0), axes, arguments.flag(2));
}

INTQ_INLINE Value evaluate_sum(std::span<const Value> values) { return evaluate_reduce(&float_operators::sum, values); }
INTQ_INLINE Value evaluate_mean(std::span<const Value> values) {
    return evaluate_reduce(&float_operators::mean, values);
}

}  // namespace detail

INTQ_INLINE Value sum(const Value& x, std::initializer_list<index_t> axes, bool keepdim) {
    return call(sum_function, x, detail::tuple_of({axes.begin(), axes.size()}), keepdim);
}

INTQ_INLINE Value mean(const Value& x, std::initializer_list<index_t> axes, bool keepdim) {
    return call(mean_function, x, detail::tuple_of({axes.begin(), axes.size()}), keepdim);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_REDUCE_HPP
