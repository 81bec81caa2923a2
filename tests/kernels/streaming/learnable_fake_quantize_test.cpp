// SPDX-License-Identifier: MIT
//
// LSQ: against PyTorch's numbers, against the oracle, and the same bits on every backend and executor.
#include "intq/kernels/streaming/learnable_fake_quantize.hpp"

#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "reference/learnable.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"
#include "support/tensors.hpp"

namespace {

using nlohmann::json;
using namespace intq;
using arith::QuantizeBy;
using arith::QuantizeRule;
using arith::Rounding;
using intq::test::BackwardExecutor;
using intq::test::EdgeValues;
using intq::test::for_each_backend;
using intq::test::golden_float;
using intq::test::golden_floats;
using intq::test::GuardedBuffer;
using intq::test::same_bits;
using kernels::LearnableParams;
using kernels::LearnableSums;

constexpr QuantizeRule rules[] = {{Rounding::half_even, QuantizeBy::reciprocal},
                                  {Rounding::half_even, QuantizeBy::divide},
                                  {Rounding::half_up, QuantizeBy::reciprocal},
                                  {Rounding::half_up, QuantizeBy::divide}};

intq_reference::QuantizePolicy policy_of(QuantizeRule rule) {
    return {
        rule.rounding == Rounding::half_up ? intq_reference::QuantizeRounding::half_up
                                           : intq_reference::QuantizeRounding::half_even,
        rule.by == QuantizeBy::divide ? intq_reference::QuantizeBy::divide : intq_reference::QuantizeBy::reciprocal};
}

struct Gradients {
    std::vector<float> x, scale, zero_point;
};

/// The kernel on a tensor seen as outer × channels × inner.
template <class Backend = simd::default_backend>
Gradients backward(const std::vector<float>& x, const std::vector<float>& grad_out, const ChannelBlocks& blocks,
                   const LearnableParams& params, const Executor& executor = serial) {
    const std::array<index_t, 3> extents{blocks.outer, blocks.channels, blocks.inner};
    const auto channels = static_cast<std::size_t>(params.qparams.count());
    Gradients result{std::vector<float>(x.size()), std::vector<float>(channels, 91), std::vector<float>(channels, 91)};
    const TensorView<const float, 3> view(x.data(), extents), grad_view(grad_out.data(), extents);
    const TensorView<float, 3> grad_in(result.x.data(), extents);
    std::vector<double> scratch(static_cast<std::size_t>(kernels::learnable_scratch_size(blocks)));
    const LearnableSums sums{result.scale, result.zero_point, scratch};
    REQUIRE(kernels::check_learnable_fake_quantize_backward(view, grad_view, params, grad_in, sums).ok());
    kernels::learnable_fake_quantize_backward<Backend>(view, grad_view, params, grad_in, sums, executor);
    return result;
}

/// What the oracle says: the gradient of x, and for each channel the sum of the terms and of their magnitudes.
struct Expected {
    std::vector<float> x;
    std::vector<long double> scale, zero_point, scale_size, zero_point_size;
    std::vector<index_t> count;
};

Expected expect(const std::vector<float>& x, const std::vector<float>& grad_out, const ChannelBlocks& blocks,
                const LearnableParams& params) {
    const auto channels = static_cast<std::size_t>(params.qparams.count());
    const std::vector<long double> zeros(channels, 0.0L);
    Expected result{{}, zeros, zeros, zeros, zeros, std::vector<index_t>(channels)};
    for (std::size_t i = 0; i < x.size(); ++i) {
        const auto c = static_cast<std::size_t>(static_cast<index_t>(i) / blocks.inner % blocks.channels);
        const auto channel = static_cast<index_t>(c);
        const intq_reference::QParams q{params.qparams.scale(channel), params.qparams.zero_point(channel), 32,
                                        params.qparams.quant_min(), params.qparams.quant_max()};
        const auto terms =
            intq_reference::learnable_backward(x[i], grad_out[i], q, params.grad_factor, policy_of(params.rule));
        result.x.push_back(terms.x);
        const auto scale = static_cast<long double>(terms.scale),
                   zero_point = static_cast<long double>(terms.zero_point);
        result.scale[c] += scale;
        result.zero_point[c] += zero_point;
        result.scale_size[c] += std::fabs(scale);
        result.zero_point_size[c] += std::fabs(zero_point);
        ++result.count[c];
    }
    return result;
}

/// n additions in binary64 and one rounding to binary32, as the kernel promises.
bool is_sum(float sum, long double exact, long double size, index_t count) {
    const long double bound = std::ldexp(std::fabs(exact), -24) +
                              std::ldexp(static_cast<long double>(count) * size, -53) + std::ldexp(1.0L, -150);
    return std::fabs(static_cast<long double>(sum) - exact) <= bound;
}

void check_expected(const Gradients& got, const Expected& expected) {
    CHECK(same_bits(got.x, expected.x));
    for (std::size_t c = 0; c < got.scale.size(); ++c) {
        INFO("channel " << c << ": " << got.scale[c] << ' ' << expected.scale[c] << ", " << got.zero_point[c] << ' '
                        << expected.zero_point[c]);
        CHECK(is_sum(got.scale[c], expected.scale[c], expected.scale_size[c], expected.count[c]));
        CHECK(is_sum(got.zero_point[c], expected.zero_point[c], expected.zero_point_size[c], expected.count[c]));
    }
}

// --- golden numbers --------------------------------------------------------------------------------------------------
/// The zero point of PyTorch's backward pass per tensor; its other passes round half to even.
std::int32_t torch_backward_zero_point(float zero_point, std::int64_t low, std::int64_t high) {
    const float moved = zero_point + 0.5f;
    return static_cast<std::int32_t>(std::fmin(std::fmax(moved, static_cast<float>(low)), static_cast<float>(high)));
}

/// PyTorch adds n terms in binary32, in an order of its own: each of the n - 1 additions, and our rounding, errs by at
/// most 2^-24 of the sum of magnitudes. Of one term the bits are equal.
bool is_torch_sum(float ours, float theirs, long double size, index_t count) {
    if (count == 1) return ours == theirs;
    const auto n = static_cast<long double>(count);
    return std::fabs(static_cast<long double>(ours) - static_cast<long double>(theirs)) <=
           n * size * std::ldexp(1.0L, -24) * (1.0L + n * std::ldexp(1.0L, -24));
}

struct GoldenCase {
    std::vector<float> x, grad_out, y, grad_x, grad_scale, grad_zero_point;
    ChannelBlocks blocks;
    QParams forward;
    LearnableParams backward;
};

void check_golden(const GoldenCase& golden) {
    const std::array<index_t, 3> extents{golden.blocks.outer, golden.blocks.channels, golden.blocks.inner};
    std::vector<float> y(golden.x.size());
    kernels::fake_quantize(TensorView<const float, 3>(golden.x.data(), extents), golden.forward, {},
                           TensorView<float, 3>(y.data(), extents));
    CHECK(same_bits(y, golden.y));
    const Gradients got = backward(golden.x, golden.grad_out, golden.blocks, golden.backward);
    CHECK(same_bits(got.x, golden.grad_x));
    const Expected sizes = expect(golden.x, golden.grad_out, golden.blocks, golden.backward);
    for (std::size_t c = 0; c < got.scale.size(); ++c) {
        INFO("channel " << c);
        CHECK(is_torch_sum(got.scale[c], golden.grad_scale[c], sizes.scale_size[c], sizes.count[c]));
        if (golden.grad_zero_point.empty()) continue;
        CHECK(is_torch_sum(got.zero_point[c], golden.grad_zero_point[c], sizes.zero_point_size[c], sizes.count[c]));
    }
}

std::vector<float> floats_of(const json& value) {
    return value.is_array() ? golden_floats(value) : std::vector<float>{golden_float(value)};
}

GoldenCase operator_case(const json& row, std::vector<float>& scales, std::vector<std::int32_t>& forward,
                         std::vector<std::int32_t>& backward) {
    const bool per_channel = row.at("kind") == "per_channel";
    const std::int64_t low = row.at("quant_min"), high = row.at("quant_max");
    scales = floats_of(row.at("scale"));
    for (const float zero_point : floats_of(row.at("zero_point"))) {
        forward.push_back(arith::learnable_zero_point(zero_point, low, high));
        backward.push_back(per_channel ? forward.back() : torch_backward_zero_point(zero_point, low, high));
        // What the rule "forward rounding in both passes" leaves equal: every zero point that is an integer.
        if (zero_point == std::floor(zero_point)) CHECK(forward.back() == backward.back());
    }
    const json& x = per_channel ? row.at("x").at("data") : row.at("x");
    GoldenCase golden{golden_floats(x),
                      golden_floats(row.at("grad_y")),
                      golden_floats(row.at("y")),
                      golden_floats(row.at("grad_x")),
                      floats_of(row.at("grad_scale")),
                      floats_of(row.at("grad_zero_point")),
                      {1, 1, static_cast<index_t>(x.size())},
                      {},
                      {}};
    golden.backward.grad_factor = golden_float(row.at("grad_factor"));
    if (per_channel) {
        const json& shape = row.at("x").at("shape");
        golden.blocks = {shape.at(0), shape.at(1), shape.at(2)};
        golden.forward = QParams::per_channel(scales, forward, 1, low, high);
        golden.backward.qparams = QParams::per_channel(scales, backward, 1, low, high);
    } else {
        golden.forward = QParams::per_tensor(scales[0], forward[0], low, high);
        golden.backward.qparams = QParams::per_tensor(scales[0], backward[0], low, high);
    }
    return golden;
}

GoldenCase module_case(const json& row) {
    const bool wide = row.at("name").get<std::string>().starts_with("s16");
    const std::vector<float> x = golden_floats(row.at("x"));
    GoldenCase golden{
        x,
        std::vector<float>(x.size(), 1.0f),
        golden_floats(row.at("y_learning")),
        golden_floats(row.at("grad_x")),
        floats_of(row.at("grad_scale")),
        {},
        {1, 1, static_cast<index_t>(x.size())},
        QParams::per_tensor(golden_float(row.at("observed_scale")), 0, wide ? -32768 : -128, wide ? 32767 : 127),
        {}};
    golden.backward.qparams = golden.forward;
    golden.backward.grad_factor = golden_float(row.at("grad_factor"));
    return golden;
}

// --- conformance -----------------------------------------------------------------------------------------------------
struct Problem {
    std::vector<float> x, grad_out, scales;
    std::vector<std::int32_t> zero_points;
    ChannelBlocks blocks;
    LearnableParams params;

