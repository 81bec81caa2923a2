// SPDX-License-Identifier: MIT
//
// The search among the rows of a table.
#include "intq/core/first_row.hpp"

#include <cstddef>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace intq;

struct Row {
    int key;
};

constexpr Row rows[] = {{3}, {1}, {4}, {1}, {5}, {9}, {2}, {5}};

constexpr const Row* find(std::span<const Row> among, int key) {
    return find_first(among, [key](const Row& row) { return row.key == key; });
}

static_assert(find(rows, 1) == rows + 1 && find(rows, 5) == rows + 4 && find(rows, 2) == rows + 6);
static_assert(find(rows, 7) == nullptr);

}  // namespace

TEST_CASE("the first of the rows that match is found, wherever it stands, and none beyond the table's end") {
    constexpr std::size_t most = 9;
    for (std::size_t size = 0; size <= most; ++size) {
        std::vector<Row> table(most, {0});
        for (std::size_t at = 0; at < most; ++at) {
            for (std::size_t i = at; i < most; ++i) table[i].key = 1;
            for (std::size_t i = 0; i < at; ++i) table[i].key = 0;
            const std::span<const Row> among(table.data(), size);
            CHECK(find(among, 1) == (at < size ? table.data() + at : nullptr));
        }
    }
}

TEST_CASE("no row behind the one that is found is compared") {
    for (int key : {3, 1, 4, 5, 9, 2}) {
        std::vector<int> seen;
        const Row* const found = find_first(std::span<const Row>(rows), [&](const Row& row) {
            seen.push_back(row.key);
            return row.key == key;
        });
        REQUIRE(found != nullptr);
        CHECK(seen.size() == static_cast<std::size_t>(found - rows) + 1);
        CHECK(seen.back() == key);
    }
}
