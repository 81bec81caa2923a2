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

/// Samples of pixels of groups of codes, with their weights.
struct Problem {
    index_t rows = 1, pixels = 1, groups = 1, count = 1;
    DType dtype = DType::int8;
    arith::CodesOf in{}, out{};
    double eps = 1e-5;
    bool is_centered = true;
    std::vector<float> weight, bias;
    std::vector<std::int32_t> x;

    index_t channels() const { return groups * count; }
    index_t size() const { return rows * pixels * channels(); }
    /// Where element i of what group `group` of a sample normalizes together lies.
    std::size_t place(index_t row, index_t group, index_t i) const {
        return static_cast<std::size_t>((row * pixels + i / count) * channels() + group * count + i % count);
    }
    std::int64_t lowest() const { return lowest_code(dtype); }
    std::int64_t highest() const { return highest_code(dtype); }
};

Problem draw(std::mt19937& random, DType dtype, const arith::PolicyRecord& policy, int round) {
    Problem p;
    p.dtype = dtype;
    p.rows = 1 + static_cast<index_t>(random() % 3);
    p.count = round % 40 == 0 ? 3000 : 1 + static_cast<index_t>(random() % 70);
    const auto codes = static_cast<std::uint32_t>(highest_code(dtype) - lowest_code(dtype) + 1);
    const auto zero_point = [&] {
        if (!policy.zero_points) return 0;
        return static_cast<std::int32_t>(static_cast<std::int64_t>(random() % codes) + lowest_code(dtype));
    };
    const float step = dtype == DType::int8 ? 1.0f : 1.0f / 256.0f;
    p.in = {step * std::ldexp(1.0f, static_cast<int>(random() % 12) - 9), zero_point(), dtype};
    p.out = {step * (round % 3 == 0 ? 0.05f : 0.02f), zero_point(), dtype};
    p.is_centered = round % 4 != 1;
    p.eps = round % 9 == 0 ? 0.0 : std::ldexp(1.0, -static_cast<int>(random() % 20));
    std::uniform_real_distribution<float> reals(-1.5f, 1.5f);
    if (round % 3 == 2)
        p.pixels = 1 + static_cast<index_t>(random() % 5), p.groups = 1 + static_cast<index_t>(random() % 4);
    for (index_t k = 0; k < p.channels(); ++k) {
        p.weight.push_back(round % 11 == 0 ? 0.0f : reals(random));
        p.bias.push_back(!p.is_centered ? 0.0f : round % 7 == 0 ? 40.0f * reals(random) : reals(random));
    }
    const auto span = static_cast<std::uint32_t>(p.highest() - p.lowest() + 1);
    for (index_t i = 0; i < p.size(); ++i)
        p.x.push_back(static_cast<std::int32_t>(p.lowest() + random() % (round % 5 == 0 ? 3 : span)));
    if (round % 6 == 0) std::fill(p.x.begin(), p.x.end(), p.x[0]);                                     // no deviation
    if (round % 8 == 0) std::fill(p.x.begin() + 1, p.x.end(), static_cast<std::int32_t>(p.lowest()));  // the largest
    return p;
}

/// What group `group` of a sample normalizes together: its codes, and their weights and biases.
struct Run {
    std::vector<std::int64_t> x;
    oracle::LayerNorm layer;
};

Run run_of(const Problem& p, index_t row, index_t group) {
    Run run;
    run.layer.epsilon = p.eps, run.layer.is_centered = p.is_centered;
    for (index_t i = 0; i < p.pixels * p.count; ++i) {
        const auto channel = static_cast<std::size_t>(group * p.count + i % p.count);
        run.x.push_back(p.x[p.place(row, group, i)]);
        run.layer.weight.push_back(p.weight[channel]);
        run.layer.bias.push_back(p.bias[channel]);
    }
    return run;
}

/// The real layer norm of the elements of a run, with the eps that the integers have.
std::vector<long double> reals_of(const Problem& p, const Run& run, std::int64_t epsilon) {
    long double mean = 0, variance = 0;
    const auto n = static_cast<long double>(run.x.size());
    const auto at = [&](std::size_t i) { return static_cast<long double>(run.x[i] - p.in.zero_point); };
    for (std::size_t i = 0; p.is_centered && i < run.x.size(); ++i) mean += at(i);
    mean /= n;
    for (std::size_t i = 0; i < run.x.size(); ++i) variance += (at(i) - mean) * (at(i) - mean);
    variance = variance / n + static_cast<long double>(epsilon) / (n * n);
    std::vector<long double> result;
    for (std::size_t i = 0; i < run.x.size(); ++i)
        result.push_back((at(i) - mean) / std::sqrt(variance) * static_cast<long double>(run.layer.weight[i]) +
                         static_cast<long double>(run.layer.bias[i]));
    return result;
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
    row.run({.params = &norm,
             .weight = weight.data(),
             .bias = bias.data(),
             .x = x.data(),
             .y = y.as<Code>(),
             .samples = p.rows,
             .pixels = p.pixels,
             .groups = p.groups,
             .count = p.count,
             .executor = &executor});
    CHECK(y.is_intact());
    return {y.as<Code>(), y.as<Code>() + x.size()};
}

