// SPDX-License-Identifier: MIT
//
// The oracle itself, operators: convolution, linear, element-wise, pooling, cat, and whole programs. Expectations come
// from arithmetic done by hand, from identities between operators, from docs/arithmetic.md's bounds and from PyTorch.
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "reference/layers.hpp"
#include "reference/program.hpp"

using namespace intq_reference;

namespace {

using Codes = std::vector<std::int64_t>;

const Target all_targets[] = {fp32(), tflite_double(), tflite_single(), bernoulli2(), bayes(), meta()};

std::int64_t pick(std::mt19937_64& random, std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random);
}

double pick_real(std::mt19937_64& random, double lowest, double highest) {
    return std::uniform_real_distribution<double>(lowest, highest)(random);
}

Tensor random_tensor(std::mt19937_64& random, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
                     const QParams& q) {
    Tensor t = make_tensor(n, c, h, w);
    for (auto& code : t.codes) code = pick(random, q.qmin, q.qmax);
    return t;
}

/// Weights given as codes, scale 1 per tensor.
Weights given_weights(std::int64_t o, std::int64_t i, std::int64_t kh, std::int64_t kw, Codes codes) {
    Weights w;
    w.out_channels = o;
    w.in_channels = i;
    w.kernel_h = kh;
    w.kernel_w = kw;
    w.codes = std::move(codes);
    w.scale = {1.0F};
    return w;
}

Weights random_weights(std::mt19937_64& random, std::int64_t o, std::int64_t i, std::int64_t kh, std::int64_t kw) {
    Weights w = given_weights(o, i, kh, kw, random_tensor(random, o, i, kh, kw, int8(1.0F)).codes);
    for (std::int64_t c = 0; c < o; ++c) w.bias_codes.push_back(pick(random, -3000, 3000));
    return w;
}

WeightedLayer layer_of(Weights w, const QParams& in, const QParams& out) {
    WeightedLayer layer;
    layer.weights = std::move(w);
    layer.in = in;
    layer.out = out;
    return layer;
}

QParams accumulator() { return int32(); }

}  // namespace

// --- section 3, steps 0 to 4 -----------------------------------------------------------------------------------------

TEST_CASE("reference: step 0 raises the scale of a channel whose bias needs it, and only that") {
    Weights w;
    w.out_channels = 3;
    w.in_channels = 2;
    w.real = {0.5F, -1.0F, 0.0F, 0.0F, 0.25F, 0.25F};
    w.scale = weight_scales(w, true);
    w.bias_real = {1.0F, 1000.0F, -3.0F};
    CHECK(w.scale[0] == fdiv(1.0F, 127.5F));
    CHECK(w.scale[1] == std::ldexp(1.0F, -23));
    const WeightedLayer layer = layer_of(w, int8(0.125F), int8(8.0F));
    const std::vector<float> raised = raise_scales(bayes(), layer);
    CHECK(raised[0] == w.scale[0]);
    CHECK(raised[1] == 0x1.f4p-18F);  // 1000 / (2^30/8) = 1000·2^-27
    CHECK(raised[2] == w.scale[2]);
    CHECK(raise_scales(bernoulli2(), layer)[1] == 2.0F * raised[1]);  // h = 29
    CHECK(raise_scales(meta(), layer)[1] == w.scale[1]);              // h = 46: no need
    const MadeWeights made = make_weights(bayes(), layer);
    CHECK(made.bias[1] == 1 << 30);
    CHECK(linear(bayes(), layer, Tensor{{127, 127}, 1, 2, 1, 1}).codes[1] == 125);  // 1000 / 8

    WeightedLayer per_tensor = layer;
    per_tensor.weights.scale = {std::ldexp(1.0F, -23)};
    CHECK(raise_scales(bayes(), per_tensor) == std::vector<float>{raised[1]});  // the largest over the channels
}

TEST_CASE("reference: step 0 rounds up, counts the fused add, and keeps all-zero channels from being refused") {
    WeightedLayer layer = layer_of(Weights{}, int8(0.1F), int8(1.0F));
    layer.weights.real = {0.0F};
    layer.weights.scale = {std::ldexp(1.0F, -23)};
    layer.weights.bias_real = {300.0F};
    layer.sumin = int8(0.7F);
    for (const Target& t : {bernoulli2(), bayes(), meta()}) {
        const float raised = raise_scales(t, layer)[0];
        const double needed =
            (300.0 + 128.0 * static_cast<double>(0.7F)) / (std::ldexp(1.0, t.headroom) * static_cast<double>(0.1F));
        const float expected = std::max(to_float32_rounded_up(needed), std::ldexp(1.0F, -23));
        CHECK(raised == expected);
        CHECK(static_cast<double>(raised) >= needed);
        const Tensor x{{127}, 1, 1, 1, 1};
        const Tensor e{{-128}, 1, 1, 1, 1};
        layer.out = int8(2.0F);
        CHECK(std::llabs(conv2d(t, layer, x, &e).codes[0] - 105) <= 1);  // (300 - 89.6) / 2
    }
    for (int i = 0; i < 20; ++i) {
        const float bias = -300.0F - fdiv(static_cast<float>(i), 7.0F);
        layer.weights.bias_real = {bias};
        const double numerator = -static_cast<double>(bias) + 128.0 * static_cast<double>(0.7F);
        const double needed = numerator / (std::ldexp(1.0, 30) * static_cast<double>(0.1F));
        CHECK(static_cast<double>(raise_scales(bayes(), layer)[0]) >= needed);
    }
    layer.weights.bias_real = {300.0F};
    layer.sumin.reset();
    const float without = raise_scales(bayes(), layer)[0];
    layer.sumin = int8(0.7F);
    CHECK(raise_scales(fp32(), layer)[0] == without);  // its sumin is not in the accumulator
    layer.weights.scale = {1e-12F};
    layer.weights.codes = {0};
    layer.weights.real.clear();
    CHECK_THROWS_AS(make_weights(bayes(), layer), Refused);  // given codes keep their scale, and then it does not fit
}

