// SPDX-License-Identifier: MIT
//
// The product of two matrices of activation codes: its parameters, and the proof that its sum fits. Layer: arith
// (docs/arithmetic.md section 4).
#ifndef INTQ_ARITH_MATMUL_HPP
#define INTQ_ARITH_MATMUL_HPP

#include "intq/arith/codes.hpp"
#include "intq/arith/make_requantize.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Parameters of a matmul.
///
///     y[i, j] = requantize(sum_k (a[i, k] - zero_point[0])·(b[k, j] - zero_point[1]))
struct MatmulParams {
    std::int32_t zero_point[2] = {0, 0};
    ChannelWords words{};
    OutputCodes codes{};
};

/// The most products of one sum, whatever the zero points.
inline constexpr index_t matmul_most_products = index_t{1} << 30;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Bits of the sum of products of a type of codes, on every target.
constexpr int matmul_sum_bits(DType dtype) noexcept { return dtype == DType::int16 ? 64 : 32; }

/// Bits of the accumulator whose requantization a matmul takes: the sum's, or more where the target's layers have more.
constexpr int matmul_accumulator_bits(const PolicyRecord& policy, DType dtype) noexcept {
    return dtype == DType::int16 ? 64 : policy.accumulator_bits_int8;
}

/// The range of a sum of `inner` products.
/// @pre 1 <= inner <= matmul_most_products
constexpr SumRange matmul_range(DType dtype, const std::int32_t (&zero_point)[2], index_t inner) noexcept {
    const SumRange product = product_range({1.0f, zero_point[0], dtype}, {1.0f, zero_point[1], dtype});
    return {product.lowest * inner, product.highest * inner};
}

/// @param inner  products of one sum
/// @return ok; value_out_of_range of kernel: fewer than one or more than matmul_most_products; accumulator_overflow
///         where the sum can leave its bits, or the 64 bits that the target's rule takes
constexpr Status check_matmul_sum(const PolicyRecord& policy, DType dtype, const std::int32_t (&zero_point)[2],
                                  index_t inner) noexcept {
    constexpr OpKind op = OpKind::matmul;
    if (inner < 1 || inner > matmul_most_products)
        return {StatusCode::value_out_of_range, op, Field::kernel, inner, inner < 1 ? 1 : matmul_most_products};
    const SumRange sum = matmul_range(dtype, zero_point, inner);
    const bool is_wide = matmul_sum_bits(dtype) == 64;
    const std::int64_t most = !is_wide                                           ? INT32_MAX
                              : takes_multipliers(policy.requantize)             ? (std::int64_t{1} << 47) - 1
                              : policy.requantize == RequantizeRule::float_scale ? largest_wide_sum
                                                                                 : INT64_MAX;
    if (is_wide ? sum.largest_magnitude() <= most : sum.fits(32)) return {};
    return {StatusCode::accumulator_overflow, op, Field::kernel, sum.largest_magnitude(), most};
}

/// The parameters of a matmul. Whether the target has one of these types is a question to its constraint table.
///
/// @param a, b   the operands, of one type
/// @param inner  products of one sum
/// @param given  a multiplier and a shift of another engine in place of the scales'; null: the scales are read
/// @return the parameters; the errors of check_codes() and check_result(); dtype_mismatch of second_input; the errors
///         of check_matmul_sum(), make_requantize_words() and given_multiplier_words()
constexpr Result<MatmulParams> make_matmul(const PolicyRecord& policy, const CodesOf& a, const CodesOf& b,
                                           const CodesOf& out, const OutputCodes& codes, index_t inner,
                                           const QuantizedMultiplier* given = nullptr) noexcept {
    constexpr OpKind op = OpKind::matmul;
    if (const Status status = check_codes(policy, a, op, Field::input); !status) return status;
    if (const Status status = check_codes(policy, b, op, Field::second_input); !status) return status;
    if (const Status status = check_result(policy, out, codes, op); !status) return status;
    if (a.dtype != b.dtype)
        return Status{StatusCode::dtype_mismatch, op, Field::second_input, static_cast<std::int64_t>(b.dtype),
                      static_cast<std::int64_t>(a.dtype)};
    MatmulParams params{};
    params.zero_point[0] = a.zero_point;
    params.zero_point[1] = b.zero_point;
    params.codes = codes;
    if (const Status status = check_matmul_sum(policy, a.dtype, params.zero_point, inner); !status) return status;
    const SumRange sum = matmul_range(a.dtype, params.zero_point, inner);
    const int bits = matmul_accumulator_bits(policy, a.dtype);
    // In float32 for the tflite family too, as LiteRT multiplies the scales of BATCH_MATMUL.
    const float s_acc = fmul(a.scale, b.scale);
    if (!is_positive_normal(s_acc)) return Status{StatusCode::scale_out_of_range, op, Field::scale_ratio, -1, 0};
    const Result<ChannelWords> words = given != nullptr
                                           ? given_multiplier_words(policy, *given, bits, sum)
                                           : make_requantize_words(policy, RequantizeSource::gemm_accumulator,
                                                                   {s_acc, 1.0f, out.scale}, bits, out.dtype, sum);
    if (!words) return words.status().in(op);
    params.words = *words;
    return params;
}

/// Checks parameters that may say anything.
///
/// @return ok; value_out_of_range of zero_point and quant_range; the errors of check_matmul_sum(); corrupt of scale
constexpr Status check_matmul_params(const PolicyRecord& policy, const MatmulParams& params, DType dtype,
                                     index_t inner) noexcept {
    constexpr OpKind op = OpKind::matmul;
    for (const std::int32_t zero_point : params.zero_point)
        if (const Status status = check_zero_point(policy, zero_point, dtype, op); !status) return status;
    if (const Status status = check_output_codes(policy, params.codes, dtype, op); !status) return status;
    if (const Status status = check_matmul_sum(policy, dtype, params.zero_point, inner); !status) return status;
    if (are_words(policy.requantize, params.words, matmul_accumulator_bits(policy, dtype))) return {};
    return {StatusCode::corrupt, op, Field::scale, 0, 0};
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_MATMUL_HPP
