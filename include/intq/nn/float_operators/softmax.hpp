// SPDX-License-Identifier: MIT
//
// Float softmax and its logarithm as plain loops. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_SOFTMAX_HPP
#define INTQ_NN_FLOAT_OPERATORS_SOFTMAX_HPP

#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// exp(x - max) / sum exp(x - max) along an axis, in double, rounded once.
Tensor softmax(const Tensor& x, int axis);

/// x - max - log(sum exp(x - max)) along an axis, in double, rounded once.
Tensor log_softmax(const Tensor& x, int axis);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <limits>
#    include <vector>

#    include "intq/arith/real_functions.hpp"
#    include "intq/nn/float_operators/axes.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// y = element(x - max, exp(x - max), sum exp(x - max)) along an axis.
template <class Element> Tensor map_sums(const Tensor& x, int axis, const char* op, const Element& element) {
    const int along = positive_axis(axis, x.rank(), op);
    x.expect_dtype("flat", DType::float32);
    if (detail::is_of_shapes(x)) return Tensor::of_shape(x.shape());
    const Tensor input = x.contiguous();
    Tensor y = Tensor::empty(x.shape());
    const index_t count = x.extent(along), inner = extent_product(x.shape(), along + 1, x.rank());
    const index_t outer = extent_product(x.shape(), 0, along);
    std::vector<double> terms(static_cast<std::size_t>(count));
    for (index_t o = 0; o < outer; ++o)
        for (index_t i = 0; i < inner; ++i) {
            const float* from = input.flat<float>().data() + o * count * inner + i;
            float* to = y.flat<float>().data() + o * count * inner + i;
            double largest = -std::numeric_limits<double>::infinity(), sum = 0;
            for (index_t k = 0; k < count; ++k) largest = (std::max)(largest, static_cast<double>(from[k * inner]));
            for (index_t k = 0; k < count; ++k)
                sum += terms[static_cast<std::size_t>(k)] =
                    arith::real_exp(static_cast<double>(from[k * inner]) - largest);
            for (index_t k = 0; k < count; ++k)
                to[k * inner] =
                    element(static_cast<double>(from[k * inner]) - largest, terms[static_cast<std::size_t>(k)], sum);
        }
    return y;
}

}  // namespace detail

INTQ_INLINE Tensor softmax(const Tensor& x, int axis) {
    return detail::map_sums(x, axis, "softmax",
                            [](double, double term, double sum) { return static_cast<float>(term / sum); });
}

INTQ_INLINE Tensor log_softmax(const Tensor& x, int axis) {
    return detail::map_sums(x, axis, "log_softmax", [](double distance, double, double sum) {
        return static_cast<float>(distance - arith::real_log(sum));
    });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_SOFTMAX_HPP
