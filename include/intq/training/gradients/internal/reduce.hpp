// SPDX-License-Identifier: MIT
//
// Gradients of sums over axes and of products of matrices. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_REDUCE_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_REDUCE_HPP

#include <algorithm>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/axes.hpp"
#include "intq/nn/float_operators/move.hpp"
#include "intq/nn/model/call.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"
#include "intq/training/gradients/internal/elementwise.hpp"
#include "intq/training/gradients/internal/linear.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Of sum: dx[i] = dy of the sum that x[i] is part of; of mean: the same divided by the number of terms.
template <class T, bool divides> void reduce_backward(GradientContext& context) {
    const Tensor& x = context.input(0);
    std::vector<index_t> axes;
    if (context.inputs().has(1)) axes = nn::integers_of(context.inputs()[1]);
    if (axes.empty())
        for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
    Shape kept = x.shape();
    for (const index_t axis : axes)
        kept[nn::float_operators::positive_axis(static_cast<int>(axis), x.rank(), "sum")] = 1;
    const double terms = static_cast<double>(x.size()) / static_cast<double>(kept.size());
    const Tensor dy = nn::float_operators::expand(context.gradient().reshape(kept), x.shape());
    context.add_input(0, divides ? times<T>(dy, 1.0 / terms) : dy);
}

/// The matrices of the last two axes, one after the other, broadcast over the axes before them.
Tensor matrices_of(const Tensor& x, const Shape& leading);

/// da = dy · b^T,  db = a^T · dy for each pair of matrices; summed where one was repeated.
template <class T> void matmul_backward(GradientContext& context) {
    const Tensor &a = context.input(0), &b = context.input(1);
    Shape leading = context.gradient().shape(), shape_a = leading, shape_b = leading;
    leading.rank -= 2;
    shape_a[shape_a.rank - 1] = a.extent(-1);
    shape_b[shape_b.rank - 2] = b.extent(-2);
    const Tensor dy = matrices_of(context.gradient(), leading), first = matrices_of(a, leading),
                 second = matrices_of(b, leading);
    Tensor da = Tensor::empty(first.shape(), dtype_of<T>), db = Tensor::empty(second.shape(), dtype_of<T>);
    const auto matrix = [](const Tensor& t, index_t n) {
        return t.batch(n, 1).reshape(Shape(t.extent(1), t.extent(2)));
    };
    const auto keep = [](const Tensor& product, Tensor& to, index_t n) {
        std::copy_n(product.flat<T>().data(), product.size(), to.flat<T>().data() + n * product.size());
    };
    for (index_t n = 0; n < dy.extent(0); ++n) {
        const Tensor gradient = matrix(dy, n);
        if (context.wants(0)) keep(multiply_rows<T>(gradient, matrix(second, n)), da, n);
        if (context.wants(1)) keep(multiply_rows<T>(transpose<T>(matrix(first, n)), transpose<T>(gradient)), db, n);
    }
    add_operand<T>(context, 0, da.reshape(shape_a));
    add_operand<T>(context, 1, db.reshape(shape_b));
}

}  // namespace detail

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training_gradients)

namespace detail {

INTQ_INLINE Tensor matrices_of(const Tensor& x, const Shape& leading) {
    Shape full = leading;
    for (int axis = x.rank() - 2; axis < x.rank(); ++axis)
        nn::float_operators::append_extent(full, x.extent(axis), "matmul");
    return nn::float_operators::expand(x, full, "matmul").reshape(Shape(leading.size(), x.extent(-2), x.extent(-1)));
}

}  // namespace detail

#endif  // INTQ_DEFINES(training_gradients)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_REDUCE_HPP
