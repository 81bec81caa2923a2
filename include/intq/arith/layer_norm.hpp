// SPDX-License-Identifier: MIT
//
// Layer and RMS normalization of codes in integers, for every target. Layer: arith (docs/arithmetic.md section 4,
// layer_norm).
#ifndef INTQ_ARITH_LAYER_NORM_HPP
#define INTQ_ARITH_LAYER_NORM_HPP

#include <array>
#include <cstdint>
#include <span>
#include <tuple>

#include "intq/arith/elementwise.hpp"
#include "intq/arith/make_requantize.hpp"
#include "intq/arith/real_functions.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// The most elements of one mean: with int16 codes n times the sum of their squared distances is at most 2^62, and a
/// normalized element at most 2^8. is_in_range() says what an RMS norm takes.
inline constexpr index_t layer_norm_most_elements = 65536;

/// The parameters of a layer norm, or of an RMS norm, beside its weights.
struct LayerNormParams {
    bool is_centered = true;      // whether the mean is subtracted; an RMS norm does not
    std::int32_t zero_point = 0;  // of the input
    std::int64_t epsilon = 1;     // n²·eps / s_in², at least 1
    ChannelWords words{};         // of the accumulator, which has the scale LayerNormScale::accumulator
    OutputCodes codes{};
};

/// The scales of the weights: powers of two.
struct LayerNormScale {
    int exponent = 0;  // the largest |weight|, and |bias|/256, is at most 2^exponent

    INTQ_ALWAYS_INLINE constexpr int weight() const noexcept { return exponent - 30; }
    INTQ_ALWAYS_INLINE constexpr int accumulator() const noexcept { return exponent - 21; }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

/// [i] = rhu(2^15 / √((i + 32.5) / 128)), i = 0 … 95: the start of the iteration for the 96 upper parts of [1/4, 1).
inline constexpr std::array<std::uint16_t, 96> inverse_roots = [] {
    std::array<std::uint16_t, 96> entries{};
    for (std::size_t i = 0; i < entries.size(); ++i)
        entries[i] =
            static_cast<std::uint16_t>(floor(0x1p15 / real_sqrt((static_cast<double>(i) + 32.5) / 128.0) + 0.5));
    return entries;
}();

}  // namespace detail

/// 2^30 / √a for a = m / 2^32.
///
///     r = inverse_roots[…] · 2^15, and three times  q = r² >> 30,  t = q·m >> 32,  r = r·(3·2^30 - t) >> 31
///
/// @pre m >= 2^30
///
/// Result   in (2^30, 2^31], less than 2^-29 of it off
/// Source   Newton's iteration for 1/√a
constexpr std::uint32_t inverse_root(std::uint32_t m) noexcept {
    std::uint64_t r = std::uint64_t{detail::inverse_roots[(m >> 25) - 32]} << 15;
    for (int step = 0; step < 3; ++step) {
        const std::uint64_t q = r * r >> 30, t = q * m >> 32;
        r = r * ((std::uint64_t{3} << 30) - t) >> 31;
    }
    return static_cast<std::uint32_t>(r);
}

/// The deviation of a row: what its elements are multiplied by.
///
///     d_k = n·x_k - S,   V = n·Σx² - S² + epsilon
///
/// With S = Σx, d_k/√V is element k less the mean, by the standard deviation; with S = 0, by the root mean square.
///
/// Result   a normalized element is less than 2^-20 off
class Deviation {
public:
    /// @param count    n, from 1 to layer_norm_most_elements
    /// @param sum      S, of the codes less the zero point: Σx or 0
    /// @param squares  Σx²
    /// @param epsilon  from 1 to 2^62 - 1
    /// @pre   is_in_range()
    constexpr Deviation(index_t count, std::int64_t sum, std::int64_t squares, std::int64_t epsilon) noexcept
        : count_(count), sum_(sum) {
        // Products may wrap; the difference is in range.
        const auto s = static_cast<std::uint64_t>(sum);
        std::uint64_t v = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(squares) - s * s +
                          static_cast<std::uint64_t>(epsilon);
        while (v < std::uint64_t{1} << 62) v <<= 2, ++half_;
        root_ = inverse_root(static_cast<std::uint32_t>(v >> 32));
    }

    /// rhu(d/√V · 2^22) in two roundings:  t = rhu(d·2^half / 2^9),  rhu(t·r / 2^31)
    INTQ_ALWAYS_INLINE constexpr std::int32_t normalized(std::int32_t x) const noexcept {
        const std::int64_t d = (count_ * x - sum_) * (std::int64_t{1} << half_);
        const std::int64_t t = (d + 256) >> 9;
        return static_cast<std::int32_t>((t * std::int64_t{root_} + (std::int64_t{1} << 30)) >> 31);
    }

private:
    std::int64_t count_, sum_;
    int half_ = 0;
    std::uint32_t root_ = 0;
};

/// rhu(u·weight / 2^31) + bias
INTQ_ALWAYS_INLINE constexpr std::int32_t weighted(std::int32_t u, std::int32_t weight, std::int32_t bias) noexcept {
    return static_cast<std::int32_t>((std::int64_t{u} * weight + (std::int64_t{1} << 30)) >> 31) + bias;
}