TEST_CASE("reference: what a raised channel loses is below 0.07 of an output code") {
    std::mt19937_64 random(11);
    double worst = 0.0;
    int raised_channels = 0;
    for (int i = 0; i < 400; ++i) {
        const std::int64_t n = pick(random, 1, 60);
        Weights w;
        w.in_channels = n;
        const double size = std::exp2(pick_real(random, -30.0, -8.0));
        for (std::int64_t k = 0; k < n; ++k) w.real.push_back(static_cast<float>(pick_real(random, -size, size)));
        w.scale = weight_scales(w, true);
        w.bias_real = {static_cast<float>(pick_real(random, -100.0, 100.0))};
        const auto s_in = static_cast<float>(std::exp2(pick_real(random, -8.0, 0.0)));
        const Tensor x = random_tensor(random, 1, n, 1, 1, int8(s_in));
        double bound = std::fabs(static_cast<double>(w.bias_real[0]));
        double real = static_cast<double>(w.bias_real[0]);
        for (std::size_t k = 0; k < w.real.size(); ++k) {
            real += static_cast<double>(w.real[k]) * static_cast<double>(x.codes[k]) * static_cast<double>(s_in);
            bound += std::fabs(static_cast<double>(w.real[k])) * 128.0 * static_cast<double>(s_in);
        }
        const WeightedLayer layer = layer_of(w, int8(s_in), int8(static_cast<float>(bound / 127.5)));
        const MadeWeights made = make_weights(bayes(), layer);
        if (!(made.scale[0] > w.scale[0])) continue;
        ++raised_channels;
        double accumulated = static_cast<double>(made.bias[0]);
        for (std::size_t k = 0; k < w.real.size(); ++k) {
            accumulated += static_cast<double>(made.codes[k] * x.codes[k]);
        }
        const double loss = std::fabs(accumulated * static_cast<double>(made.s_acc[0]) - real);
        worst = std::max(worst, loss / static_cast<double>(layer.out.scale));
    }
    CAPTURE(worst, raised_channels);
    CHECK(raised_channels > 50);
    CHECK(worst < 0.07);
}

TEST_CASE("reference: bias codes round half up, and every bias type has its limit") {
    int shift = -1;
    const auto bias = [&](const Target& t, float b) { return make_bias(t, b, 0.5F, 0.5F, shift); };  // unit 1/4
    CHECK(bias(bayes(), 0.625F) == 3);                                                               // 2.5
    CHECK(bias(bayes(), -0.625F) == -2);                                                             // -2.5
    CHECK(bias(fp32(), -0.625F) == -2);
    CHECK(bias(bayes(), 536870880.0F) == 2147483520);
    CHECK_THROWS_AS(bias(bayes(), 536870912.0F), Refused);  // 2^31
    CHECK(bias(bayes(), -536870912.0F) == -2147483648LL);
    CHECK_THROWS_AS(bias(tflite_single(), 536870912.0F), Refused);
    CHECK(bias(meta(), 536870912.0F) == 1LL << 31);
    CHECK_THROWS_AS(bias(meta(), std::ldexp(1.0F, 61)), Refused);
    CHECK_THROWS_AS(bias(bayes(), std::nanf("")), Refused);
    CHECK(shift == 0);

    CHECK(bias(bernoulli2(), 8191.75F) == 32767);  // 15 bits: exact
    CHECK(shift == 0);
    CHECK(bias(bernoulli2(), 8192.75F) == 32770);  // 16 bits, 32771: the last is lost, downwards
    CHECK(shift == 1);
    CHECK(bias(bernoulli2(), -8192.75F) == -32772);
    CHECK(bias(bernoulli2(), 268435440.0F) == ((1 << 30) - 64) / 32768 * 32768);  // 30 bits
    CHECK(shift == 15);
    CHECK_THROWS_AS(bias(bernoulli2(), 268435456.0F), Refused);  // 2^30 has 31 bits
}

TEST_CASE("reference: a fused add follows rho from 1e-2 to 2^24 within its bound") {
    std::mt19937_64 random(12);
    bool inside = true;
    bool left_shift_seen = false;
    for (int i = 0; i < 40000; ++i) {
        const double wanted = std::exp2(pick_real(random, std::log2(1e-2), 24.0));
        const auto s_e = static_cast<float>(wanted);
        const double rho = static_cast<double>(s_e) / (0.5 * 2.0);
        const QParams e = i % 2 == 0 ? int8(s_e) : int16(s_e);
        if (static_cast<double>(-e.qmin) * rho >= 2147483648.0) {
            CHECK_THROWS_AS(make_sumin(bayes(), e, 0.5F, 2.0F), Refused);
            continue;
        }
        const BpuMultiplier m = make_sumin(bayes(), e, 0.5F, 2.0F);
        left_shift_seen |= m.shift < 0;
        const std::int64_t code = pick(random, e.qmin, e.qmax);
        const double real = static_cast<double>(code) * rho;
        const double error = static_cast<double>(to_int64(sumin_term(code, m))) - real;
        inside &= std::fabs(error) <= 0.5 + std::fabs(real) * std::ldexp(1.0, -15) * 1.0000001;
    }
    CHECK(inside);
    CHECK(left_shift_seen);
    CHECK(to_int64(sumin_term(3, make_bpu_multiplier(0.5))) == 2);    // 1.5 up
    CHECK(to_int64(sumin_term(-3, make_bpu_multiplier(0.5))) == -1);  // -1.5 up
    CHECK(to_int64(sumin_term(-3, make_bpu_multiplier(65536.0))) == -196608);
    CHECK(to_int64(make_bpu_multiplier(1.0 - 1e-9).multiplier) == 32767);  // rounds to 2^15, which 16 bits do not hold
    CHECK_THROWS_AS(make_sumin(bayes(), int8(16777216.0F), 1.0F, 1.0F), Refused);  // 128·2^24 = 2^31
    CHECK(make_sumin(meta(), int8(16777216.0F), 1.0F, 1.0F).shift == -10);
    CHECK_THROWS_AS(make_sumin(meta(), int8(0x1p40F), 1.0F, 1.0F), Refused);  // 128·2^40 = 2^47
}

TEST_CASE("reference: the worst case over all inputs decides, not the input at hand") {
    const auto worst = [](const Target& t, const QParams& in, Codes weights, std::int64_t bias) {
        const auto n = static_cast<std::int64_t>(weights.size());
        Weights w = given_weights(1, n, 1, 1, std::move(weights));
        w.bias_codes = {bias};
        return make_weights(t, layer_of(w, in, in.bits == 16 ? int16(1e9F) : int8(1e9F)));
    };
    const MadeWeights made = worst(bayes(), int8(1.0F), {3, -5, 0}, 7);
    CHECK(to_int64(made.highest[0]) == 127 * 3 + 128 * 5 + 7);
    CHECK(to_int64(made.lowest[0]) == -128 * 3 - 127 * 5 + 7);
    const MadeWeights shifted = worst(fp32(), int8(1.0F, 10), {3, -5, 0}, 7);  // x - zp in -138..117
    CHECK(to_int64(shifted.highest[0]) == 117 * 3 + 138 * 5 + 7);
    CHECK(to_int64(shifted.lowest[0]) == -138 * 3 - 117 * 5 + 7);

    Codes negative(512, -128);                                           // sum |w| = 65536
    CHECK_THROWS_AS(worst(bayes(), int16(1.0F), negative, 0), Refused);  // 32768·65536 = 2^31
    CHECK_NOTHROW(worst(bayes(), int16(1.0F), negative, -1));
    CHECK_NOTHROW(worst(meta(), int16(1.0F), negative, 0));
    CHECK_NOTHROW(worst(tflite_single(), int16(1.0F), negative, 0));
    CHECK_THROWS_AS(worst(fp32(), int16(1.0F), negative, 0), Refused);
    negative[0] = -127;
    CHECK_NOTHROW(worst(bayes(), int16(1.0F), negative, 0));

    WeightedLayer with_operand = layer_of(given_weights(1, 1, 1, 1, {1}), int8(1.0F), int8(1.0F));
    with_operand.sumin = int8(2.0F);
    const MadeWeights both = make_weights(bayes(), with_operand);
    CHECK(to_int64(both.highest[0]) == 127 + 254);
    CHECK(to_int64(both.lowest[0]) == -128 - 256);
}

