// SPDX-License-Identifier: MIT
//
// Up to 16 bytes from and to memory without touching a byte beyond them, for ISAs without byte masks.
// Layer: simd.
//
// Two overlapping accesses of a power-of-two size cover every count, so that no call and no loop is needed.
// The bytes of a register are in little-endian order here: only backends of such machines include this file.
#ifndef INTQ_SIMD_BASE_PARTIAL_HPP
#define INTQ_SIMD_BASE_PARTIAL_HPP

#include <cstdint>
#include <cstring>

#include "intq/core/dtype.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

/// The value at an address of any alignment.
template <class T> INTQ_ALWAYS_INLINE T read(const void* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

template <class T> INTQ_ALWAYS_INLINE void write(void* to, T value) noexcept { std::memcpy(to, &value, sizeof(T)); }

/// Byte i is from[i] for i < count, else 0.
/// @pre 0 <= count <= 8
INTQ_ALWAYS_INLINE std::uint64_t read_bytes(const void* from, index_t count) noexcept {
    const auto* bytes = static_cast<const unsigned char*>(from);
    if (count >= 4)
        return read<std::uint32_t>(bytes) | std::uint64_t{read<std::uint32_t>(bytes + count - 4)}
                                                << static_cast<int>(8 * (count - 4));
    if (count >= 2)
        return read<std::uint16_t>(bytes) | std::uint64_t{read<std::uint16_t>(bytes + count - 2)}
                                                << static_cast<int>(8 * (count - 2));
    return count > 0 ? *bytes : std::uint64_t{0};
}

/// to[i] = byte i of value for i < count.
/// @pre 0 <= count <= 8
INTQ_ALWAYS_INLINE void write_bytes(void* to, std::uint64_t value, index_t count) noexcept {
    auto* bytes = static_cast<unsigned char*>(to);
    if (count >= 4) {
        const int shift = static_cast<int>(8 * (count - 4));
        write(bytes, static_cast<std::uint32_t>(value));
        write(bytes + count - 4, static_cast<std::uint32_t>(value >> shift));
    } else if (count >= 2) {
        const int shift = static_cast<int>(8 * (count - 2));
        write(bytes, static_cast<std::uint16_t>(value));
        write(bytes + count - 2, static_cast<std::uint16_t>(value >> shift));
    } else if (count > 0) {
        *bytes = static_cast<unsigned char>(value);
    }
}

/// Sixteen bytes as two words.
struct Bytes16 {
    std::uint64_t low, high;
};

/// @pre 0 <= count <= 16
INTQ_ALWAYS_INLINE Bytes16 read_bytes16(const void* from, index_t count) noexcept {
    if (count < 8) return {read_bytes(from, count), 0};
    return {read<std::uint64_t>(from), read_bytes(static_cast<const unsigned char*>(from) + 8, count - 8)};
}

/// @pre 0 <= count <= 16
INTQ_ALWAYS_INLINE void write_bytes16(void* to, Bytes16 value, index_t count) noexcept {
    if (count < 8) {
        write_bytes(to, value.low, count);
    } else {
        write(to, value.low);
        write_bytes(static_cast<unsigned char*>(to) + 8, value.high, count - 8);
    }
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_BASE_PARTIAL_HPP
