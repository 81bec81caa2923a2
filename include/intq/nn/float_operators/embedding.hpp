// SPDX-License-Identifier: MIT
//
// Rows of a table by their number. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_EMBEDDING_HPP
#define INTQ_NN_FLOAT_OPERATORS_EMBEDDING_HPP

#include <vector>

#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// The ids as numbers of rows, checked.
std::vector<index_t> row_numbers(const Tensor& ids, index_t rows);

/// The rows of a table.
///
///     y[…, d] = weight[ids[…], d]
///
/// @param ids     int32 or int64, each in [0, rows)
/// @param weight  (rows, D)
Tensor embedding(const Tensor& ids, const Tensor& weight);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <string>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_ids(const Tensor& ids) {
    if (ids.dtype() != DType::int32 && ids.dtype() != DType::int64)
        throw Error(std::string("embedding: the ids must be int32 or int64, given ") + name_of(ids.dtype()));
}

}  // namespace detail

INTQ_INLINE std::vector<index_t> row_numbers(const Tensor& ids, index_t rows) {
    detail::check_ids(ids);
    const Tensor numbers = ids.contiguous();
    std::vector<index_t> result;
    const auto take = [&](auto values) { result.assign(values.begin(), values.end()); };
    if (ids.dtype() == DType::int64)
        take(numbers.flat<std::int64_t>());
    else
        take(numbers.flat<std::int32_t>());
    for (const index_t id : result)
        if (id < 0 || id >= rows)
            throw Error("embedding: the id " + std::to_string(id) + " is not in [0, " + std::to_string(rows) + ")");
    return result;
}

INTQ_INLINE Tensor embedding(const Tensor& ids, const Tensor& weight) {
    if (weight.rank() != 2) throw Error("embedding: the weight must have rank 2, given " + to_string(weight.shape()));
    Shape shape = ids.shape();
    append_extent(shape, weight.extent(1), "embedding");
    if (detail::is_of_shapes(ids, weight)) return detail::check_ids(ids), Tensor::of_shape(shape);
    const std::vector<index_t> rows = row_numbers(ids, weight.extent(0));
    Tensor y = Tensor::empty(shape);
    const Tensor table = weight.contiguous();
    const index_t width = weight.extent(1);
    float* to = y.flat<float>().data();
    for (const index_t row : rows) to = std::copy_n(table.flat<float>().data() + row * width, width, to);
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_EMBEDDING_HPP
