// SPDX-License-Identifier: MIT
//
// quantize and dequantize: against PyTorch's numbers, the oracle, and the specification on every backend and layout.
#include "intq/kernels/streaming/quantize.hpp"

#include <cstring>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "intq/kernels/streaming/check_finite.hpp"
#include "intq/kernels/streaming/dequantize.hpp"
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

template <class Code> constexpr std::int64_t lowest() {
    return std::is_same_v<Code, std::int32_t> ? -arith::largest_quantized_code : lowest_code(dtype_of<Code>);
}
template <class Code> constexpr std::int64_t highest() {
    return std::is_same_v<Code, std::int32_t> ? arith::largest_quantized_code : highest_code(dtype_of<Code>);
}

template <class Function> void for_each_code_type(Function&& function) {
    function(std::int8_t{});
    function(std::int16_t{});
    function(std::int32_t{});
    function(std::uint8_t{});
}

// --- golden numbers --------------------------------------------------------------------------------------------------
const std::map<std::string, std::string> refused{
    {"special_values_x86", "NaN and overflow are defined here; PyTorch leaves them to the CPU"},
    {"float_zero_point", "zero points are integers (QParams)"},
};

template <class Code, int Rank>
void check_golden(const json& row, const std::vector<float>& x,
                  const std::array<index_t, static_cast<std::size_t>(Rank)>& extents, const QParams& qparams) {
    std::vector<Code> codes(x.size());
    std::vector<float> real(x.size());
    const TensorView<const float, Rank> view(x.data(), extents);
    const TensorView<Code, Rank> out(codes.data(), extents);
    const Status status = kernels::check_quantize(view, qparams, {}, out);
    CHECK(status.ok() == !row.contains("error"));
    if (!status.ok() || row.contains("error")) return;
    kernels::quantize(view, qparams, {}, out);
    CHECK(std::vector<std::int32_t>(codes.begin(), codes.end()) == row.at("q").get<std::vector<std::int32_t>>());
    kernels::dequantize(out, qparams, TensorView<float, Rank>(real.data(), extents));
    CHECK(same_bits(real, golden_floats(row.at("dequantized"))));
}

template <class Code> void check_golden(const json& row) {
    if (row.at("kind") == "per_tensor") {
        const std::vector<float> x = golden_floats(row.at("x"));
        const QParams qparams = QParams::per_tensor(intq::test::golden_float(row.at("scale")), row.at("zero_point"),
                                                    lowest<Code>(), highest<Code>());
        check_golden<Code, 1>(row, x, {static_cast<index_t>(x.size())}, qparams);
        return;
    }
    const std::vector<float> x = golden_floats(row.at("x").at("data")), scales = golden_floats(row.at("scale"));
    const auto zero_points = row.at("zero_point").get<std::vector<std::int32_t>>();
    const QParams qparams = QParams::per_channel(scales, zero_points, row.at("axis"), lowest<Code>(), highest<Code>());
    check_golden<Code, 3>(row, x, row.at("x").at("shape").get<std::array<index_t, 3>>(), qparams);
}

// --- conformance -----------------------------------------------------------------------------------------------------
template <class Backend> std::vector<index_t> lengths() {
    const index_t width = simd::lanes<Backend>::width();
    return {0, 1, width - 1, width, width + 1, 3 * width + 2};
}

