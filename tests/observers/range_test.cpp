// SPDX-License-Identifier: MIT
//
// What the golden numbers do not show of the range observers: backends, layouts, merging, refusals.
#include <algorithm>
#include <iostream>
#include <limits>
#include <vector>

#include "intq/observers/min_max.hpp"
#include "intq/observers/moving_average.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using intq::test::for_each_backend;
using intq::test::GuardedBuffer;
using intq::test::same_bits;
using intq::test::TestTensor;
using observers::MinMaxRange;
using observers::MovingAverageRange;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

std::vector<float> memory_for(index_t channels) {
    return std::vector<float>(static_cast<std::size_t>(observers::range_memory_size(channels)));
}
std::vector<float> lowest_of(const observers::RangeState& range) {
    return {range.lowest().begin(), range.lowest().end()};
}
std::vector<float> highest_of(const observers::RangeState& range) {
    return {range.highest().begin(), range.highest().end()};
}

std::vector<float> random_values(index_t count, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values;
    for (index_t i = 0; i < count; ++i) values.push_back(normal(random));
    return values;
}

TensorView<const float, 1> view_of(const std::vector<float>& values) {
    return {values.data(), {static_cast<index_t>(values.size())}};
}

/// Ranges by plain loops.
struct Expected {
    std::vector<float> lowest, highest;

    Expected(const float* x, index_t outer, index_t channels, index_t inner)
        : lowest(static_cast<std::size_t>(channels), infinity), highest(static_cast<std::size_t>(channels), -infinity) {
        for (index_t i = 0; i < outer * channels * inner; ++i) {
            const auto c = static_cast<std::size_t>(i / inner % channels);
            lowest[c] = std::min(lowest[c], x[i]);
            highest[c] = std::max(highest[c], x[i]);
        }
    }
};

template <class Backend>
void check_blocks(index_t outer, index_t channels, index_t inner, GuardedBuffer::Against against) {
    INFO("extents " << outer << " " << channels << " " << inner);
    const index_t size = outer * channels * inner;
    GuardedBuffer buffer(static_cast<std::size_t>(size) * sizeof(float), against);
    auto* x = buffer.as<float>();
    const std::vector<float> values = random_values(size, 77);
    std::copy(values.begin(), values.end(), x);
    const TensorView<float, 3> view(x, {outer, channels, inner});

    // The extreme stands at each place in turn: no lane, tail or row may be left out.
    for (index_t place = 0; place<size; place += size> 300 ? 37 : 1) {
        const float former = x[place];
        x[place] = place % 2 == 0 ? 100.0f : -100.0f;
        const Expected expected(x, outer, channels, inner), all(x, 1, 1, size);
        std::vector<float> memory = memory_for(channels), one = memory_for(1);
        MinMaxRange range(memory, 1), tensor(one);
        REQUIRE((range.update<Backend>(view).ok() && tensor.update<Backend>(view).ok()));
        CHECK((same_bits(lowest_of(range), expected.lowest) && same_bits(highest_of(range), expected.highest)));
        CHECK((same_bits(lowest_of(tensor), all.lowest) && same_bits(highest_of(tensor), all.highest)));
        // So is a NaN found there, and nothing is kept of its batch.
        x[place] = not_a_number;
        CHECK(range.update<Backend>(view) == Status{StatusCode::not_finite, OpKind::observe, Field::input, place, 0});
        CHECK(same_bits(lowest_of(range), expected.lowest));
        x[place] = former;
    }
}

}  // namespace

TEST_CASE("Every backend finds the extremes and a NaN wherever they stand") {
    for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        std::cout << "ranges on " << Backend::name << "\n";
        INFO(Backend::name);
        const index_t width = simd::lanes<Backend>::width();
        for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin})
            for (const index_t length : {index_t{1}, width - 1, width, width + 1, 3 * width + 2}) {
                if (length == 0) continue;
                check_blocks<Backend>(1, 1, length, against);
                check_blocks<Backend>(5, length, 1, against);
                check_blocks<Backend>(2, 3, length, against);
            }
    });
}

