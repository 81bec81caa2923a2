// SPDX-License-Identifier: MIT
//
// Normalized elements against the oracle, bit by bit: a code of the output shows few of their 22 fractional bits.
#include "intq/arith/layer_norm.hpp"

#include <cstdint>
#include <random>
#include <vector>

#include "reference/layer_norm.hpp"
#include "support/catch.hpp"

using namespace intq;

TEST_CASE("Normalized elements are the oracle's, of rows short and long, centered and not") {
    std::mt19937 random(3);
    int few_bits_left = 0, other = 0;
    for (int round = 0; round < 400; ++round) {
        const index_t count = round % 50 == 0   ? 65536
                              : round % 10 == 0 ? 4000
                                                : 1 + static_cast<index_t>(random() % 300);
        const bool is_centered = round % 2 == 0;
        const auto span = round % 3 == 0 ? 256u : 65536u;
        std::vector<std::int64_t> x;
        std::int64_t sum = 0, squares = 0;
        for (index_t k = 0; k < count; ++k) {
            const std::uint32_t drawn = round % 7 == 0 ? (random() % 2) * (span - 1) : random() % span;
            x.push_back(static_cast<std::int64_t>(drawn) - span / 2);
            sum += is_centered ? x.back() : 0;
            squares += x.back() * x.back();
        }
        const std::int64_t epsilon = std::int64_t{1} << random() % 62;
        const arith::Deviation deviation(count, sum, squares, epsilon);
        // From here on d·2^h / 2^9 is rounded.
        few_bits_left += count * squares - sum * sum + epsilon >= std::int64_t{1} << 46;
        const std::vector<intq_reference::wide> expected = intq_reference::normalized(x, epsilon, is_centered);
        for (std::size_t k = 0; k < x.size(); ++k)
            other += deviation.normalized(static_cast<std::int32_t>(x[k])) != expected[k];
    }
    CHECK(few_bits_left > 40);
    CHECK(other == 0);
}
