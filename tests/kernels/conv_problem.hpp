// SPDX-License-Identifier: MIT
//
// A convolution with all its numbers, drawn from a seed, as the oracle and as the library take it.
#ifndef INTQ_TESTS_KERNELS_CONV_PROBLEM_HPP
#define INTQ_TESTS_KERNELS_CONV_PROBLEM_HPP

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "intq/kernels/conv/conv2d.hpp"
#include "kernels/drawn.hpp"

namespace intq::test {

struct ConvShape {
    index_t batch, channels, height, width, outputs, groups;
    Window2d window{};
    bool is_linear = false;
};

/// Where weights and inputs come from.
enum class Numbers {
    codes,    // drawn codes; one channel is all zero
    real,     // real weights: step 0 raises scales, the library's functions quantize; one channel is all zero
    extreme,  // full-scale inputs against full-scale weights of one sign a channel
    count_
};
enum class BiasKind { none, real, codes, count_ };

struct ConvProblem {
    ConvShape shape;
    Codes input, output;
    DType weight_dtype = DType::int8;
    bool per_channel = true;
    Activation activation = Activation::none;
    int sum_bits = 32;                 // of the row that runs it
    std::vector<float> weight_scales;  // before step 0 where the weights are real
    std::vector<float> weight_reals;   // empty where codes are given
    std::vector<std::int64_t> weight_codes;
    std::vector<float> bias_reals;
    std::vector<std::int64_t> bias_codes;
    bool has_int32_bias = false;  // the codes are given as int32
    bool is_nonnegative = false;  // no code of x is below 0, and the library is told so
    std::optional<oracle::GivenMultipliers> given;
    std::optional<oracle::Bounds> bounds;
    std::optional<Codes> sumin;
    oracle::Tensor x, e;
    std::string label;

    oracle::WeightedLayer for_oracle() const {
        oracle::WeightedLayer layer;
        layer.wide_sum = sum_bits == 64;
        oracle::Weights& w = layer.weights;
        w.out_channels = shape.outputs;
        w.in_channels = shape.channels / shape.groups;
        w.kernel_h = shape.window.kernel.height;
        w.kernel_w = shape.window.kernel.width;
        w.real = weight_reals;
        w.codes = weight_codes;
        w.scale = weight_scales;
        w.bias_real = bias_reals;
        w.bias_codes = bias_codes;
        w.bits = bits_of(weight_dtype);
        w.qmin = lowest_code(weight_dtype);
        w.qmax = highest_code(weight_dtype);
        layer.in = input.for_oracle();
        layer.out = output.dtype == DType::int32 ? oracle::int32() : output.for_oracle();
        layer.activation = test::for_oracle(activation);
        if (sumin) layer.sumin = sumin->for_oracle();
        layer.given = given;
        layer.bounds = bounds;
        layer.has_int32_bias = has_int32_bias;
        layer.is_linear = shape.is_linear;
        layer.stride_h = shape.window.stride.height;
        layer.stride_w = shape.window.stride.width;
        layer.pad_top = shape.window.padding.top;
        layer.pad_left = shape.window.padding.left;
        layer.pad_bottom = shape.window.padding.bottom;
        layer.pad_right = shape.window.padding.right;
        layer.dilation_h = shape.window.dilation.height;
        layer.dilation_w = shape.window.dilation.width;
        layer.groups = shape.groups;
        return layer;
    }
};

/// The library's side: weights raised and quantized by its own functions, and the spec that points at them.
class LibraryLayer {
public:
    LibraryLayer(const ConvProblem& problem, const arith::PolicyRecord& policy) : scales_(problem.weight_scales) {
        if (problem.sumin)
            operand_ = {problem.sumin->scale, problem.sumin->zero_point, problem.sumin->lowest(),
                        problem.sumin->highest()};
        const bool adds = problem.sumin.has_value();
        if (!problem.weight_reals.empty()) raise(problem, policy, adds ? &operand_ : nullptr);
        make_codes(problem, policy);
        spec_.op = problem.shape.is_linear ? OpKind::linear : OpKind::conv2d;
        spec_.window = problem.shape.window;
        spec_.in_channels = problem.shape.channels;
        spec_.out_channels = problem.shape.outputs;
        spec_.groups = problem.shape.groups;
        spec_.input_dtype = problem.input.dtype;
        spec_.weight_dtype = problem.weight_dtype;
        spec_.output_dtype = problem.output.dtype;
        spec_.input = problem.input.for_library();
        spec_.weight = problem.per_channel ? QParams::per_channel(scales_, {}, 0, lowest_code(problem.weight_dtype),
                                                                  highest_code(problem.weight_dtype))
                                           : QParams::per_tensor(scales_[0], 0, problem.weight_dtype);
        if (problem.output.dtype != DType::int32) spec_.output = problem.output.for_library();
        spec_.weight_codes =
            problem.weight_dtype == DType::int16 ? static_cast<const void*>(codes16_.data()) : codes8_.data();
        if (!problem.bias_reals.empty()) spec_.bias = problem.bias_reals.data();
        if (!problem.bias_codes.empty() && !problem.has_int32_bias) spec_.bias_codes = problem.bias_codes.data();
        take_given(problem);
        spec_.activation = problem.activation;
        spec_.input_is_nonnegative = problem.is_nonnegative;
        spec_.wide_sum =
            problem.sum_bits > policy.for_weights(problem.weight_dtype).accumulator_bits(problem.input.dtype);
        if (adds) spec_.sumin = &operand_;
    }
    LibraryLayer(const LibraryLayer&) = delete;
    LibraryLayer& operator=(const LibraryLayer&) = delete;