TEST_CASE("A layout changes no range and no number of a NaN, along any axis") {
    const std::array<index_t, 4> extents{2, 5, 3, 67};
    const auto check = [&]<class LayoutTag>(LayoutTag) {
        TestTensor<float, 4, LayoutTag> x(extents);
        TestTensor<float, 4, row_major> plain(extents);
        const std::vector<float> values = random_values(2 * 5 * 3 * 67, 4);
        std::size_t at = 0;
        x.fill([&](const auto&) { return values[at++]; });
        at = 0;
        plain.fill([&](const auto&) { return values[at++]; });
        for (int axis = -1; axis < 4; ++axis) {
            const index_t channels = axis < 0 ? 1 : extents[static_cast<std::size_t>(axis)];
            std::vector<float> first = memory_for(channels), second = memory_for(channels);
            MinMaxRange range(first, axis), expected(second, axis);
            REQUIRE(range.update(x.view()).ok());
            REQUIRE(expected.update<simd::scalar>(plain.view()).ok());
            CHECK(same_bits(lowest_of(range), lowest_of(expected)));
            CHECK(same_bits(highest_of(range), highest_of(expected)));
        }
        x.view()(1, 0, 2, 3) = infinity;
        std::vector<float> memory = memory_for(1);
        MinMaxRange range(memory);
        CHECK(range.update(x.view()).given == 5 * 3 * 67 + 2 * 67 + 3);
        CHECK(!range.seen());
    };
    check(channels_last{});
    check(strided{});
}

TEST_CASE("Merged shards equal one pass, in any order and grouping") {
    const std::vector<float> values = random_values(6 * 40, 8);
    const auto shard = [&](index_t first, index_t count) {
        return TensorView<const float, 2>(values.data() + first * 6, {count, 6});
    };
    std::vector<float> memory[5];
    for (auto& m : memory) m = memory_for(6);
    MinMaxRange whole(memory[0], 1), a(memory[1], 1), b(memory[2], 1), c(memory[3], 1), nothing(memory[4], 1);
    REQUIRE((whole.update(shard(0, 40)).ok() && a.update(shard(0, 7)).ok() && b.update(shard(7, 1)).ok() &&
             c.update(shard(8, 32)).ok()));
    REQUIRE(nothing.merge(nothing).ok());
    CHECK(!nothing.seen());
    REQUIRE((c.merge(nothing).ok() && b.merge(a).ok() && c.merge(b).ok() && nothing.merge(c).ok()));
    CHECK((same_bits(lowest_of(c), lowest_of(whole)) && same_bits(highest_of(c), highest_of(whole))));
    CHECK((nothing.seen() && same_bits(lowest_of(nothing), lowest_of(whole))));

    std::vector<float> other_memory = memory_for(5);
    MinMaxRange other(other_memory, 1);
    CHECK(whole.merge(other) == Status{StatusCode::shape_mismatch, OpKind::observe, Field::channels, 5, 6});
}