/// Quantizes between guard pages and compares byte for byte; dequantizes the codes and compares bits.
template <class Backend, class Code>
void check_blocks(const ChannelBlocks& blocks, const QParams& qparams, QuantizeRule rule,
                  GuardedBuffer::Against against) {
    const auto n = static_cast<std::size_t>(blocks.size());
    GuardedBuffer x(n * sizeof(float), against), codes(n * sizeof(Code), against), real(n * sizeof(float), against);
    EdgeValues value(qparams.scale(0), 11);
    std::vector<Code> expected(n);
    std::vector<float> expected_real(n);
    for (std::size_t i = 0; i < n; ++i) {
        x.as<float>()[i] = value();
        const index_t channel = static_cast<index_t>(i) / blocks.inner % blocks.channels;
        const arith::ScaleZeroPoint pair{qparams.scale(channel), qparams.zero_point(channel)};
        const std::int32_t code =
            arith::quantize(x.as<float>()[i], pair, {qparams.quant_min(), qparams.quant_max()}, rule);
        expected[i] = static_cast<Code>(code);
        expected_real[i] = arith::dequantize(code, pair);
    }
    kernels::quantize_blocks<Backend>(x.as<float>(), blocks, qparams, rule, codes.as<Code>(), serial);
    kernels::dequantize_blocks<Backend>(codes.as<Code>(), blocks, qparams, real.as<float>(), serial);
    CHECK((n == 0 || std::memcmp(codes.as<Code>(), expected.data(), n * sizeof(Code)) == 0));
    CHECK((n == 0 || std::memcmp(real.as<float>(), expected_real.data(), n * sizeof(float)) == 0));
    CHECK((codes.is_intact() && real.is_intact()));
}

template <class Backend, class Code> void check_conformance() {
    constexpr std::int32_t zero_point = std::is_same_v<Code, std::uint8_t> ? 131 : -5;
    const QParams per_tensor = QParams::per_tensor(0.037f, zero_point, lowest<Code>(), highest<Code>());
    for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin})
        for (const QuantizeRule& rule : rules)
            for (const index_t length : lengths<Backend>()) {
                INFO("length " << length);
                check_blocks<Backend, Code>({1, 1, length}, per_tensor, rule, against);
                if (length == 0) continue;
                std::vector<float> scales;
                std::vector<std::int32_t> zero_points;
                for (index_t c = 0; c < length; ++c) {
                    scales.push_back(0.037f + 0.011f * static_cast<float>(c));
                    zero_points.push_back(std::is_same_v<Code, std::uint8_t> ? static_cast<std::int32_t>(3 * c) % 256
                                                                             : static_cast<std::int32_t>(7 - c));
                }
                const QParams symmetric = QParams::per_channel(scales, {}, 0, lowest<Code>(), highest<Code>());
                const QParams affine = QParams::per_channel(scales, zero_points, 0, lowest<Code>(), highest<Code>());
                for (const QParams& qparams : {symmetric, affine}) {
                    check_blocks<Backend, Code>({70, length, 1}, qparams, rule, against);
                    check_blocks<Backend, Code>({2, length, 5}, qparams, rule, against);
                    check_blocks<Backend, Code>({1, length, length}, qparams, rule, against);
                }
            }
}

// --- layouts ---------------------------------------------------------------------------------------------------------
template <class XLayout, class OutLayout, class Code> void check_layouts() {
    const std::array<index_t, 4> extents{2, 5, 3, 67};
    TestTensor<float, 4, XLayout> x(extents);
    EdgeValues value(0.1f, 5);
    x.fill([&](const auto&) { return value(); });
    for (int axis = -1; axis < 4; ++axis) {
        INFO("axis " << axis);
        std::vector<float> scales;
        std::vector<std::int32_t> zero_points;
        for (index_t c = 0; axis >= 0 && c < extents[static_cast<std::size_t>(axis)]; ++c) {
            scales.push_back(0.1f + 0.01f * static_cast<float>(c));
            zero_points.push_back(static_cast<std::int32_t>(c));
        }
        const QParams qparams = axis < 0
                                    ? QParams::per_tensor(0.1f, 3, lowest<Code>(), highest<Code>())
                                    : QParams::per_channel(scales, zero_points, axis, lowest<Code>(), highest<Code>());
        TestTensor<Code, 4, OutLayout> out(extents);
        TestTensor<float, 4, XLayout> real(extents);
        REQUIRE(kernels::check_quantize(x.view(), qparams, {}, out.view()).ok());
        REQUIRE(kernels::check_dequantize(out.view(), qparams, real.view()).ok());
        kernels::quantize(x.view(), qparams, {}, out.view());
        kernels::dequantize(out.view(), qparams, real.view());
        index_t wrong = 0;
        intq::test::for_each_index(extents, [&](const auto& index) {
            const index_t channel = axis < 0 ? 0 : index[static_cast<std::size_t>(axis)];
            const arith::ScaleZeroPoint pair{qparams.scale(channel), qparams.zero_point(channel)};
            const std::int32_t code =
                arith::quantize(x.view()[index], pair, {qparams.quant_min(), qparams.quant_max()});
            wrong += out.view()[index] != static_cast<Code>(code);
            wrong += !same_bits(real.view()[index], arith::dequantize(code, pair));
        });
        CHECK(wrong == 0);
        CHECK((out.is_intact() && real.is_intact()));
    }
}

}  // namespace