    const kernels::Conv2dSpec& spec() const { return spec_; }
    std::vector<std::int64_t> codes() const {
        std::vector<std::int64_t> wide(codes8_.begin(), codes8_.end());
        wide.insert(wide.end(), codes16_.begin(), codes16_.end());
        return wide;
    }
    float scale(std::size_t channel) const { return scales_[scales_.size() == 1 ? 0 : channel]; }

private:
    void take_given(const ConvProblem& problem) {
        if (problem.has_int32_bias) {
            for (const std::int64_t code : problem.bias_codes) bias_.push_back(static_cast<std::int32_t>(code));
            spec_.bias_codes_int32 = bias_.data();
        }
        if (problem.given) {
            for (const std::int64_t multiplier : problem.given->multipliers)
                multipliers_.push_back(static_cast<std::int32_t>(multiplier));
            shifts_.assign(problem.given->shifts.begin(), problem.given->shifts.end());
            given_ = {multipliers_.data(), shifts_.data(), static_cast<index_t>(multipliers_.size())};
            spec_.requantize = &given_;
            // No scale is read, but that of the output by relu6.
            spec_.input = QParams::per_tensor(1.0f, problem.input.zero_point, problem.input.dtype);
            spec_.weight = QParams::per_tensor(1.0f, 0, problem.weight_dtype);
            if (problem.activation != Activation::relu6)
                spec_.output = QParams::per_tensor(1.0f, problem.output.zero_point, problem.output.dtype);
        }
        if (problem.bounds) {
            bounds_ = {static_cast<std::int32_t>(problem.bounds->lowest),
                       static_cast<std::int32_t>(problem.bounds->highest)};
            spec_.bounds = &bounds_;
        }
    }
    void raise(const ConvProblem& problem, const arith::PolicyRecord& policy, const arith::SuminOperand* sumin) {
        for (std::size_t c = 0; c < static_cast<std::size_t>(problem.shape.outputs); ++c) {
            float& scale = scales_[scales_.size() == 1 ? 0 : c];
            const double bias = problem.bias_reals.empty() ? 0.0 : static_cast<double>(problem.bias_reals[c]);
            scale = arith::raise_weight_scale(policy.for_weights(problem.weight_dtype), scale, bias,
                                              problem.input.scale, sumin);
        }
    }
    void make_codes(const ConvProblem& problem, const arith::PolicyRecord& policy) {
        const std::size_t size =
            problem.weight_reals.empty() ? problem.weight_codes.size() : problem.weight_reals.size();
        const std::size_t per_channel = size / static_cast<std::size_t>(problem.shape.outputs);
        for (std::size_t i = 0; i < size; ++i) {
            const std::int64_t code =
                problem.weight_reals.empty()
                    ? problem.weight_codes[i]
                    : arith::quantize(problem.weight_reals[i], {scale(i / per_channel), 0},
                                      {lowest_code(problem.weight_dtype), highest_code(problem.weight_dtype)},
                                      policy.quantize);
            if (problem.weight_dtype == DType::int16)
                codes16_.push_back(static_cast<std::int16_t>(code));
            else
                codes8_.push_back(static_cast<std::int8_t>(code));
        }
    }