TEST_CASE("A refused batch leaves the state as it was") {
    std::vector<float> memory = memory_for(2), average_memory = memory_for(2);
    MinMaxRange range(memory, 1);
    MovingAverageRange average(average_memory, 1);
    const std::vector<float> good{1, -2, 3, 4}, bad{9, -9, not_a_number, 9};
    const TensorView<const float, 2> good_view(good.data(), {2, 2}), bad_view(bad.data(), {2, 2});
    const TensorView<const float, 2> narrow(good.data(), {4, 1});
    const auto check = [&](auto& observer) {
        REQUIRE(observer.update(good_view).ok());
        const std::vector<float> low = lowest_of(observer), high = highest_of(observer);
        CHECK(low == std::vector<float>{1, -2});
        CHECK(high == std::vector<float>{3, 4});
        CHECK(observer.update(bad_view) == Status{StatusCode::not_finite, OpKind::observe, Field::input, 2, 0});
        CHECK(observer.update(narrow) == Status{StatusCode::shape_mismatch, OpKind::observe, Field::channels, 1, 2});
        CHECK(observer.update(view_of(good)) ==
              Status{StatusCode::value_out_of_range, OpKind::observe, Field::axis, 1, 0});
        CHECK((lowest_of(observer) == low && highest_of(observer) == high));
        CHECK(observer.update(TensorView<const float, 2>(nullptr, {0, 7})).ok());  // empty: skipped
        CHECK((lowest_of(observer) == low && highest_of(observer) == high));
    };
    check(range);
    check(average);

    // From -3e38 to 3e38 the difference is not a float.
    std::vector<float> huge_memory = memory_for(1);
    MovingAverageRange huge(huge_memory);
    REQUIRE(huge.update(view_of({-3e38f})).ok());
    CHECK(huge.update(view_of({3e38f})).code == StatusCode::scale_out_of_range);
    CHECK(huge.lowest()[0] == -3e38f);
}

TEST_CASE("Without data the scale is 1 and seen() says so; reset() goes back there") {
    std::vector<float> memory = memory_for(1);
    MovingAverageRange range(memory, observers::per_tensor, 1.0f);
    CHECK(!range.seen());
    CHECK(*range.qparams() == arith::ScaleZeroPoint{1.0f, 0});
    REQUIRE(range.update(view_of({-1.0f, 2.0f, 3.5f})).ok());
    CHECK((range.seen() && *range.qparams() == arith::ScaleZeroPoint{0x1.c1c1c2p-6f, 0}));
    CHECK(*range.qparams({-32768, 32767}) == arith::ScaleZeroPoint{0x1.c001c0p-14f, 0});
    CHECK(*range.qparams({0, 255, arith::QuantScheme::affine}) == arith::ScaleZeroPoint{0x1.212122p-6f, 57});
    range.reset();
    CHECK((!range.seen() && range.lowest()[0] == infinity && range.highest()[0] == -infinity));
    REQUIRE(range.update(view_of({7.0f})).ok());  // the first batch again
    CHECK((range.lowest()[0] == 7.0f && range.highest()[0] == 7.0f));
}

TEST_CASE("The averaging constant can be set between batches: 0 freezes, 1 keeps the last") {
    std::vector<float> memory = memory_for(1);
    MovingAverageRange range(memory);
    REQUIRE((range.update(view_of({-1.0f, 1.0f})).ok() && range.update(view_of({-3.0f, 5.0f})).ok()));
    CHECK((same_bits(range.lowest()[0], -1.02f) && same_bits(range.highest()[0], 1.04f)));
    range.set_averaging_constant(0.0f);
    REQUIRE(range.update(view_of({-8.0f, 8.0f})).ok());
    CHECK((same_bits(range.lowest()[0], -1.02f) && same_bits(range.highest()[0], 1.04f)));
    range.set_averaging_constant(1.0f);
    REQUIRE(range.update(view_of({-8.0f, 8.0f})).ok());
    CHECK((range.lowest()[0] == -8.0f && range.highest()[0] == 8.0f));
}

TEST_CASE("A zero of a range is positive, wherever -0 and +0 stand in the data") {
    for_each_backend(intq::test::all_backends{}, [](auto backend) {
        for (const std::vector<float>& data :
             {std::vector<float>{-0.0f}, std::vector<float>{0.0f, -0.0f, 0.0f, -0.0f, -0.0f},
              std::vector<float>(40, -0.0f)}) {
            std::vector<float> memory = memory_for(1);
            MinMaxRange range(memory);
            REQUIRE(range.update<decltype(backend)>(view_of(data)).ok());
            CHECK((same_bits(range.lowest()[0], 0.0f) && same_bits(range.highest()[0], 0.0f)));
        }
        // Channels side by side: the reduction that joins lanes has no part in it.
        const std::vector<float> rows(2 * 19, -0.0f), zeros(19, 0.0f);
        std::vector<float> memory = memory_for(19);
        MinMaxRange range(memory, 1);
        REQUIRE(range.update<decltype(backend)>(TensorView<const float, 2>(rows.data(), {2, 19})).ok());
        CHECK((same_bits(lowest_of(range), zeros) && same_bits(highest_of(range), zeros)));
    });
}

