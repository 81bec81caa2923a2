// SPDX-License-Identifier: MIT
//
// The histogram that every range method reads: its bins, exact merging in any order, flat memory, refusals.
#include "intq/observers/grid_histogram.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "intq/observers/kl.hpp"
#include "intq/observers/mix.hpp"
#include "intq/observers/mse.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"
#include "support/tensors.hpp"

namespace {
long allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
    ++allocations;
    if (void* memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    ++allocations;
    return std::malloc(size);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace intq;
using intq::test::for_each_backend;
using intq::test::GuardedBuffer;
using observers::GridHistogram;
using observers::ValueRange;

using Values = std::vector<float>;

/// A histogram with its memory and scratch.
struct Observed {
    explicit Observed(index_t bins) : memory(static_cast<std::size_t>(bins)), histogram(memory) {}
    template <class Backend = simd::default_backend> Status update(const Values& x, const Executor& executor = serial) {
        const auto size = static_cast<index_t>(x.size());
        std::vector<std::uint32_t> scratch(
            static_cast<std::size_t>(kernels::grid_histogram_scratch_size(size, histogram.bins())), 77);
        return histogram.update<Backend>(TensorView<const float, 1>(x.data(), {size}), scratch, executor);
    }
    bool equals(const Observed& other) const {
        return memory == other.memory && histogram.state() == other.histogram.state();
    }
    std::vector<std::int64_t> memory;
    GridHistogram histogram;
};

/// The bin from the definition, in 64 bits of mantissa.
std::int64_t plain_bin(float x, int exponent) {
    const long double position = std::ldexp(std::fabs(static_cast<long double>(x)), -exponent);
    const auto below = static_cast<std::int64_t>(std::floor(position));
    return x < 0.0f ? -below - 1 : below;
}

/// Floats of all magnitudes below 2^(exponent + 24), with the edges of bins and their neighbours.
Values values_for(int exponent, std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> magnitude(-150.0, exponent + 23.9), edge(-2048, 2048);
    Values values{0.0f,
                  -0.0f,
                  std::numeric_limits<float>::denorm_min(),
                  -std::numeric_limits<float>::denorm_min(),
                  std::numeric_limits<float>::min(),
                  -std::numeric_limits<float>::min()};
    while (values.size() < count) {
        const auto x = static_cast<float>(std::exp2(magnitude(random)));
        const auto at = static_cast<float>(std::ldexp(std::floor(edge(random)), exponent));
        for (const float y : {x, -x, at, std::nextafter(at, 1e38f), std::nextafter(at, -1e38f)}) values.push_back(y);
    }
    values.resize(count);
    return values;
}

/// Batches whose magnitudes differ by many powers of two, some constant, some empty, some of one sign.
std::vector<Values> uneven_batches(unsigned seed, int count) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<Values> batches;
    for (int i = 0; i < count; ++i) {
        const float scale = std::exp2(static_cast<float>(random() % 24) - 12.0f);
        const float offset = random() % 3 == 0 ? 20.0f * scale : 0.0f;
        Values batch(random() % 70);
        for (float& x : batch) x = normal(random) * scale + offset;
        if (random() % 7 == 0) std::fill(batch.begin(), batch.end(), scale);
        if (random() % 9 == 0)
            for (float& x : batch) x = -std::fabs(x);
        batches.push_back(batch);
    }
    return batches;
}

}  // namespace

TEST_CASE("Every backend finds the bin of the definition, denormals and edges included") {
    for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        using L = simd::lanes<Backend>;
        std::cout << "grid bins on " << Backend::name << "\n";
        for (const int exponent : {-126, -125, -30, -1, 0, 1, 7, 60, 104}) {
            const Values values = values_for(exponent, 4001, 3);
            const auto bins = arith::GridBins<L>::make({exponent, -5});
            int differ = 0;
            for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(L::width())) {
                std::int32_t out[64];
                const index_t count = std::min<index_t>(L::width(), static_cast<index_t>(values.size() - i));
                L::store(out, bins.bin(kernels::load_floats<L>(values.data() + i, count)), count);
                for (index_t j = 0; j < count; ++j)
                    differ += out[j] != plain_bin(values[i + static_cast<std::size_t>(j)], exponent) + 5;
            }
            INFO(Backend::name << " exponent " << exponent);
            CHECK(differ == 0);
        }
    });
}

TEST_CASE("Two neighbours of a grid are one bin of the next coarser") {
    for (const int exponent : {-126, -40, -3, 0, 50, 100})
        for (const float x : values_for(exponent, 3000, 4))
            CHECK(arith::grid_bin(x, exponent + 1) == arith::grid_bin(x, exponent) >> 1);
}

