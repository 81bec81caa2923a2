// SPDX-License-Identifier: MIT
//
// Codes of one tensor with their scale and zero point, and the one check of them, called by every function that makes
// an operator's parameters. Layer: arith (docs/arithmetic.md section 4).
#ifndef INTQ_ARITH_CODES_HPP
#define INTQ_ARITH_CODES_HPP

#include "intq/arith/accumulator_bound.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/qparams.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// An operand or the result of an operator on codes.
struct CodesOf {
    float scale = 1.0f;
    std::int32_t zero_point = 0;
    DType dtype = DType::int8;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Whether operators take codes of a type.
constexpr bool is_code_type(DType dtype) noexcept { return dtype == DType::int8 || dtype == DType::int16; }

/// @return ok; value_out_of_range of zero_point: no code of the type, or not 0 where the target takes none
constexpr Status check_zero_point(const PolicyRecord& policy, std::int64_t zero_point, DType dtype,
                                  OpKind op) noexcept {
    const std::int64_t lowest = policy.zero_points ? lowest_code(dtype) : 0;
    const std::int64_t highest = policy.zero_points ? highest_code(dtype) : 0;
    if (zero_point >= lowest && zero_point <= highest) return {};
    return {StatusCode::value_out_of_range, op, Field::zero_point, zero_point, zero_point < lowest ? lowest : highest};
}

/// Checks an operand, or a result, of an operator on codes.
///
/// @param field  which one it is
/// @return ok; dtype_mismatch of `field` for another type than int8 and int16; the errors of check_scale() and
///         check_zero_point(), naming `field` as the owner
constexpr Status check_codes(const PolicyRecord& policy, const CodesOf& codes, OpKind op, Field field) noexcept {
    if (!is_code_type(codes.dtype))
        return {StatusCode::dtype_mismatch, op, field, static_cast<std::int64_t>(codes.dtype),
                static_cast<std::int64_t>(DType::int8)};
    if (const Status status = check_scale(codes.scale, op, field); !status) return status;
    return check_zero_point(policy, codes.zero_point, codes.dtype, op).of(field);
}

/// Checks zero point and clamp of an output.
///
/// @return ok; value_out_of_range of quant_range: bounds that cross or are not codes of the type; the errors of
///         check_zero_point()
constexpr Status check_output_codes(const PolicyRecord& policy, const OutputCodes& codes, DType dtype,
                                    OpKind op) noexcept {
    if (codes.lowest < lowest_code(dtype))
        return {
            StatusCode::value_out_of_range, op, Field::quant_range, codes.lowest, lowest_code(dtype), Field::output};
    if (codes.highest > highest_code(dtype))
        return {
            StatusCode::value_out_of_range, op, Field::quant_range, codes.highest, highest_code(dtype), Field::output};
    if (codes.lowest > codes.highest)
        return {StatusCode::value_out_of_range, op, Field::quant_range, codes.lowest, codes.highest, Field::output};
    return check_zero_point(policy, codes.zero_point, dtype, op).of(Field::output);
}

/// Checks a result: its codes, and that the clamp is one of them.
///
/// @return the errors of check_codes() and check_output_codes(); value_out_of_range of zero_point where the two differ
constexpr Status check_result(const PolicyRecord& policy, const CodesOf& out, const OutputCodes& codes,
                              OpKind op) noexcept {
    if (const Status status = check_codes(policy, out, op, Field::output); !status) return status;
    if (const Status status = check_output_codes(policy, codes, out.dtype, op); !status) return status;
    if (codes.zero_point == out.zero_point) return {};
    return {StatusCode::value_out_of_range, op, Field::zero_point, codes.zero_point, out.zero_point, Field::output};
}

/// The range of the product of two codes, less their zero points.
constexpr SumRange product_range(const CodesOf& x, const CodesOf& y) noexcept {
    SumRange range{0, 0};
    for (const std::int64_t a : {lowest_code(x.dtype) - x.zero_point, highest_code(x.dtype) - x.zero_point})
        for (const std::int64_t b : {lowest_code(y.dtype) - y.zero_point, highest_code(y.dtype) - y.zero_point}) {
            range.lowest = a * b < range.lowest ? a * b : range.lowest;
            range.highest = a * b > range.highest ? a * b : range.highest;
        }
    return range;
}

/// Whether binary32 holds factor·code for the difference of any two codes, so that no sum of two such terms is NaN.
constexpr bool is_code_factor(float factor) noexcept { return is_finite(fmul(factor, 65536.0f)); }

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_CODES_HPP