TEST_CASE("assign() takes sound ranges and refuses others") {
    std::vector<float> memory = memory_for(2);
    MinMaxRange range(memory, 0);
    const std::vector<float> low{-1, 2}, high{1, 3}, three{1, 2, 3}, below{-2, 3}, odd{1, infinity};
    REQUIRE(range.assign(low, high).ok());
    CHECK((range.seen() && lowest_of(range) == low && highest_of(range) == high));
    CHECK(range.assign(three, high) == Status{StatusCode::shape_mismatch, OpKind::observe, Field::channels, 3, 2});
    CHECK(range.assign(low, three) == Status{StatusCode::shape_mismatch, OpKind::observe, Field::channels, 3, 2});
    CHECK(range.assign(low, below) == Status{StatusCode::value_out_of_range, OpKind::observe, Field::input, 0, 0});
    CHECK(range.assign(low, odd) == Status{StatusCode::not_finite, OpKind::observe, Field::input, 1, 0});
    CHECK((lowest_of(range) == low && highest_of(range) == high));
}

TEST_CASE("qparams of all channels are written together or not at all") {
    std::vector<float> memory = memory_for(2);
    MinMaxRange range(memory, 0);
    const std::vector<float> low{-1, -3e38f}, high{1, 3e38f};
    REQUIRE(range.assign(low, high).ok());
    std::vector<float> scales(2, 5.0f), one(1);
    std::vector<std::int32_t> zero_points(2, 5);
    const arith::RangeRule affine{-128, 127, arith::QuantScheme::affine};
    // 3e38 + 3e38 is not a float: the second channel has no affine scale.
    CHECK(range.qparams(affine, scales, zero_points) ==
          Status{StatusCode::scale_out_of_range, OpKind::observe, Field::scale, 1, 0});
    CHECK((scales == std::vector<float>(2, 5.0f) && zero_points == std::vector<std::int32_t>(2, 5)));
    CHECK(range.qparams({}, one, {}).field == Field::channels);
    CHECK(range.qparams({5, 9}, scales, zero_points).field == Field::quant_range);
    REQUIRE(range.qparams({}, scales, {}).ok());
    CHECK(same_bits(scales, {1.0f / 127.5f, 3e38f / 127.5f}));
    REQUIRE(range.assign(std::vector<float>{-1, -1}, std::vector<float>{1, 3}).ok());
    CHECK(range.qparams(affine, scales, {}).code == StatusCode::missing);
    REQUIRE(range.qparams(affine, scales, zero_points).ok());
    CHECK(zero_points == std::vector<std::int32_t>{-1, -64});
}

TEST_CASE("A scale divides by half the range, in one rounding") {
    // Multiplying by the reciprocal of 127.5 would give other bits here.
    std::mt19937 random(6);
    index_t differ = 0;
    for (int i = 0; i < 1000; ++i) {
        const float high = static_cast<float>(random()) * 0x1p-20f;
        const float scale = arith::qparams_from_range(0.0f, high)->scale;
        CHECK(scale == static_cast<float>(static_cast<double>(high) / 127.5));
        differ += scale != high * (1.0f / 127.5f);
    }
    CHECK(differ > 100);
    CHECK(arith::qparams_from_range(0.0f, 0.0f)->scale == 0x1p-23f);
    CHECK(arith::qparams_from_range(2.0f, 1.0f).status().code == StatusCode::value_out_of_range);
    CHECK(arith::qparams_from_range(not_a_number, 1.0f).status().code == StatusCode::not_finite);
}