/// What one kernel got wrong.
struct Errors {
    int checked = 0, other_than_oracle = 0;
    double worst = 0;  // against real numbers, in codes
};

void check(const Problem& p, const kernels::LayerNormRow& row, const arith::PolicyRecord& policy,
           const oracle::Target& target, Errors& errors) {
    test::BackwardExecutor backward;
    const arith::OutputCodes codes{p.out.zero_point, static_cast<std::int32_t>(p.lowest()),
                                   static_cast<std::int32_t>(p.highest())};
    const auto scale = arith::layer_norm_scale(p.weight, p.bias);
    REQUIRE(scale.ok());
    const auto norm =
        arith::make_layer_norm(policy, p.in, p.out, codes, p.pixels * p.count, p.eps, *scale, p.is_centered);
    REQUIRE(norm.ok());
    const auto run_on = [&](const Executor& executor) {
        return row.input == DType::int8 ? run<std::int8_t>(p, row, *norm, *scale, executor)
                                        : run<std::int16_t>(p, row, *norm, *scale, executor);
    };
    const std::vector<std::int32_t> y = run_on(serial);
    CHECK(run_on(backward.executor()) == y);
    const Codes in{p.in.scale, p.in.zero_point, p.dtype}, out{p.out.scale, p.out.zero_point, p.dtype};
    const auto low = static_cast<long double>(p.lowest()), high = static_cast<long double>(p.highest());
    for (index_t r = 0; r < p.rows; ++r)
        for (index_t group = 0; group < p.groups; ++group) {
            Run of = run_of(p, r, group);
            of.layer.least_exponent = scale->exponent;
            const auto expected = oracle::layer_norm(target, of.x, in.for_oracle(), of.layer, out.for_oracle());
            const auto reals = reals_of(p, of, norm->epsilon);
            for (index_t i = 0; i < p.pixels * p.count; ++i) {
                const auto at = static_cast<std::size_t>(i);
                const std::int32_t code = y[p.place(r, group, i)];
                errors.other_than_oracle += code != expected[at];
                const long double steps =
                    reals[at] / static_cast<long double>(p.out.scale) + static_cast<long double>(p.out.zero_point);
                const long double error =
                    std::abs(std::min(std::max(steps, low), high) - static_cast<long double>(code));
                errors.worst = std::max(errors.worst, static_cast<double>(error));
                ++errors.checked;
            }
        }
}

}  // namespace

TEST_CASE("A layer norm is the oracle's, and half a code from real arithmetic, on every target that takes it") {
    std::map<std::string, Errors> all;
    for (const test::BackendTables& backend : test::usable_backend_tables())
        for (std::size_t i = 0; i < backend.tables.size(); ++i) {
            const arith::PolicyRecord& policy = backend.tables[i]->policy();
            const oracle::Target target = oracle_targets()[i];
            for (const kernels::LayerNormRow& row : backend.tables[i]->layer_norm) {
                if (bits_of(row.input) > target.widest_activation) continue;
                std::mt19937 random(5);
                Errors& errors = all[std::string(policy.name) + ", " + name_of(row.input)];
                for (int round = 0; round < 120; ++round) {
                    INFO(backend.name << ", " << policy.name << ", " << name_of(row.input) << ", " << round);
                    check(draw(random, row.input, policy, round), row, policy, target, errors);
                }
                // The multiplier of two stages has 15 bits.
                const bool is_coarse =
                    row.input == DType::int16 && policy.requantize == arith::RequantizeRule::two_stage;
                CHECK(errors.worst <= (is_coarse ? 1.5 : 0.52));
            }
        }
    int checked = 0;
    for (const auto& [what, errors] : all) {
        std::printf("layer_norm of %s: %.3f codes off real numbers at most\n", what.c_str(), errors.worst);
        CHECK(errors.other_than_oracle == 0);
        checked += errors.checked;
    }
    CHECK(checked > 100000);
}
