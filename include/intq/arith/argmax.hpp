// SPDX-License-Identifier: MIT
//
// Where the largest of some codes is. Layer: arith (docs/arithmetic.md section 4).
#ifndef INTQ_ARITH_ARGMAX_HPP
#define INTQ_ARITH_ARGMAX_HPP

#include <cstdint>

#include "intq/arith/lanes.hpp"
#include "intq/core/abi.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

/// A code and its place in one number, so that the largest number is that of the largest code, and among equal codes
/// that of the lowest place.
///
///     key = 2^16·q + (2^16 - 1 - place),  -2^15 <= q < 2^15,  0 <= place < 2^16
///
/// Result   exact: q and place follow from the key
struct ArgMax {
    static constexpr std::int32_t places = 1 << 16;

    template <class L> static constexpr typename L::i32 key(typename L::i32 code, std::int32_t place) noexcept {
        return L::add(L::shift_left(code, L::set(std::int32_t{16})), L::set(std::int32_t{places - 1 - place}));
    }
    static constexpr std::int32_t code_of(std::int32_t key) noexcept { return key >> 16; }
    static constexpr std::int32_t place_of(std::int32_t key) noexcept { return places - 1 - (key & (places - 1)); }
};

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_ARGMAX_HPP
