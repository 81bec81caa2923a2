// SPDX-License-Identifier: MIT
//
// target::litert: LiteRT's reference kernels. Layer: arith (docs/arithmetic.md section 2.2).
#ifndef INTQ_ARITH_LITERT_HPP
#define INTQ_ARITH_LITERT_HPP

#include "intq/arith/tflite.hpp"

namespace intq::target {
inline namespace INTQ_CORE_ABI {

/// target::tflite with double rounding, but linear layers in binary64, and the ratio of scales of mul in float32.
///
///     linear  clamp(rhaz(double(acc)·(double(s_in)·double(s_w) / double(s_out))) + zero_point)
///     mul     r = double(fdiv(fmul(s_x, s_y), s_out)) -> quantize_multiplier(r)
///
/// Source   LiteRT 2.3, reference kernels
struct litert {
    static constexpr arith::PolicyRecord policy = [] {
        arith::PolicyRecord record = tflite<>::policy;
        record.name = "litert";
        record.linear_in_binary64 = true;
        record.mul_ratio_in_float32 = true;
        return record;
    }();
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::target

#endif  // INTQ_ARITH_LITERT_HPP