TEST_CASE("The grid of a range is the finest that has room, and never finer for a wider range") {
    std::mt19937 random(5);
    const auto value = [&] {
        return std::ldexp(static_cast<float>(random()) * 0x1p-31f - 1.0f, static_cast<int>(random() % 240) - 120);
    };
    for (int i = 0; i < 3000; ++i) {
        const float a = value(), b = i % 2 == 0 ? value() : a * 1.001f, c = value();
        const index_t bins = i % 3 == 0 ? 16 : i % 3 == 1 ? 100 : 2048;
        const float low = std::min(a, b), high = std::max(a, b);
        const arith::ValueGrid grid = arith::grid_of_range(low, high, bins);
        const auto span = [&](int exponent) { return plain_bin(high, exponent) - plain_bin(low, exponent); };
        CHECK(span(grid.exponent) < bins);
        CHECK(grid.first == plain_bin(low, grid.exponent));
        const int finest = std::max(std::ilogb(std::max(std::fabs(low), std::fabs(high))) - 23, -126);
        CHECK((grid.exponent == finest || span(grid.exponent - 1) >= bins));
        CHECK(grid.exponent >= finest);
        CHECK(arith::grid_of_range(std::min(low, c), std::max(high, c), bins).exponent >= grid.exponent);
    }
    CHECK(arith::grid_of_range(0.0f, 0.0f, 16) == arith::ValueGrid{-126, 0});
    constexpr float most = std::numeric_limits<float>::max();
    CHECK(arith::grid_of_range(-most, most, 16).exponent == 125);
}

TEST_CASE("Counts are those of one pass at the last grid, and most bins are in use") {
    Observed observed(64);
    Values all;
    for (const Values& batch : uneven_batches(9, 200)) {
        REQUIRE(observed.update(batch).ok());
        all.insert(all.end(), batch.begin(), batch.end());
    }
    const auto [lowest, highest] = std::minmax_element(all.begin(), all.end());
    const GridHistogram& histogram = observed.histogram;
    CHECK(histogram.range() == ValueRange{*lowest, *highest});
    CHECK(histogram.total() == static_cast<std::int64_t>(all.size()));
    std::vector<std::int64_t> expected(64);
    for (const float x : all)
        ++expected[static_cast<std::size_t>(plain_bin(x, histogram.state().grid.exponent) -
                                            histogram.state().grid.first)];
    CHECK(observed.memory == expected);
    CHECK(histogram.used() > 32);
    CHECK(GridHistogram::check_state(observed.memory, histogram.state()).ok());
}

TEST_CASE("Any order, sharding and number of threads give the same histogram") {
    test::BackwardExecutor backward;
    for (unsigned seed = 0; seed < 40; ++seed) {
        std::vector<Values> batches = uneven_batches(seed, 12);
        const index_t bins = seed % 2 == 0 ? 16 : 257;
        Observed one(bins);
        for (const Values& batch : batches) REQUIRE(one.update(batch).ok());
        std::mt19937 random(seed + 100);
        std::shuffle(batches.begin(), batches.end(), random);
        std::vector<Observed> shards;
        for (int i = 0; i < 5; ++i) shards.emplace_back(bins);
        for (auto& shard : shards) shard.histogram = GridHistogram(shard.memory);
        for (const Values& batch : batches)
            REQUIRE(shards[random() % 5].update<simd::scalar>(batch, backward.executor()).ok());
        while (shards.size() > 1) {
            const std::size_t from = random() % shards.size();
            const std::size_t to = (from + 1) % shards.size();
            REQUIRE(shards[to].histogram.merge(shards[from].histogram).ok());
            shards.erase(shards.begin() + static_cast<std::ptrdiff_t>(from));
            // A vector that was moved keeps its memory; the histogram must look at it.
            for (auto& shard : shards) shard.histogram = GridHistogram(shard.memory, shard.histogram.state());
        }
        CHECK(shards[0].equals(one));
    }
    Observed large(100), threads(100);
    Values many(1 << 19);
    std::mt19937 random(1);
    for (float& x : many) x = static_cast<float>(random()) * 0x1p-31f - 1.0f;
    REQUIRE((large.update(many).ok() && threads.update(many, backward.executor()).ok()));
    CHECK(large.equals(threads));
    CHECK(backward.tasks > 1);
}

