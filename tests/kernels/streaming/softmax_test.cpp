// SPDX-License-Identifier: MIT
//
// softmax: every row of every backend against its oracle and against real arithmetic, and its parameters from an enemy.
#include "intq/kernels/operators/softmax.hpp"

#include <random>

#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "reference/softmax.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/tensors.hpp"

using namespace intq;
namespace ref = intq_reference;

namespace {

std::vector<std::int16_t> run(const std::vector<std::int8_t>& x, float scale, index_t count, index_t inner) {
    const auto tables = arith::make_softmax_tables({scale, 0, DType::int8});
    REQUIRE(tables.ok());
    REQUIRE(arith::are_softmax_tables(*tables));
    test::BackwardExecutor backward;
    std::vector<std::int16_t> first;
    for (const test::BackendTables& backend : test::usable_backend_tables()) {
        const auto rows = backend.tables[0]->softmax;
        REQUIRE(rows.size() == 2);
        REQUIRE(rows[0].input == DType::int8);
        for (const Executor& executor : {serial, backward.executor()}) {
            test::GuardedBuffer y(x.size() * sizeof(std::int16_t));
            auto* const to = y.as<std::int16_t>();
            rows[0].run({&*tables,
                         {},
                         x.data(),
                         to,
                         static_cast<index_t>(x.size()) / (count * inner),
                         count,
                         inner,
                         &executor});
            CHECK(y.is_intact());
            const std::vector<std::int16_t> given(to, to + x.size());
            if (first.empty()) first = given;
            CHECK(given == first);
        }
    }
    return first;
}

/// Codes that differ from the oracle's; `worst` is the largest error against real numbers, in steps of 2^-15.
int count_wrong(const std::vector<std::int8_t>& x, float scale, index_t count, index_t inner, double& worst) {
    const std::vector<std::int16_t> y = run(x, scale, count, inner);
    int wrong = 0;
    for (index_t first = 0; first < static_cast<index_t>(x.size()); ++first) {
        if (first / inner % count != 0) continue;
        const auto at = [&](index_t k) { return static_cast<std::size_t>(first + k * inner); };
        std::vector<std::int64_t> row;
        long double sum = 0;
        for (index_t k = 0; k < count; ++k) row.push_back(x[at(k)]);
        const auto expected = ref::softmax_probabilities(row, scale);
        const std::int64_t largest = *std::max_element(row.begin(), row.end());
        const auto term = [&](std::int64_t code) {
            return std::exp(static_cast<long double>(code - largest) * static_cast<long double>(scale));
        };
        for (const std::int64_t code : row) sum += term(code);
        for (index_t k = 0; k < count; ++k) {
            wrong += y[at(k)] != expected[static_cast<std::size_t>(k)];
            const long double real = 32768.0L * term(x[at(k)]) / sum;
            worst = std::max(worst, static_cast<double>(std::abs(real - static_cast<long double>(y[at(k)]))));
        }
    }
    return wrong;
}

}  // namespace

TEST_CASE("softmax is the oracle's, near real arithmetic, for all scales, lengths and distances of elements") {
    std::mt19937 random(1);
    double worst = 0;
    int wrong = 0;
    for (int i = 0; i < 1500; ++i) {
        const index_t count = i % 50 == 0 ? 1000 : 1 + static_cast<index_t>(random() % 40);
        const index_t inner = 1 + static_cast<index_t>(random() % 3), rows = 1 + static_cast<index_t>(random() % 3);
        const float scale =
            std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000.0f, static_cast<int>(random() % 20) - 14);
        std::vector<std::int8_t> x(static_cast<std::size_t>(count * inner * rows));
        for (auto& code : x)
            code = static_cast<std::int8_t>(i % 7 == 0 ? -128 + 255 * static_cast<int>(random() % 2)
                                                       : static_cast<int>(random() % 256) - 128);
        wrong += count_wrong(x, scale, count, inner, worst);
    }
    CHECK(wrong == 0);
    INFO("largest error " << worst << " of 2^-15");
    CHECK(worst < 1.5);
    CHECK(worst > 0.5);
}

