// SPDX-License-Identifier: MIT
//
// Conformance: the formula of every requantize policy, of add and of average, on the lanes of every usable backend,
// equals the specification on scalar lanes. Random channels and operands, extremes among them; tails of every length.
#include <iostream>
#include <vector>

#include "arith/targets.hpp"
#include "intq/arith/conv.hpp"
#include "intq/arith/pool.hpp"
#include "support/catch.hpp"
#include "support/odd_width.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using arith::RequantizeSource;
using arith::SumRange;

constexpr index_t columns = 67;  // no multiple of any width
constexpr std::size_t size = static_cast<std::size_t>(columns);

template <class Acc> auto load_acc(auto lanes, const Acc* from, index_t count) {
    using L = decltype(lanes);
    if constexpr (sizeof(Acc) == 8) {
        return L::load_i64(from, count);
    } else {
        return L::load(from, count);
    }
}

/// One row of channels with their operands; words lie in rows, as a packed layer has them, with slack for whole
/// vectors.
template <class Acc> struct Row {
    static constexpr std::size_t stride = size + 64;
    std::vector<std::int32_t> words = std::vector<std::int32_t>(5 * stride),
                              sumin_words = std::vector<std::int32_t>(3 * stride);
    std::array<Acc, size> acc{};
    std::array<std::int16_t, size> e{};
    arith::OutputCodes codes{};
};

template <class L, class Policy, class Acc, bool Adds> std::array<std::int32_t, size> run(const Row<Acc>& row) {
    std::array<std::int32_t, size> y{};
    const arith::OutputLanes<L> out(row.codes);
    for (index_t i = 0; i < columns; i += L::width()) {
        const index_t count = std::min(columns - i, L::width());
        const auto acc = load_acc(L{}, row.acc.data() + i, count);
        const auto channel = Policy::template load<L>(row.words.data() + i, Row<Acc>::stride);
        if constexpr (Adds) {
            const auto sumin = Policy::template load_sumin<L>(row.sumin_words.data() + i, Row<Acc>::stride);
            L::store(y.data() + i,
                     Policy::template apply_sumin<L>(acc, L::load(row.e.data() + i, count), channel, sumin, out),
                     count);
        } else {
            L::store(y.data() + i, Policy::template apply<L>(acc, channel, out), count);
        }
    }
    return y;
}

/// A row of random channels of a target; every scale is one that the target accepts.
template <class TargetType, class Acc> Row<Acc> random_row(DType input, DType output, bool adds, Random& random) {
    Row<Acc> row;
    const std::int64_t zero_point = TargetType::policy.zero_points ? random.between(-128, 127) : 0;
    row.codes =
        arith::make_output_codes(lowest_code(output), highest_code(output), static_cast<std::int32_t>(zero_point), 0.1f,
                                 random.one_in(3) ? Activation::relu6 : Activation::none);
    row.codes.sumin_zero_point = static_cast<std::int32_t>(zero_point);
    const int bits = sizeof(Acc) == 8 ? (is_bpu<TargetType> ? 62 : 46) : 31;
    for (std::size_t c = 0; c < size;) {
        SumRange range{-(std::int64_t{1} << bits), (std::int64_t{1} << bits) - 1};
        if (random.one_in(3)) range = {-(1 << 20), 1 << 20};  // so that shifts to the left are among them
        const float s_in = random.scale(-12, 2), s_w = random.scale(-12, 2);
        const float s_out = random.one_in(8) ? random.scale(-40, 40) : s_in * s_w * random.scale(-8, 24);
        const auto words = arith::make_requantize_words(TargetType::policy, RequantizeSource::gemm_accumulator,
                                                        {s_in, s_w, s_out}, input, output, range);
        if (!words) continue;
        for (std::size_t word = 0; word < 5; ++word) row.words[word * Row<Acc>::stride + c] = (*words)[word];
        if (adds) {
            const auto e = input == DType::int16 ? ref::int16(s_in * s_w * random.scale(-18, 12))
                                                 : ref::int8(s_in * s_w * random.scale(-18, 22));
            const auto sumin = arith::make_sumin(TargetType::policy, {e.scale, 0, e.qmin, e.qmax}, s_in, s_w, s_out,
                                                 8 * static_cast<int>(sizeof(Acc)));
            if (!sumin) continue;
            for (std::size_t word = 0; word < 3; ++word)
                row.sumin_words[word * Row<Acc>::stride + c] = sumin->words[word];
            row.e[c] = static_cast<std::int16_t>(random.code(e));
        }
        const std::int64_t acc = random.one_in(16)   ? range.lowest
                                 : random.one_in(16) ? range.highest
                                 : random.one_in(2)  ? random.integer(20)
                                                     : random.between(range.lowest, range.highest);
        row.acc[c++] = static_cast<Acc>(acc);
    }
    return row;
}

