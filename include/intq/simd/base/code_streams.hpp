// SPDX-License-Identifier: MIT
//
// Calls of loops over int8 codes that a backend may have as a whole: its lanes then have a function of that name.
// Layer: simd.
#ifndef INTQ_SIMD_BASE_CODE_STREAMS_HPP
#define INTQ_SIMD_BASE_CODE_STREAMS_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// The bounds of codes that one instruction of lanes with ShortRounding keeps, those of int8 and 0 … 127 of a zero
/// point of 0, where no negative number is a code, and all others.
enum class CodeRange : std::uint8_t { int8, positive, any };

/// The bounds of codes: those of int8 where the lowest is also the zero point; 0, which is the zero point, to a
/// highest: of these two no negative number is a code; those of int8; and any.
enum class Saturation : std::uint8_t { rectified, positive, int8, any };

/// L::add_codes<Saturation>: out[i] = the sum of a[i], whose factor is 1/2, and b[i], under double rounding.
///
///     x    = RDBPOT(SRDHM((b - zero_b)·2^left, multiplier_b), right_b) + a·half - zero_a·half,  half = 2^19
///     code = clamp(RDBPOT(SRDHM(x, multiplier), right) + zero_point)
///
/// L::add_int16_codes: the same of codes of int16, half = 2^14.
///
/// @pre right_b >= 1, right >= 2; of int16 right >= 1
struct CodeSums {
    const void* a;
    const void* b;
    void* out;
    std::int32_t minus_zero_b, left, multiplier_b, minus_right_b, half, minus_zero_a, multiplier, minus_right,
        zero_point;
    std::int32_t count;
    std::int32_t lowest, highest;
};

/// L::quantize_codes<Saturation>: out[i] = clamp(rhe(x[i]·inverse) + zero_point), NaN as 0.
///
/// L::quantize_three: the same of three planes, out[3·i + c], in groups of four pixels, and with the bounds of int8. It
/// writes a byte more.
///
/// @pre 2^-126 <= inverse <= 2^100: then it does not matter whether floats below 2^-126 are taken as zeros
struct CodeQuantizer {
    const float* x[3];
    std::int8_t* out;
    float inverse;
    std::int32_t zero_point;
    std::int32_t count;  // codes, or groups
    std::int32_t lowest, highest;
};

/// L::sum_cells: sums[c] = sum over rows and columns of from[row·row_step + column·column_step + c], c < 16.
///
/// @pre rows·columns <= 256
struct CodeCells {
    const std::int8_t* from;
    std::int32_t rows, columns, row_step, column_step;
    std::int16_t* sums;
};

/// L::divide_sums: out[c] = clamp(sums[c] / count, ties away from zero) for c < 16.
///
/// The quotient of 2·|sum| + count by 2·count is the upper word of a product with reciprocal = ceil(2^32 / 2·count),
/// because 2·|sum| + count < 2^17 and 2·count < 2^10.
///
/// L::scale_sums: out[c] = clamp(RDBPOT(SRDHM(sums[c] - offset, multiplier), -shift) + zero_point), where that is
/// short.
struct CodeAverages {
    const std::int16_t* sums;
    std::int8_t* out;
    std::int32_t count;
    std::uint32_t reciprocal;
    std::int32_t lowest, highest;
    std::int32_t minus_offset, multiplier, shift, zero_point;
};

/// L::scale_codes: out[i] = clamp(fl(((x[i] - zero_x)·2^left·multiplier + 2^14) / 2^15) + zero_point), and one more or
/// less where x[i] is a corrected code.
///
/// @pre 0 <= left <= 7
struct CodeScale {
    std::int16_t zero_x, multiplier, zero_point;
    std::int32_t left;
    std::int32_t lowest, highest;
    std::int8_t corrected[2], correction[2];
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_BASE_CODE_STREAMS_HPP
