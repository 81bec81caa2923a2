// SPDX-License-Identifier: MIT
//
// The index of the largest element along an axis. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_ARGMAX_HPP
#define INTQ_NN_FLOAT_OPERATORS_ARGMAX_HPP

#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// The index of the largest element along an axis, int64 as in PyTorch; of equal elements the lowest, where PyTorch
/// promises none. A NaN counts as the largest.
///
///     y[…, …] = min { k : x[…, k, …] = max_j x[…, j, …] }
///
/// @param keepdim  whether the axis stays, with extent 1
Tensor argmax(const Tensor& x, int axis, bool keepdim = false);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <cmath>
#    include <cstddef>
#    include <cstdint>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Tensor argmax(const Tensor& x, int axis, bool keepdim) {
    const int along = positive_axis(axis, x.rank(), "argmax");
    x.expect_dtype("argmax", DType::float32);
    const index_t count = x.extent(along);
    if (count == 0) throw Error("argmax: axis " + std::to_string(axis) + " of " + to_string(x.shape()) + " is empty");
    Shape shape;
    for (int other = 0; other < x.rank(); ++other)
        if (other != along || keepdim)
            shape.extents[static_cast<std::size_t>(shape.rank++)] = other == along ? 1 : x.extent(other);
    if (detail::is_of_shapes(x)) return Tensor::of_shape(shape, DType::int64);
    const Tensor input = x.contiguous();
    Tensor y = Tensor::empty(shape, DType::int64);
    const index_t inner = extent_product(x.shape(), along + 1, x.rank());
    const index_t outer = extent_product(x.shape(), 0, along);
    for (index_t o = 0; o < outer; ++o)
        for (index_t i = 0; i < inner; ++i) {
            const float* const from = input.flat<float>().data() + o * count * inner + i;
            index_t place = 0;
            for (index_t k = 1; k < count && !std::isnan(from[place * inner]); ++k)
                if (from[k * inner] > from[place * inner] || std::isnan(from[k * inner])) place = k;
            y.flat<std::int64_t>()[static_cast<std::size_t>(o * inner + i)] = place;
        }
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_ARGMAX_HPP
