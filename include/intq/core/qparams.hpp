// SPDX-License-Identifier: MIT
//
// QParams: how integer codes stand for real numbers. Layer: core (docs/design.md section 3).
#ifndef INTQ_CORE_QPARAMS_HPP
#define INTQ_CORE_QPARAMS_HPP

#include <cstdint>
#include <span>

#include "intq/core/dtype.hpp"
#include "intq/core/status.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Scale and zero point of a tensor, per tensor or per channel; owns nothing.
///
///     real = (code - zero_point[c]) · scale[c]
///
/// A per-tensor pair is stored inline; per-channel values are spans of the caller's memory. An empty span of
/// zero points means symmetric: all are 0.
///
/// Only reads the caller's memory; any number of threads may share one.
class QParams {
public:
    INTQ_ALWAYS_INLINE constexpr QParams() = default;

    static INTQ_ALWAYS_INLINE constexpr QParams per_tensor(float scale, std::int32_t zero_point, DType dtype) noexcept {
        return per_tensor(scale, zero_point, lowest_code(dtype), highest_code(dtype));
    }
    static INTQ_ALWAYS_INLINE constexpr QParams per_tensor(float scale, std::int32_t zero_point, std::int64_t quant_min,
                                                           std::int64_t quant_max) noexcept {
        QParams result;
        result.scale_ = scale;
        result.zero_point_ = zero_point;
        result.quant_min_ = quant_min;
        result.quant_max_ = quant_max;
        return result;
    }
    /// @param zero_points  as many as scales, or none
    /// @param axis         counted from the front; check_qparams() refuses a negative one, because the rank of the
    ///                     tensor is not known here
    static INTQ_ALWAYS_INLINE constexpr QParams per_channel(std::span<const float> scales,
                                                            std::span<const std::int32_t> zero_points, int axis,
                                                            std::int64_t quant_min,
                                                            std::int64_t quant_max) INTQ_NOEXCEPT {
        INTQ_ASSERT(zero_points.empty() || zero_points.size() == scales.size());
        QParams result;
        result.scales_ = scales;
        result.zero_points_ = zero_points;
        result.axis_ = axis;
        result.is_per_channel_ = true;
        result.quant_min_ = quant_min;
        result.quant_max_ = quant_max;
        return result;
    }

