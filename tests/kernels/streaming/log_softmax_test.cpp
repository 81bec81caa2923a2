// SPDX-License-Identifier: MIT
//
// log-softmax: every row of every backend against its oracle and against real arithmetic, and its tables from an enemy.
#include "intq/kernels/operators/softmax.hpp"

#include <random>

#include "intq/arith/fixed_point_log_softmax.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/litert.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "reference/softmax.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/tensors.hpp"

using namespace intq;
namespace ref = intq_reference;

namespace {

/// The codes of every backend, which are one.
template <class Code>
std::vector<Code> run(std::size_t target, const std::vector<Code>& x, float scale, const test::Codes& out,
                      index_t inner) {
    const arith::PolicyRecord& policy = test::scalar_tables().tables[target]->policy();
    const arith::CodesOf in{scale, 0, dtype_of<Code>};
    std::vector<std::uint32_t> entries(static_cast<std::size_t>(arith::log_softmax_entries(in.dtype)));
    REQUIRE(arith::make_log_softmax_tables(in, entries.data()).ok());
    REQUIRE(arith::are_log_softmax_tables(entries.data(), in.dtype));
    const auto step = arith::make_log_softmax_step(in);
    const auto words = arith::make_log_softmax_words(policy, out.codes_of());
    REQUIRE((step.ok() && words.ok()));
    const arith::OutputCodes codes = out.output_codes();
    test::BackwardExecutor backward;
    std::vector<Code> y;
    for (const test::BackendTables& backend : test::usable_backend_tables())
        for (const kernels::LogSoftmaxRow& row : backend.tables[target]->log_softmax) {
            if (row.rule != arith::SoftmaxRule::requantized || row.dtype != dtype_of<Code>) continue;
            for (const Executor& executor : {serial, backward.executor()}) {
                test::GuardedBuffer to(x.size() * sizeof(Code));
                row.run({.x = x.data(),
                         .y = to.as<Code>(),
                         .rows = 1,
                         .count = static_cast<index_t>(x.size()) / inner,
                         .inner = inner,
                         .executor = &executor,
                         .entries = entries.data(),
                         .words = &*words,
                         .codes = &codes,
                         .step = *step});
                CHECK(to.is_intact());
                const std::vector<Code> given(to.as<Code>(), to.as<Code>() + x.size());
                if (y.empty()) y = given;
                CHECK(given == y);
            }
        }
    REQUIRE(y.size() == x.size());
    return y;
}

/// Codes that differ from the oracle's; `worst` is the largest error against real numbers, in codes of the output.
template <class Code>
int count_wrong(std::size_t target, const std::vector<Code>& x, float scale, const test::Codes& out, index_t inner,
                double& worst) {
    const std::vector<Code> y = run(target, x, scale, out, inner);
    const index_t count = static_cast<index_t>(x.size()) / inner;
    int wrong = 0;
    for (index_t first = 0; first < inner; ++first) {
        std::vector<std::int64_t> row;
        for (index_t k = 0; k < count; ++k) row.push_back(x[static_cast<std::size_t>(first + k * inner)]);
        const auto expected =
            ref::log_softmax(test::oracle_targets()[target], row, scale, sizeof(Code) == 2, out.for_oracle());
        const std::int64_t largest = *std::max_element(row.begin(), row.end());
        long double sum = 0;
        const auto distance = [&](std::int64_t code) {
            return static_cast<long double>(code - largest) * static_cast<long double>(scale);
        };
        for (const std::int64_t code : row) sum += std::exp(distance(code));
        for (std::size_t k = 0; k < row.size(); ++k) {
            const std::int64_t given = y[static_cast<std::size_t>(first) + k * static_cast<std::size_t>(inner)];
            wrong += given != expected[k];
            const long double real =
                (distance(row[k]) - std::log(sum)) / static_cast<long double>(out.scale) + out.zero_point;
            if (real > static_cast<long double>(lowest_code(out.dtype)))
                worst = std::max(worst, static_cast<double>(std::abs(real - static_cast<long double>(given))));
        }
    }
    return wrong;
}

/// Rows of random codes, of two values, and of one.
template <class Code> std::vector<Code> random_row(std::mt19937& random, int i, index_t size) {
    constexpr int lowest = static_cast<int>(lowest_code(dtype_of<Code>)), codes = -2 * lowest;
    std::vector<Code> x(static_cast<std::size_t>(size));
    for (Code& code : x)
        code = static_cast<Code>(i % 7 == 0   ? lowest + (codes - 1) * static_cast<int>(random() % 2)
                                 : i % 7 == 1 ? 5
                                              : lowest + static_cast<int>(random() % static_cast<unsigned>(codes)));
    return x;
}

template <class Code> void check_target(std::size_t target, double most) {
    const bool is_wide = sizeof(Code) == 2;
    std::mt19937 random(5);
    double worst = 0;
    int wrong = 0;
    for (int i = 0; i < 400; ++i) {
        const index_t count = i % 50 == 0 ? 1000 : 1 + static_cast<index_t>(random() % 40);
        const index_t inner = 1 + static_cast<index_t>(random() % 3);
        const float scale = std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000.0f,
                                       static_cast<int>(random() % 14) - (is_wide ? 18 : 10));
        // On targets with zero points all codes are of 0 and below.
        const bool has_zero_point = test::scalar_tables().tables[target]->policy().zero_points;
        const test::Codes out{std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000.0f,
                                         static_cast<int>(random() % 6) - (is_wide ? 14 : 6)),
                              has_zero_point ? static_cast<std::int32_t>(highest_code(dtype_of<Code>)) : 0,
                              dtype_of<Code>};
        wrong += count_wrong(target, random_row<Code>(random, i, count * inner), scale, out, inner, worst);
    }
    INFO("target " << target << ", " << name_of(dtype_of<Code>) << ": largest error " << worst << " codes");
    CHECK(wrong == 0);
    CHECK(worst < most);
    CHECK(worst > 0.45);
}