    std::vector<float> scales_;
    std::vector<std::int8_t> codes8_;
    std::vector<std::int16_t> codes16_;
    arith::SuminOperand operand_{};
    std::vector<std::int32_t> bias_, multipliers_, shifts_;
    kernels::GivenRequantize given_{};
    kernels::CodeBounds bounds_{};
    kernels::Conv2dSpec spec_{};
};

/// What a problem of a row looks like; the rest is drawn.
struct ConvKey {
    DType input, weight, output;
    bool has_sumin;
    int accumulator_bits;
    Numbers numbers;
    BiasKind bias;
    Activation activation;
    bool zero_points;
    bool int32_bias = false;   // what a row of narrow sums needs
    bool multipliers = false;  // given ones in place of scales
    bool bounds = false;       // given ones in place of the activation
};

/// What a row of a target needs, and what its target allows: `step` says which problems have what is given.
inline ConvKey with_given(ConvKey key, const arith::PolicyRecord& policy, std::uint64_t step) {
    key.int32_bias = key.accumulator_bits != policy.for_weights(key.weight).accumulator_bits(key.input);
    if (key.int32_bias) key.bias = BiasKind::codes;
    const bool takes_codes = key.output != DType::int32 && key.bias != BiasKind::real;
    key.multipliers = takes_codes && arith::takes_multipliers(policy.requantize) && step % 5 < 2;
    key.bounds = key.output != DType::int32 && step % 4 == 1;
    if ((key.int32_bias || key.multipliers) && key.numbers == Numbers::real) key.numbers = Numbers::codes;
    if (key.bounds) key.activation = Activation::none;
    return key;
}

namespace detail {

/// Multipliers and shifts near those of the scales, and some of every size.
inline oracle::GivenMultipliers draw_multipliers(const ConvProblem& p, Draw& draw) {
    oracle::GivenMultipliers given;
    const std::size_t count = draw.one_in(3) ? 1 : static_cast<std::size_t>(p.shape.outputs);
    for (std::size_t c = 0; c < count; ++c) {
        const double real = static_cast<double>(p.input.scale) *
                            static_cast<double>(p.weight_scales[p.per_channel ? c : 0]) /
                            static_cast<double>(p.output.scale);
        int shift = 0;
        const double mantissa = std::frexp(real, &shift);
        given.multipliers.push_back(static_cast<std::int64_t>(mantissa * 2147483647.0) - draw.between(0, 1000));
        given.shifts.push_back(shift + static_cast<int>(draw.between(-1, 1)));
        if (draw.one_in(8)) given.multipliers.back() = draw.between(0, 2147483647);
    }
    return given;
}

/// Two codes of the output, as often on one side of the zero point as around it.
inline oracle::Bounds draw_bounds(const Codes& output, Draw& draw) {
    const std::int64_t a = draw.between(output.lowest(), output.highest()),
                       b = draw.between(output.lowest(), output.highest());
    return {a < b ? a : b, a < b ? b : a};
}

/// Largest |w| with which a sum of this many products cannot leave the accumulator.
inline std::int64_t weight_limit(const ConvKey& key, index_t products) {
    const std::int64_t highest = highest_code(key.weight);
    const bool tight = key.accumulator_bits == 32 || key.output == DType::int32;
    if (!tight) return highest;
    const std::int64_t x = -lowest_code(key.input);
    const std::int64_t limit = (std::int64_t{1} << 30) / x / products;
    return limit < 1 ? 1 : limit < highest ? limit : highest;
}

inline void draw_weights(ConvProblem& p, const ConvKey& key, Draw& draw, index_t products) {
    const std::int64_t limit = weight_limit(key, products);
    const index_t outputs = p.shape.outputs;
    const index_t dead = outputs > 2 ? 1 : -1;
    for (index_t o = 0; o < outputs; ++o)
        for (index_t i = 0; i < products; ++i) {
            const float scale = p.weight_scales[p.per_channel ? static_cast<std::size_t>(o) : 0];
            std::int64_t code = draw_code(draw, limit == highest_code(key.weight) ? -limit - 1 : -limit, limit);
            if (key.numbers == Numbers::extreme)
                code = o % 2 == 0 ? -limit - (limit == highest_code(key.weight) ? 1 : 0) : limit;
            if (key.numbers != Numbers::extreme && o == dead) code = 0;
            if (key.numbers == Numbers::real) {
                p.weight_reals.push_back(o == dead ? 0.0f
                                                   : (static_cast<float>(code) + draw.real(-0.5f, 0.5f)) * scale);
            } else {
                p.weight_codes.push_back(code);
            }
        }
    // A channel without weights: only step 0 keeps its bias inside the accumulator.
    if (key.numbers == Numbers::real && p.per_channel && dead >= 0)
        p.weight_scales[static_cast<std::size_t>(dead)] = 0x1p-23f;
}

inline void draw_bias(ConvProblem& p, const ConvKey& key, Draw& draw, float sum_magnitude) {
    if (key.bias == BiasKind::none || (key.bias == BiasKind::codes && key.numbers == Numbers::real)) return;
    for (index_t o = 0; o < p.shape.outputs; ++o) {
        const float code = draw.real(-sum_magnitude, sum_magnitude);
        if (key.bias == BiasKind::codes) {
            p.bias_codes.push_back(static_cast<std::int64_t>(code));
        } else {
            const float scale = p.weight_scales[p.per_channel ? static_cast<std::size_t>(o) : 0];
            p.bias_reals.push_back(code * p.input.scale * (scale == 0x1p-23f ? 0.01f : scale));
        }
    }
}

}  // namespace detail

inline ConvProblem draw_conv(const ConvShape& shape, const ConvKey& key, std::uint64_t seed) {
    Draw draw(seed);
    ConvProblem p;
    p.shape = shape;
    p.weight_dtype = key.weight;
    p.activation = key.activation;
    p.sum_bits = key.accumulator_bits;
    const auto zero_point = [&](DType dtype) {
        return key.zero_points ? static_cast<std::int32_t>(draw_code(draw, lowest_code(dtype), highest_code(dtype)))
                               : 0;
    };
    p.input = {draw.real(0.005f, 0.05f) * (key.input == DType::int16 ? 0.004f : 1.0f), zero_point(key.input),
               key.input};
    p.per_channel = !draw.one_in(4);
    for (index_t o = 0; o < (p.per_channel ? shape.outputs : 1); ++o)
        p.weight_scales.push_back(draw.real(0.001f, 0.01f) * (key.weight == DType::int16 ? 0.004f : 1.0f));

    const index_t products = shape.channels / shape.groups * shape.window.kernel.height * shape.window.kernel.width;
    const std::int64_t limit = detail::weight_limit(key, products);
    const float sum_magnitude = 0.34f * static_cast<float>(limit) * static_cast<float>(-lowest_code(key.input)) *
                                std::sqrt(static_cast<float>(products));
    detail::draw_weights(p, key, draw, products);
    detail::draw_bias(p, key, draw, sum_magnitude);

    // Mostly unsaturated outputs; some small, some beyond the ends.
    const float spread[] = {0.5f, 0.4f, 2.0f, 0.05f};
    const float reach = spread[draw.between(0, 3)] * static_cast<float>(highest_code(key.output));
    p.output = {sum_magnitude * p.input.scale * p.weight_scales[0] / reach, zero_point(key.output), key.output};
    if (p.weight_scales[0] == 0x1p-23f) p.output.scale = sum_magnitude * p.input.scale * 0.005f / reach;
    if (key.has_sumin) p.sumin = Codes{p.output.scale * draw.real(0.1f, 3.0f), zero_point(key.input), key.input};
    if (key.has_sumin && key.output != key.input)
        p.sumin->scale *= static_cast<float>(highest_code(key.output)) / static_cast<float>(highest_code(key.input));

    if (key.int32_bias && p.bias_codes.empty()) p.bias_codes.assign(static_cast<std::size_t>(shape.outputs), 0);
    p.has_int32_bias = key.int32_bias;
    if (key.multipliers) p.given = detail::draw_multipliers(p, draw);
    if (key.bounds) p.bounds = detail::draw_bounds(p.output, draw);

    p.x = draw_tensor(draw, shape.batch, shape.channels, shape.height, shape.width, p.input);
    if (key.numbers == Numbers::extreme)
        for (std::int64_t& code : p.x.codes) code = draw.one_in(20) ? p.input.highest() : p.input.lowest();
    const Size2d out = output_size(shape.window, {shape.height, shape.width});
    if (p.sumin) p.e = draw_tensor(draw, shape.batch, shape.outputs, out.height, out.width, *p.sumin);
    p.label = std::string(name_of(key.input)) + "*" + name_of(key.weight) + "->" + name_of(key.output) +
              (key.has_sumin ? " +sumin" : "") + " n" + std::to_string(shape.batch) + " c" +
              std::to_string(shape.channels) + " " + std::to_string(shape.height) + "x" + std::to_string(shape.width) +
              " o" + std::to_string(shape.outputs) + " g" + std::to_string(shape.groups) + " k" +
              std::to_string(shape.window.kernel.height) + "x" + std::to_string(shape.window.kernel.width) +
              " numbers " + std::to_string(static_cast<int>(key.numbers)) + " bias " +
              std::to_string(static_cast<int>(key.bias)) + " " + name_of(key.activation) +
              (key.int32_bias ? " int32 bias" : "") + (key.multipliers ? " given multipliers" : "") +
              (key.bounds ? " given bounds" : "") + " seed " + std::to_string(seed);
    return p;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_CONV_PROBLEM_HPP
