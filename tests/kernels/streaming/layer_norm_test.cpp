// SPDX-License-Identifier: MIT
//
// layer_norm: every row of every backend against the oracle and against real arithmetic.
#include "intq/kernels/operators/layer_norm.hpp"

#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "reference/layer_norm.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/tensors.hpp"

using namespace intq;
using namespace intq::test;

namespace {

/// Rows of codes with their weights.
struct Problem {
    index_t rows = 1, count = 1;
    DType dtype = DType::int8;
    arith::CodesOf in{}, out{};
    double eps = 1e-5;
    bool is_centered = true;
    std::vector<float> weight, bias;
    std::vector<std::int32_t> x;

    std::int64_t lowest() const { return lowest_code(dtype); }
    std::int64_t highest() const { return highest_code(dtype); }
};

Problem draw(std::mt19937& random, DType dtype, const arith::PolicyRecord& policy, int round) {
    Problem p;
    p.dtype = dtype;
    p.rows = 1 + static_cast<index_t>(random() % 3);
    p.count = round % 40 == 0 ? 3000 : 1 + static_cast<index_t>(random() % 70);
    const bool has_zero_points = policy.zero_points && dtype == DType::int8;
    const auto zero_point = [&] { return has_zero_points ? static_cast<std::int32_t>(random() % 256) - 128 : 0; };
    const float step = dtype == DType::int8 ? 1.0f : 1.0f / 256.0f;
    p.in = {step * std::ldexp(1.0f, static_cast<int>(random() % 12) - 9), zero_point(), dtype};
    p.out = {step * (round % 3 == 0 ? 0.05f : 0.02f), zero_point(), dtype};
    p.is_centered = round % 4 != 1;
    p.eps = round % 9 == 0 ? 0.0 : std::ldexp(1.0, -static_cast<int>(random() % 20));
    std::uniform_real_distribution<float> reals(-1.5f, 1.5f);
    for (index_t k = 0; k < p.count; ++k) {
        p.weight.push_back(round % 11 == 0 ? 0.0f : reals(random));
        p.bias.push_back(!p.is_centered ? 0.0f : round % 7 == 0 ? 40.0f * reals(random) : reals(random));
    }
    const auto span = static_cast<std::uint32_t>(p.highest() - p.lowest() + 1);
    for (index_t i = 0; i < p.rows * p.count; ++i)
        p.x.push_back(static_cast<std::int32_t>(p.lowest() + random() % (round % 5 == 0 ? 3 : span)));
    if (round % 6 == 0) std::fill(p.x.begin(), p.x.end(), p.x[0]);                                     // no deviation
    if (round % 8 == 0) std::fill(p.x.begin() + 1, p.x.end(), static_cast<std::int32_t>(p.lowest()));  // the largest
    return p;
}

/// The oracle's codes of all rows.
std::vector<std::int32_t> expected_of(const Problem& p, const oracle::Target& target) {
    const oracle::LayerNorm layer{p.weight, p.bias, p.eps, p.is_centered};
    const Codes in{p.in.scale, p.in.zero_point, p.dtype}, out{p.out.scale, p.out.zero_point, p.dtype};
    std::vector<std::int32_t> result;
    for (index_t row = 0; row < p.rows; ++row) {
        const auto first = p.x.begin() + row * p.count;
        for (const std::int64_t code :
             oracle::layer_norm(target, {first, first + p.count}, in.for_oracle(), layer, out.for_oracle()))
            result.push_back(static_cast<std::int32_t>(code));
    }
    return result;
}

/// The real layer norm of one element, with the eps that the integers have.
long double real_of(const Problem& p, std::int64_t epsilon, index_t row, index_t k) {
    long double mean = 0, variance = 0;
    const auto at = [&](index_t i) {
        return static_cast<long double>(p.x[static_cast<std::size_t>(row * p.count + i)] - p.in.zero_point);
    };
    const auto n = static_cast<long double>(p.count);
    for (index_t i = 0; p.is_centered && i < p.count; ++i) mean += at(i);
    mean /= n;
    for (index_t i = 0; i < p.count; ++i) variance += (at(i) - mean) * (at(i) - mean);
    variance = variance / n + static_cast<long double>(epsilon) / (n * n);
    const auto i = static_cast<std::size_t>(k);
    return (at(k) - mean) / std::sqrt(variance) * static_cast<long double>(p.weight[i]) +
           static_cast<long double>(p.bias[i]);
}

template <class Code>
std::vector<std::int32_t> run(const Problem& p, const kernels::LayerNormRow& row, const arith::LayerNormParams& norm,
                              const arith::LayerNormScale& scale, const Executor& executor) {
    std::vector<Code> x;
    for (const std::int32_t code : p.x) x.push_back(static_cast<Code>(code));
    std::vector<std::int32_t> weight, bias;
    for (const float w : p.weight) weight.push_back(arith::code_of_power(w, scale.weight()));
    for (const float b : p.bias) bias.push_back(arith::code_of_power(b, scale.accumulator()));
    test::GuardedBuffer y(x.size() * sizeof(Code));
    row.run({&norm, weight.data(), bias.data(), x.data(), y.as<Code>(), p.rows, p.count, &executor});
    CHECK(y.is_intact());
    return {y.as<Code>(), y.as<Code>() + x.size()};
}

}  // namespace