TEST_CASE("reference: what a target does not have is refused") {
    const WeightedLayer plain = layer_of(given_weights(1, 1, 1, 1, {1}), int8(1.0F), int8(1.0F));
    for (const Target& t : all_targets) CHECK_NOTHROW(make_weights(t, plain));
    WeightedLayer layer = plain;
    layer.sumin = int8(1.0F);
    CHECK_THROWS_AS(make_weights(tflite_single(), layer), Refused);
    CHECK_THROWS_AS(make_weights(tflite_double(), layer), Refused);
    layer = plain;
    layer.in = int8(1.0F, 1);
    CHECK_THROWS_AS(make_weights(bayes(), layer), Refused);
    CHECK_NOTHROW(make_weights(fp32(), layer));
    layer = plain;
    layer.in = int16(1.0F);
    CHECK_THROWS_AS(make_weights(bernoulli2(), layer), Refused);
    layer.weights.bits = 16;
    CHECK_THROWS_AS(make_weights(bayes(), layer), Refused);
    CHECK_THROWS_AS(make_weights(tflite_single(), layer), Refused);
    CHECK_NOTHROW(make_weights(meta(), layer));
    CHECK_NOTHROW(make_weights(fp32(), layer));
    layer = plain;
    layer.out = int8(std::ldexp(1.0F, -15));
    CHECK_THROWS_AS(make_weights(bayes(), layer), Refused);  // r = 2^15
    layer = plain;
    layer.in.scale = 64.0F;
    layer.out.scale = std::ldexp(1.0F, -20);  // acc·2^27 for acc up to 128
    CHECK_THROWS_AS(make_weights(tflite_double(), layer), Refused);
    CHECK_NOTHROW(make_weights(tflite_single(), layer));
    layer.weights.codes = {2, 3};
    CHECK_THROWS_AS(make_weights(bayes(), layer), std::invalid_argument);
}

// --- convolution and linear ------------------------------------------------------------------------------------------

TEST_CASE("reference: a 2x2 convolution worked out by hand") {
    const Tensor x{{1, 2, 3, 4, 5, 6, 7, 8, 9}, 1, 1, 3, 3};
    Weights w = given_weights(1, 1, 2, 2, {1, 2, 3, -1});
    w.bias_codes = {10};
    WeightedLayer layer = layer_of(w, int8(1.0F), int8(1.0F));
    for (const Target& t : all_targets) {
        CAPTURE(static_cast<int>(t.kind));
        CHECK(conv2d(t, layer, x).codes == Codes{1 + 4 + 12 - 5 + 10, 2 + 6 + 15 - 6 + 10,  //
                                                 4 + 10 + 21 - 8 + 10, 5 + 12 + 24 - 9 + 10});
    }
    layer.pad_top = 1;
    layer.pad_left = 1;
    layer.stride_h = 2;
    layer.stride_w = 2;
    const Tensor y = conv2d(bayes(), layer, x);
    CHECK(y.h == 2);
    CHECK(y.codes == Codes{-1 + 10, 6 - 3 + 10, 8 - 7 + 10, 5 + 12 + 24 - 9 + 10});
    layer.out = int8(1.0F, 5);
    layer.in = int8(1.0F, 2);
    layer.activation = Activation::relu;  // real 0 is the code 5; padding is the code 2, that is 0
    CHECK(conv2d(fp32(), layer, x).codes == Codes{1 + 10 + 5, 3 * 0 - 1 + 10 + 5, 2 * 2 - 5 + 10 + 5,  //
                                                  3 + 8 + 18 - 7 + 10 + 5});
}

TEST_CASE("reference: convolution equals itself written with explicit padding, dilated weights and split groups") {
    std::mt19937_64 random(13);
    for (const Target& t : all_targets) {
        CAPTURE(static_cast<int>(t.kind));
        const QParams in = int8(1.0F, t.is_bpu() ? 0 : 9);
        const Tensor x = random_tensor(random, 2, 4, 6, 7, in);
        WeightedLayer layer = layer_of(random_weights(random, 6, 2, 3, 2), in, int8(500.0F));
        layer.groups = 2;
        layer.pad_top = 1;
        layer.pad_left = 2;
        layer.pad_bottom = 0;
        layer.pad_right = 1;
        layer.stride_h = 2;
        layer.dilation_w = 2;
        const Tensor y = conv2d(t, layer, x);
        CHECK(y.h == 3);
        CHECK(y.w == 8);

        WeightedLayer every_row = layer;
        every_row.stride_h = 1;
        const Tensor rows = conv2d(t, every_row, x);
        CHECK(rows.h == 5);
        bool stride_skips_rows = true;
        for (std::int64_t n = 0; n < 2; ++n)
            for (std::int64_t o = 0; o < 6; ++o)
                for (std::int64_t h = 0; h < 3; ++h)
                    for (std::int64_t k = 0; k < 8; ++k) {
                        stride_skips_rows &= at(y, n, o, h, k) == at(rows, n, o, 2 * h, k);
                    }
        CHECK(stride_skips_rows);

        Tensor padded = make_tensor(2, 4, 7, 10, in.zero_point);
        for (std::int64_t n = 0; n < 2; ++n)
            for (std::int64_t c = 0; c < 4; ++c)
                for (std::int64_t h = 0; h < 6; ++h)
                    for (std::int64_t k = 0; k < 7; ++k) at(padded, n, c, h + 1, k + 2) = at(x, n, c, h, k);
        WeightedLayer unpadded = layer;
        unpadded.pad_top = unpadded.pad_left = unpadded.pad_bottom = unpadded.pad_right = 0;
        CHECK(conv2d(t, unpadded, padded).codes == y.codes);

        WeightedLayer dilated = layer;
        dilated.dilation_w = 1;
        dilated.weights.kernel_w = 3;
        dilated.weights.codes.clear();
        for (std::size_t i = 0; i < layer.weights.codes.size(); i += 2) {
            dilated.weights.codes.insert(dilated.weights.codes.end(),
                                         {layer.weights.codes[i], 0, layer.weights.codes[i + 1]});
        }
        CHECK(conv2d(t, dilated, x).codes == y.codes);

        bool groups_equal = true;
        for (std::int64_t g = 0; g < 2; ++g) {
            Tensor half = make_tensor(2, 2, 6, 7);
            for (std::int64_t n = 0; n < 2; ++n)
                for (std::int64_t i = 0; i < 2 * 42; ++i) {
                    half.codes[static_cast<std::size_t>(n * 84 + i)] =
                        x.codes[static_cast<std::size_t>((n * 4 + g * 2) * 42 + i)];
                }
            WeightedLayer one = layer;
            one.groups = 1;
            one.weights.out_channels = 3;
            one.weights.codes.assign(layer.weights.codes.begin() + g * 36, layer.weights.codes.begin() + g * 36 + 36);
            one.weights.bias_codes.assign(layer.weights.bias_codes.begin() + g * 3,
                                          layer.weights.bias_codes.begin() + g * 3 + 3);
            const Tensor part = conv2d(t, one, half);
            for (std::int64_t n = 0; n < 2; ++n)
                for (std::int64_t o = 0; o < 3; ++o)
                    for (std::int64_t h = 0; h < y.h; ++h)
                        for (std::int64_t k = 0; k < y.w; ++k) {
                            groups_equal &= at(part, n, o, h, k) == at(y, n, g * 3 + o, h, k);
                        }
        }
        CHECK(groups_equal);
    }
}

