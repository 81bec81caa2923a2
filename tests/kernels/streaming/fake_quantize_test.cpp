// SPDX-License-Identifier: MIT
//
// fake_quantize and its gradient: against PyTorch's numbers, the oracle, and the specification on every backend and
// layout.
#include "intq/kernels/streaming/fake_quantize.hpp"

#include <cstring>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "reference/quantize.hpp"
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
using intq::test::golden_floats;
using intq::test::GuardedBuffer;
using intq::test::same_bits;
using intq::test::TestTensor;

constexpr QuantizeRule rules[] = {{Rounding::half_even, QuantizeBy::reciprocal},
                                  {Rounding::half_even, QuantizeBy::divide},
                                  {Rounding::half_up, QuantizeBy::reciprocal},
                                  {Rounding::half_up, QuantizeBy::divide}};

// --- golden numbers --------------------------------------------------------------------------------------------------
const std::map<std::string, std::string> refused{
    {"special_values_x86", "NaN and overflow are defined here; PyTorch leaves them to the CPU"},
    {"float_zero_point", "zero points are integers (QParams)"},
};

template <int Rank>
void check_golden(const json& row, const std::vector<float>& x,
                  const std::array<index_t, static_cast<std::size_t>(Rank)>& extents, const QParams& qparams) {
    std::vector<float> y(x.size()), grad_x(x.size());
    const TensorView<const float, Rank> view(x.data(), extents);
    const TensorView<float, Rank> out(y.data(), extents), grad_in(grad_x.data(), extents);
    const Status status = kernels::check_fake_quantize(view, qparams, {}, out);
    CHECK(status.ok() == !row.contains("error"));
    if (!status.ok() || row.contains("error")) return;
    kernels::fake_quantize(view, qparams, {}, out);
    CHECK(same_bits(y, golden_floats(row.at("y"))));
    const std::vector<float> grad_y = golden_floats(row.at("grad_y"));
    const TensorView<const float, Rank> grad_out(grad_y.data(), extents);
    kernels::fake_quantize_backward(view, grad_out, qparams, {}, true, grad_in);
    CHECK(same_bits(grad_x, golden_floats(row.at("grad_x"))));
    kernels::fake_quantize_backward(view, grad_out, qparams, {}, false, grad_in);
    CHECK(same_bits(grad_x, grad_y));
}

// --- conformance -----------------------------------------------------------------------------------------------------
template <class Backend>
void check_blocks(const ChannelBlocks& blocks, const QParams& qparams, QuantizeRule rule,
                  GuardedBuffer::Against against) {
    const auto n = static_cast<std::size_t>(blocks.size());
    const std::size_t bytes = n * sizeof(float);
    GuardedBuffer x(bytes, against), gradient(bytes, against), y(bytes, against), grad_in(bytes, against);
    EdgeValues value(qparams.scale(0), 11), gradient_value(1.0f, 12);
    std::vector<float> expected(n), expected_gradient(n);
    for (std::size_t i = 0; i < n; ++i) {
        x.as<float>()[i] = value();
        const float g = gradient_value();
        gradient.as<float>()[i] = arith::is_finite(g) ? g : -1.0f;
        const index_t channel = static_cast<index_t>(i) / blocks.inner % blocks.channels;
        const arith::ScaleZeroPoint pair{qparams.scale(channel), qparams.zero_point(channel)};
        const arith::CodeRange range{qparams.quant_min(), qparams.quant_max()};
        expected[i] = arith::fake_quantize(x.as<float>()[i], pair, range, rule);
        expected_gradient[i] =
            arith::fake_quantize_gradient(x.as<float>()[i], gradient.as<float>()[i], pair, range, rule);
    }
    // As rank-3 views: the same three extents.
    const std::array<index_t, 3> extents{blocks.outer, blocks.channels, blocks.inner};
    const TensorView<const float, 3> view(x.as<float>(), extents), grad_out(gradient.as<float>(), extents);
    const TensorView<float, 3> grad_view(grad_in.as<float>(), extents);
    kernels::fake_quantize_blocks<Backend>(x.as<float>(), blocks, qparams, rule, y.as<float>(), serial);
    kernels::fake_quantize_backward<Backend>(view, grad_out, qparams, rule, true, grad_view);
    CHECK((n == 0 || std::memcmp(y.as<float>(), expected.data(), bytes) == 0));
    CHECK((n == 0 || std::memcmp(grad_in.as<float>(), expected_gradient.data(), bytes) == 0));
    CHECK((y.is_intact() && grad_in.is_intact()));
    // In place, as QAT calls it.
    kernels::fake_quantize_blocks<Backend>(x.as<float>(), blocks, qparams, rule, x.as<float>(), serial);
    CHECK((n == 0 || std::memcmp(x.as<float>(), expected.data(), bytes) == 0));
}

