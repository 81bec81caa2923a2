// SPDX-License-Identifier: MIT
//
// OwnedQParams: QParams that own their scales, as a tensor of the hosted half carries them. Layer: tensor
// (docs/design.md section 3).
#ifndef INTQ_TENSOR_OWNED_QPARAMS_HPP
#define INTQ_TENSOR_OWNED_QPARAMS_HPP

#include <cstdint>
#include <vector>

#include "intq/core/qparams.hpp"
#include "intq/io/error.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

/// Scales and zero points of a tensor, with the type and range of its codes.
///
///     real = (code - zero_points[c]) · scales[c]
///
/// A tensor may carry them in two ways. An integer tensor's elements are the codes. A float32 tensor's elements are
/// real numbers that lie on this grid (the output of a fake-quantizer), so that the next operator knows the scale.
struct OwnedQParams {
    std::vector<float> scales{1.0f};
    std::vector<std::int32_t> zero_points{};  // as many as scales; empty: all are 0
    int axis = -1;                            // channel axis; -1 per tensor
    std::int64_t quant_min = INT8_MIN;
    std::int64_t quant_max = INT8_MAX;
    DType dtype = DType::int8;

    /// Symmetric, with the whole range of `dtype`.
    static OwnedQParams per_tensor(float scale, DType dtype);
    static OwnedQParams per_channel(std::vector<float> scales, int axis, DType dtype);
    /// A copy of parameters owned elsewhere, for codes of `dtype`.
    static OwnedQParams of(const QParams& qparams, DType dtype);

    bool is_per_channel() const noexcept { return axis >= 0; }

    /// The one scale of a per-tensor pair. Throws where the scales are per channel.
    float scale() const;

    /// The same without owning; valid as long as this object lives unchanged.
    QParams view() const;

    friend bool operator==(const OwnedQParams&, const OwnedQParams&) = default;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(tensor)

#    include <utility>

namespace intq {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE OwnedQParams OwnedQParams::per_tensor(float scale, DType dtype) {
    return {{scale}, {}, -1, lowest_code(dtype), highest_code(dtype), dtype};
}

INTQ_INLINE OwnedQParams OwnedQParams::per_channel(std::vector<float> scales, int axis, DType dtype) {
    return {std::move(scales), {}, axis, lowest_code(dtype), highest_code(dtype), dtype};
}

INTQ_INLINE OwnedQParams OwnedQParams::of(const QParams& qparams, DType dtype) {
    OwnedQParams result{{}, {}, qparams.axis(), qparams.quant_min(), qparams.quant_max(), dtype};
    for (index_t i = 0; i < qparams.count(); ++i) {
        result.scales.push_back(qparams.scale(i));
        result.zero_points.push_back(qparams.zero_point(i));
    }
    return result;
}

INTQ_INLINE float OwnedQParams::scale() const {
    if (scales.size() != 1)
        throw Error("the scale was asked for, but there are " + std::to_string(scales.size()) +
                    " scales, one per channel");
    return scales[0];
}

INTQ_INLINE QParams OwnedQParams::view() const {
    if (is_per_channel()) return QParams::per_channel(scales, zero_points, axis, quant_min, quant_max);
    return QParams::per_tensor(scale(), zero_points.empty() ? 0 : zero_points[0], quant_min, quant_max);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_DEFINES(tensor)
#endif  // INTQ_TENSOR_OWNED_QPARAMS_HPP