TEST_CASE("reference: a convolution as large as its input is a linear layer on the flattened input") {
    std::mt19937_64 random(14);
    const Tensor x = random_tensor(random, 3, 2, 3, 4, int8(1.0F));
    const WeightedLayer layer = layer_of(random_weights(random, 5, 2, 3, 4), int8(1.0F), int8(900.0F));
    WeightedLayer flat = layer;
    flat.weights.in_channels = 24;
    flat.weights.kernel_h = flat.weights.kernel_w = 1;
    for (const Target& t : all_targets) {
        CHECK(linear(t, flat, flatten(x)).codes == conv2d(t, layer, x).codes);
    }
}

TEST_CASE("reference: linear equals PyTorch's qnnpack engine under fp32") {
    // PyTorch 2.6, qnnpack; golden/quantized_ops.json, both cases of linear_static; 5 rows of 6, weights 4 x 6
    Weights w;
    w.out_channels = 4;
    w.in_channels = 6;
    w.codes = {-76, -50, -54, 18,  -17, 9,    58,  59, 33,  -31, -52, -56,
               -24, -4,  -67, -78, 21,  -128, -12, 29, -68, -77, -52, 45};
    w.scale = {0x1.dbe3ecp-7F};
    w.bias_real = {-0x1.09e506p-3F, -0x1.de9decp+0F, -0x1.b1826ep-2F, 0x1.038ebep+0F};
    const Tensor x{{217, 193, 134, 24,  162, 138, 155, 255, 163, 169, 191, 132, 105, 100, 202,
                    184, 117, 229, 163, 58,  191, 140, 59,  185, 126, 123, 190, 0,   63,  121},
                   5,
                   6,
                   1,
                   1};
    const WeightedLayer layer = layer_of(w, {0x1.dfede2p-7F, 150, 8, 0, 255}, {0x1.d048b4p-6F, 132, 8, 0, 255});
    CHECK(linear(fp32(), layer, x).codes ==
          Codes{60, 140, 199, 243, 76, 105, 119, 150, 165, 9, 0, 154, 151, 64, 55, 179, 124, 135, 204, 255});

    w.codes = {30, -81, -121, -128, -14, 82,   -89, -127, -18, -23, -56, 37,
               73, -51, -31,  52,   -39, -127, -10, -128, 46,  -71, -27, 73};
    w.scale = {0x1.0e7a14p-7F, 0x1.0b5532p-6F, 0x1.689d16p-7F, 0x1.d0c858p-8F};
    w.bias_real = {-0x1.ff425p-4F, -0x1.449dc6p-1F, -0x1.01a728p+0F, 0x1.b8980ap+0F};
    const Tensor x2{{186, 0,   32, 149, 65,  108, 165, 116, 98,  73, 101, 135, 231, 183, 93,
                     172, 115, 1,  99,  178, 64,  174, 85,  109, 22, 255, 139, 179, 75,  3},
                    5,
                    6,
                    1,
                    1};
    const WeightedLayer per_channel = layer_of(w, {0x1.cb3e8cp-7F, 107, 8, 0, 255}, {0x1.25672p-5F, 186, 8, 0, 255});
    CHECK(linear(fp32(), per_channel, x2).codes ==
          Codes{232, 228, 232, 255, 211, 143, 153, 241, 125, 0, 253, 167, 154, 119, 163, 192, 67, 69, 173, 155});
}

TEST_CASE("reference: real weights are quantized with the raised scale by the target's policy") {
    Weights w;
    w.out_channels = 2;
    w.in_channels = 2;
    w.real = {2.5F, -127.0F, 5.0F, 254.0F};
    w.scale = {1.0F, 2.0F};
    const WeightedLayer layer = layer_of(w, int8(0.5F), int8(1.0F));
    Target t = bayes();
    CHECK(make_weights(t, layer).codes == Codes{2, -127, 2, 127});
    t.quantize.rounding = QuantizeRounding::half_up;
    CHECK(make_weights(t, layer).codes == Codes{3, -127, 3, 127});
    CHECK(make_weights(t, layer).s_acc == std::vector<float>{0.5F, 1.0F});
}

TEST_CASE("reference: a fused add stays in the accumulator on bpu and in float on fp32") {
    WeightedLayer layer = layer_of(given_weights(1, 1, 1, 1, {1}), int8(0.25F), int8(1.0F));
    layer.sumin = int8(0.5F);
    const auto y = [&](const Target& t, std::int64_t x, std::int64_t e) {
        const Tensor operand{{e}, 1, 1, 1, 1};
        return conv2d(t, layer, Tensor{{x}, 1, 1, 1, 1}, &operand).codes[0];
    };
    CHECK(y(bayes(), 5, 1) == 2);  // 1.25 + 0.5; rounding the parts first gives 1 + 1 too
    CHECK(y(bayes(), 1, 1) == 1);  // 0.75; the parts give 0 + 1
    CHECK(y(bayes(), 1, 0) == 0);
    CHECK(y(bayes(), -1, -1) == -1);    // -0.75
    CHECK(y(bernoulli2(), 1, 1) == 0);  // floor of 0.75
    CHECK(y(bernoulli2(), -1, -1) == -1);
    CHECK(y(fp32(), 4, 1) == 2);  // 1.5 to even
    CHECK(y(fp32(), 4, 3) == 2);  // 2.5 to even
    CHECK(y(fp32(), 1, 1) == 1);
    layer.sumin = int8(0.5F, 2);
    CHECK(y(fp32(), 4, 5) == 2);  // e - zp = 3
    CHECK_THROWS_AS(y(bayes(), 4, 5), Refused);
    const Tensor x{{1}, 1, 1, 1, 1};
    CHECK_THROWS_AS(conv2d(fp32(), layer, x), std::invalid_argument);  // the operand is missing
}