template <class Backend> void check_conformance() {
    const index_t width = simd::lanes<Backend>::width();
    const QParams per_tensor = QParams::per_tensor(0.037f, 2, -8, 7);
    for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin})
        for (const QuantizeRule& rule : rules)
            for (const index_t length : {index_t{0}, index_t{1}, width - 1, width, width + 1, 3 * width + 2}) {
                INFO("length " << length);
                check_blocks<Backend>({1, 1, length}, per_tensor, rule, against);
                if (length == 0) continue;
                std::vector<float> scales;
                std::vector<std::int32_t> zero_points;
                for (index_t c = 0; c < length; ++c) {
                    scales.push_back(0.037f + 0.011f * static_cast<float>(c));
                    zero_points.push_back(static_cast<std::int32_t>(c));
                }
                const QParams qparams = QParams::per_channel(scales, zero_points, 1, -128, 127);
                check_blocks<Backend>({70, length, 1}, qparams, rule, against);
                check_blocks<Backend>({2, length, 5}, qparams, rule, against);
                check_blocks<Backend>({1, length, length}, qparams, rule, against);
            }
}

// --- layouts ---------------------------------------------------------------------------------------------------------
template <class XLayout, class GradientLayout, class OutLayout> void check_layouts() {
    const std::array<index_t, 4> extents{2, 5, 3, 67};
    TestTensor<float, 4, XLayout> x(extents);
    TestTensor<float, 4, GradientLayout> gradient(extents);
    EdgeValues value(0.1f, 5);
    x.fill([&](const auto&) { return value(); });
    gradient.fill([&](const auto&) {
        const float g = value();
        return arith::is_finite(g) ? g : 2.0f;
    });
    for (int axis = -1; axis < 4; ++axis) {
        INFO("axis " << axis);
        std::vector<float> scales;
        for (index_t c = 0; axis >= 0 && c < extents[static_cast<std::size_t>(axis)]; ++c)
            scales.push_back(0.1f + 0.01f * static_cast<float>(c));
        const QParams qparams =
            axis < 0 ? QParams::per_tensor(0.1f, 3, -128, 127) : QParams::per_channel(scales, {}, axis, -128, 127);
        TestTensor<float, 4, OutLayout> y(extents), grad_in(extents);
        REQUIRE(kernels::check_fake_quantize_backward(x.view(), gradient.view(), qparams, {}, y.view()).ok());
        kernels::fake_quantize(x.view(), qparams, {}, y.view());
        kernels::fake_quantize_backward(x.view(), gradient.view(), qparams, {}, true, grad_in.view());
        index_t wrong = 0;
        intq::test::for_each_index(extents, [&](const auto& index) {
            const index_t channel = axis < 0 ? 0 : index[static_cast<std::size_t>(axis)];
            const arith::ScaleZeroPoint pair{qparams.scale(channel), qparams.zero_point(channel)};
            const float xi = x.view()[index], gi = gradient.view()[index];
            wrong += !same_bits(y.view()[index], arith::fake_quantize(xi, pair));
            wrong += !same_bits(grad_in.view()[index], arith::fake_quantize_gradient(xi, gi, pair));
        });
        CHECK(wrong == 0);
        kernels::fake_quantize_backward(x.view(), gradient.view(), qparams, {}, false, grad_in.view());
        intq::test::for_each_index(
            extents, [&](const auto& index) { wrong += !same_bits(grad_in.view()[index], gradient.view()[index]); });
        CHECK(wrong == 0);
        CHECK((y.is_intact() && grad_in.is_intact()));
    }
}

}  // namespace