    Problem(const ChannelBlocks& shape, QuantizeRule rule, std::int64_t low, std::int64_t high) : blocks(shape) {
        EdgeValues value(0.037f, 31), gradient(1.0f, 32);
        for (index_t i = 0; i < shape.size(); ++i) {
            x.push_back(value());
            const float g = gradient();
            grad_out.push_back(std::fabs(g) < 1e6f ? g : -1.0f);
        }
        for (index_t c = 0; c < shape.channels; ++c) {
            scales.push_back(0.037f + 0.011f * static_cast<float>(c));
            zero_points.push_back(static_cast<std::int32_t>(c % (high - low + 1) + low));
        }
        params = {shape.channels == 1 ? QParams::per_tensor(0.037f, 2, low, high)
                                      : QParams::per_channel(scales, zero_points, 1, low, high),
                  rule, 0.173f};
    }
};

template <class Backend> void check_backend(const Problem& problem, const Gradients& scalar) {
    const Gradients got = backward<Backend>(problem.x, problem.grad_out, problem.blocks, problem.params);
    CHECK(same_bits(got.x, scalar.x));
    CHECK(same_bits(got.scale, scalar.scale));
    CHECK(same_bits(got.zero_point, scalar.zero_point));
}

}  // namespace

TEST_CASE("LSQ equals PyTorch's operator and module; only the order of their sums may differ") {
    int cases = 0;
    for (const json& row : intq::test::golden_cases("learnable")) {
        INFO(row.at("kind").get<std::string>() << ' ' << row.at("name").get<std::string>());
        // We refuse a scale that is not positive.
        if (row.at("name") == "negative_scale_is_not_rejected_by_the_op") continue;
        std::vector<float> scales;
        std::vector<std::int32_t> forward, backward;
        check_golden(row.at("kind") == "module" ? module_case(row) : operator_case(row, scales, forward, backward));
        ++cases;
    }
    CHECK(cases == 44);
}