TEST_CASE("reference: fp32 with a fused add stays inside its error bound") {
    std::mt19937_64 random(15);
    double worst = 0.0;
    for (int i = 0; i < 50000; ++i) {
        const auto s_w = static_cast<float>(std::exp2(pick_real(random, -8.0, -3.0)));
        const auto s_e = static_cast<float>(pick_real(random, 0.1, 1.0));
        const std::int64_t acc = pick(random, -600, 600);
        const std::int64_t e = pick(random, -40, 40);
        const double real =
            static_cast<double>(acc) * static_cast<double>(s_w) + static_cast<double>(e) * static_cast<double>(s_e);
        if (std::fabs(real) > 127.0) continue;
        const std::int64_t y = requantize_fp32_sumin(acc, 1.0F, s_w, e, int8(s_e), int8(1.0F));
        worst = std::max(worst, std::fabs(static_cast<double>(y) - real));
    }
    CHECK(worst <= 0.5001);
    CHECK(worst > 0.49);
}

TEST_CASE("reference: an int32 output is the accumulator") {
    Weights w = given_weights(2, 2, 1, 1, {100, 100, -100, 1});
    w.scale = {0.5F, 0.25F};
    w.bias_codes = {5000, -7};
    WeightedLayer layer = layer_of(w, int8(0.5F), accumulator());
    const Tensor x{{127, 126}, 1, 2, 1, 1};
    for (const Target& t : all_targets) CHECK(linear(t, layer, x).codes == Codes{30300, -12581});
    layer.activation = Activation::relu;
    CHECK(linear(bayes(), layer, x).codes == Codes{30300, 0});
    layer.activation = Activation::relu6;  // 6 / (0.5·0.5)
    CHECK(linear(bayes(), layer, x).codes == Codes{24, 0});
    layer.weights.bias_codes = {1LL << 31, 0};
    CHECK_THROWS_AS(linear(meta(), layer, x), Refused);  // fits the accumulator of 64 bits, not the output
    layer.out = int8(1.0F);
    CHECK_NOTHROW(linear(meta(), layer, x));
}

// --- add, sub, mul ---------------------------------------------------------------------------------------------------

TEST_CASE("reference: the bpu add chooses shift and coefficient as large as fit") {
    const auto check = [](const QParams& x, const QParams& y, int shift, std::int64_t k, bool first, float s_acc) {
        const BpuAdd p = make_bpu_add(x, y);
        CHECK(p.shift == shift);
        CHECK(to_int64(p.coefficient) == k);
        CHECK(p.first_is_a == first);
        CHECK(p.s_acc == s_acc);
    };
    check(int8(1.0F), int8(1.0F), 14, 16384, true, 0x1p-14F);  // 2^15 > 32767
    check(int8(1.0F), int8(2.0F), 15, 16384, false, 0x1p-14F);
    check(int8(1024.0F), int8(1.0F), 23, 8192, true, 0x1p-13F);  // 2^24 fits, 23 is the cap
    check(int16(1024.0F), int8(1.0F), 15, 32, true, 0x1p-5F);
    check(int8(1024.0F), int16(1.0F), 15, 32, true, 0x1p-5F);
    check(int8(3.0F), int8(1.0F), 16, 21845, true, 3.0F * 0x1p-16F);  // 65536/3 = 21845.33
    check(int8(2.0F), int8(1.25F), 15, 20480, true, 0x1p-14F);
}

TEST_CASE("reference: the bpu add never leaves int32 and keeps its error bound") {
    std::mt19937_64 random(16);
    double lowest = 0.0;
    double highest = 0.0;
    for (int i = 0; i < 60000; ++i) {
        const bool wide_codes = i % 2 == 1;
        const auto s1 = static_cast<float>(std::exp2(pick_real(random, -6.0, 0.0)));
        const auto s2 = static_cast<float>(static_cast<double>(s1) * std::exp2(pick_real(random, -12.0, 12.0)));
        const double larger = std::max(static_cast<double>(s1), static_cast<double>(s2));
        const auto s_out = static_cast<float>(larger * pick_real(random, 0.5, 2.0));
        const QParams x = wide_codes ? int16(s1) : int8(s1);
        const QParams y = wide_codes ? int16(s2) : int8(s2);
        const QParams out = wide_codes ? int16(s_out) : int8(s_out);
        const std::int64_t a = i % 7 == 0 ? x.qmin : pick(random, x.qmin, x.qmax);
        const std::int64_t b = i % 11 == 0 ? y.qmin : pick(random, y.qmin, y.qmax);
        const bool subtract = i % 3 == 0;
        const double term = static_cast<double>(b) * static_cast<double>(s2);
        const double real =
            (static_cast<double>(a) * static_cast<double>(s1) + (subtract ? -term : term)) / static_cast<double>(s_out);
        const std::int64_t code = add_codes(bayes(), a, x, b, y, out, subtract);
        if (real < static_cast<double>(out.qmin) || real > static_cast<double>(out.qmax)) continue;
        const double error = static_cast<double>(code) - real;
        if (wide_codes) {
            if (std::fabs(error) > 3.0) FAIL("int16 add: error " << error);
            continue;
        }
        lowest = std::min(lowest, error);
        highest = std::max(highest, error);
    }
    CAPTURE(lowest, highest);
    CHECK(lowest >= -0.516);
    CHECK(highest <= 0.508);
    CHECK(highest - lowest > 0.9);
}

