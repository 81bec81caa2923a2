// SPDX-License-Identifier: MIT
//
// Gradients of operators that move values: cat, flatten. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_SHAPE_HPP
#define INTQ_TRAINING_GRADIENTS_SHAPE_HPP

#include "intq/nn/functional/elementwise.hpp"
#include "intq/training/gradients/context.hpp"

namespace intq::inline INTQ_ABI::training {

/// The extents [first, first + count) of an axis.
template <class T> nn::Tensor slice(const nn::Tensor& x, int axis, index_t first, index_t count) {
    const nn::Tensor from = x.contiguous();
    Shape shape = x.shape();
    shape[axis] = count;
    nn::Tensor y = nn::Tensor::empty(shape, dtype_of<T>);
    const index_t inner = nn::functional::detail::product(shape, axis + 1, shape.rank);
    const index_t outer = nn::functional::detail::product(shape, 0, axis);
    for (index_t o = 0; o < outer; ++o)
        std::copy_n(from.flat<T>().data() + (o * x.extent(axis) + first) * inner, count * inner,
                    y.flat<T>().data() + o * count * inner);
    return y;
}

namespace detail {

template <class T> void cat_backward(GradientContext& context) {
    const auto& parts = context.inputs()[0].tuple();
    const int axis = nn::functional::detail::positive_axis(static_cast<int>(context.inputs().integer(1, 0)),
                                                           context.output().rank(), "cat");
    index_t first = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const index_t count = parts[i].tensor().extent(axis);
        context.add_input(0, slice<T>(context.gradient(), axis, first, count), i);
        first += count;
    }
}

inline void reshape_backward(GradientContext& context) {
    context.add_input(0, context.gradient().reshape(context.input(0).shape()));
}

}  // namespace detail

}  // namespace intq::inline INTQ_ABI::training

#endif  // INTQ_TRAINING_GRADIENTS_SHAPE_HPP