template <class TargetType, DType Input, bool Adds> void check_policy(DType output) {
    using Acc = arith::Accumulator<TargetType, Input>;
    using Policy = arith::RequantizePolicy<TargetType, Acc>;
    Random random(51);
    std::vector<Row<Acc>> rows;
    std::vector<std::array<std::int32_t, size>> expected;
    for (int i = 0; i < 300; ++i) {
        rows.push_back(random_row<TargetType, Acc>(Input, output, Adds, random));
        expected.push_back(run<scalar_lanes, Policy, Acc, Adds>(rows.back()));
    }
    for_each_backend(all_backends{}, [&](auto backend) {
        std::size_t first = 0;
        while (first < rows.size() &&
               run<simd::lanes<decltype(backend)>, Policy, Acc, Adds>(rows[first]) == expected[first])
            ++first;
        INFO(TargetType::policy.name << ' ' << name_of(Input) << " -> " << name_of(output)
                                     << (Adds ? " with sumin" : "") << " on " << backend.name
                                     << ": row of the first difference");
        CHECK(first == rows.size());
    });
}

template <class TargetType> void check_add(DType dtype) {
    using Policy = arith::RequantizePolicy<TargetType, std::int32_t>;
    Random random(52);
    for (int i = 0; i < 100;) {
        const float s_x = random.scale(-12, 2), s_y = s_x * random.scale(-6, 6),
                    s_out = std::max(s_x, s_y) * random.scale(-4, 4);
        const std::int32_t zero_point =
            TargetType::policy.zero_points ? static_cast<std::int32_t>(random.between(-128, 127)) : 0;
        const auto params = (i % 2 == 0 ? arith::make_add : arith::make_sub)(
            TargetType::policy, {s_x, zero_point, dtype}, {s_y, -zero_point, dtype}, {s_out, zero_point, dtype},
            arith::make_output_codes(lowest_code(dtype), highest_code(dtype), zero_point, s_out, Activation::none));
        if (!params) continue;
        ++i;
        std::array<std::int16_t, size> x{}, y{};
        for (std::size_t k = 0; k < size; ++k) {
            x[k] = static_cast<std::int16_t>(random.code(codes_of(dtype, 1.0f)));
            y[k] = static_cast<std::int16_t>(random.code(codes_of(dtype, 1.0f)));
        }
        const arith::AddLanes<Policy, scalar_lanes> specification(*params);
        for_each_backend(all_backends{}, [&](auto backend) {
            using L = simd::lanes<decltype(backend)>;
            const arith::AddLanes<Policy, L> formula(*params);
            std::array<std::int32_t, size> code{};
            for (index_t k = 0; k < columns; k += L::width()) {
                const index_t count = std::min(columns - k, L::width());
                L::store(code.data() + k, formula.code(L::load(x.data() + k, count), L::load(y.data() + k, count)),
                         count);
            }
            int differences = 0;
            for (std::size_t k = 0; k < size; ++k) differences += code[k] != specification.code(x[k], y[k]);
            INFO(TargetType::policy.name << ' ' << name_of(dtype) << " on " << backend.name);
            REQUIRE(differences == 0);
        });
    }
}

