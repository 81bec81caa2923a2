// SPDX-License-Identifier: MIT
//
// What each unit offers to main: plain types, since the intq types of differently built units differ.
#ifndef INTQ_EXAMPLES_PICK_BACKEND_CONVOLVE_HPP
#define INTQ_EXAMPLES_PICK_BACKEND_CONVOLVE_HPP

#include <cstddef>
#include <cstdint>

namespace pick_backend {

constexpr std::ptrdiff_t channels = 16, side = 14;

/// One build of convolve.cpp.
struct Unit {
    const char* backend;
    /// A 3x3 int8 convolution of (side, side, channels); false where it cannot be made.
    bool (*convolve)(const std::int8_t* weights, const std::int8_t* x, std::int8_t* y);
};

Unit baseline_unit();
Unit avx2_unit();
Unit avx512vnni_unit();

}  // namespace pick_backend

#endif  // INTQ_EXAMPLES_PICK_BACKEND_CONVOLVE_HPP