TEST_CASE("reference: add, sub and mul worked out by hand on every target") {
    const QParams half = int8(0.5F);
    const QParams one = int8(1.0F);
    for (const Target& t : all_targets) {
        CAPTURE(static_cast<int>(t.kind));
        CHECK(add_codes(t, 7, half, 5, half, half, false) == 12);
        CHECK(add_codes(t, 100, half, 100, half, half, false) == 127);
        CHECK(add_codes(t, 8, half, 5, one, one, false) == 9);
        CHECK(add_codes(t, 5, one, 8, half, one, true) == 1);
        CHECK(add_codes(t, 8, half, 5, one, one, true) == -1);
        CHECK(add_codes(t, -128, half, -128, one, one, true) == 64);
        CHECK(mul_codes(t, 6, half, -8, half, half) == -24);
        CHECK(mul_codes(t, -128, one, -128, one, one) == 127);
    }
    CHECK(add_codes(bayes(), 1, half, 0, half, one, false) == 1);            // 0.5 up
    CHECK(add_codes(bernoulli2(), 1, half, 0, half, one, false) == 1);       // SH_R there too
    CHECK(add_codes(fp32(), 1, half, 0, half, one, false) == 0);             // to even
    CHECK(add_codes(tflite_double(), -1, half, 0, half, one, false) == -1);  // away
    CHECK(add_codes(tflite_single(), -1, half, 0, half, one, false) == 0);   // up
    CHECK(add_codes(fp32(), 4, int8(0.5F, 2), 4, int8(1.0F, 3), int8(1.0F, -10), false) == -8);
    CHECK(add_codes(tflite_single(), 4, int8(0.5F, 2), 4, int8(1.0F, 3), int8(1.0F, -10), false) == -8);
    CHECK(mul_codes(fp32(), 4, int8(0.5F, 2), 7, int8(1.0F, 3), int8(1.0F, -10)) == -6);
    CHECK(add_codes(tflite_double(), 30000, int16(1.0F), 30000, int16(1.0F), int16(2.0F), false) == 30000);
    for (const Target& t : {tflite_double(), tflite_single()}) {  // 1/4 -> 0 and 1/2 -> 1 only with L = 20, and 15
        const QParams tiny = int8(std::ldexp(1.0F, -21));
        const QParams tiny16 = int16(std::ldexp(1.0F, -16));
        const QParams steps = int8(std::ldexp(1.0F, -19));
        const QParams steps16 = int16(std::ldexp(1.0F, -14));
        CHECK(add_codes(t, 1, tiny, 0, one, steps, false) == 0);
        CHECK(add_codes(t, 2, tiny, 0, one, steps, false) == 1);
        CHECK(add_codes(t, 1, tiny16, 0, int16(1.0F), steps16, false) == 0);
        CHECK(add_codes(t, 2, tiny16, 0, int16(1.0F), steps16, false) == 1);
    }
    const QParams fine = int8(std::ldexp(1.0F, -25));  // T / (2^20·s_out) = 64, a left shift of 7
    CHECK_THROWS_AS(add_codes(tflite_double(), 0, one, 0, one, fine, false), Refused);
    CHECK(add_codes(tflite_single(), 0, one, -1, one, fine, false) == -128);
    CHECK_THROWS_AS(add_codes(bayes(), 1, int8(1.0F, 1), 0, one, one, false), Refused);
}

TEST_CASE("reference: add and mul equal PyTorch's under fp32") {
    // PyTorch 2.6; golden/quantized_ops.json, "add" and "add_relu"
    const Codes a = {181, 84,  203, 111, 201, 84,  32,  155, 117, 120, 172, 76,  55, 62,  36, 30, 56, 71, 97, 59,
                     113, 157, 107, 139, 72,  132, 140, 84,  39,  106, 114, 185, 93, 194, 0,  97, 87, 92, 85, 108};
    const Codes b = {146, 89,  132, 91, 97,  18, 97,  113, 57, 74, 66,  161, 62, 71, 7,   43,  100, 53, 5,   84,
                     96,  102, 105, 74, 182, 75, 107, 53,  73, 44, 100, 80,  61, 29, 111, 119, 120, 90, 115, 122};
    const Codes sum = {169, 86,  169, 100, 144, 38, 69,  135, 79, 92, 110, 132, 55, 64, 9,  31,  82,  56, 34,  72,
                       104, 128, 108, 101, 145, 98, 124, 62,  55, 65, 107, 125, 71, 94, 64, 113, 109, 91, 105, 120};
    const QParams qa{0x1.47ae14p-6F, 120, 8, 0, 255};
    const QParams qb{0x1.fbe76cp-6F, 100, 8, 0, 255};
    const QParams qy{0x1.70a3d8p-5F, 110, 8, 0, 255};
    const Tensor x{a, 1, 40, 1, 1};
    const Tensor y{b, 1, 40, 1, 1};
    CHECK(binary(fp32(), Binary::add, x, qa, y, qb, qy).codes == sum);
    Codes clamped = sum;
    for (auto& code : clamped) code = std::max<std::int64_t>(code, 110);
    CHECK(binary(fp32(), Binary::add, x, qa, y, qb, qy, Activation::relu).codes == clamped);
    CHECK_THROWS_AS(binary(fp32(), Binary::add, x, qa, Tensor{{1}, 1, 1, 1, 1}, qb, qy), std::invalid_argument);
}

// --- pooling, cat, the rest ------------------------------------------------------------------------------------------

TEST_CASE("reference: max_pool ignores padding") {
    const Tensor x{{-9, -8, -7, -6, -5, -4, -3, -2, -1}, 1, 1, 3, 3};
    Pool2d p;
    p.kernel_h = p.kernel_w = 2;
    p.stride_h = p.stride_w = 2;
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 1;
    for (const Target& t : all_targets) CHECK(max_pool(t, x, int8(1.0F), p).codes == Codes{-9, -7, -3, -1});
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 0;
    p.stride_h = p.stride_w = 1;
    p.dilation_h = p.dilation_w = 2;
    CHECK(max_pool(bayes(), x, int8(1.0F), p).codes == Codes{-1});
    p.pad_top = 3;
    CHECK_THROWS_AS(max_pool(bayes(), x, int8(1.0F), p), std::invalid_argument);
}

TEST_CASE("reference: avg_pool counts padding or not, and rounds by its target") {
    const Tensor x{{10, 20, 30, 41}, 1, 1, 2, 2};
    Pool2d p;
    p.kernel_h = p.kernel_w = 2;
    p.stride_h = p.stride_w = 2;
    const auto one = [&](const Target& t, const QParams& in, const QParams& out) {
        return avg_pool(t, x, in, out, p).codes[0];
    };
    CHECK(one(bayes(), int8(1.0F), int8(1.0F)) == 25);            // 25.25
    CHECK(one(bayes(), int8(1.0F), int8(0.5F)) == 51);            // 50.5 up
    CHECK(one(bernoulli2(), int8(1.0F), int8(0.5F)) == 51);       // SH_R there too
    CHECK(one(fp32(), int8(1.0F), int8(0.5F)) == 50);             // to even
    CHECK(one(fp32(), int8(1.0F, 10), int8(0.5F, 7)) == 30 + 7);  // 30.5 to even
    CHECK(one(tflite_double(), int8(1.0F, 10), int8(1.0F, 10)) == 25);
    CHECK(one(tflite_double(), int8(1.0F), int8(0.5F)) == 51);                   // another grid: as a mean; 50.5 away
    CHECK(average_code(tflite_single(), 10, 4, int8(1.0F), int8(1.0F)) == 3);    // 2.5 away
    CHECK(average_code(tflite_single(), -10, 4, int8(1.0F), int8(1.0F)) == -3);  // -2.5 away
    CHECK(average_code(bayes(), -10, 4, int8(1.0F), int8(1.0F)) == -2);          // -2.5 up
    CHECK(average_code(fp32(), -10, 4, int8(1.0F), int8(1.0F)) == -2);           // -2.5 to even

    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 1;
    CHECK(avg_pool(bayes(), x, int8(1.0F), int8(1.0F), p).codes == Codes{3, 5, 8, 10});        // 2.5, 5, 7.5, 10.25
    CHECK(avg_pool(fp32(), x, int8(1.0F, 4), int8(1.0F, 4), p).codes == Codes{6, 8, 10, 13});  // 1.5, 4, 6.5, 9.25
    CHECK_THROWS_AS(avg_pool(tflite_single(), x, int8(1.0F), int8(1.0F), p), Refused);
    p.count_include_pad = false;
    CHECK_THROWS_AS(avg_pool(tflite_single(), x, int8(1.0F), int8(0.5F), p), Refused);
    CHECK(avg_pool(tflite_single(), x, int8(1.0F), int8(1.0F), p).codes == Codes{10, 20, 30, 41});
    CHECK(avg_pool(fp32(), x, int8(1.0F, 4), int8(2.0F), p).codes == Codes{3, 8, 13, 18});  // 3, 8, 13, 18.5
    CHECK_THROWS_AS(avg_pool(bayes(), x, int8(1.0F), int8(1.0F), p), Refused);
}

