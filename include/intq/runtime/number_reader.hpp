// SPDX-License-Identifier: MIT
//
// Numbers of a program file, read from bytes that may be anything. Layer: runtime.
#ifndef INTQ_RUNTIME_NUMBER_READER_HPP
#define INTQ_RUNTIME_NUMBER_READER_HPP

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "intq/core/assert.hpp"

namespace intq::runtime {
inline namespace INTQ_ABI {

/// Reads numbers of a variable length: seven bits a byte, the lowest first, the eighth says that more follow. Signed
/// numbers are interleaved, 0, -1, 1, -2, …
///
/// After an error every number is 0, and has_failed() says so: a number that is cut off, longer than it need be, or
/// outside the requested range.
class NumberReader {
public:
    explicit NumberReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

    bool has_failed() const noexcept { return has_failed_; }
    bool is_at_end() const noexcept { return at_ == bytes_.size(); }
    /// Bytes that were not read; each number takes one at least.
    std::size_t left() const noexcept { return bytes_.size() - at_; }

    /// A number from `least` to `most`.
    std::int64_t number(std::int64_t least, std::int64_t most) noexcept {
        const std::uint64_t bits = unsigned_bits();
        const auto value = static_cast<std::int64_t>((bits >> 1) ^ (0 - (bits & 1)));
        if (value >= least && value <= most && !has_failed_) return value;
        has_failed_ = true;
        return 0;
    }
    /// A count of elements that take at least one byte each.
    std::int64_t count() noexcept {
        // Fewer bytes are left behind the count itself, but every element is read and can fail.
        return number(0, static_cast<std::int64_t>(left()));
    }
    float real() noexcept {
        return std::bit_cast<float>(static_cast<std::uint32_t>(number(0, std::int64_t{UINT32_MAX})));
    }

private:
    std::uint64_t unsigned_bits() noexcept {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 70 && at_ < bytes_.size() && !has_failed_; shift += 7) {
            const auto byte = std::to_integer<std::uint64_t>(bytes_[at_++]);
            const std::uint64_t part = byte & 127;
            // The tenth byte has one bit left, and no number ends in a byte without bits.
            if ((shift == 63 && byte > 1) || (byte == 0 && shift > 0)) break;
            value |= part << shift;
            if (byte < 128) return value;
        }
        has_failed_ = true;
        return 0;
    }

    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
    bool has_failed_ = false;
};

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_NUMBER_READER_HPP
