// SPDX-License-Identifier: MIT
//
// CRC-32, for constants, golden outputs and the arrays of a file: against accidents, not against forgery. Layer: core.
#ifndef INTQ_CORE_CHECKSUM_HPP
#define INTQ_CORE_CHECKSUM_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "intq/core/abi.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

namespace detail {

/// Entry i is i, shifted through the reflected polynomial four times.
template <std::uint32_t Polynomial>
inline constexpr auto crc_steps = [] {
    std::array<std::uint32_t, 16> steps{};
    for (std::uint32_t i = 0; i < 16; ++i) {
        std::uint32_t sum = i;
        for (int bit = 0; bit < 4; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? Polynomial : 0);
        steps[i] = sum;
    }
    return steps;
}();

template <std::uint32_t Polynomial>
INTQ_ALWAYS_INLINE std::uint32_t reflected_crc(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
    constexpr auto& steps = crc_steps<Polynomial>;
    std::uint32_t sum = ~before;
    for (const std::byte byte : bytes) {
        sum ^= std::to_integer<std::uint32_t>(byte);
        sum = (sum >> 4) ^ steps[sum & 15];
        sum = (sum >> 4) ^ steps[sum & 15];
    }
    return ~sum;
}

}  // namespace detail

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

/// CRC-32 of bytes, or of bytes that follow others.
///
/// @param before  the checksum of what came before; 0 for nothing
///
/// Cost     O(n), two steps for each byte; a table of 64 bytes
/// Source   ISO 3309, as in zip and PNG: the reflected polynomial 0xEDB88320
inline std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept {
    return detail::reflected_crc<0xEDB88320>(bytes, before);
}

/// CRC-32C: the same with Castagnoli's polynomial.
///
/// Source   RFC 3720, appendix B.4: the reflected polynomial 0x82F63B78
inline std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept {
    return detail::reflected_crc<0x82F63B78>(bytes, before);
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_CHECKSUM_HPP
