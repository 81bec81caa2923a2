// SPDX-License-Identifier: MIT
//
// Gradients of operators that move or select values: cat, slice, split, permute, expand, pad, embedding,
// index_copy. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_MOVE_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_MOVE_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/axes.hpp"
#include "intq/nn/float_operators/index_copy.hpp"
#include "intq/nn/float_operators/move.hpp"
#include "intq/nn/layers/embedding.hpp"
#include "intq/nn/layers/move.hpp"
#include "intq/nn/model/call.hpp"
#include "intq/nn/model/recorder.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// The numbers 0, 1, … of a tensor's elements, in its shape: applying an operator that moves elements to them shows
/// where each element of its result came from.
Tensor numbered(const Shape& shape);

/// to[places[i]] += from[i]; places as in numbered().
template <class T> void scatter(const Tensor& from, const Tensor& places, Tensor& to) {
    detail::check_gradient_shape(from.shape(), places.shape());
    const Tensor values = from.contiguous(), at = places.contiguous();
    const auto numbers = at.flat<std::int64_t>();
    for (std::size_t i = 0; i < numbers.size(); ++i)
        to.flat<T>()[static_cast<std::size_t>(numbers[i])] += values.template flat<T>()[i];
}

namespace detail {

template <class T> void cat_backward(GradientContext& context) {
    const auto& parts = context.inputs()[0].tuple();
    const int axis = nn::float_operators::positive_axis(static_cast<int>(context.inputs().integer(1, 0)),
                                                        context.output().rank(), "cat");
    index_t first = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const index_t count = parts[i].tensor().extent(axis);
        context.add_input(0, nn::float_operators::slice(context.gradient(), axis, first, first + count), i);
        first += count;
    }
}

void reshape_backward(GradientContext& context);

/// The gradient of a function that moves or selects elements of its first argument, into one tensor or a tuple.
template <class T, const nn::Function& function> void moved_backward(GradientContext& context) {
    const auto given = context.inputs().values();
    std::vector<nn::Value> arguments(given.begin(), given.end());
    arguments[0] = numbered(context.input(0).shape());
    const nn::Value moved = function.evaluate(arguments);
    Tensor dx = Tensor::zeros(context.input(0).shape(), dtype_of<T>);
    if (moved.is_tensor()) scatter<T>(context.gradient(), moved.tensor(), dx);
    for (std::size_t i = 0; moved.is_tuple() && i < moved.tuple().size(); ++i)
        if (context.gradient(i).defined()) scatter<T>(context.gradient(i), moved.tuple()[i].tensor(), dx);
    context.add_input(0, dx);
}

/// An item of a tuple, or an element of axis 0 of a tensor.
template <class T> void getitem_backward(GradientContext& context) {
    if (!context.inputs()[0].is_tuple()) return moved_backward<T, nn::getitem_function>(context);
    const std::int64_t at = context.inputs()[1].integer();
    const auto count = static_cast<std::int64_t>(context.inputs()[0].tuple().size());
    context.add_input(0, context.gradient(), static_cast<std::size_t>(at < 0 ? at + count : at));
}

/// Padding is cut off again, and cropped elements get no gradient. Elements of the tensor that were repeated add up.
template <class T> void pad_backward(GradientContext& context) {
    if (nn::pad_mode(context.inputs()) != PadMode::constant) return moved_backward<T, nn::pad_function>(context);
    const Tensor& x = context.input(0);
    const std::vector<index_t> padding = nn::integers_of(context.inputs()[1]);
    Tensor dy = context.gradient(), kept = numbered(x.shape());
    for (std::size_t i = 0; i < padding.size(); i += 2) {
        const int axis = x.rank() - 1 - static_cast<int>(i / 2);
        const auto inside = [axis](const Tensor& t, index_t before, index_t behind) {
            return nn::float_operators::slice(t, axis, std::max<index_t>(before, 0),
                                              t.extent(axis) - std::max<index_t>(behind, 0));
        };
        dy = inside(dy, padding[i], padding[i + 1]);
        kept = inside(kept, -padding[i], -padding[i + 1]);
    }
    Tensor dx = Tensor::zeros(x.shape(), dtype_of<T>);
    scatter<T>(dy, kept, dx);
    context.add_input(0, dx);
}

/// dweight[r] = sum of dy over all places whose id is r; ids have no gradient.
template <class T> Tensor embedding_gradient(const Tensor& ids, const Tensor& dy, const Shape& weight) {
    Tensor result = Tensor::zeros(weight, dtype_of<T>);
    const Tensor numbers = ids.contiguous(), from = dy.contiguous();
    const index_t width = weight[1];
    for (index_t i = 0; i < ids.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const index_t id = ids.dtype() == DType::int64 ? static_cast<index_t>(numbers.flat<std::int64_t>()[at])
                                                       : static_cast<index_t>(numbers.flat<std::int32_t>()[at]);
        for (index_t d = 0; d < width; ++d)
            result.template flat<T>().data()[id * width + d] += from.template flat<T>().data()[i * width + d];
    }
    return result;
}

template <class T> void embedding_backward(GradientContext& context) {
    const Tensor& weight = context.module_as<nn::Embedding>().weight();
    context.add_parameter(weight, embedding_gradient<T>(context.input(0), context.gradient(), weight.shape()));
}

/// embedding() with the table as an argument.
template <class T> void functional_embedding_backward(GradientContext& context) {
    context.add_input(1, embedding_gradient<T>(context.input(0), context.gradient(), context.input(1).shape()));
}

/// Rows that were replaced have no gradient, and the source that of the rows that it became; of equal indices each.
template <class T> void index_copy_backward(GradientContext& context) {
    const int axis = static_cast<int>(context.inputs()[1].integer());
    const Tensor& index = context.input(2);
    const Tensor nothing = Tensor::zeros(context.input(3).shape(), dtype_of<T>);
    context.add_input(0, nn::float_operators::index_copy(context.gradient(), axis, index, nothing));
    context.add_input(3, nn::float_operators::index_select_rows(context.gradient(), axis, index));
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training_gradients)

#    include <numeric>

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Tensor numbered(const Shape& shape) {
    Tensor numbers = Tensor::empty(shape, DType::int64);
    const auto all = numbers.flat<std::int64_t>();
    std::iota(all.begin(), all.end(), std::int64_t{0});
    return numbers;
}

namespace detail {

INTQ_INLINE void reshape_backward(GradientContext& context) {
    context.add_input(0, context.gradient().reshape(context.input(0).shape()));
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training_gradients)
#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_MOVE_HPP