TEST_CASE("fake_quantize and its gradient equal PyTorch's on the golden cases") {
    const json cases = intq::test::golden_cases("fake_quantize");
    REQUIRE(cases.size() == 37);
    std::multiset<std::string> met;
    for (const json& row : cases) {
        const std::string name = row.at("name");
        INFO(row.at("kind") << " " << name);
        if (refused.contains(name)) {
            met.insert(name);
            continue;
        }
        if (row.at("kind") == "per_tensor") {
            const std::vector<float> x = golden_floats(row.at("x"));
            check_golden<1>(row, x, {static_cast<index_t>(x.size())},
                            QParams::per_tensor(intq::test::golden_float(row.at("scale")), row.at("zero_point"),
                                                row.at("quant_min"), row.at("quant_max")));
        } else {
            const std::vector<float> x = golden_floats(row.at("x").at("data")), scales = golden_floats(row.at("scale"));
            const auto zero_points = row.at("zero_point").get<std::vector<std::int32_t>>();
            check_golden<3>(
                row, x, row.at("x").at("shape").get<std::array<index_t, 3>>(),
                QParams::per_channel(scales, zero_points, row.at("axis"), row.at("quant_min"), row.at("quant_max")));
        }
    }
    CHECK(met == std::multiset<std::string>{"float_zero_point", "special_values_x86"});
}

TEST_CASE("Special values fake-quantize to 0 and the ends, and stop their gradient") {
    for (const json& row : intq::test::golden_cases("fake_quantize")) {
        if (row.at("name") != "special_values_x86") continue;
        std::vector<float> y, mask;
        for (const float x : golden_floats(row.at("x"))) {
            y.push_back(arith::fake_quantize(x, {1.0f, 0}));
            mask.push_back(arith::fake_quantize_gradient(x, 1.0f, {1.0f, 0}));
        }
        CHECK(y == std::vector<float>{0, 127, -128, 127, -128, 127, 127, -128});
        CHECK(mask == std::vector<float>(8, 0.0f));
    }
}

TEST_CASE("Forward and gradient of the specification equal the oracle's, for every rule and range") {
    for (const QuantizeRule& rule : rules) {
        const intq_reference::QuantizePolicy policy{
            rule.rounding == Rounding::half_up ? intq_reference::QuantizeRounding::half_up
                                               : intq_reference::QuantizeRounding::half_even,
            rule.by == QuantizeBy::divide ? intq_reference::QuantizeBy::divide
                                          : intq_reference::QuantizeBy::reciprocal};
        for (const auto& [low, high] :
             {std::pair{-128, 127}, std::pair{0, 255}, std::pair{-8, 7}, std::pair{-32768, 32767}})
            for (const float scale : {1.0f, 0.00214854861f, 0.1f, 1024.0f})
                for (const std::int32_t zero_point : {0, low, high}) {
                    const intq_reference::QParams reference{scale, zero_point, 32, low, high};
                    EdgeValues value(scale, 21);
                    index_t wrong = 0;
                    for (int i = 0; i < 4000; ++i) {
                        const float x = value();
                        const arith::ScaleZeroPoint pair{scale, zero_point};
                        wrong += !same_bits(arith::fake_quantize(x, pair, {low, high}, rule),
                                            intq_reference::fake_quantize(x, reference, policy));
                        // The oracle's stopped gradient is +0; ours keeps the sign, as PyTorch does.
                        wrong += arith::fake_quantize_gradient(x, -1.5f, pair, {low, high}, rule) !=
                                 intq_reference::fake_quantize_backward(x, -1.5f, reference, true, policy);
                    }
                    INFO("range " << low << " " << high << " zero point " << zero_point << " scale " << scale);
                    CHECK(wrong == 0);
                }
    }
}

