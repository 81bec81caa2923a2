// SPDX-License-Identifier: MIT
//
// sort_stably against std::stable_sort.
#include "intq/io/sort_stably.hpp"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "support/catch.hpp"

TEST_CASE("sort_stably gives what std::stable_sort gives, for lists with many equal elements") {
    std::mt19937 draw(7);
    const auto less = [](const std::pair<int, int>& a, const std::pair<int, int>& b) { return a.first < b.first; };
    for (std::size_t size = 0; size < 60; ++size) {
        std::vector<std::pair<int, int>> list;
        for (std::size_t i = 0; i < size; ++i) list.emplace_back(static_cast<int>(draw() % 9), static_cast<int>(i));
        std::vector<std::pair<int, int>> expected = list;
        std::stable_sort(expected.begin(), expected.end(), less);
        intq::io::sort_stably(list, less);
        CHECK(list == expected);
    }
}
