// SPDX-License-Identifier: MIT
//
// What the oracle is told of tensors and layers: numbers without a rule. Compiles without exceptions and without
// integers of 128 bits. Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_DESCRIPTION_HPP
#define INTQ_TESTS_REFERENCE_DESCRIPTION_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace intq_reference {

/// One scale and zero point, with the type and the range of the codes.
struct QParams {
    float scale = 1.0F;
    std::int64_t zero_point = 0;
    int bits = 8;  // of the type: 8, 16, or 32 for the accumulator as output
    std::int64_t qmin = -128;
    std::int64_t qmax = 127;
};

inline QParams int8(float scale, std::int64_t zero_point = 0) { return {scale, zero_point, 8, -128, 127}; }
inline QParams int16(float scale, std::int64_t zero_point = 0) { return {scale, zero_point, 16, -32768, 32767}; }
inline QParams int32() { return {1.0F, 0, 32, -2147483648LL, 2147483647LL}; }

enum class Activation { none, relu, relu6 };

/// Codes in the order N, C, H, W.
struct Tensor {
    std::vector<std::int64_t> codes;
    std::int64_t n = 1;
    std::int64_t c = 1;
    std::int64_t h = 1;
    std::int64_t w = 1;
};

inline std::size_t index_of(const Tensor& t, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return static_cast<std::size_t>(((n * t.c + c) * t.h + h) * t.w + w);
}

inline std::int64_t& at(Tensor& t, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return t.codes.at(index_of(t, n, c, h, w));
}

inline std::int64_t at(const Tensor& t, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    return t.codes.at(index_of(t, n, c, h, w));
}

/// Weights in the order O, I/groups, KH, KW (linear: O, I).
struct Weights {
    std::int64_t out_channels = 1;
    std::int64_t in_channels = 1;  // of one group
    std::int64_t kernel_h = 1;
    std::int64_t kernel_w = 1;
    std::vector<float> real;               // either real numbers: steps 0 and 1 raise the scale, then quantize ...
    std::vector<std::int64_t> codes;       // ... or codes: taken as they are, and the scale too
    std::vector<float> scale;              // one entry (per tensor) or out_channels
    std::vector<float> bias_real;          // none, or out_channels real numbers ...
    std::vector<std::int64_t> bias_codes;  // ... or given codes, never rounded again; only together with `codes`
    int bits = 8;
    std::int64_t qmin = -128;
    std::int64_t qmax = 127;
};

/// Multipliers and shifts from outside, one or out_channels of each: no scale is read.
struct GivenMultipliers {
    std::vector<std::int64_t> multipliers;
    std::vector<int> shifts;
};

/// A clamp of the output codes in place of an activation.
struct Bounds {
    std::int64_t lowest = 0;
    std::int64_t highest = 0;
};

struct WeightedLayer {
    Weights weights;
    QParams in;
    QParams out;  // out.bits == 32: the accumulator itself; its scale is s_acc per channel
    Activation activation = Activation::none;
    bool wide_sum = false;                  // fp32, int16 to int16: sums up to 2^53 are taken
    std::optional<QParams> sumin;           // the operand e of a fused add
    std::optional<GivenMultipliers> given;  // tflite
    std::optional<Bounds> bounds;
    bool has_int32_bias = false;              // tflite: sums of int16 codes are int32 then
    bool is_linear = false;                   // whatever its window
    std::int64_t stride_h = 1, stride_w = 1;  // from here on convolution only
    std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
    std::int64_t dilation_h = 1, dilation_w = 1;
    std::int64_t groups = 1;
};

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_DESCRIPTION_HPP
