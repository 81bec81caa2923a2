// SPDX-License-Identifier: MIT
//
// Whether two tensors are the same to the last bit.
#ifndef INTQ_TESTS_SUPPORT_SAME_BYTES_HPP
#define INTQ_TESTS_SUPPORT_SAME_BYTES_HPP

#include <cstddef>
#include <cstring>

#include "intq/tensor/tensor.hpp"

namespace intq::test {

/// Same type, shape and bytes in logical order; NaN is equal to itself.
inline bool same_bytes(const intq::Tensor& a, const intq::Tensor& b) {
    const intq::Tensor x = a.contiguous(), y = b.contiguous();
    return x.shape() == y.shape() && x.dtype() == y.dtype() &&
           std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.bytes())) == 0;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_SAME_BYTES_HPP
