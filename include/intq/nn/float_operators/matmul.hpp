// SPDX-License-Identifier: MIT
//
// Float product of matrices. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_MATMUL_HPP
#define INTQ_NN_FLOAT_OPERATORS_MATMUL_HPP

#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// Product of the matrices in the last two axes; the axes before them are broadcast.
///
///     y[…, i, j] = sum_k a[…, i, k] · b[…, k, j]
///
/// @param a, b  rank 2 or more
///
/// Result   as linear() of each pair of matrices
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"
#    include "intq/nn/float_operators/linear.hpp"
#    include "intq/nn/float_operators/move.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Tensor matmul(const Tensor& a, const Tensor& b) {
    if (a.rank() < 2 || b.rank() < 2 || a.extent(-1) != b.extent(-2))
        throw Error("matmul: matrices of shapes " + to_string(a.shape()) + " and " + to_string(b.shape()) +
                    " cannot be multiplied; the last axis of the first must be the last but one of the second");
    const index_t rows = a.extent(-2), inner = a.extent(-1), columns = b.extent(-1);
    const auto leading = [](const Tensor& t) {
        Shape shape = t.shape();
        shape.rank -= 2;
        return shape;
    };
    Shape shape = broadcast_shape(leading(a), leading(b), "matmul");
    const index_t count = shape.size();
    if (detail::is_of_shapes(a, b)) {
        for (const Tensor* operand : {&a, &b}) operand->expect_dtype("view", DType::float32);
        append_extent(shape, rows, "matmul");
        append_extent(shape, columns, "matmul");
        return Tensor::of_shape(shape);
    }
    const auto expanded = [&](const Tensor& t, index_t height, index_t width) {
        Shape full = shape;
        append_extent(full, height, "matmul");
        append_extent(full, width, "matmul");
        return expand(t, full, "matmul").reshape(Shape(count, height, width));
    };
    const Tensor first = expanded(a, rows, inner);
    const Tensor second = transpose(expanded(b, inner, columns), 1, 2);
    append_extent(shape, rows, "matmul");
    append_extent(shape, columns, "matmul");
    Tensor y = Tensor::zeros(shape);
    if (inner == 0) return y;
    for (index_t n = 0; n < count && rows * columns > 0; ++n) {
        const Tensor product = linear(first.batch(n, 1).reshape(Shape(rows, inner)),
                                      second.batch(n, 1).reshape(Shape(columns, inner)), {});
        std::copy_n(product.flat<float>().data(), rows * columns, y.flat<float>().data() + n * rows * columns);
    }
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_MATMUL_HPP