template <class TargetType> void check_average(DType dtype) {
    Random random(53);
    for (int i = 0; i < 100;) {
        const float s_in = random.scale(-12, 2), s_out = Pair<TargetType>::reference().is_tflite() && random.one_in(2)
                                                             ? s_in
                                                             : s_in * random.scale(-3, 3);
        const std::int32_t zero_point =
            TargetType::policy.zero_points ? static_cast<std::int32_t>(random.between(-128, 127)) : 0;
        const index_t cells = random.one_in(4) ? 65'536 : random.between(1, 2000);
        const auto params = arith::make_average(
            TargetType::policy, {s_in, zero_point, dtype}, {s_out, zero_point, dtype},
            arith::make_output_codes(lowest_code(dtype), highest_code(dtype), zero_point, s_out, Activation::none),
            cells, PoolDivisor::kernel_cells, false);
        if (!params) {
            if (cells == 65'536 && zero_point != 0) continue;  // the distance from the zero point is what must fit
            REQUIRE(params.ok());
        }
        ++i;
        std::array<std::int32_t, size> sum{};
        for (std::size_t k = 0; k < size; ++k) {
            const std::int64_t lowest = lowest_code(dtype) * cells, highest = highest_code(dtype) * cells;
            sum[k] = static_cast<std::int32_t>(k == 0 ? lowest : k == 1 ? highest : random.between(lowest, highest));
        }
        const arith::Average<scalar_lanes> specification(*params);
        for_each_backend(all_backends{}, [&](auto backend) {
            using L = simd::lanes<decltype(backend)>;
            const arith::Average<L> average(*params);
            std::array<std::int32_t, size> code{};
            for (index_t k = 0; k < columns; k += L::width()) {
                const index_t count = std::min(columns - k, L::width());
                L::store(code.data() + k, average.code(L::load(sum.data() + k, count), cells, *params), count);
            }
            int differences = 0;
            for (std::size_t k = 0; k < size; ++k) differences += code[k] != specification.code(sum[k], cells, *params);
            INFO(TargetType::policy.name << ' ' << name_of(dtype) << " on " << backend.name);
            REQUIRE(differences == 0);
        });
    }
}

using Lite = target::tflite<arith::double_rounding>;
using LiteOnce = target::tflite<arith::single_rounding>;
using Bernoulli2 = target::bpu<march::bernoulli2>;
using Bayes = target::bpu<march::bayes>;
using Meta = target::bpu<march::meta>;

}  // namespace

TEST_CASE("lanes: every requantize policy is the specification on every backend") {
    for_each_backend(all_backends{}, [](auto backend) { std::cout << "checked: " << backend.name << '\n'; });
    check_policy<target::fp32, DType::int8, false>(DType::int8);
    check_policy<target::fp32, DType::int8, false>(DType::int16);
    check_policy<Lite, DType::int8, false>(DType::int8);
    check_policy<LiteOnce, DType::int8, false>(DType::int8);
    check_policy<LiteOnce, DType::int16, false>(DType::int16);
    check_policy<Bernoulli2, DType::int8, false>(DType::int8);
    check_policy<Bayes, DType::int8, false>(DType::int8);
    check_policy<Bayes, DType::int16, false>(DType::int16);
    check_policy<Meta, DType::int8, false>(DType::int8);
    check_policy<Meta, DType::int16, false>(DType::int16);
}

TEST_CASE("lanes: every requantize policy with a fused add is the specification on every backend") {
    check_policy<target::fp32, DType::int8, true>(DType::int8);
    check_policy<Bernoulli2, DType::int8, true>(DType::int8);
    check_policy<Bayes, DType::int8, true>(DType::int8);
    check_policy<Bayes, DType::int16, true>(DType::int16);
    check_policy<Meta, DType::int8, true>(DType::int8);
    check_policy<Meta, DType::int16, true>(DType::int16);
}

TEST_CASE("lanes: add is the specification on every backend") {
    for_each_target([](auto tag) {
        check_add<decltype(tag)>(DType::int8);
        if (takes<decltype(tag)>(DType::int16)) check_add<decltype(tag)>(DType::int16);
    });
}

TEST_CASE("lanes: average is the specification on every backend, full-scale sums included") {
    for_each_target([](auto tag) {
        check_average<decltype(tag)>(DType::int8);
        if (takes<decltype(tag)>(DType::int16)) check_average<decltype(tag)>(DType::int16);
    });
}

TEST_CASE("lanes: an output that keeps its accumulator is only clamped") {
    Random random(54);
    Row<std::int64_t> row;
    row.codes.lowest = 0;
    row.codes.highest = INT32_MAX;
    for (auto& acc : row.acc) acc = random.integer(31);
    for_each_backend(all_backends{}, [&](auto backend) {
        INFO(backend.name);
        const auto y = run<simd::lanes<decltype(backend)>, arith::keep_accumulator, std::int64_t, false>(row);
        for (std::size_t c = 0; c < size; ++c) REQUIRE(y[c] == std::clamp<std::int64_t>(row.acc[c], 0, INT32_MAX));
    });
}

TEST_CASE("lanes: a product of halves is the product of 64 bits") {
    Random random(17);
    std::vector<std::int32_t> values{
        INT32_MIN, INT32_MIN + 1, -65537, -65536, -65535, -32769, -32768,        -1,       0,
        1,         32767,         32768,  65535,  65536,  65537,  INT32_MAX - 1, INT32_MAX};
    for (int i = 0; i < 2000; ++i) values.push_back(static_cast<std::int32_t>(random.between(INT32_MIN, INT32_MAX)));
    index_t wrong = 0;
    for (const std::int32_t a : values)
        for (const std::int32_t b : values) wrong += arith::detail::product_of_halves(a, b) != std::int64_t{a} * b;
    CHECK(wrong == 0);
}
