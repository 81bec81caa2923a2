// SPDX-License-Identifier: MIT
//
// The input of generated headers under test: numbers that every machine computes alike.
#ifndef INTQ_TESTS_DEPLOY_PATTERN_HPP
#define INTQ_TESTS_DEPLOY_PATTERN_HPP

#include <cstdint>

#include "intq/core/dtype.hpp"

namespace intq::test {

/// From -1 to 1.
inline void fill_pattern(float* to, index_t count) {
    std::uint32_t state = 12345;
    for (index_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        to[i] = static_cast<float>(static_cast<std::int32_t>(state >> 16 & 0x7fff) - 16384) / 16384.0f;
    }
}

/// Bytes.
inline void fill_pattern(std::uint8_t* to, index_t count) {
    std::uint32_t state = 12345;
    for (index_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        to[i] = static_cast<std::uint8_t>(state >> 24);
    }
}

}  // namespace intq::test

#endif  // INTQ_TESTS_DEPLOY_PATTERN_HPP
