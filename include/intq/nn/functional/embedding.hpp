// SPDX-License-Identifier: MIT
//
// Rows of a table by their number. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_FUNCTIONAL_EMBEDDING_HPP
#define INTQ_NN_FUNCTIONAL_EMBEDDING_HPP

#include <algorithm>

#include "intq/nn/functional/axes.hpp"

namespace intq::inline INTQ_ABI::nn::functional {

/// The rows of a table.
///
///     y[…, d] = weight[ids[…], d]
///
/// @param ids     int32 or int64, each in [0, rows)
/// @param weight  (rows, D)
inline Tensor embedding(const Tensor& ids, const Tensor& weight) {
    if (weight.rank() != 2) throw Error("embedding: the weight must have rank 2, given " + to_string(weight.shape()));
    if (ids.dtype() != DType::int32 && ids.dtype() != DType::int64)
        throw Error(std::string("embedding: the ids must be int32 or int64, given ") + name_of(ids.dtype()));
    Shape shape = ids.shape();
    detail::append_extent(shape, weight.extent(1), "embedding");
    Tensor y = Tensor::empty(shape);
    const Tensor numbers = ids.contiguous(), table = weight.contiguous();
    const index_t rows = weight.extent(0), width = weight.extent(1);
    for (index_t i = 0; i < ids.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const index_t id = ids.dtype() == DType::int64 ? static_cast<index_t>(numbers.flat<std::int64_t>()[at])
                                                       : static_cast<index_t>(numbers.flat<std::int32_t>()[at]);
        if (id < 0 || id >= rows)
            throw Error("embedding: the id " + std::to_string(id) + " is not in [0, " + std::to_string(rows) + ")");
        std::copy_n(table.flat<float>().data() + id * width, width, y.flat<float>().data() + i * width);
    }
    return y;
}

}  // namespace intq::inline INTQ_ABI::nn::functional

#endif  // INTQ_NN_FUNCTIONAL_EMBEDDING_HPP