TEST_CASE("softmax of many rows of each short length is the oracle's") {
    std::mt19937 random(2);
    double worst = 0;
    for (index_t count = 1; count <= 40; ++count) {
        std::vector<std::int8_t> x(static_cast<std::size_t>(1100 / count * count + count));
        for (auto& code : x) code = static_cast<std::int8_t>(random());
        INFO("count " << count);
        CHECK(count_wrong(x, 0.05f, count, 1, worst) == 0);
    }
}

TEST_CASE("softmax of as many terms as there may be, of one term, and of equal ones") {
    double worst = 0;
    CHECK(count_wrong(std::vector<std::int8_t>(65535, 5), 0.1f, 65535, 1, worst) == 0);
    CHECK(count_wrong({-128}, 0.1f, 1, 1, worst) == 0);
    CHECK(run({7}, 1.0f, 1, 1)[0] == 32767);
    CHECK(run({7, 7}, 1.0f, 2, 1)[0] == 16384);
    CHECK(run(std::vector<std::int8_t>(4, -128), 3.0f, 4, 1) == std::vector<std::int16_t>(4, 8192));
    std::vector<std::int8_t> one(65535, -128);
    one[1234] = 127;
    CHECK(count_wrong(one, 0.001f, 65535, 1, worst) == 0);
}

TEST_CASE("softmax refuses scales and types that it has no tables for, and tables that are none") {
    const auto refused = [](float scale) { return arith::make_softmax_tables({scale, 0, DType::int8}).status(); };
    for (const float scale : {0.0f, -1.0f})
        CHECK(refused(scale) ==
              Status{StatusCode::scale_out_of_range, OpKind::softmax, Field::scale, -1, 0, Field::input});
    for (const float scale : {HUGE_VALF, std::nanf("")})
        CHECK(refused(scale) == Status{StatusCode::not_finite, OpKind::softmax, Field::scale, -1, 0, Field::input});
    CHECK(arith::make_softmax_tables({0.1f, 0, DType::int16}).status().code == StatusCode::dtype_mismatch);
    CHECK(arith::make_softmax_tables({0.1f, -128, DType::int8}).ok());
    CHECK(arith::make_softmax_tables({0.1f, 127, DType::int8}).ok());
    CHECK(arith::make_softmax_tables({0.1f, 128, DType::int8}).status() ==
          Status{StatusCode::value_out_of_range, OpKind::softmax, Field::zero_point, 128, 127, Field::input});
    CHECK(arith::make_softmax_tables({0.1f, INT32_MIN, DType::int8}).status() ==
          Status{StatusCode::value_out_of_range, OpKind::softmax, Field::zero_point, INT32_MIN, -128, Field::input});
    arith::SoftmaxTables tables = *arith::make_softmax_tables({0.1f, 0, DType::int8});
    tables.probability[9] = -1;
    CHECK_FALSE(arith::are_softmax_tables(tables));
    tables = *arith::make_softmax_tables({0.1f, 0, DType::int8});
    tables.term[255] = 0x80000001u;
    CHECK_FALSE(arith::are_softmax_tables(tables));
    tables.term[255] = tables.term[0] = 0;
    CHECK_FALSE(arith::are_softmax_tables(tables));
}

namespace {

/// The codes of one row of TFLite's softmax by every backend that has it.
template <class X, class Y>
std::vector<Y> run_fixed_point(std::size_t target, const std::vector<X>& x, float scale, index_t inner = 1) {
    const auto count = static_cast<index_t>(x.size()) / inner;
    test::BackwardExecutor backward;
    std::vector<Y> first;
    for (const test::BackendTables& backend : test::usable_backend_tables()) {
        const kernels::KernelTable& table = *backend.tables[target];
        const kernels::SoftmaxRow* const row = kernels::operators::find_softmax(table, dtype_of<X>, dtype_of<Y>);
        REQUIRE(row != nullptr);
        arith::SoftmaxTables tables;
        arith::QuantizedMultiplier input;
        if (dtype_of<X> == DType::int8)
            tables = *arith::make_fixed_point_softmax_tables(table.policy(), {scale, 0, DType::int8});
        else
            input = *arith::make_wide_softmax_multiplier({scale, 0, DType::int16});
        for (const Executor& executor : {serial, backward.executor()}) {
            test::GuardedBuffer y(x.size() * sizeof(Y));
            row->run({&tables, input, x.data(), y.as<Y>(), 1, count, inner, &executor});
            CHECK(y.is_intact());
            const std::vector<Y> given(y.as<Y>(), y.as<Y>() + x.size());
            if (first.empty()) first = given;
            CHECK(given == first);
        }
    }
    return first;
}

template <class Y> int count_other_than_oracle(const std::vector<std::int8_t>& x, float scale, std::size_t target) {
    const std::vector<Y> y = run_fixed_point<std::int8_t, Y>(target, x, scale);
    const auto expected =
        ref::tflite_softmax({x.begin(), x.end()}, scale, static_cast<int>(8 * sizeof(Y)), target == 2);
    int wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i) wrong += y[i] != expected[i];
    return wrong;
}

}  // namespace

