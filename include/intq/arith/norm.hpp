// SPDX-License-Identifier: MIT
//
// Folding a batch norm into the weights and bias before it. Layer: arith (docs/workflow.md section 4).
#ifndef INTQ_ARITH_NORM_HPP
#define INTQ_ARITH_NORM_HPP

#include <bit>
#include <cstdint>
#include <span>

#include "intq/arith/ieee.hpp"
#include "intq/core/channel_blocks.hpp"
#include "intq/core/status.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// In which order PyTorch multiplies the bias: (b - mean)·r·gamma after a convolution, (b - mean)·(gamma·r) after a
/// linear layer. The last bit differs.
enum class BatchNormOrder : std::uint8_t { conv, linear };

/// Statistics and parameters of a batch norm, one value a channel.
struct BatchNormTerms {
    std::span<const float> mean{};
    std::span<const float> variance{};
    std::span<const float> gamma{};  // empty: all 1
    std::span<const float> beta{};   // empty: all 0
    float epsilon = 1e-5f;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// The nearest binary32 to the square root.
/// @pre value >= 0, finite
constexpr float square_root(float value) noexcept {
    if (value == 0.0f) return 0.0f;
    // value = significand · 2^(2·half) with 2^51 <= significand < 2^53: its root has 26 or 27 bits, more than a float,
    // and `rest` says whether more would follow. Its last bit as a sticky one, the conversion rounds once.
    const Frexp parts = frexp(static_cast<double>(value));
    const int odd = parts.exponent & 1;
    const int half = (parts.exponent - odd) / 2 - 26;
    const auto significand = static_cast<std::uint64_t>(parts.mantissa * (odd != 0 ? 0x1p53 : 0x1p52));
    std::uint64_t root = 0;
    for (std::uint64_t bit = std::uint64_t{1} << 26; bit != 0; bit >>= 1)
        if ((root | bit) * (root | bit) <= significand) root |= bit;
    const std::uint64_t rest = significand - root * root;
    const auto extended = static_cast<float>(static_cast<std::int64_t>(2 * root + (rest != 0 ? 1 : 0)));
    return static_cast<float>(static_cast<double>(extended) * power_of_two(half - 1));
}

/// r = fdiv(1, sqrt(fadd(variance, epsilon)))
/// @pre variance + epsilon > 0
constexpr float inverse_deviation(float variance, float epsilon) noexcept {
    return fdiv(1.0f, square_root(fadd(variance, epsilon)));
}

/// Checks the arguments of fold_batch_norm().
///
/// @param weight  extents of the weight seen from its output-channel axis: see channel_blocks()
/// @return ok; shape_mismatch of channels (statistics, bias or its result) or of weight; value_out_of_range of input
///         with the channel whose variance + epsilon is not positive and finite
constexpr Status check_fold_batch_norm(const ChannelBlocks& weight, std::span<const float> weights,
                                       std::span<const float> bias, const BatchNormTerms& norm,
                                       std::span<float> folded_weights, std::span<float> folded_bias) noexcept {
    const auto channels = static_cast<std::size_t>(weight.channels);
    const auto mismatch = [&](std::size_t given, std::size_t expected, Field field) {
        return Status{StatusCode::shape_mismatch, OpKind::conv2d, field, static_cast<index_t>(given),
                      static_cast<index_t>(expected)};
    };
    const auto size = static_cast<std::size_t>(weight.size());
    if (weights.size() != size) return mismatch(weights.size(), size, Field::weight);
    if (folded_weights.size() != size) return mismatch(folded_weights.size(), size, Field::weight);
    for (const std::size_t given : {norm.mean.size(), norm.variance.size(), folded_bias.size()})
        if (given != channels) return mismatch(given, channels, Field::channels);
    for (const std::size_t given : {norm.gamma.size(), norm.beta.size(), bias.size()})
        if (given != 0 && given != channels) return mismatch(given, channels, Field::channels);
    for (std::size_t c = 0; c < channels; ++c) {
        const float sum = fadd(norm.variance[c], norm.epsilon);
        if (!(sum > 0.0f) || !is_finite(sum))
            return {StatusCode::value_out_of_range, OpKind::conv2d, Field::input, static_cast<index_t>(c), 0};
    }
    return {};
}

/// Folds a batch norm into the weights and bias of the convolution or linear layer before it.
///
///     r  = fdiv(1, sqrt(fadd(variance, epsilon)))
///     w' = fmul(w, fmul(gamma, r))
///     b' = fadd(fmul(fmul(fadd(b, -mean), r), gamma), beta)       conv
///     b' = fadd(fmul(fadd(b, -mean), fmul(gamma, r)), beta)       linear
///
/// @param weight          extents of the weight seen from its output-channel axis (axis 1 of a transposed
///                        convolution): see channel_blocks()
/// @param bias            one value a channel, or empty for none
/// @param folded_weights  may be the weights themselves
/// @param folded_bias     may be the bias itself
/// @pre   check_fold_batch_norm()
///
/// Result   the bits of PyTorch's fuse_conv_bn_weights and fuse_linear_bn_weights
/// Memory   no scratch
/// Cost     O(n)
/// Source   PyTorch 2.6, torch/nn/utils/fusion.py; Jacob et al. 2018, section 3.2
constexpr void fold_batch_norm(const ChannelBlocks& weight, std::span<const float> weights, std::span<const float> bias,
                               const BatchNormTerms& norm, BatchNormOrder order, std::span<float> folded_weights,
                               std::span<float> folded_bias) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_fold_batch_norm(weight, weights, bias, norm, folded_weights, folded_bias).ok());
    const auto channels = static_cast<std::size_t>(weight.channels), inner = static_cast<std::size_t>(weight.inner);
    for (std::size_t c = 0; c < channels; ++c) {
        const float r = inverse_deviation(norm.variance[c], norm.epsilon);
        const float gamma = norm.gamma.empty() ? 1.0f : norm.gamma[c];
        const float factor = fmul(gamma, r);
        for (std::size_t o = 0; o < static_cast<std::size_t>(weight.outer); ++o)
            for (std::size_t i = 0; i < inner; ++i) {
                const std::size_t at = (o * channels + c) * inner + i;
                folded_weights[at] = fmul(weights[at], factor);
            }
        const float centred = fadd(bias.empty() ? 0.0f : bias[c], -norm.mean[c]);
        const float scaled = order == BatchNormOrder::conv ? fmul(fmul(centred, r), gamma) : fmul(centred, factor);
        folded_bias[c] = fadd(scaled, norm.beta.empty() ? 0.0f : norm.beta[c]);
    }
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_NORM_HPP
