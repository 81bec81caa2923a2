// SPDX-License-Identifier: MIT
//
// Numbers of files and of golden runs, which are little-endian on every machine. Layer: core (docs/program_format.md).
#ifndef INTQ_CORE_BYTE_ORDER_HPP
#define INTQ_CORE_BYTE_ORDER_HPP

#include <bit>
#include <cstddef>
#include <cstring>

#include "intq/core/abi.hpp"
#include "intq/core/shape.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

inline constexpr bool is_little_endian = std::endian::native == std::endian::little;
static_assert(is_little_endian || std::endian::native == std::endian::big, "the order of bytes is mixed");

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

/// Copies numbers from the order of this machine to little-endian, or back, which is the same.
///
/// @param size  bytes of a number
/// @param to    count · size bytes; must not overlap from
inline void copy_little_endian(void* to, const void* from, index_t count, index_t size) noexcept {
    if constexpr (is_little_endian) {
        std::memcpy(to, from, static_cast<std::size_t>(count * size));
    } else {
        auto* at = static_cast<std::byte*>(to);
        const auto* number = static_cast<const std::byte*>(from);
        for (index_t i = 0; i < count; ++i, number += size)
            for (index_t byte = size; byte > 0; --byte) *at++ = number[byte - 1];
    }
}

/// A number in the other order of the two, where they differ.
template <class Number> Number little_endian(Number number) noexcept {
    Number other{};
    copy_little_endian(&other, &number, 1, index_t{sizeof number});
    return other;
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_BYTE_ORDER_HPP