TEST_CASE("TFLite's softmax of int8 codes is the oracle's, to int8 and int16, with both roundings") {
    std::mt19937 random(3);
    int wrong = 0;
    for (int i = 0; i < 600; ++i) {
        const float scale =
            std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000.0f, static_cast<int>(random() % 20) - 14);
        std::vector<std::int8_t> x(i % 50 == 0 ? 500 : 1 + random() % 40);
        for (auto& code : x) code = static_cast<std::int8_t>(random() % 256);
        for (const std::size_t target : {std::size_t{1}, std::size_t{2}}) {
            wrong += count_other_than_oracle<std::int8_t>(x, scale, target);
            wrong += count_other_than_oracle<std::int16_t>(x, scale, target);
        }
    }
    CHECK(wrong == 0);
    // As many terms as there may be, all equal: their sum is an int32, and each rounds to nothing in int8.
    const std::vector<std::int8_t> equal(4095, 5);
    CHECK(run_fixed_point<std::int8_t, std::int8_t>(1, equal, 0.1f) == std::vector<std::int8_t>(4095, -128));
    CHECK(run_fixed_point<std::int8_t, std::int16_t>(1, equal, 0.1f) == std::vector<std::int16_t>(4095, -32752));
    CHECK(run_fixed_point<std::int8_t, std::int8_t>(1, {7}, 1.0f)[0] == 127);
    CHECK(run_fixed_point<std::int8_t, std::int8_t>(1, {7, 9, 7, 9}, 1.0f, 2) == std::vector<std::int8_t>(4, 0));
}

TEST_CASE("TFLite's softmax of int16 codes is near real arithmetic for all scales and lengths") {
    std::mt19937 random(4);
    double worst = 0;
    double worst_of_its_bound = 0;
    for (int i = 0; i < 300; ++i) {
        const float scale =
            std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000.0f, static_cast<int>(random() % 14) - 18);
        std::vector<std::int16_t> x(i % 50 == 0 ? 1000 : 1 + random() % 40);
        for (auto& code : x) code = static_cast<std::int16_t>(random() % 65536);
        const auto y = run_fixed_point<std::int16_t, std::int16_t>(1 + static_cast<std::size_t>(i % 2), x, scale);
        const std::int16_t largest = *std::max_element(x.begin(), x.end());
        long double sum = 0;
        const auto term = [&](std::int16_t code) {
            const long double x_of = static_cast<long double>(code - largest) * static_cast<long double>(scale);
            return std::exp(std::max(x_of, -10.0L));  // where the table ends
        };
        for (const std::int16_t code : x) sum += term(code);
        double error = 0;
        for (std::size_t k = 0; k < x.size(); ++k)
            error = std::max(error, static_cast<double>(std::abs(32768.0L * term(x[k]) / sum - y[k])));
        worst = std::max(worst, error);
        // Every term of the sum is rounded to 2^-15, so a long row of small terms has a wrong sum.
        worst_of_its_bound = std::max(worst_of_its_bound, error / (12.0 + 0.75 * static_cast<double>(x.size())));
    }
    INFO("largest error " << worst << " of 2^-15, " << worst_of_its_bound << " of its bound");
    CHECK(worst_of_its_bound < 1.0);
    CHECK(worst > 0.5);
}