// With s_in = s_out the multiplier is 2^30·2^k / cells, and e - k + 1 its shift.
TEST_CASE("reference: the mean of tflite has one multiplier, which double rounding rounds twice") {
    const QParams q = int8(1.0F);
    CHECK(mean_code(tflite_double(), 10, 4, q, q) == 3);                            // 2.5 away
    CHECK(mean_code(tflite_double(), -10, 4, q, q) == -3);                          // -2.5 away
    CHECK(mean_code(tflite_single(), -10, 4, q, q) == -2);                          // -2.5 up
    CHECK(mean_code(tflite_double(), 27, 5, q, q) == 6);                            // 10.8, then 11/2 away
    CHECK(mean_code(tflite_single(), 27, 5, q, q) == 5);                            // 5.4
    CHECK(mean_code(tflite_double(), 26, 5, q, q) == 5);                            // 10.4, then 10/2
    CHECK(mean_code(tflite_double(), -27, 5, q, q) == -6);                          // -10.8, then -11/2 away
    CHECK(mean_code(tflite_double(), 10, 4, q, int8(0.5F)) == 5);                   // 2.5 / 0.5
    CHECK(mean_code(tflite_double(), 10, 4, q, int8(0.001F)) == 127);               // 2500, clamped
    CHECK(mean_code(tflite_double(), 30, 4, int8(0.5F, 3), int8(1.0F, -7)) == -5);  // 18/4·0.5 = 2.25, less 7
    CHECK_THROWS_AS(mean_code(tflite_double(), 0, 1, q, int8(0x1p-24F)), Refused);  // -128·2^25 leaves int32
    CHECK_NOTHROW(mean_code(tflite_single(), 0, 1, q, int8(0x1p-24F)));
    CHECK_THROWS_AS(mean_code(tflite_double(), 0, 65537, int16(1.0F), int16(1.0F)), Refused);
    const Tensor x{{-17, 10, 3, 16, 15}, 1, 1, 1, 5};
    Pool2d p;
    p.kernel_w = 5;
    CHECK(avg_pool(tflite_double(), x, q, q, p).codes == Codes{5});  // 5.4: the same grid divides
    CHECK(avg_pool(tflite_double(), x, q, q, p, true).codes == Codes{6});
}

TEST_CASE("reference: a full-scale 256x256 int16 average stays in int32 and in its bound, and one cell more does not") {
    for (const Target& t : {bayes(), meta()}) {
        for (const std::int64_t value : {-32768, -32767, -12345, -1, 0, 1, 12345, 32767}) {
            const std::int64_t cells = 65536;
            const std::int64_t y = average_code(t, wide{cells} * value, cells, int16(0.3F), int16(0.3F));
            CAPTURE(value, y);
            CHECK(std::abs(y - value) <= 2);
        }
    }
    CHECK_THROWS_AS(average_code(bayes(), 0, 65537, int16(1.0F), int16(1.0F)), Refused);
    CHECK_NOTHROW(average_code(meta(), 0, 65537, int16(1.0F), int16(1.0F)));
    CHECK_THROWS_AS(average_code(bernoulli2(), 0, 16777217, int8(1.0F), int8(1.0F)), Refused);
    CHECK_NOTHROW(average_code(bernoulli2(), 0, 16777216, int8(1.0F), int8(1.0F)));
}

TEST_CASE("reference: averages of 8- and 16-bit codes stay inside their error bounds") {
    std::mt19937_64 random(17);
    double worst8 = 0.0;
    double worst16 = 0.0;
    int changed = 0;
    for (int i = 0; i < 40000; ++i) {
        const std::int64_t cells = pick(random, 1, 400);
        const bool wide_codes = i % 2 == 1;
        const QParams q = wide_codes ? int16(0.1F) : int8(0.1F);
        const std::int64_t sum = pick(random, q.qmin * cells, q.qmax * cells);
        const double real = static_cast<double>(sum) / static_cast<double>(cells);
        const double error = std::fabs(static_cast<double>(average_code(meta(), sum, cells, q, q)) - real);
        double& worst = wide_codes ? worst16 : worst8;
        worst = std::max(worst, error);
        const std::int64_t constant = pick(random, q.qmin, q.qmax);
        changed += wide_codes && average_code(meta(), constant * cells, cells, q, q) != constant ? 1 : 0;
    }
    CAPTURE(worst8, worst16, changed);
    CHECK(worst8 <= 0.508);
    CHECK(worst16 <= 2.01);
    CHECK(changed > 2000);  // of 20000: "about 30 %" of constant int16 fields
    CHECK(changed < 10000);
}

TEST_CASE("reference: a global average is the average over a window as large as the input") {
    std::mt19937_64 random(18);
    for (const Target& t : all_targets) {
        const Tensor x = random_tensor(random, 2, 3, 5, 4, int8(0.1F));
        const QParams out = int8(t.is_tflite() ? 0.1F : 0.02F);
        const Tensor y = global_avg_pool(t, x, int8(0.1F), out);
        CHECK(y.h * y.w == 1);
        bool equal = true;
        for (std::int64_t n = 0; n < 2; ++n)
            for (std::int64_t c = 0; c < 3; ++c) {
                wide sum = 0;
                for (std::int64_t i = 0; i < 20; ++i) sum += at(x, n, c, i / 4, i % 4);
                equal &= at(y, n, c, 0, 0) == average_code(t, sum, 20, int8(0.1F), out);
            }
        CHECK(equal);
    }
}

TEST_CASE("reference: cat requantizes each input to the output and joins channels") {
    const Tensor x{{1, 2, 3, 4}, 2, 1, 1, 2};
    const Tensor y{{10, 20, 30, 40, 50, 60, 70, 80}, 2, 2, 1, 2};
    for (const Target& t : all_targets) {
        CHECK(cat(t, {x, y}, {int8(1.0F), int8(0.5F)}, int8(1.0F)).codes ==
              Codes{1, 2, 5, 10, 15, 20, 3, 4, 25, 30, 35, 40});
        CHECK(cat(t, {y, x}, {int8(0.5F), int8(1.0F)}, int8(0.5F)).codes ==
              Codes{10, 20, 30, 40, 2, 4, 50, 60, 70, 80, 6, 8});
    }
    CHECK(cat(fp32(), {x}, {int8(1.0F, 1)}, int8(1.0F, 5)).codes == Codes{5, 6, 7, 8});
    CHECK_THROWS_AS(cat(fp32(), {x, Tensor{{1}, 1, 1, 1, 1}}, {int8(1.0F), int8(1.0F)}, int8(1.0F)),
                    std::invalid_argument);
}