/// TFLite's codes of every backend, which are one.
std::vector<std::int8_t> run_fixed_point(std::size_t target, const std::vector<std::int8_t>& x, float scale,
                                         index_t inner) {
    std::uint32_t entries[arith::fixed_point_log_softmax_entries];
    REQUIRE(arith::make_fixed_point_log_softmax_table(test::scalar_tables().tables[target]->policy(),
                                                      {scale, 0, DType::int8}, entries)
                .ok());
    REQUIRE(arith::are_fixed_point_log_softmax_entries(entries));
    test::BackwardExecutor backward;
    std::vector<std::int8_t> y;
    for (const test::BackendTables& backend : test::usable_backend_tables()) {
        const auto* const row =
            kernels::operators::find_log_softmax(*backend.tables[target], arith::SoftmaxRule::fixed_point, DType::int8);
        REQUIRE(row != nullptr);
        for (const Executor& executor : {serial, backward.executor()}) {
            test::GuardedBuffer to(x.size());
            row->run({.x = x.data(),
                      .y = to.as<std::int8_t>(),
                      .rows = 1,
                      .count = static_cast<index_t>(x.size()) / inner,
                      .inner = inner,
                      .executor = &executor,
                      .entries = entries});
            CHECK(to.is_intact());
            const std::vector<std::int8_t> given(to.as<std::int8_t>(), to.as<std::int8_t>() + x.size());
            if (y.empty()) y = given;
            CHECK(given == y);
        }
    }
    REQUIRE(y.size() == x.size());
    return y;
}

}  // namespace

TEST_CASE("TFLite's log_softmax is the oracle's on each target of its family, and near real arithmetic") {
    std::mt19937 random(6);
    double worst = 0;
    int wrong = 0;
    for (const std::size_t target : {std::size_t{1}, std::size_t{2}, std::size_t{6}})
        for (int i = 0; i < 300; ++i) {
            const index_t count = i % 50 == 0 ? 4095 : 1 + static_cast<index_t>(random() % 40);
            const index_t inner = 1 + static_cast<index_t>(random() % 3);
            const float scale =
                std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000.0f, static_cast<int>(random() % 14) - 11);
            const auto x = random_row<std::int8_t>(random, i, count * inner);
            const auto y = run_fixed_point(target, x, scale, inner);
            for (index_t first = 0; first < inner; ++first) {
                std::vector<std::int64_t> row;
                for (index_t k = 0; k < count; ++k) row.push_back(x[static_cast<std::size_t>(first + k * inner)]);
                const ref::TfliteLogSoftmax expected = ref::tflite_log_softmax(row, scale, target == 2);
                const std::int64_t largest = *std::max_element(row.begin(), row.end());
                long double sum = 0;
                for (const std::int64_t code : row)
                    sum += std::exp(static_cast<long double>(code - largest) * static_cast<long double>(scale));
                for (std::size_t k = 0; k < row.size(); ++k) {
                    const std::int64_t given = y[static_cast<std::size_t>(first) + k * static_cast<std::size_t>(inner)];
                    wrong += given != expected.codes[k];
                    const long double logarithm =
                        static_cast<long double>(row[k] - largest) * static_cast<long double>(scale) - std::log(sum);
                    const long double real = 127 + 16 * logarithm;
                    if (largest - row[k] <= expected.radius && real > -128)
                        worst = std::max(worst, static_cast<double>(std::abs(real - static_cast<long double>(given))));
                }
            }
        }
    INFO("largest error " << worst << " codes");
    CHECK(wrong == 0);
    CHECK(worst < 0.501);
    CHECK(worst > 0.45);
}