namespace {

/// Codes of int16 rows that differ from the oracle's; `worst` is the largest error against real numbers, in codes of
/// the output.
int count_wrong_int16(std::size_t target, const std::vector<std::int16_t>& x, float scale, float out_scale,
                      index_t inner, double& worst) {
    const arith::PolicyRecord& policy = test::scalar_tables().tables[target]->policy();
    std::uint32_t entries[arith::int16_softmax_entries];
    REQUIRE(arith::make_int16_softmax_tables({scale, 0, DType::int16}, entries).ok());
    REQUIRE(arith::are_int16_softmax_tables(entries));
    const test::Codes out{out_scale, 0, DType::int16};
    const auto words = arith::make_int16_softmax_words(policy, out.codes_of());
    REQUIRE(words.ok());
    const arith::OutputCodes codes = out.output_codes();
    const auto count = static_cast<index_t>(x.size()) / inner;
    test::BackwardExecutor backward;
    std::vector<std::int16_t> y;
    for (const test::BackendTables& backend : test::usable_backend_tables()) {
        const kernels::SoftmaxRow* const row =
            kernels::operators::find_softmax(*backend.tables[target], DType::int16, DType::int16);
        REQUIRE(row != nullptr);
        for (const Executor& executor : {serial, backward.executor()}) {
            test::GuardedBuffer to(x.size() * sizeof(std::int16_t));
            row->run({.x = x.data(),
                      .y = to.as<std::int16_t>(),
                      .rows = 1,
                      .count = count,
                      .inner = inner,
                      .executor = &executor,
                      .entries = entries,
                      .words = &*words,
                      .codes = &codes});
            CHECK(to.is_intact());
            const std::vector<std::int16_t> given(to.as<std::int16_t>(), to.as<std::int16_t>() + x.size());
            if (y.empty()) y = given;
            CHECK(given == y);
        }
    }
    int wrong = 0;
    for (index_t first = 0; first < inner; ++first) {
        std::vector<std::int64_t> row;
        for (index_t k = 0; k < count; ++k) row.push_back(x[static_cast<std::size_t>(first + k * inner)]);
        const std::vector<std::int64_t> accumulators = ref::int16_softmax_accumulators(row, scale);
        const std::int64_t largest = *std::max_element(row.begin(), row.end());
        long double sum = 0;
        const auto term = [&](std::int64_t code) {
            return std::exp(static_cast<long double>(code - largest) * static_cast<long double>(scale));
        };
        for (const std::int64_t code : row) sum += term(code);
        for (std::size_t k = 0; k < row.size(); ++k) {
            const std::int64_t given = y[static_cast<std::size_t>(first) + k * static_cast<std::size_t>(inner)];
            wrong += given != ref::requantize_accumulator(test::oracle_targets()[target], accumulators[k], 0x1p-30f,
                                                          1.0f, 8, out.for_oracle(), ref::Role::element);
            const long double real = term(row[k]) / sum / static_cast<long double>(out_scale);
            if (real < 32767.0L)
                worst = std::max(worst, static_cast<double>(std::abs(real - static_cast<long double>(given))));
        }
    }
    return wrong;
}

}  // namespace

TEST_CASE("softmax of int16 codes is the oracle's on each target that has it, and near real arithmetic") {
    struct Bound {
        std::size_t target;
        double most;
    };
    for (const auto& [target, most] : {Bound{0, 0.53}, Bound{5, 2.1}}) {
        std::mt19937 random(5);
        double worst = 0;
        int wrong = 0;
        for (int i = 0; i < 400; ++i) {
            const index_t count = i % 50 == 0 ? 1000 : 1 + static_cast<index_t>(random() % 40);
            const index_t inner = 1 + static_cast<index_t>(random() % 3);
            const float scale =
                std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000.0f, static_cast<int>(random() % 18) - 20);
            std::vector<std::int16_t> x(static_cast<std::size_t>(count * inner));
            for (auto& code : x)
                code = static_cast<std::int16_t>(i % 7 == 0   ? -32768 + 65535 * static_cast<int>(random() % 2)
                                                 : i % 7 == 1 ? 5
                                                              : static_cast<int>(random() % 65536) - 32768);
            const float out_scale = std::ldexp(1.0f, -15 - static_cast<int>(random() % 4));
            wrong += count_wrong_int16(target, x, scale, out_scale, inner, worst);
        }
        CHECK(wrong == 0);
        INFO("largest error on target " << target << ": " << worst << " codes");
        CHECK(worst < most);
        CHECK(worst > 0.45);
        // As many terms as there may be: equal, and one beside 65534 small ones.
        CHECK(count_wrong_int16(target, std::vector<std::int16_t>(65535, -3), 0.01f, 0x1p-31f, 1, worst) == 0);
        std::vector<std::int16_t> one(65535, -32768);
        one[77] = 32767;
        CHECK(count_wrong_int16(target, one, 0.0001f, 0x1p-15f, 1, worst) == 0);
    }
}

