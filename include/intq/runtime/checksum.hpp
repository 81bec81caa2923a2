// SPDX-License-Identifier: MIT
//
// CRC-32, for constants and golden outputs: against accidents, not against forgery. Layer: runtime.
#ifndef INTQ_RUNTIME_CHECKSUM_HPP
#define INTQ_RUNTIME_CHECKSUM_HPP

#include <cstddef>
#include <cstdint>
#include <span>

#include "intq/core/abi.hpp"

namespace intq::runtime {
inline namespace INTQ_ABI {

/// CRC-32 of bytes, or of bytes that follow others.
///
/// @param before  the checksum of what came before; 0 for nothing
///
/// Cost     O(n), two steps for each byte; a table of 64 bytes
/// Source   ISO 3309, as in zip and PNG: the reflected polynomial 0xEDB88320
inline std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept {
    // Of four bits each: entry i is i, shifted through the polynomial four times.
    static constexpr std::uint32_t steps[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                                0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                                0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    std::uint32_t sum = ~before;
    for (const std::byte byte : bytes) {
        sum ^= std::to_integer<std::uint32_t>(byte);
        sum = (sum >> 4) ^ steps[sum & 15];
        sum = (sum >> 4) ^ steps[sum & 15];
    }
    return ~sum;
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_CHECKSUM_HPP
