// SPDX-License-Identifier: MIT
//
// Gradients of operators on single elements: identity, relu, relu6, clamp, masked_fill, add, sub, mul,
// dropout. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_ELEMENTWISE_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_ELEMENTWISE_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/layout.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/elementwise.hpp"
#include "intq/nn/float_operators/move.hpp"
#include "intq/nn/layers/elementwise.hpp"
#include "intq/nn/layers/move.hpp"
#include "intq/nn/model/call.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// f(a[i], b[i]) for two tensors of one shape, row_major.
template <class T, class Callable> Tensor zip(const Tensor& a, const Tensor& b, const Callable& function) {
    detail::check_gradient_shape(b.shape(), a.shape());
    const Tensor x = a.contiguous(), z = b.contiguous();
    Tensor y = Tensor::empty(a.shape(), dtype_of<T>);
    const auto from = x.flat<T>(), with = z.flat<T>();
    const auto to = y.flat<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = function(from[i], with[i]);
    return y;
}

/// a + b; a new tensor, since gradients are passed on without copies.
template <class T> Tensor sum_of(const Tensor& a, const Tensor& b) {
    return zip<T>(a, b, [](T x, T y) { return x + y; });
}

/// The gradient of an operand that was repeated along axes to reach the shape of `gradient`: the sum over its copies,
/// in double.
template <class T> Tensor sum_to_shape(const Tensor& gradient, const Shape& shape) {
    if (gradient.shape() == shape) return gradient;
    const int missing = gradient.rank() - shape.rank;
    const Tensor from = gradient.contiguous();
    std::vector<double> sums(static_cast<std::size_t>(shape.size()), 0.0);
    std::array<index_t, max_rank> at{};
    for (const T value : from.flat<T>()) {
        index_t to = 0;
        for (int axis = 0; axis < shape.rank; ++axis)
            to = to * shape[axis] + (shape[axis] == 1 ? 0 : at[static_cast<std::size_t>(axis + missing)]);
        sums[static_cast<std::size_t>(to)] += static_cast<double>(value);
        for (int axis = gradient.rank() - 1; axis >= 0; --axis) {
            if (++at[static_cast<std::size_t>(axis)] < gradient.extent(axis)) break;
            at[static_cast<std::size_t>(axis)] = 0;
        }
    }
    Tensor result = Tensor::empty(shape, dtype_of<T>);
    std::transform(sums.begin(), sums.end(), result.flat<T>().begin(), [](double sum) { return static_cast<T>(sum); });
    return result;
}

/// The gradient that a clamp passes, read from its output: at the ends it is 0, as in PyTorch.
///
///     dx = dy where low < y < high, else 0
template <class T> Tensor clamp_gradient(const Tensor& y, const Tensor& gradient, Activation activation) {
    switch (activation) {
        case Activation::relu:
            return zip<T>(y.to_layout(Layout::row_major), gradient,
                          [](auto value, T dy) { return value > 0 ? dy : T{0}; });
        case Activation::relu6:
            return zip<T>(y.to_layout(Layout::row_major), gradient,
                          [](auto value, T dy) { return value > 0 && value < 6 ? dy : T{0}; });
        case Activation::none:
            break;
    }
    return gradient;
}