TEST_CASE("quantize and dequantize equal PyTorch's on the golden cases") {
    const json cases = intq::test::golden_cases("quantize");
    REQUIRE(cases.size() == 32);
    std::multiset<std::string> met;
    for (const json& row : cases) {
        const std::string name = row.at("name");
        INFO(row.at("kind") << " " << name);
        if (refused.contains(name)) {
            met.insert(name);
            continue;
        }
        // PyTorch clamps to the type; a qint32 of ours is clamped to ±2^23, which none of these reaches.
        if (row.at("dtype") == "qint8") check_golden<std::int8_t>(row);
        if (row.at("dtype") == "quint8") check_golden<std::uint8_t>(row);
        if (row.at("dtype") == "qint32") check_golden<std::int32_t>(row);
    }
    CHECK(met == std::multiset<std::string>{"float_zero_point", "special_values_x86", "special_values_x86"});
}

TEST_CASE("Special values give the zero point and the ends of the range, where PyTorch leaves them to the CPU") {
    for (const json& row : intq::test::golden_cases("quantize")) {
        if (row.at("name") != "special_values_x86") continue;
        const std::int64_t low = row.at("dtype") == "qint8" ? -128 : 0, high = row.at("dtype") == "qint8" ? 127 : 255;
        std::vector<std::int64_t> codes;
        for (const float x : golden_floats(row.at("x"))) codes.push_back(arith::quantize(x, {1.0f, 0}, {low, high}));
        CHECK(codes == std::vector<std::int64_t>{0, high, low, high, low, high, low});
    }
    CHECK(arith::quantize(std::numeric_limits<float>::quiet_NaN(), {0.5f, 17}) == 17);
}

TEST_CASE("The specification equals the oracle: ties, ends, NaN, every rule, int8 and int16") {
    for (const QuantizeRule& rule : rules) {
        const intq_reference::QuantizePolicy policy{
            rule.rounding == Rounding::half_up ? intq_reference::QuantizeRounding::half_up
                                               : intq_reference::QuantizeRounding::half_even,
            rule.by == QuantizeBy::divide ? intq_reference::QuantizeBy::divide
                                          : intq_reference::QuantizeBy::reciprocal};
        for (const int bits : {8, 16})
            for (const std::int32_t zero_point : {0, -128, 127, 5})
                for (const float scale : {1.0f, 0.00214854861f, 0.1f, 3e-5f, 1024.0f, 7.3f}) {
                    const intq_reference::QParams reference =
                        bits == 8 ? intq_reference::int8(scale, zero_point) : intq_reference::int16(scale, zero_point);
                    EdgeValues value(scale, 3);
                    index_t wrong = 0;
                    for (int i = 0; i < 4000; ++i) {
                        const float x = value();
                        const std::int32_t code =
                            arith::quantize(x, {scale, zero_point}, {reference.qmin, reference.qmax}, rule);
                        wrong += code != intq_reference::quantize(x, reference, policy);
                        wrong += !same_bits(arith::dequantize(code, {scale, zero_point}),
                                            intq_reference::dequantize(code, reference));
                    }
                    INFO("bits " << bits << " zero point " << zero_point << " scale " << scale);
                    CHECK(wrong == 0);
                }
    }
}