TEST_CASE("TFLite's log_softmax refuses scales at which LiteRT has other bounds, and tables that are none") {
    std::uint32_t entries[arith::fixed_point_log_softmax_entries];
    const auto made = [&](float scale) {
        return arith::make_fixed_point_log_softmax_table(target::litert::policy, {scale, 0, DType::int8}, entries);
    };
    for (const float scale : {8.0f, 0x1p-25f}) CHECK(made(scale).code == StatusCode::scale_out_of_range);
    CHECK(made(std::nanf("")).op == OpKind::log_softmax);
    CHECK(arith::make_fixed_point_log_softmax_table(target::fp32::policy, {0.1f, 0, DType::int8}, entries).code ==
          StatusCode::unsupported);
    const auto refuses = [&](std::size_t place, std::uint32_t entry) {
        REQUIRE(made(0.1f).ok());
        REQUIRE(arith::are_fixed_point_log_softmax_entries(entries));
        entries[place] = entry;
        return !arith::are_fixed_point_log_softmax_entries(entries);
    };
    CHECK(refuses(0, 0x7ffffffeu));
    CHECK(refuses(255, 0x80000000u));
    CHECK(refuses(256, 1));
    CHECK(refuses(511, 0x80000001u));
}

TEST_CASE("log_softmax is the oracle's on each target, and near real arithmetic") {
    check_target<std::int8_t>(0, 0.51);
    check_target<std::int16_t>(0, 0.55);
    for (const std::size_t tflite : {std::size_t{1}, std::size_t{6}}) {
        check_target<std::int8_t>(tflite, 0.76);
        check_target<std::int16_t>(tflite, 0.80);
    }
    check_target<std::int8_t>(4, 0.53);
    check_target<std::int8_t>(5, 0.53);
    check_target<std::int16_t>(5, 2.1);
}

TEST_CASE("log_softmax of as many terms as there may be, of one term, and of equal ones") {
    double worst = 0;
    const test::Codes narrow{0.0625f, 127, DType::int8}, wide{0.001f, 32767, DType::int16};
    CHECK(count_wrong(0, std::vector<std::int8_t>(65535, 5), 0.1f, narrow, 1, worst) == 0);
    CHECK(count_wrong(0, std::vector<std::int16_t>(65535, -3), 0.01f, wide, 1, worst) == 0);
    CHECK(run<std::int8_t>(0, {7}, 1.0f, narrow, 1)[0] == 127);
    CHECK(run<std::int8_t>(0, {7, 7}, 1.0f, narrow, 1)[0] == 116);        // 127 - ln(2)·16
    CHECK(run<std::int8_t>(0, {-128, 127}, 0.5f, narrow, 1)[0] == -128);  // saturated
    CHECK(run<std::int16_t>(0, {7, 7, 7}, 1.0f, wide, 1)[0] == 31668);    // 32767 - ln(3)·1000
    CHECK(run<std::int16_t>(0, {-32768, 32767}, 63.0f, wide, 1)[0] == -32768);
}

TEST_CASE("log_softmax refuses scales and types that it has no tables for, and tables that are none") {
    std::uint32_t entries[arith::log_softmax_entries(DType::int16)];
    const auto made = [&](const arith::CodesOf& in) { return arith::make_log_softmax_tables(in, entries); };
    CHECK(made({0.0f, 0, DType::int16}).code == StatusCode::scale_out_of_range);
    CHECK(made({64.0f, 0, DType::int8}).code == StatusCode::scale_out_of_range);
    CHECK(made({64.0f, 0, DType::int8}).op == OpKind::log_softmax);
    CHECK(made({std::nanf(""), 0, DType::int8}).code == StatusCode::not_finite);
    CHECK(made({0.1f, 0, DType::int32}).code == StatusCode::dtype_mismatch);
    CHECK(made({0.1f, 128, DType::int8}) ==
          Status{StatusCode::value_out_of_range, OpKind::log_softmax, Field::zero_point, 128, 127, Field::input});
    for (const DType dtype : {DType::int8, DType::int16}) {
        const auto last = static_cast<std::size_t>(arith::log_softmax_entries(dtype) - 1);
        const auto refuses = [&](std::size_t place, std::uint32_t entry) {
            REQUIRE(made({0.1f, 0, dtype}).ok());
            REQUIRE(arith::are_log_softmax_tables(entries, dtype));
            entries[place] = entry;
            return !arith::are_log_softmax_tables(entries, dtype);
        };
        CHECK(refuses(0, 0x7fffffffu));
        CHECK(refuses(255, 0x80000001u));
        CHECK(refuses(last, (1u << 26) + 1));
        CHECK(refuses(last - 1, 0));
    }
    CHECK_FALSE(arith::is_log_softmax_step(-1));
    CHECK_FALSE(arith::is_log_softmax_step(arith::largest_log_softmax_step));
}