TEST_CASE("reference: relu keeps codes at or above the zero point") {
    const Tensor x{{-128, -4, -3, 0, 127}, 1, 5, 1, 1};
    CHECK(activate(fp32(), x, int8(0.1F, -3), Activation::relu).codes == Codes{-3, -3, -3, 0, 127});
    CHECK(activate(bayes(), x, int8(0.1F), Activation::relu6).codes == Codes{0, 0, 0, 0, 60});
    CHECK_THROWS_AS(activate(bayes(), Tensor{{200}, 1, 1, 1, 1}, int8(0.1F), Activation::relu), std::invalid_argument);
}

// --- programs --------------------------------------------------------------------------------------------------------

namespace {

Layer layer_named(Op op, const char* name, std::vector<int> inputs, const QParams& out) {
    Layer layer;
    layer.op = op;
    layer.name = name;
    layer.inputs = std::move(inputs);
    layer.out = out;
    return layer;
}

std::vector<Layer> small_network() {
    std::vector<Layer> net;
    net.push_back(layer_named(Op::quantize, "input", {0}, int8(0.5F)));
    net.push_back(layer_named(Op::conv2d, "conv", {0}, int8(1.0F)));
    net[1].activation = Activation::relu;
    net[1].weighted.weights = given_weights(2, 1, 1, 1, {2, -2});
    net[1].weighted.weights.bias_codes = {0, 4};
    net.push_back(layer_named(Op::conv2d, "conv_add", {0, 1}, int8(1.0F)));
    net[2].has_sumin = true;
    net[2].weighted.weights = given_weights(2, 1, 1, 1, {4, 0});
    Layer pool = layer_named(Op::max_pool, "pool", {2}, {});
    pool.pool.kernel_h = pool.pool.kernel_w = 2;
    net.push_back(pool);
    net.push_back(layer_named(Op::cat, "cat", {3, 3}, int8(0.5F)));
    net.push_back(layer_named(Op::flatten, "flatten", {4}, {}));
    net.push_back(layer_named(Op::linear, "fc", {5}, accumulator()));
    net[6].weighted.weights = given_weights(2, 4, 1, 1, {1, 2, 3, 4, -1, -1, -1, -1});
    net[6].weighted.weights.scale = {0.5F, 0.25F};
    net.push_back(layer_named(Op::dequantize, "output", {6}, {}));
    return net;
}

}  // namespace

TEST_CASE("reference: a small network worked out by hand") {
    const RealTensor x{{1.0F, -1.0F, 2.0F, 0.5F}, 1, 1, 2, 2};
    const std::vector<LayerResult> r = evaluate(bayes(), small_network(), {x});
    CHECK(r[0].codes.codes == Codes{2, -2, 4, 1});
    CHECK(r[1].codes.codes == Codes{2, 0, 4, 1, 0, 4, 0, 1});    // relu((2x, -2x + 2) in units of 1)
    CHECK(r[2].codes.codes == Codes{6, -4, 12, 3, 0, 4, 0, 1});  // (4x + 2e) / 2, and 2e / 2
    CHECK(r[3].codes.codes == Codes{12, 4});
    CHECK(r[4].codes.codes == Codes{24, 8, 24, 8});
    CHECK(r[5].codes.c == 4);
    CHECK(r[6].codes.codes == Codes{24 + 16 + 72 + 32, -64});
    CHECK(r[6].scale == std::vector<float>{0.25F, 0.125F});
    CHECK(r[7].reals.values == std::vector<float>{36.0F, -8.0F});
    CHECK(r[7].codes.codes.empty());
}

TEST_CASE("reference: every operator of a program is the operator of that name") {
    std::mt19937_64 random(19);
    RealTensor x{{}, 1, 2, 3, 3};
    for (int i = 0; i < 18; ++i) x.values.push_back(static_cast<float>(pick_real(random, -2.0, 2.0)));
    const QParams q = int8(0.02F);
    const QParams out = int8(0.03F);
    for (const Target& t : {fp32(), tflite_single(), bayes()}) {
        std::vector<Layer> net;
        net.push_back(layer_named(Op::quantize, "x", {0}, q));
        net.push_back(layer_named(Op::relu, "relu", {0}, {}));
        net.push_back(layer_named(Op::relu6, "relu6", {0}, {}));
        net.push_back(layer_named(Op::add, "add", {0, 1}, out));
        net.push_back(layer_named(Op::sub, "sub", {0, 1}, out));
        net.push_back(layer_named(Op::mul, "mul", {0, 1}, out));
        net.push_back(layer_named(Op::requantize, "requantize", {0}, out));
        net.push_back(layer_named(Op::avg_pool, "avg_pool", {0}, q));
        net[7].pool.kernel_h = 2;
        net.push_back(layer_named(Op::global_avg_pool, "global", {0}, q));
        const std::vector<LayerResult> r = evaluate(t, net, {x});
        const Tensor a = quantize(t, x, q);
        const Tensor b = activate(t, a, q, Activation::relu);
        CHECK(r[0].codes.codes == a.codes);
        CHECK(r[1].codes.codes == b.codes);
        CHECK(r[1].qparams.scale == q.scale);
        CHECK(r[2].codes.codes == activate(t, a, q, Activation::relu6).codes);
        CHECK(r[3].codes.codes == binary(t, Binary::add, a, q, b, q, out).codes);
        CHECK(r[4].codes.codes == binary(t, Binary::sub, a, q, b, q, out).codes);
        CHECK(r[5].codes.codes == binary(t, Binary::mul, a, q, b, q, out).codes);
        CHECK(r[6].codes.codes == requantize(t, a, q, out).codes);
        CHECK(r[7].codes.codes == avg_pool(t, a, q, q, net[7].pool).codes);
        CHECK(r[8].codes.codes == global_avg_pool(t, a, q, q).codes);
    }
}

TEST_CASE("reference: a program names the layer that it cannot run") {
    std::vector<Layer> net = small_network();
    const RealTensor x{{1.0F, -1.0F, 2.0F, 0.5F}, 1, 1, 2, 2};
    CHECK_THROWS_WITH(evaluate(tflite_single(), net, {x}), "conv_add: tflite has no fused add");
    CHECK_THROWS_AS(evaluate(tflite_single(), net, {x}), Refused);
    net[6].inputs = {2};  // not flat
    CHECK_THROWS_AS(evaluate(bayes(), net, {x}), std::invalid_argument);
    CHECK_NOTHROW(evaluate(meta(), small_network(), {x}));
}