TEST_CASE("Every backend quantizes and dequantizes as the specification, byte for byte, inside its buffers") {
    for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        std::cout << "quantize on " << Backend::name << "\n";
        INFO(Backend::name);
        for_each_code_type([](auto code) { check_conformance<Backend, decltype(code)>(); });
    });
}

TEST_CASE("Layouts of input and output do not change a code, per tensor and along any axis") {
    const auto with_out = []<class XLayout>(XLayout) {
        check_layouts<XLayout, row_major, std::int8_t>();
        check_layouts<XLayout, channels_last, std::int8_t>();
        check_layouts<XLayout, strided, std::uint8_t>();
        check_layouts<XLayout, strided, std::int16_t>();
    };
    with_out(row_major{});
    with_out(channels_last{});
    with_out(strided{});
}

TEST_CASE("An executor splits the work and changes nothing") {
    const index_t size = 5 * kernels::detail::chunk_elements + 7;
    std::vector<float> x;
    EdgeValues value(0.02f, 9);
    for (index_t i = 0; i < size; ++i) x.push_back(value());
    std::vector<std::int8_t> one(x.size()), other(x.size());
    std::vector<float> scales(13, 0.02f);
    scales[3] = 0.5f;
    const QParams symmetric = QParams::per_tensor(0.02f, 0, DType::int8);
    const QParams channels = QParams::per_channel(scales, {}, 0, -128, 127);
    for (const auto& [blocks, qparams] :
         {std::pair{ChannelBlocks{1, 1, size}, symmetric}, std::pair{ChannelBlocks{size / 13, 13, 1}, channels},
          std::pair{ChannelBlocks{1, 13, size / 13}, channels}}) {
        BackwardExecutor backward;
        kernels::quantize_blocks(x.data(), blocks, qparams, {}, one.data(), serial);
        kernels::quantize_blocks(x.data(), blocks, qparams, {}, other.data(), backward.executor());
        CHECK(one == other);
        CHECK(backward.tasks >= 5);
    }
}

TEST_CASE("An accumulator dequantizes with its channel's scale; beyond 2^24 it is rounded to a float first") {
    const std::vector<std::int32_t> acc{16777217, -16777219, INT32_MIN, INT32_MAX, 5, -7};
    const std::vector<float> scales{0.5f, 3.0f, 0x1p-30f};
    std::vector<float> out(acc.size());
    const QParams qparams = QParams::per_channel(scales, {}, 1, -128, 127);
    const TensorView<const std::int32_t, 2> view(acc.data(), {2, 3});
    REQUIRE(kernels::check_dequantize(view, qparams, TensorView<float, 2>(out.data(), {2, 3})).ok());
    kernels::dequantize(view, qparams, TensorView<float, 2>(out.data(), {2, 3}));
    CHECK(out == std::vector<float>{8388608.0f, -50331660.0f, -2.0f, 1073741824.0f, 15.0f, -0x1.cp-28f});
}