    INTQ_ALWAYS_INLINE constexpr bool is_per_channel() const noexcept { return is_per_channel_; }
    /// -1 per tensor.
    INTQ_ALWAYS_INLINE constexpr int axis() const noexcept { return axis_; }
    /// Number of scales: 1 per tensor.
    INTQ_ALWAYS_INLINE constexpr index_t count() const noexcept {
        return is_per_channel() ? static_cast<index_t>(scales_.size()) : 1;
    }
    INTQ_ALWAYS_INLINE constexpr float scale(index_t channel = 0) const INTQ_NOEXCEPT {
        INTQ_ASSERT(!is_per_channel() || (channel >= 0 && channel < count()));
        return is_per_channel() ? scales_[static_cast<std::size_t>(channel)] : scale_;
    }
    INTQ_ALWAYS_INLINE constexpr std::int32_t zero_point(index_t channel = 0) const INTQ_NOEXCEPT {
        if (!is_per_channel()) return zero_point_;
        INTQ_ASSERT(channel >= 0 && channel < count());
        return zero_points_.empty() ? 0 : zero_points_[static_cast<std::size_t>(channel)];
    }
    /// All scales; none per tensor.
    INTQ_ALWAYS_INLINE constexpr std::span<const float> channel_scales() const noexcept { return scales_; }
    INTQ_ALWAYS_INLINE constexpr std::int64_t quant_min() const noexcept { return quant_min_; }
    INTQ_ALWAYS_INLINE constexpr std::int64_t quant_max() const noexcept { return quant_max_; }
    /// Number of zero points: as many as scales, or 0.
    INTQ_ALWAYS_INLINE constexpr index_t zero_point_count() const noexcept {
        return is_per_channel() ? static_cast<index_t>(zero_points_.size()) : 1;
    }
    INTQ_ALWAYS_INLINE constexpr bool is_symmetric() const noexcept {
        if (!is_per_channel()) return zero_point_ == 0;
        for (std::int32_t zero_point : zero_points_)
            if (zero_point != 0) return false;
        return true;
    }

private:
    std::span<const float> scales_{};
    std::span<const std::int32_t> zero_points_{};
    float scale_ = 1.0f;
    std::int32_t zero_point_ = 0;
    int axis_ = -1;
    bool is_per_channel_ = false;
    std::int64_t quant_min_ = INT8_MIN;
    std::int64_t quant_max_ = INT8_MAX;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

/// Whether a real number can be a scale: from 2^-100 to 2^126.
///
/// Some programs flush denormal numbers to zero. Below that range a denormal x would have a code other than 0; above it
/// the reciprocal of the scale would be denormal.
constexpr bool is_scale(float value) noexcept { return value >= 0x1p-100f && value <= 0x1p126f; }

/// @param owner    whose scale it is
/// @param channel  -1 for the scale of a whole tensor
/// @return ok; not_finite of scale for NaN and infinities, scale_out_of_range for other numbers that are not scales
constexpr Status check_scale(float scale, OpKind op, Field owner = Field::none, index_t channel = -1) noexcept {
    if (is_scale(scale)) return {};
    const bool is_number = scale - scale == 0.0f;
    return {is_number ? StatusCode::scale_out_of_range : StatusCode::not_finite, op, Field::scale, channel, 0, owner};
}

/// Checks that `qparams` can be used with codes of `dtype`.
///
/// @param channels  extent of the channel axis; ignored per tensor
/// @return ok; value_out_of_range of axis for a negative one; quant_range when quant_min <= 0 <= quant_max does not
///         hold or does not fit the dtype; the errors of check_scale(); zero_point outside the range; shape_mismatch of
///         scale when there are not as many as channels, and of zero_point when there are some, but not as many as
///         scales
constexpr Status check_qparams(const QParams& qparams, DType dtype, index_t channels,
                               OpKind op = OpKind::none) noexcept {
    if (qparams.is_per_channel() && qparams.axis() < 0)
        return {StatusCode::value_out_of_range, op, Field::axis, qparams.axis(), 0};
    if (qparams.quant_min() < lowest_code(dtype) || qparams.quant_min() > 0 ||
        qparams.quant_min() >= qparams.quant_max())
        return {StatusCode::value_out_of_range, op, Field::quant_range, qparams.quant_min(), lowest_code(dtype)};
    if (qparams.quant_max() > highest_code(dtype) || qparams.quant_max() < 0)
        return {StatusCode::value_out_of_range, op, Field::quant_range, qparams.quant_max(), highest_code(dtype)};
    if (qparams.is_per_channel() && qparams.count() != channels)
        return {StatusCode::shape_mismatch, op, Field::scale, qparams.count(), channels};
    if (const index_t zero_points = qparams.zero_point_count(); zero_points != 0 && zero_points != qparams.count())
        return {StatusCode::shape_mismatch, op, Field::zero_point, zero_points, qparams.count()};
    for (index_t channel = 0; channel < qparams.count(); ++channel) {
        const index_t named = qparams.is_per_channel() ? channel : -1;
        if (const Status status = check_scale(qparams.scale(channel), op, Field::none, named); !status) return status;
        const std::int64_t zero_point = qparams.zero_point(channel);
        if (zero_point < qparams.quant_min() || zero_point > qparams.quant_max())
            return {StatusCode::value_out_of_range, op, Field::zero_point, zero_point,
                    zero_point < qparams.quant_min() ? qparams.quant_min() : qparams.quant_max()};
    }
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_QPARAMS_HPP