TEST_CASE("A learnt zero point is rounded half to even and clamped, in both passes") {
    CHECK(arith::learnable_zero_point(2.5f, -128, 127) == 2);
    CHECK(arith::learnable_zero_point(3.5f, -128, 127) == 4);
    CHECK(arith::learnable_zero_point(-1.3f, -128, 127) == -1);
    CHECK(arith::learnable_zero_point(-1.5f, -128, 127) == -2);
    CHECK(arith::learnable_zero_point(300.0f, -128, 127) == 127);
    CHECK(arith::learnable_zero_point(-1e30f, -128, 127) == -128);
    CHECK(arith::learnable_zero_point(std::numeric_limits<float>::quiet_NaN(), -128, 127) == 0);
}

TEST_CASE("The terms of the specification equal the oracle's, bit for bit, for every rule and range") {
    for (const QuantizeRule& rule : rules)
        for (const auto& [low, high] :
             {std::pair{-128, 127}, std::pair{0, 255}, std::pair{-8, 7}, std::pair{-32768, 32767}})
            for (const float scale : {1.0f, 0.00214854861f, 0.1f, 1024.0f})
                for (const std::int32_t zero_point : {0, low, high}) {
                    EdgeValues value(scale, 41), gradient(1.0f, 42);
                    index_t wrong = 0;
                    for (int i = 0; i < 3000; ++i) {
                        const float x = value(), drawn = gradient();
                        const float g = arith::is_finite(drawn) ? drawn : 1.5f;
                        const auto got = arith::learnable_gradient(x, g, {scale, zero_point}, {low, high}, 0.3f, rule);
                        const auto expected = intq_reference::learnable_backward(
                            x, g, {scale, zero_point, 32, low, high}, 0.3f, policy_of(rule));
                        wrong += !same_bits(got.x, expected.x) + (got.scale != expected.scale) +
                                 (got.zero_point != expected.zero_point);
                    }
                    INFO("range " << low << " " << high << " zero point " << zero_point << " scale " << scale);
                    CHECK(wrong == 0);
                }
}