/// The range of weighted(), whatever the data.
inline constexpr SumRange weighted_range{-(std::int64_t{1} << 30), std::int64_t{1} << 30};

/// The least power of two that holds the weights, and 256 times of which holds the bias.
///
/// @return value_out_of_range naming weight or bias for a number that is not finite, and scale_out_of_range where the
///         power is not one of 2^-60 to 2^60; the least of them where all are 0
constexpr Result<LayerNormScale> layer_norm_scale(std::span<const float> weight, std::span<const float> bias) noexcept {
    double most = 0.0;
    for (const auto& [values, field, factor] :
         {std::tuple{weight, Field::weight, 1.0}, std::tuple{bias, Field::bias, 1.0 / 256.0}})
        for (const float value : values) {
            if (!is_finite(value)) return Status{StatusCode::value_out_of_range, OpKind::layer_norm, field, 0, 0};
            const double size = static_cast<double>(value < 0.0f ? -value : value) * factor;
            if (size > most) most = size;
        }
    LayerNormScale scale{-60};
    while (scale.exponent < 60 && power_of_two(scale.exponent) < most) ++scale.exponent;
    if (power_of_two(scale.exponent) < most)
        return Status{StatusCode::scale_out_of_range, OpKind::layer_norm, Field::weight, 0, 0};
    return scale;
}

/// rhu(value / 2^exponent)
constexpr std::int32_t code_of_power(float value, int exponent) noexcept {
    return static_cast<std::int32_t>(round_half_up(static_cast<double>(value) / power_of_two(exponent)));
}

/// Whether means of `count` elements stay in range: not more than layer_norm_most_elements, and without centering no
/// more than 2^31 by the largest distance of a code from the zero point.
constexpr bool is_in_range(bool is_centered, std::int32_t zero_point, DType input, index_t count) noexcept {
    if (count < 1 || count > layer_norm_most_elements) return false;
    const std::int64_t above = highest_code(input) - zero_point, below = zero_point - lowest_code(input);
    return is_centered || count * (above > below ? above : below) <= std::int64_t{1} << 31;
}

/// Checks parameters from anywhere for means of `count` elements.
constexpr Status check_layer_norm_params(const PolicyRecord& policy, const LayerNormParams& params, DType input,
                                         DType output, index_t count) noexcept {
    constexpr OpKind op = OpKind::layer_norm;
    if (const Status status = check_zero_point(policy, params.zero_point, input, op); !status) return status;
    if (!is_in_range(params.is_centered, params.zero_point, input, count))
        return {StatusCode::value_out_of_range, op, Field::kernel, count, layer_norm_most_elements};
    if (const Status status = check_output_codes(policy, params.codes, output, op); !status) return status;
    if (params.epsilon < 1 || params.epsilon >= std::int64_t{1} << 62)
        return {StatusCode::corrupt, op, Field::storage, params.epsilon, 1};
    return are_words(policy.requantize, params.words, 32) ? Status{}
                                                          : Status{StatusCode::corrupt, op, Field::scale, 0, 0};
}

/// Parameters for rows of n elements.
///
/// @param eps          as of the float operator: finite, not negative
/// @param is_centered  of a layer norm; not of an RMS norm
/// @return the errors of check_codes() and check_result(); value_out_of_range of kernel for an n that is_in_range()
///         denies, and of storage for an eps that is negative, not finite or, in codes, 2^62 or more;
///         the errors of make_requantize_words()
constexpr Result<LayerNormParams> make_layer_norm(const PolicyRecord& policy, const CodesOf& in, const CodesOf& out,
                                                  const OutputCodes& codes, index_t count, double eps,
                                                  const LayerNormScale& scale, bool is_centered = true) noexcept {
    constexpr OpKind op = OpKind::layer_norm;
    if (const Status status = check_codes(policy, in, op, Field::input); !status) return status;
    if (const Status status = check_result(policy, out, codes, op); !status) return status;
    if (!is_in_range(is_centered, in.zero_point, in.dtype, count))
        return Status{StatusCode::value_out_of_range, op, Field::kernel, count,
                      count < 1 ? 1 : layer_norm_most_elements};
    LayerNormParams params;
    params.is_centered = is_centered;
    params.zero_point = in.zero_point;
    params.codes = codes;
    const double root = static_cast<double>(count) / static_cast<double>(in.scale);
    const double epsilon = dmul(dmul(root, root), eps);
    if (!(epsilon >= 0.0 && epsilon < 0x1p62)) return Status{StatusCode::value_out_of_range, op, Field::storage, 0, 0};
    params.epsilon = static_cast<std::int64_t>(floor(epsilon + 0.5));
    if (params.epsilon < 1) params.epsilon = 1;
    const auto s_acc = static_cast<float>(power_of_two(scale.accumulator()));
    const auto words = make_requantize_words(policy, RequantizeSource::add_accumulator, {s_acc, 1.0f, out.scale}, 32,
                                             out.dtype, weighted_range);
    if (!words) return words.status().in(op);
    params.words = *words;
    return params;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_LAYER_NORM_HPP