namespace detail {

void identity_backward(GradientContext& context);

/// Integers that follow from a shape have no gradient.
void no_backward(GradientContext& context);

/// Indices have none either, and no loss can be computed from them.
///
/// @throws Error whenever one is given
[[noreturn]] void refuse_backward(GradientContext& context);

template <class T> void relu_backward(GradientContext& context) {
    context.add_input(0, clamp_gradient<T>(context.output(), context.gradient(), Activation::relu));
}

template <class T> void relu6_backward(GradientContext& context) {
    context.add_input(0, clamp_gradient<T>(context.output(), context.gradient(), Activation::relu6));
}

/// Masked elements hand on no gradient.
template <class T> void masked_fill_backward(GradientContext& context) {
    const Tensor& x = context.input(0);
    const Tensor mask = nn::float_operators::expand(
        context.has_module() ? context.module_as<nn::MaskedFill>().mask() : context.input(1), x.shape(), "masked_fill");
    Tensor dx = context.gradient().contiguous().clone();
    for (std::size_t i = 0; i < dx.template flat<T>().size(); ++i)
        if (mask.flat<std::uint8_t>()[i] != 0) dx.template flat<T>()[i] = T{0};
    context.add_input(0, dx);
}

/// The same behind a position.
template <class T> void causal_fill_backward(GradientContext& context) {
    const Tensor nothing = Tensor::zeros(context.input(0).shape());
    const Tensor filled = nn::float_operators::causal_fill(nothing, context.input(1), 1.0);
    Tensor dx = context.gradient().contiguous().clone();
    for (std::size_t i = 0; i < dx.template flat<T>().size(); ++i)
        if (filled.flat<float>()[i] != 0.0f) dx.template flat<T>()[i] = T{0};
    context.add_input(0, dx);
}

/// dx = dy where low <= x <= high, else 0; as in PyTorch it passes at the ends.
template <class T> void clamp_backward(GradientContext& context) {
    const auto low = context.inputs().optional_number(1), high = context.inputs().optional_number(2);
    context.add_input(0, zip<T>(context.input(0), context.gradient(), [&](T x, T dy) {
                          const auto value = static_cast<double>(x);
                          return (low && value < *low) || (high && value > *high) ? T{0} : dy;
                      }));
}

/// The gradient of an operand that is a tensor.
template <class T> void add_operand(GradientContext& context, std::size_t operand, const Tensor& gradient) {
    if (context.wants(operand) && context.inputs()[operand].is_tensor())
        context.add_input(operand, sum_to_shape<T>(gradient, context.input(operand).shape()));
}

/// The gradient goes to the operand that was taken, and half to each of two that are equal; as in PyTorch.
template <class T, bool IsMaximum> void extreme_backward(GradientContext& context) {
    const Tensor& dy = context.gradient();
    const Tensor a = nn::float_operators::expand(context.input(0), dy.shape(), "maximum"),
                 b = nn::float_operators::expand(context.input(1), dy.shape(), "maximum");
    const auto share = [](const Tensor& own, const Tensor& other) {
        return zip<T>(own, other, [](T x, T y) { return x == y ? T{0.5} : T((x > y) == IsMaximum ? 1 : 0); });
    };
    const auto product = [](T dy_of, T part) { return dy_of * part; };
    add_operand<T>(context, 0, zip<T>(dy, share(a, b), product));
    add_operand<T>(context, 1, zip<T>(dy, share(b, a), product));
}

template <class T> void add_backward(GradientContext& context) {
    for (const std::size_t operand : {0u, 1u}) add_operand<T>(context, operand, context.gradient());
}

template <class T> void add_relu_backward(GradientContext& context) {
    const Tensor dy = clamp_gradient<T>(context.output(), context.gradient(), Activation::relu);
    for (const std::size_t operand : {0u, 1u}) add_operand<T>(context, operand, dy);
}

template <class T> Tensor times(const Tensor& x, double factor) {
    Tensor y = x.contiguous().clone();
    for (T& value : y.flat<T>()) value = static_cast<T>(static_cast<double>(value) * factor);
    return y;
}

template <class T> void sub_backward(GradientContext& context) {
    add_operand<T>(context, 0, context.gradient());
    add_operand<T>(context, 1, times<T>(context.gradient(), -1.0));
}

/// da = dy · b,  db = dy · a
template <class T> void mul_backward(GradientContext& context) {
    const Tensor& dy = context.gradient();
    for (const std::size_t operand : {0u, 1u}) {
        const nn::Value& other = context.inputs()[1 - operand];
        add_operand<T>(context, operand,
                       other.is_tensor() ? zip<T>(dy, nn::float_operators::expand(other.tensor(), dy.shape(), "mul"),
                                                  [](T gradient, T factor) { return gradient * factor; })
                                         : times<T>(dy, other.number()));
    }
}

/// dx = dy / (1 - p) where the element was kept, else 0; the tape has the number of the call.
template <class T> void dropout_backward(GradientContext& context) {
    const auto& dropout = context.module_as<nn::Dropout>();
    const nn::Value call = context.kept("call");
    if (call.is_none()) return context.add_input(0, context.gradient());
    context.add_input(0, dropout.mask(call.integer()).template apply_to<T>(context.gradient()));
}

}  // namespace detail

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training_gradients)

#    include "intq/io/error.hpp"

namespace detail {

INTQ_INLINE void no_backward(GradientContext&) {}

INTQ_INLINE void refuse_backward(GradientContext&) {
    throw Error("its output is indices, which have no gradient; compute the loss from the scores in front of it");
}

INTQ_INLINE void identity_backward(GradientContext& context) { context.add_input(0, context.gradient()); }

}  // namespace detail

#endif  // INTQ_DEFINES(training_gradients)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_ELEMENTWISE_HPP
