// SPDX-License-Identifier: MIT
//
// Gradients of softmax and of its logarithm. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_SOFTMAX_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_SOFTMAX_HPP

#include <cstddef>

#include "intq/arith/real_functions.hpp"
#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/axes.hpp"
#include "intq/nn/float_operators/move.hpp"
#include "intq/nn/layers/softmax.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// Gradients of softmax along an axis, from its output.
///
///     dx[i] = y[i] · (dy[i] - sum_k dy[k] · y[k])
template <class T> Tensor softmax_gradient(const Tensor& y, const Tensor& dy, int axis);

/// The same of log-softmax.
///
///     dx[i] = dy[i] - exp(y[i]) · sum_k dy[k]
template <class T> Tensor log_softmax_gradient(const Tensor& y, const Tensor& dy, int axis);

namespace detail {

/// dx = element(y, dy, sum_k term(y, dy)) along an axis.
template <class T, class Term, class Element>
Tensor map_gradient_sums(const Tensor& y, const Tensor& dy, int axis, const Term& term, const Element& element) {
    const int along = nn::float_operators::positive_axis(axis, y.rank(), "softmax");
    const Tensor values = y.contiguous(), gradients = dy.contiguous();
    Tensor dx = Tensor::empty(y.shape(), dtype_of<T>);
    const index_t count = y.extent(along);
    const index_t inner = nn::float_operators::extent_product(y.shape(), along + 1, y.rank());
    const index_t outer = nn::float_operators::extent_product(y.shape(), 0, along);
    for (index_t o = 0; o < outer; ++o)
        for (index_t i = 0; i < inner; ++i) {
            const auto at = [&](index_t k) { return static_cast<std::size_t>((o * count + k) * inner + i); };
            const auto value = [&](index_t k) { return static_cast<double>(values.flat<T>()[at(k)]); };
            const auto gradient = [&](index_t k) { return static_cast<double>(gradients.flat<T>()[at(k)]); };
            double sum = 0;
            for (index_t k = 0; k < count; ++k) sum += term(value(k), gradient(k));
            for (index_t k = 0; k < count; ++k)
                dx.flat<T>()[at(k)] = static_cast<T>(element(value(k), gradient(k), sum));
        }
    return dx;
}

template <class T> void log_softmax_backward(GradientContext& context) {
    const int axis = context.has_module() ? context.module_as<nn::LogSoftmax>().axis()
                                          : static_cast<int>(context.inputs()[1].integer());
    context.add_input(0, log_softmax_gradient<T>(context.output(), context.gradient(), axis));
}

template <class T> void softmax_backward(GradientContext& context) {
    if (!context.has_module())
        return context.add_input(0, softmax_gradient<T>(context.output(), context.gradient(),
                                                        static_cast<int>(context.inputs()[1].integer())));
    const auto& softmax = context.module_as<nn::Softmax>();
    Tensor y = context.output(), dy = context.gradient();
    int axis = softmax.axis();
    if (softmax.is_from_axis()) {
        y = nn::float_operators::flatten(y, axis, -1);
        dy = nn::float_operators::flatten(dy, axis, -1);
        axis = -1;
    }
    context.add_input(0, softmax_gradient<T>(y, dy, axis).reshape(context.input(0).shape()));
}

}  // namespace detail

template <class T> Tensor softmax_gradient(const Tensor& y, const Tensor& dy, int axis) {
    return detail::map_gradient_sums<T>(
        y, dy, axis, [](double value, double gradient) { return gradient * value; },
        [](double value, double gradient, double sum) { return value * (gradient - sum); });
}

template <class T> Tensor log_softmax_gradient(const Tensor& y, const Tensor& dy, int axis) {
    return detail::map_gradient_sums<T>(
        y, dy, axis, [](double, double gradient) { return gradient; },
        [](double value, double gradient, double sum) { return gradient - arith::real_exp(value) * sum; });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_SOFTMAX_HPP
