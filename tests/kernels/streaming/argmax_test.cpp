// SPDX-License-Identifier: MIT
//
// argmax: every row of every backend against its oracle.
#include "intq/arith/argmax.hpp"

#include <random>

#include "intq/kernels/table/rows.hpp"
#include "kernels/tables/tables.hpp"
#include "reference/argmax.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/tensors.hpp"

using namespace intq;
namespace ref = intq_reference;

namespace {

/// Codes of a few values, so that many are equal, of all, and of the lowest one alone.
template <class Code> std::vector<Code> random_codes(std::mt19937& random, index_t size, int values) {
    std::vector<Code> x(static_cast<std::size_t>(size));
    for (Code& code : x)
        code = static_cast<Code>(values == 1 ? static_cast<int>(lowest_code(dtype_of<Code>))
                                             : static_cast<int>(random() % static_cast<unsigned>(values)) - values / 2);
    return x;
}

template <class Code>
std::vector<std::int32_t> expected_places(const std::vector<Code>& x, index_t rows, index_t count, index_t inner) {
    std::vector<std::int32_t> places;
    for (index_t row = 0; row < rows; ++row)
        for (index_t i = 0; i < inner; ++i) {
            std::vector<std::int64_t> line;
            for (index_t k = 0; k < count; ++k)
                line.push_back(x[static_cast<std::size_t>((row * count + k) * inner + i)]);
            places.push_back(static_cast<std::int32_t>(ref::argmax(line)));
        }
    return places;
}

/// Rows of the tables that give other places.
template <class Code> int count_wrong(const std::vector<Code>& x, index_t rows, index_t count, index_t inner) {
    const std::vector<std::int32_t> expected = expected_places(x, rows, count, inner);
    test::BackwardExecutor backward;
    int wrong = 0, run = 0;
    for (const test::BackendTables& backend : test::usable_backend_tables())
        for (const kernels::ArgMaxRow& row : backend.tables[0]->argmax) {
            if (row.dtype != dtype_of<Code>) continue;
            for (const Executor& executor : {serial, backward.executor()}) {
                test::GuardedBuffer from(x.size() * sizeof(Code)), to(expected.size() * sizeof(std::int32_t));
                std::copy(x.begin(), x.end(), from.as<Code>());
                row.run({from.as<Code>(), to.as<std::int32_t>(), rows, {count, inner}, &executor});
                CHECK(to.is_intact());
                wrong += !std::equal(expected.begin(), expected.end(), to.as<std::int32_t>());
                ++run;
            }
        }
    REQUIRE(run > 0);
    return wrong;
}

template <class Code> void check_codes() {
    std::mt19937 random(7);
    int wrong = 0;
    for (const index_t count : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65, 100, 257})
        for (const index_t inner : {1, 2, 3, 8, 15, 17, 40})
            for (const int values : {1, 2, 5, 256, 40000})
                wrong += count_wrong(random_codes<Code>(random, 3 * count * inner, values), 3, count, inner);
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("argmax is the oracle's for int8 and int16 codes, over rows and over columns") {
    check_codes<std::int8_t>();
    check_codes<std::int16_t>();
}

TEST_CASE("argmax finds the first of equal codes along an axis of more places than one key counts") {
    for (const index_t inner : {index_t{1}, index_t{3}}) {
        constexpr index_t count = 20 * arith::ArgMax::places + 5;
        std::vector<std::int8_t> x(static_cast<std::size_t>(count * inner), -7);
        CHECK(count_wrong(x, 1, count, inner) == 0);
        for (const index_t place : {count - 1, index_t{3} * arith::ArgMax::places, index_t{arith::ArgMax::places},
                                    index_t{arith::ArgMax::places - 1}}) {
            x[static_cast<std::size_t>(place * inner)] = 100;
            CHECK(count_wrong(x, 1, count, inner) == 0);
        }
    }
}

TEST_CASE("A key orders codes, and places among equal ones, and both follow from it") {
    using arith::ArgMax;
    using L = arith::scalar_lanes;
    const std::int32_t codes[] = {-32768, -32767, -129, -1, 0, 1, 127, 32766, 32767}, places[] = {65535, 65534, 1, 0};
    std::int64_t before = std::int64_t{INT32_MIN} - 1;
    for (const std::int32_t code : codes)
        for (const std::int32_t place : places) {
            const std::int32_t key = ArgMax::key<L>(code, place);
            CHECK(key > before);
            CHECK(ArgMax::code_of(key) == code);
            CHECK(ArgMax::place_of(key) == place);
            before = key;
        }
}