TEST_CASE("A layer norm is the oracle's, and half a code from real arithmetic, on every target that takes it") {
    test::BackwardExecutor backward;
    int checked = 0;
    std::map<std::string, double> worst, bounds;
    for (const test::BackendTables& backend : test::usable_backend_tables())
        for (std::size_t target = 0; target < backend.tables.size(); ++target) {
            const kernels::KernelTable* const table = backend.tables[target];
            for (const kernels::LayerNormRow& row : table->layer_norm) {
                if (bits_of(row.input) > oracle_targets()[target].widest_activation) continue;
                std::mt19937 random(5);
                for (int round = 0; round < 120; ++round) {
                    const Problem p = draw(random, row.input, table->policy(), round);
                    const arith::OutputCodes codes{p.out.zero_point, static_cast<std::int32_t>(p.lowest()),
                                                   static_cast<std::int32_t>(p.highest())};
                    const auto scale = arith::layer_norm_scale(p.weight, p.bias);
                    REQUIRE(scale.ok());
                    const auto norm = arith::make_layer_norm(table->policy(), p.in, p.out, codes, p.count, p.eps,
                                                             *scale, p.is_centered);
                    INFO(backend.name << ", " << table->policy().name << ", " << name_of(row.input) << ", " << round);
                    REQUIRE(norm.ok());
                    const auto run_on = [&](const Executor& executor) {
                        return row.input == DType::int8 ? run<std::int8_t>(p, row, *norm, *scale, executor)
                                                        : run<std::int16_t>(p, row, *norm, *scale, executor);
                    };
                    const std::vector<std::int32_t> y = run_on(serial);
                    CHECK(run_on(backward.executor()) == y);
                    CHECK(y == expected_of(p, oracle_targets()[target]));
                    for (index_t i = 0; i < p.rows * p.count; ++i) {
                        const long double steps = real_of(p, norm->epsilon, i / p.count, i % p.count) /
                                                      static_cast<long double>(p.out.scale) +
                                                  static_cast<long double>(p.out.zero_point);
                        const auto low = static_cast<long double>(p.lowest()),
                                   high = static_cast<long double>(p.highest());
                        const long double error = std::abs(std::min(std::max(steps, low), high) -
                                                           static_cast<long double>(y[static_cast<std::size_t>(i)]));
                        double& most = worst[std::string(table->policy().name) + ", " + name_of(row.input)];
                        most = std::max(most, static_cast<double>(error));
                        // The multiplier of two stages has 15 bits.
                        const bool is_coarse =
                            row.input == DType::int16 && table->policy().requantize == arith::RequantizeRule::two_stage;
                        bounds[std::string(table->policy().name) + ", " + name_of(row.input)] = is_coarse ? 1.5 : 0.52;
                        ++checked;
                    }
                }
            }
        }
    CHECK(checked > 100000);
    for (const auto& [what, error] : worst) {
        std::printf("layer_norm of %s: %.3f codes off real numbers at most\n", what.c_str(), error);
        CHECK(error <= bounds[what]);
    }
}
