// SPDX-License-Identifier: MIT
//
// Float operators without weights as plain loops: add, relu, cat, flatten, softmax. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_FUNCTIONAL_ELEMENTWISE_HPP
#define INTQ_NN_FUNCTIONAL_ELEMENTWISE_HPP

#include <cmath>
#include <limits>
#include <vector>

#include "intq/core/op_params.hpp"
#include "intq/nn/tensor.hpp"

namespace intq::inline INTQ_ABI::nn::functional {

/// a + b of equal shapes, one float32 addition an element.
Tensor add(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, double b);

/// max(x, 0), or min(max(x, 0), 6). NaN stays NaN. Keeps the qparams of x: on codes it is a clamp.
Tensor relu(const Tensor& x);
Tensor relu6(const Tensor& x);
/// The clamp of a fused operator; Activation::none returns x itself.
Tensor activate(const Tensor& x, Activation activation);

/// Concatenation along an axis; the other extents must be equal.
Tensor cat(std::span<const Tensor> parts, int axis);

/// Joins the axes start_axis to end_axis (inclusive; negative ones count from the end). Keeps per-tensor qparams.
Tensor flatten(const Tensor& x, int start_axis = 1, int end_axis = -1);

/// exp(x - max) / sum exp(x - max) along an axis, in double.
Tensor softmax(const Tensor& x, int axis);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

inline int positive_axis(int axis, int rank, const char* op) {
    const int positive = axis < 0 ? axis + rank : axis;
    if (positive < 0 || positive >= rank)
        throw Error(std::string(op) + ": axis " + std::to_string(axis) + " does not exist in rank " +
                    std::to_string(rank));
    return positive;
}

inline index_t product(const Shape& shape, int first, int last) {
    index_t result = 1;
    for (int axis = first; axis < last; ++axis) result *= shape[axis];
    return result;
}

template <class F> Tensor map(const Tensor& x, const F& function) {
    Tensor y = Tensor::empty(x.shape(), DType::float32, x.layout());
    const auto from = x.flat<float>();
    const auto to = y.flat<float>();
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = function(from[i]);
    return y;
}

}  // namespace detail

inline Tensor add(const Tensor& a, const Tensor& b) {
    if (!(a.shape() == b.shape()))
        throw Error("add: the operands have shapes " + to_string(a.shape()) + " and " + to_string(b.shape()) +
                    "; they must be equal");
    Tensor y = Tensor::empty(a.shape(), DType::float32, a.layout());
    const Tensor second = b.to_layout(a.layout());
    const auto x = a.flat<float>(), z = second.flat<float>();
    const auto to = y.flat<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = x[i] + z[i];
    return y;
}

inline Tensor add(const Tensor& a, double b) {
    return detail::map(a, [term = static_cast<float>(b)](float x) { return x + term; });
}

inline Tensor relu(const Tensor& x) {
    Tensor y = detail::map(x, [](float v) { return v < 0.0f ? 0.0f : v; });
    y.set_qparams(x.qparams());
    return y;
}

inline Tensor relu6(const Tensor& x) {
    Tensor y = detail::map(x, [](float v) { return v < 0.0f ? 0.0f : v > 6.0f ? 6.0f : v; });
    y.set_qparams(x.qparams());
    return y;
}

inline Tensor activate(const Tensor& x, Activation activation) {
    switch (activation) {
        case Activation::relu:
            return relu(x);
        case Activation::relu6:
            return relu6(x);
        case Activation::none:
            break;
    }
    return x;
}

inline Tensor cat(std::span<const Tensor> parts, int axis) {
    if (parts.empty()) throw Error("cat: there is nothing to concatenate");
    const int along = detail::positive_axis(axis, parts[0].rank(), "cat");
    Shape shape = parts[0].shape();
    shape[along] = 0;
    for (const Tensor& part : parts) {
        bool fits = part.rank() == shape.rank;
        for (int i = 0; fits && i < shape.rank; ++i) fits = i == along || part.extent(i) == parts[0].extent(i);
        if (!fits)
            throw Error("cat: the parts have shapes " + to_string(parts[0].shape()) + " and " +
                        to_string(part.shape()) + "; all extents but that of axis " + std::to_string(along) +
                        " must be equal");
        shape[along] += part.extent(along);
    }
    Tensor y = Tensor::empty(shape);
    const index_t outer = detail::product(shape, 0, along), step = detail::product(shape, along, shape.rank);
    index_t offset = 0;
    for (const Tensor& part : parts) {
        const Tensor input = part.contiguous();
        const float* from = input.flat<float>().data();
        const index_t run = detail::product(part.shape(), along, shape.rank);
        for (index_t o = 0; o < outer; ++o)
            std::copy_n(from + o * run, run, y.flat<float>().data() + o * step + offset);
        offset += run;
    }
    return y;
}

inline Tensor flatten(const Tensor& x, int start_axis, int end_axis) {
    if (x.rank() == 0) return x.reshape(Shape(1));
    const int first = detail::positive_axis(start_axis, x.rank(), "flatten");
    const int last = detail::positive_axis(end_axis, x.rank(), "flatten");
    if (first > last)
        throw Error("flatten: axis " + std::to_string(start_axis) + " comes after axis " + std::to_string(end_axis));
    Shape shape;
    for (int axis = 0; axis < x.rank(); ++axis)
        if (axis <= first || axis > last) {
            shape.extents[static_cast<std::size_t>(shape.rank++)] = x.extent(axis);
        } else {
            shape.extents[static_cast<std::size_t>(shape.rank - 1)] *= x.extent(axis);
        }
    return x.reshape(shape);
}

inline Tensor softmax(const Tensor& x, int axis) {
    const int along = detail::positive_axis(axis, x.rank(), "softmax");
    const Tensor input = x.contiguous();
    Tensor y = Tensor::empty(x.shape());
    const index_t count = x.extent(along), inner = detail::product(x.shape(), along + 1, x.rank());
    const index_t outer = detail::product(x.shape(), 0, along);
    std::vector<double> terms(static_cast<std::size_t>(count));
    for (index_t o = 0; o < outer; ++o)
        for (index_t i = 0; i < inner; ++i) {
            const float* from = input.flat<float>().data() + o * count * inner + i;
            float* to = y.flat<float>().data() + o * count * inner + i;
            double largest = -std::numeric_limits<double>::infinity(), sum = 0;
            for (index_t k = 0; k < count; ++k) largest = std::max(largest, static_cast<double>(from[k * inner]));
            for (index_t k = 0; k < count; ++k)
                sum += terms[static_cast<std::size_t>(k)] = std::exp(static_cast<double>(from[k * inner]) - largest);
            for (index_t k = 0; k < count; ++k)
                to[k * inner] = static_cast<float>(terms[static_cast<std::size_t>(k)] / sum);
        }
    return y;
}

}  // namespace intq::inline INTQ_ABI::nn::functional

#endif  // INTQ_NN_FUNCTIONAL_ELEMENTWISE_HPP