TEST_CASE("Every backend fake-quantizes as the specification, bit for bit, inside its buffers and in place") {
    for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        std::cout << "fake_quantize on " << Backend::name << "\n";
        INFO(Backend::name);
        check_conformance<Backend>();
    });
}

TEST_CASE("Layouts of input, gradient and output do not change a bit, per tensor and along any axis") {
    check_layouts<row_major, row_major, row_major>();
    check_layouts<channels_last, channels_last, channels_last>();
    check_layouts<row_major, channels_last, row_major>();
    check_layouts<channels_last, channels_last, row_major>();
    check_layouts<strided, row_major, channels_last>();
    check_layouts<row_major, strided, strided>();
    check_layouts<strided, strided, strided>();
}

TEST_CASE("An executor splits fake_quantize and its gradient and changes nothing") {
    const index_t size = 3 * kernels::detail::chunk_elements + 5;
    std::vector<float> x;
    EdgeValues value(0.02f, 9);
    for (index_t i = 0; i < size; ++i) x.push_back(value());
    const QParams qparams = QParams::per_tensor(0.02f, 0, DType::int8);
    const TensorView<const float, 1> view(x.data(), {size});
    std::vector<float> one(x.size()), other(x.size()), ones(x.size(), 1.0f);
    BackwardExecutor backward;
    kernels::fake_quantize(view, qparams, {}, TensorView<float, 1>(one.data(), {size}));
    kernels::fake_quantize(view, qparams, {}, TensorView<float, 1>(other.data(), {size}), backward.executor());
    CHECK(same_bits(one, other));
    const TensorView<const float, 1> gradient(ones.data(), {size});
    kernels::fake_quantize_backward(view, gradient, qparams, {}, true, TensorView<float, 1>(one.data(), {size}));
    kernels::fake_quantize_backward(view, gradient, qparams, {}, true, TensorView<float, 1>(other.data(), {size}),
                                    backward.executor());
    CHECK(same_bits(one, other));
    CHECK(backward.tasks == 8);
}

TEST_CASE("Bad arguments of fake_quantize are refused with what was given") {
    std::vector<float> x(12), y(12);
    const TensorView<const float, 2> view(x.data(), {3, 4}), turned(x.data(), {4, 3});
    const TensorView<float, 2> out(y.data(), {3, 4}), turned_out(y.data(), {4, 3});
    const QParams good = QParams::per_tensor(0.1f, 0, DType::int8);
    CHECK(kernels::check_fake_quantize(view, good, {}, out).ok());
    CHECK(kernels::check_fake_quantize(view, good, {}, turned_out) ==
          Status{StatusCode::shape_mismatch, OpKind::fake_quantize, Field::output, 4, 3});
    CHECK(kernels::check_fake_quantize_backward(view, turned, good, {}, out) ==
          Status{StatusCode::shape_mismatch, OpKind::fake_quantize, Field::second_input, 4, 3});
    CHECK(kernels::check_fake_quantize_backward(view, view, good, {}, turned_out).field == Field::output);
    constexpr std::int64_t largest = arith::largest_quantized_code;
    CHECK(kernels::check_fake_quantize(view, QParams::per_tensor(0.1f, 0, -largest, largest), {}, out).ok());
    CHECK(kernels::check_fake_quantize(view, QParams::per_tensor(0.1f, 0, -largest - 1, 127), {}, out) ==
          Status{StatusCode::value_out_of_range, OpKind::fake_quantize, Field::quant_range, -largest - 1, -largest});
    CHECK(kernels::check_fake_quantize(view, QParams::per_tensor(0.1f, 0, -128, largest + 1), {}, out) ==
          Status{StatusCode::value_out_of_range, OpKind::fake_quantize, Field::quant_range, largest + 1, largest});
    const std::vector<float> three(3, 0.1f);
    CHECK(kernels::check_fake_quantize(view, QParams::per_channel(three, {}, 1, -128, 127), {}, out) ==
          Status{StatusCode::shape_mismatch, OpKind::fake_quantize, Field::scale, 3, 4});
}