TEST_CASE("Bad arguments of quantize and dequantize are refused with what was given") {
    std::vector<float> x(12);
    std::vector<std::int8_t> codes(12);
    const TensorView<const float, 2> view(x.data(), {3, 4});
    const TensorView<std::int8_t, 2> out(codes.data(), {3, 4});
    const auto check = [&](const QParams& qparams, QuantizeRule rule = {}) {
        return kernels::check_quantize(view, qparams, rule, out);
    };
    const std::vector<float> three(3, 0.1f), four(4, 0.1f), zero(3, 0.0f);

    CHECK(check(QParams::per_tensor(0.1f, 0, DType::int8)).ok());
    CHECK(check(QParams::per_channel(three, {}, 0, -128, 127)).ok());
    CHECK(check(QParams::per_channel(four, {}, 1, -128, 127)).ok());

    const Status shape = kernels::check_quantize(view, QParams::per_tensor(0.1f, 0, DType::int8), {},
                                                 TensorView<std::int8_t, 2>(codes.data(), {4, 3}));
    CHECK(shape == Status{StatusCode::shape_mismatch, OpKind::quantize, Field::output, 4, 3});
    CHECK(check(QParams::per_channel(four, {}, 0, -128, 127)) ==
          Status{StatusCode::shape_mismatch, OpKind::quantize, Field::scale, 4, 3});
    CHECK(check(QParams::per_channel(four, {}, 2, -128, 127)) ==
          Status{StatusCode::value_out_of_range, OpKind::quantize, Field::axis, 2, 1});
    CHECK(check(QParams::per_channel(zero, {}, 0, -128, 127)).code == StatusCode::scale_out_of_range);
    CHECK(check(QParams::per_tensor(std::numeric_limits<float>::quiet_NaN(), 0, DType::int8)).field == Field::scale);
    CHECK(check(QParams::per_tensor(0.1f, 128, DType::int8)).field == Field::zero_point);
    CHECK(check(QParams::per_tensor(0.1f, 0, DType::uint8)).field == Field::quant_range);
    CHECK(check(QParams::per_tensor(0.1f, 0, DType::int16)).field == Field::quant_range);

    // Below 2^-100 the code of a denormal number would not be 0.
    for (const QuantizeBy by : {QuantizeBy::reciprocal, QuantizeBy::divide}) {
        const auto code = [&](float scale) {
            return check(QParams::per_tensor(scale, 0, DType::int8), {Rounding::half_even, by}).code;
        };
        CHECK(code(1e-39f) == StatusCode::scale_out_of_range);
        CHECK(code(0x1.fffffep-101f) == StatusCode::scale_out_of_range);
        CHECK(code(0x1p-100f) == StatusCode::ok);
    }

    std::vector<std::int32_t> wide(12);
    const TensorView<std::int32_t, 2> wide_out(wide.data(), {3, 4});
    CHECK(kernels::check_quantize(view, QParams::per_tensor(0.1f, 0, DType::int32), {}, wide_out) ==
          Status{StatusCode::value_out_of_range, OpKind::quantize, Field::quant_range, INT32_MIN,
                 -arith::largest_quantized_code});

    const TensorView<float, 2> real(x.data(), {3, 4});
    CHECK(kernels::check_dequantize(out, QParams::per_channel(three, {}, 1, -128, 127), real).field == Field::scale);
    CHECK(kernels::check_dequantize(out, QParams::per_channel(three, {}, 2, -128, 127), real).field == Field::axis);
    CHECK(kernels::check_dequantize(out, QParams::per_tensor(-1.0f, 0, DType::int8), real).field == Field::scale);
    CHECK(kernels::check_dequantize(out, QParams::per_tensor(1.0f, 0, DType::int8),
                                    TensorView<float, 2>(x.data(), {4, 3}))
              .field == Field::output);
}

TEST_CASE("check_finite names the first NaN or infinity by its row-major number, in any layout") {
    const auto check = []<class LayoutTag>(LayoutTag) {
        const std::array<index_t, 4> extents{2, 3, 5, 7};
        TestTensor<float, 4, LayoutTag> x(extents);
        x.fill([](const auto&) { return 1.0f; });
        for_each_backend(intq::test::all_backends{},
                         [&](auto backend) { CHECK(kernels::check_finite<decltype(backend)>(x.view()).ok()); });
        x.view()(1, 2, 0, 6) = std::numeric_limits<float>::quiet_NaN();
        x.view()(1, 0, 4, 3) = -std::numeric_limits<float>::infinity();
        for_each_backend(intq::test::all_backends{}, [&](auto backend) {
            CHECK(kernels::check_finite<decltype(backend)>(x.view(), OpKind::quantize) ==
                  Status{StatusCode::not_finite, OpKind::quantize, Field::input, 3 * 5 * 7 + 4 * 7 + 3, 0});
        });
    };
    check(row_major{});
    check(channels_last{});
    check(strided{});
}
