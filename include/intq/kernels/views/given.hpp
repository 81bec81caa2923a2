// SPDX-License-Identifier: MIT
//
// Parameters of operators without weights, from an engine's multipliers and shifts. Layer: kernels
// (docs/kernels_in_your_engine.md).
//
// They are for the targets of the tflite family. Only zero point and type of `x`, `y`, `in` and `out` are read, not the
// scale. A positive shift is to the left. No multiplier is negative: make_given_sub() does the subtraction.
#ifndef INTQ_KERNELS_VIEWS_GIVEN_HPP
#define INTQ_KERNELS_VIEWS_GIVEN_HPP

#include <cstdint>
#include <type_traits>

#include "intq/arith/elementwise.hpp"
#include "intq/arith/fixed_point_softmax.hpp"
#include "intq/arith/matmul.hpp"
#include "intq/arith/pool.hpp"
#include "intq/kernels/streaming/code_bounds.hpp"
#include "intq/kernels/streaming/elementwise_call.hpp"
#include "intq/kernels/streaming/softmax_call.hpp"
#include "intq/kernels/views/pool.hpp"
#include "intq/kernels/views/softmax.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

constexpr arith::OutputCodes bounded_codes(const arith::CodesOf& out, const CodeBounds& bounds) noexcept {
    arith::OutputCodes codes{};
    codes.zero_point = out.zero_point;
    codes.lowest = bounds.lowest;
    codes.highest = bounds.highest;
    return codes;
}

/// The codes of a tensor with scale 1; its own scale is not read, so it may be invalid.
constexpr arith::CodesOf without_scale(const arith::CodesOf& of) noexcept { return {1.0f, of.zero_point, of.dtype}; }

}  // namespace detail

/// Parameters of requantize().
///
///     y = clamp(requantize(x - zp_in, M, shift) + zp_out)
///
/// @param bounds  quantized_activation_min and _max
/// @return the parameters; the errors of the make_requantize() that takes a policy
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<RequantizeParams> make_given_requantize(const arith::CodesOf& in, const arith::CodesOf& out,
                                                         const arith::QuantizedMultiplier& given,
                                                         const CodeBounds& bounds) noexcept {
    return make_requantize(TargetType::policy, detail::without_scale(in), detail::without_scale(out),
                           detail::bounded_codes(out, bounds), &given);
}

/// Parameters of add() for a sum.
///
///     x' = requantize((x - zp_x) << left_shift, M_x, shift_x),  y' likewise
///     z  = clamp(requantize(x' + y', M_z, shift_z) + zp_z)
///
/// @return the parameters; the errors of arith::make_given_add()
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::AddParams> make_given_add(const arith::CodesOf& x, const arith::CodesOf& y,
                                                  const arith::CodesOf& out, const arith::GivenAdd& given,
                                                  const CodeBounds& bounds) noexcept {
    return arith::make_given_add(TargetType::policy, detail::without_scale(x), detail::without_scale(y),
                                 detail::without_scale(out), detail::bounded_codes(out, bounds), given);
}

/// Parameters of add() for a difference: x' - y'.
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::AddParams> make_given_sub(const arith::CodesOf& x, const arith::CodesOf& y,
                                                  const arith::CodesOf& out, const arith::GivenAdd& given,
                                                  const CodeBounds& bounds) noexcept {
    return arith::make_given_sub(TargetType::policy, detail::without_scale(x), detail::without_scale(y),
                                 detail::without_scale(out), detail::bounded_codes(out, bounds), given);
}

/// Parameters of mul().
///
///     z = clamp(requantize((x - zp_x)·(y - zp_y), M, shift) + zp_z)
///
/// @return the parameters; the errors of arith::make_mul()
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::MulParams> make_given_mul(const arith::CodesOf& x, const arith::CodesOf& y,
                                                  const arith::CodesOf& out, const arith::QuantizedMultiplier& given,
                                                  const CodeBounds& bounds) noexcept {
    return arith::make_mul(TargetType::policy, detail::without_scale(x), detail::without_scale(y),
                           detail::without_scale(out), detail::bounded_codes(out, bounds), &given);
}

/// Parameters of matmul().
///
///     z = clamp(requantize(sum_k (a - zp_a)·(b - zp_b), M, shift) + zp_z)
///
/// @param inner  products of one sum
/// @return the parameters; the errors of arith::make_matmul()
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::MatmulParams> make_given_matmul(const arith::CodesOf& a, const arith::CodesOf& b,
                                                        const arith::CodesOf& out, index_t inner,
                                                        const arith::QuantizedMultiplier& given,
                                                        const CodeBounds& bounds) noexcept {
    return arith::make_matmul(TargetType::policy, detail::without_scale(a), detail::without_scale(b),
                              detail::without_scale(out), detail::bounded_codes(out, bounds), inner, &given);
}

/// Parameters of avg_pool2d() for TFLite's MEAN over the cells of a window without padding.
///
///     y = clamp(requantize(sum(x - zp_in), M, shift) + zp_out)
///
/// @param given  of the sum. arith::divide_multiplier() makes it from the multiplier of s_in/s_out, as LiteRT does
/// @return the parameters; the errors of check_window() and arith::make_mean(); unsupported for padding
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::AverageParams> make_given_mean(const Window2d& window, const arith::CodesOf& in,
                                                       const arith::CodesOf& out,
                                                       const arith::QuantizedMultiplier& given,
                                                       const CodeBounds& bounds) noexcept {
    if (const Status status = check_window(window, OpKind::avg_pool2d); !status) return status;
    if (!(window.padding == Padding2d{}))
        return Status{StatusCode::unsupported, OpKind::avg_pool2d, Field::padding, 1, 0};
    return arith::make_mean(TargetType::policy, detail::without_scale(in), detail::without_scale(out),
                            detail::bounded_codes(out, bounds), window.kernel.height * window.kernel.width, &given);
}

/// The numbers of softmax(): tables for int8 codes, the multiplier for int16 codes.
///
/// @tparam Code  int8_t, or int16_t, which does not use diff_min
/// @return the numbers; int8: the errors of arith::make_fixed_point_softmax_tables(); int16: value_out_of_range for a
///         multiplier below 0, and for a shift outside -31 … 15
///
/// Memory   1,536 bytes for int8 codes
template <class TargetType, class Code = std::int8_t>
requires arith::Target<TargetType>
constexpr Result<SoftmaxNumbers<Code>> make_given_softmax(const arith::GivenSoftmax& given) noexcept {
    if constexpr (std::is_same_v<Code, std::int16_t>) {
        static_assert(TargetType::policy.softmax == arith::SoftmaxRule::fixed_point,
                      "make_given_softmax<Target, int16_t>: a target of TFLite's softmax is needed");
        if (is_softmax_multiplier(given.input)) return given.input;
        const auto [multiplier, shift] = given.input;
        if (multiplier < 0)
            return Status{StatusCode::value_out_of_range, OpKind::softmax, Field::multiplier, multiplier, 0};
        return Status{StatusCode::value_out_of_range, OpKind::softmax, Field::shift, shift, shift < 0 ? -31 : 15};
    } else {
        return arith::make_fixed_point_softmax_tables(TargetType::policy, given);
    }
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_GIVEN_HPP