TEST_CASE("Every backend gives the same three gradients, bit for bit, and they are the oracle's sums") {
    const index_t chunk = kernels::detail::chunk_elements;
    for (const QuantizeRule& rule : rules)
        for (const ChannelBlocks& blocks :
             {ChannelBlocks{1, 1, 0}, ChannelBlocks{1, 1, 1}, ChannelBlocks{1, 1, 50}, ChannelBlocks{1, 1, 64},
              ChannelBlocks{1, 1, 197}, ChannelBlocks{1, 1, 2 * chunk + 77}, ChannelBlocks{70, 37, 1},
              ChannelBlocks{41, 3, 1}, ChannelBlocks{100, 2100, 1}, ChannelBlocks{2, 19, 5}, ChannelBlocks{1, 7, 200},
              ChannelBlocks{3, 4, 129}}) {
            INFO(blocks.outer << " x " << blocks.channels << " x " << blocks.inner);
            const Problem problem(blocks, rule, -128, 127);
            const Gradients scalar = backward<simd::scalar>(problem.x, problem.grad_out, blocks, problem.params);
            check_expected(scalar, expect(problem.x, problem.grad_out, blocks, problem.params));
            for_each_backend(intq::test::all_backends{}, [&](auto backend) {
                using Backend = decltype(backend);
                INFO(Backend::name);
                check_backend<Backend>(problem, scalar);
            });
        }
    for_each_backend(intq::test::all_backends{},
                     [](auto backend) { std::cout << "LSQ on " << decltype(backend)::name << "\n"; });
}

TEST_CASE("The order in which an executor runs the tasks of LSQ changes no bit") {
    for (const ChannelBlocks& blocks : {ChannelBlocks{1, 1, 5 * kernels::detail::chunk_elements + 9},
                                        ChannelBlocks{900, 300, 1}, ChannelBlocks{2, 7, 333}}) {
        const Problem problem(blocks, {}, -8, 7);
        BackwardExecutor executor;
        const Gradients one = backward(problem.x, problem.grad_out, blocks, problem.params),
                        other = backward(problem.x, problem.grad_out, blocks, problem.params, executor.executor());
        CHECK(same_bits(one.x, other.x));
        CHECK(same_bits(one.scale, other.scale));
        CHECK(same_bits(one.zero_point, other.zero_point));
        CHECK(executor.tasks > 5);
    }
}

