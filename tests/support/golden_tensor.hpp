// SPDX-License-Identifier: MIT
//
// Tensors of the golden files: {"shape": […], "data": […]}, or "integers" in place of "data".
#ifndef INTQ_TESTS_SUPPORT_GOLDEN_TENSOR_HPP
#define INTQ_TESTS_SUPPORT_GOLDEN_TENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "intq/core/shape.hpp"
#include "intq/tensor/tensor.hpp"
#include "support/golden.hpp"

namespace intq::test {

inline Shape golden_shape(const nlohmann::json& extents) {
    Shape shape;
    for (const auto& extent : extents) shape.extents[static_cast<std::size_t>(shape.rank++)] = extent.get<index_t>();
    return shape;
}

/// Of int64 where the file has integers, else of float32.
inline intq::Tensor golden_tensor(const nlohmann::json& stored) {
    const Shape shape = golden_shape(stored.at("shape"));
    if (stored.contains("integers"))
        return intq::Tensor::from(shape, stored.at("integers").get<std::vector<std::int64_t>>());
    return intq::Tensor::from(shape, golden_floats(stored.at("data")));
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_GOLDEN_TENSOR_HPP