TEST_CASE("A refused batch leaves the histogram as it was; an empty one is skipped") {
    Observed observed(16);
    CHECK_FALSE(observed.histogram.seen());
    REQUIRE(observed.update({}).ok());
    CHECK_FALSE(observed.histogram.seen());
    REQUIRE(observed.update({1.0f, -2.0f}).ok());
    const auto before = observed.memory;
    const auto state = observed.histogram.state();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        CHECK(observed.update({100.0f, 3.0f, bad}) ==
              Status{StatusCode::not_finite, OpKind::observe, Field::input, 2, 0});
    CHECK((observed.memory == before && observed.histogram.state() == state));
    Observed other(17);
    CHECK(observed.histogram.merge(other.histogram).code == StatusCode::shape_mismatch);
    observed.histogram.reset();
    CHECK((!observed.histogram.seen() && observed.memory == std::vector<std::int64_t>(16)));
    REQUIRE(observed.update({3.0f}).ok());
    CHECK(observed.histogram.range() == ValueRange{3.0f, 3.0f});
}

TEST_CASE("State from elsewhere is checked") {
    Observed observed(16);
    REQUIRE(observed.update({-1.0f, 0.25f, 1.0f}).ok());
    const auto good = observed.histogram.state();
    REQUIRE(GridHistogram::check_state(observed.memory, good).ok());
    CHECK(GridHistogram::check_state(std::vector<std::int64_t>(16), {}).ok());
    const auto code = [&](auto&& change) {
        auto state = good;
        auto counts = observed.memory;
        change(state, counts);
        return GridHistogram::check_state(counts, state).code;
    };
    CHECK(code([](auto& state, auto&) { ++state.total; }) == StatusCode::corrupt);
    CHECK(code([](auto& state, auto&) { ++state.grid.exponent; }) == StatusCode::corrupt);
    CHECK(code([](auto& state, auto&) { state.grid.first = INT32_MIN; }) == StatusCode::corrupt);
    CHECK(code([](auto& state, auto&) { state.range.highest = NAN; }) == StatusCode::not_finite);
    CHECK(code([](auto& state, auto&) { state.range = {2.0f, 1.0f}; }) == StatusCode::value_out_of_range);
    CHECK(code([](auto&, auto& counts) { counts[0] -= 1, counts[1] -= 1, counts[2] += 2; }) == StatusCode::corrupt);
    CHECK(code([](auto&, auto& counts) { std::swap(counts[0], counts[1]); }) == StatusCode::corrupt);
    CHECK(code([](auto&, auto& counts) { counts.resize(15); }) == StatusCode::corrupt);
    CHECK(code([](auto&, auto& counts) { counts[0] = counts[1] = INT64_MAX; }) == StatusCode::corrupt);
}

TEST_CASE("The grid's kernel stays inside its buffers") {
    // With 2048 bins the number of tasks changes where one bin more would make it another.
    for (const auto& [bins, size] : {std::pair<index_t, index_t>{16, 77}, {2048, 1 << 20}})
        for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin}) {
            const auto words = static_cast<std::size_t>(kernels::grid_histogram_scratch_size(size, bins));
            GuardedBuffer x(static_cast<std::size_t>(size) * sizeof(float), against),
                counts(static_cast<std::size_t>(bins) * sizeof(std::int64_t), against),
                scratch(words * sizeof(std::uint32_t), against);
            for (index_t i = 0; i < size; ++i) x.as<float>()[i] = static_cast<float>(i % 100) - 50.0f;
            GridHistogram histogram({counts.as<std::int64_t>(), static_cast<std::size_t>(bins)});
            REQUIRE(histogram
                        .update(TensorView<const float, 1>(x.as<float>(), {size}), {scratch.as<std::uint32_t>(), words})
                        .ok());
            CHECK((counts.is_intact() && scratch.is_intact()));
            CHECK(histogram.total() == size);
        }
}

TEST_CASE("10^8 values take the memory of the first batch") {
    Observed observed(2048);
    Values batch(1 << 20);
    std::mt19937 random(2);
    for (float& x : batch) x = static_cast<float>(random()) * 0x1p-31f - 1.0f;
    std::vector<std::uint32_t> scratch(static_cast<std::size_t>(kernels::grid_histogram_scratch_size(1 << 20, 2048)));
    std::vector<double> numbers(static_cast<std::size_t>(observers::kl_scratch_size(2048)));
    const TensorView<const float, 1> view(batch.data(), {1 << 20});
    const long before = allocations;
    bool all = true;
    for (int i = 0; i < 96; ++i) {
        batch[static_cast<std::size_t>(i)] *= 1.5f;  // the range grows now and then
        all = all && observed.histogram.update(view, scratch).ok();
    }
    const GridHistogram& histogram = observed.histogram;
    const arith::RangeRule rule;
    all = all && observers::mse_range(histogram, rule).ok() && observers::mix_range(histogram, rule).ok() &&
          observers::percentile_range(histogram, 0.9999).highest > 0.9f &&
          observers::kl_range(histogram, rule, numbers).highest > 0.0f;
    const long after = allocations;
    CHECK(all);
    CHECK(after == before);
    CHECK(histogram.total() == 96 * (std::int64_t{1} << 20));
}