TEST_CASE("LSQ stays inside its buffers, may work in place, and leaves a zero point alone that does not learn") {
    for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        for (const ChannelBlocks& blocks : {ChannelBlocks{1, 1, 131}, ChannelBlocks{5, 19, 1}, ChannelBlocks{2, 3, 21}})
            for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin}) {
                INFO(Backend::name << ' ' << blocks.outer << ' ' << blocks.channels);
                const Problem problem(blocks, {}, -128, 127);
                const Gradients expected = backward<Backend>(problem.x, problem.grad_out, blocks, problem.params);
                const std::size_t bytes = problem.x.size() * sizeof(float);
                const auto channels = static_cast<std::size_t>(blocks.channels);
                const auto doubles = static_cast<std::size_t>(kernels::learnable_scratch_size(blocks));
                GuardedBuffer x(bytes, against), gradient(bytes, against), scale(channels * sizeof(float), against),
                    scratch(doubles * sizeof(double), against);
                std::memcpy(x.as<float>(), problem.x.data(), bytes);
                std::memcpy(gradient.as<float>(), problem.grad_out.data(), bytes);
                const std::array<index_t, 3> extents{blocks.outer, blocks.channels, blocks.inner};
                kernels::learnable_fake_quantize_backward<Backend>(
                    TensorView<const float, 3>(x.as<float>(), extents),
                    TensorView<const float, 3>(gradient.as<float>(), extents), problem.params,
                    TensorView<float, 3>(gradient.as<float>(), extents),
                    LearnableSums{{scale.as<float>(), channels}, {}, {scratch.as<double>(), doubles}});
                CHECK(std::memcmp(gradient.as<float>(), expected.x.data(), bytes) == 0);
                CHECK(std::memcmp(scale.as<float>(), expected.scale.data(), channels * sizeof(float)) == 0);
                CHECK((gradient.is_intact() && scale.is_intact() && scratch.is_intact()));
            }
    });
}

TEST_CASE("Bad arguments of LSQ are refused with what was given") {
    std::vector<float> x(12), scales(4, 0.1f), grad(4);
    std::vector<double> scratch(64);
    const TensorView<const float, 2> view(x.data(), {3, 4});
    const TensorView<float, 2> out(x.data(), {3, 4});
    const LearnableParams good{QParams::per_channel(scales, {}, 1, -128, 127), {}, 1.0f};
    const LearnableSums sums{grad, grad, scratch};
    const auto check = [&](const LearnableParams& params, const LearnableSums& given) {
        return kernels::check_learnable_fake_quantize_backward(view, view, params, out, given);
    };
    CHECK(check(good, sums).ok());
    CHECK(check({QParams::per_tensor(-0.5f, 0, DType::int8), {}, 1.0f}, {std::span(grad).first(1), {}, scratch}) ==
          Status{StatusCode::scale_out_of_range, OpKind::fake_quantize, Field::scale, -1, 0});
    CHECK(check({good.qparams, {}, std::numeric_limits<float>::infinity()}, sums) ==
          Status{StatusCode::scale_out_of_range, OpKind::fake_quantize, Field::scale, -1, 0});
    CHECK(check(good, {std::span(grad).first(3), {}, scratch}) ==
          Status{StatusCode::shape_mismatch, OpKind::fake_quantize, Field::scale, 3, 4});
    CHECK(check(good, {grad, std::span(grad).first(3), scratch}) ==
          Status{StatusCode::shape_mismatch, OpKind::fake_quantize, Field::zero_point, 3, 4});
    CHECK(check(good, {grad, {}, std::span(scratch).first(7)}) ==
          Status{StatusCode::buffer_too_small, OpKind::fake_quantize, Field::workspace, 56, 64});
    const TensorView<const float, 2, strided> turned(x.data(), {3, 4}, {1, 3});
    CHECK(kernels::check_learnable_fake_quantize_backward(turned, view, good, out, sums).code ==
          StatusCode::unsupported);
}
