// SPDX-License-Identifier: MIT
//
// Product of two quantized tensors, element by element, for every target. Layer: arith (ARITHMETIC section 4, mul).
#ifndef INTQ_ARITH_MUL_HPP
#define INTQ_ARITH_MUL_HPP

#include "intq/arith/elementwise.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Everything that a product of codes needs.
struct MulParams {
    std::int32_t zero_point[2] = {0, 0};
    ChannelWords words{};
    OutputCodes codes{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// y = requantize((x - zx)·(y - zy)) at s_acc = fmul(sx, sy), on lanes with the parameters set in every lane.
template <class Policy, class L> struct MulLanes {
    typename L::i32 zero_point[2];
    typename Policy::template Channel<L> channel;
    OutputLanes<L> out;

    constexpr MulLanes(const MulParams& p, const typename Policy::template Channel<L>& words) noexcept
        : zero_point{L::set(p.zero_point[0]), L::set(p.zero_point[1])}, channel(words), out(p.codes) {}
    constexpr typename L::i32 scaled(typename L::i32 x, typename L::i32 y) const noexcept {
        const auto product = L::mul(L::sub(x, zero_point[0]), L::sub(y, zero_point[1]));
        return Policy::template scaled<L>(product, channel, out);
    }
    constexpr typename L::i32 code(typename L::i32 x, typename L::i32 y) const noexcept {
        return out.code(scaled(x, y));
    }
};

/// Parameters of out = x · y for a target.
///
/// @return scale_out_of_range naming scale; accumulator_overflow where a product leaves 32 bits (int16 codes with a
///         zero point) or tflite's double rounding would shift it out
constexpr Result<MulParams> make_mul(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y, const CodesOf& out,
                                     const OutputCodes& codes) noexcept {
    MulParams params{};
    params.zero_point[0] = x.zero_point;
    params.zero_point[1] = y.zero_point;
    params.codes = codes;
    SumRange range{0, 0};
    for (const std::int64_t a : {lowest_code(x.dtype) - x.zero_point, highest_code(x.dtype) - x.zero_point})
        for (const std::int64_t b : {lowest_code(y.dtype) - y.zero_point, highest_code(y.dtype) - y.zero_point}) {
            range.lowest = a * b < range.lowest ? a * b : range.lowest;
            range.highest = a * b > range.highest ? a * b : range.highest;
        }
    if (!range.fits(32))
        return Status{StatusCode::accumulator_overflow, OpKind::mul, Field::zero_point, range.largest_magnitude(),
                      INT32_MAX};
    const Result<ChannelWords> words = make_requantize_words(policy, RequantizeSource::add_accumulator,
                                                             {x.scale, y.scale, out.scale}, x.dtype, out.dtype, range);
    if (!words) return words.status();
    params.words = *words;
    return params;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_MUL_HPP