TEST_CASE("softmax of int16 codes refuses scales and types that it has no tables for, and tables that are none") {
    std::uint32_t entries[arith::int16_softmax_entries];
    const auto made = [&](const arith::CodesOf& in) { return arith::make_int16_softmax_tables(in, entries); };
    CHECK(made({0.0f, 0, DType::int16}).code == StatusCode::scale_out_of_range);
    CHECK(made({std::nanf(""), 0, DType::int16}).code == StatusCode::not_finite);
    CHECK(made({0.1f, 0, DType::int8}).code == StatusCode::dtype_mismatch);
    CHECK(made({0.1f, 32768, DType::int16}) ==
          Status{StatusCode::value_out_of_range, OpKind::softmax, Field::zero_point, 32768, 32767, Field::input});
    REQUIRE(made({0.1f, -32768, DType::int16}).ok());
    for (const std::size_t at : {std::size_t{0}, std::size_t{256}, std::size_t{511}}) {
        const std::uint32_t kept = entries[at];
        entries[at] = at == 511 ? 0x80000001u : 0x7fffffffu;
        CHECK_FALSE(arith::are_int16_softmax_tables(entries));
        entries[at] = kept;
    }
}

TEST_CASE("TFLite's softmax refuses scales and types that it has no numbers for, and numbers that are none") {
    const arith::PolicyRecord& tflite = target::tflite<>::policy;
    for (const float scale : {0.0f, -1.0f, HUGE_VALF, std::nanf("")}) {
        const auto code = std::isfinite(scale) ? StatusCode::scale_out_of_range : StatusCode::not_finite;
        const Status refusal{code, OpKind::softmax, Field::scale, -1, 0, Field::input};
        CHECK(arith::make_fixed_point_softmax_tables(tflite, {scale, 0, DType::int8}).status() == refusal);
        CHECK(arith::make_wide_softmax_multiplier({scale, 0, DType::int16}).status() == refusal);
    }
    CHECK(arith::make_fixed_point_softmax_tables(tflite, {0.1f, 0, DType::int16}).status().code ==
          StatusCode::dtype_mismatch);
    CHECK(arith::make_wide_softmax_multiplier({0.1f, 0, DType::int8}).status().code == StatusCode::dtype_mismatch);
    // 10/65535 · 2^15 is 4.99…: beyond it 2^16 codes leave 32 bits.
    CHECK(arith::make_wide_softmax_multiplier({4.9f, 0, DType::int16}).ok());
    CHECK(arith::make_wide_softmax_multiplier({5.1f, 0, DType::int16}).status() ==
          Status{StatusCode::scale_out_of_range, OpKind::softmax, Field::scale_ratio, 16, 15});
    arith::SoftmaxTables tables = *arith::make_fixed_point_softmax_tables(tflite, {0.1f, 0, DType::int8});
    CHECK(arith::are_fixed_point_softmax_tables(tables));
    CHECK_FALSE(arith::are_softmax_tables(tables));
    tables.term[7] = 0x80000000u;
    CHECK_FALSE(arith::are_fixed_point_softmax_tables(tables));
    tables = *arith::make_fixed_point_softmax_tables(tflite, {0.1f, 0, DType::int8});
    tables.term[0] = 0;
    CHECK_FALSE(arith::are_fixed_point_softmax_tables(tables));
}
