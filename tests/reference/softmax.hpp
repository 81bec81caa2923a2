// SPDX-License-Identifier: MIT
//
// Oracle, part 8: softmax of int8 codes, docs/arithmetic.md section 4. Layer: tests/reference
// (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_SOFTMAX_HPP
#define INTQ_TESTS_REFERENCE_SOFTMAX_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "requantize.hpp"

namespace intq_reference {

/// The probabilities of one row of codes, 2^-15 a code.
///
///     d = max - x, E[d] = min(rhu(2^15·exp(-d·s_in)), 32767), E2[d] = rhu(2^31·exp(-d·s_in)), S = sum E2,
///     n = bitlen(S), S16 = S >> (n-16), R = fl((2^30 + fl(S16/2))/S16), p = clamp(SH_R(E·R, n-17), 0, 32767)
inline std::vector<std::int64_t> softmax_probabilities(const std::vector<std::int64_t>& row, float scale) {
    const std::int64_t largest = *std::max_element(row.begin(), row.end());
    const auto exponential = [&](std::int64_t x) {
        return std::exp(-static_cast<double>(largest - x) * static_cast<double>(scale));
    };
    wide sum = 0;
    for (const std::int64_t x : row) {
        sum += static_cast<wide>(std::floor(2147483648.0 * exponential(x) + 0.5));
    }
    int n = 0;
    while ((sum >> n) != 0) {
        ++n;
    }
    const wide s16 = sum / power_of_two(n - 16);
    const wide r = (power_of_two(30) + s16 / 2) / s16;
    std::vector<std::int64_t> result;
    for (const std::int64_t x : row) {
        const wide e = std::min<wide>(static_cast<wide>(std::floor(32768.0 * exponential(x) + 0.5)), 32767);
        const wide p = (2 * e * r + power_of_two(n - 17)) / (2 * power_of_two(n - 17));  // nothing is negative
        result.push_back(static_cast<std::int64_t>(std::min<wide>(p, 32767)));
    }
    return result;
}

/// A probability at the output's scale; also for a target that has no int16 activations, since it is none.
inline std::int64_t requantize_probability(const Target& target, std::int64_t p, const QParams& out) {
    if (target.is_bpu()) {
        return requantize_bpu(target, p, 0x1p-15F, out, Role::code);
    }
    return requantize_code(target, p, int16(0x1p-15F), out);
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_SOFTMAX_HPP
