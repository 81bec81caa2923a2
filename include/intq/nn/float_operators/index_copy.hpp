// SPDX-License-Identifier: MIT
//
// Rows of a tensor replaced by their number. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_INDEX_COPY_HPP
#define INTQ_NN_FLOAT_OPERATORS_INDEX_COPY_HPP

#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// A copy of x whose elements at some indices of an axis are those of another tensor.
///
///     y[…, index[t], …] = source[…, t, …],  with an index of each sample y[n, …, index[n, t], …] = source[n, …, t, …]
///
/// @param index   int32 or int64 in [0, extent of the axis): (T), the same for all as in PyTorch, or (N, T), of each
///                sample; of equal ones the last counts
/// @param source  as x, but for T along the axis
Tensor index_copy(const Tensor& x, int axis, const Tensor& index, const Tensor& source);

/// The elements that index_copy() replaces.
///
///     y[n, …, t, …] = x[n, …, index[n, t], …]
Tensor index_select_rows(const Tensor& x, int axis, const Tensor& index);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <string>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"
#    include "intq/nn/float_operators/embedding.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// x as (samples, outer, rows, inner) around an axis, and how many rows an index names.
struct IndexedRows {
    index_t outer, rows, inner, count;
};

INTQ_INLINE IndexedRows indexed_rows(const Shape& x, int axis, const Tensor& index) {
    if (index.dtype() != DType::int32 && index.dtype() != DType::int64)
        throw Error(std::string("index_copy: the index must be int32 or int64, given ") + name_of(index.dtype()));
    const bool of_samples = index.rank() == 2 && axis > 0 && index.extent(0) == x[0];
    if (index.rank() != 1 && !of_samples)
        throw Error("index_copy: the index must have shape (T), or (N, T) for an axis behind the samples, given " +
                    to_string(index.shape()) + " for axis " + std::to_string(axis) + " of " + to_string(x));
    return {extent_product(x, of_samples ? 1 : 0, axis), x[axis], extent_product(x, axis + 1, x.rank),
            index.extent(index.rank() - 1)};
}

/// Calls visit(row, t) for each row of x and of the source, counted by their first elements.
template <class Visit>
void for_each_row(const Shape& x, const IndexedRows& rows, const Tensor& index, const Visit& visit) {
    const std::vector<index_t> at = row_numbers(index, rows.rows);
    const index_t all = x.size() / (rows.rows * rows.inner);
    for (index_t i = 0; i < all; ++i)
        for (index_t t = 0; t < rows.count; ++t) {
            const index_t sample = index.rank() == 2 ? i / rows.outer : 0;
            const index_t row = at[static_cast<std::size_t>(sample * rows.count + t)];
            visit((i * rows.rows + row) * rows.inner, (i * rows.count + t) * rows.inner);
        }
}

}  // namespace detail

INTQ_INLINE Tensor index_copy(const Tensor& x, int axis, const Tensor& index, const Tensor& source) {
    x.expect_dtype("index_copy", source.dtype());
    axis = positive_axis(axis, x.rank(), "index_copy");
    const detail::IndexedRows rows = detail::indexed_rows(x.shape(), axis, index);
    Shape expected = x.shape();
    expected[axis] = rows.count;
    if (!(source.shape() == expected))
        throw Error("index_copy: the source must have shape " + to_string(expected) + ", given " +
                    to_string(source.shape()));
    if (detail::is_of_shapes(x, index, source)) return Tensor::of_shape(x.shape(), x.dtype());
    Tensor y = x.contiguous().clone();
    const Tensor from = source.contiguous();
    const index_t bytes = rows.inner * size_of(x.dtype());
    detail::for_each_row(x.shape(), rows, index, [&](index_t to, index_t at) {
        std::copy_n(from.data() + at * size_of(x.dtype()), bytes, y.data() + to * size_of(x.dtype()));
    });
    return y;
}

INTQ_INLINE Tensor index_select_rows(const Tensor& x, int axis, const Tensor& index) {
    axis = positive_axis(axis, x.rank(), "index_copy");
    const detail::IndexedRows rows = detail::indexed_rows(x.shape(), axis, index);
    Shape shape = x.shape();
    shape[axis] = rows.count;
    Tensor y = Tensor::empty(shape, x.dtype());
    const Tensor from = x.contiguous();
    const index_t bytes = rows.inner * size_of(x.dtype());
    detail::for_each_row(x.shape(), rows, index, [&](index_t at, index_t to) {
        std::copy_n(from.data() + at * size_of(x.dtype()), bytes, y.data() + to * size_of(x.dtype()));
    });
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_INDEX_COPY_HPP
