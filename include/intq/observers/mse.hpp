// SPDX-License-Identifier: MIT
//
// The range, among shrunk ones, of the least squared error. Layer: observers (docs/workflow.md section 1).
#ifndef INTQ_OBSERVERS_MSE_HPP
#define INTQ_OBSERVERS_MSE_HPP

#include "intq/arith/quantize.hpp"
#include "intq/observers/quantization_error.hpp"

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Which candidates are tried.
struct MseOptions {
    int candidates = 95;  // in [1, 100]
    int stride = 1;       // in percent; every stride-th candidate is tried
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_ABI {

/// The range of the data, shrunk to where fake-quantization errs least.
///
///     candidate i = (1 - i/100) · range,  i = 0, stride, 2·stride, … < candidates
///
/// @pre histogram.seen(); arith::check_range_rule(); the options are within their bounds
/// @return the candidate of the least quantization_error(), of equal ones the wider; its errors
///
/// Result   the same bits for any order of the data
/// Cost     O(bins · candidates)
/// Source   docs/workflow.md section 1
inline Result<ValueRange> mse_range(const GridHistogram& histogram, const arith::RangeRule& rule,
                                    const MseOptions& options = {}) INTQ_NOEXCEPT {
    INTQ_ASSERT(histogram.seen() && options.candidates >= 1 && options.candidates <= 100 && options.stride >= 1);
    const index_t steps = (options.candidates + options.stride - 1) / options.stride;
    return detail::least_error(histogram, rule, steps, [&](index_t i) {
        const auto percent = static_cast<double>(100 - i * options.stride);
        const auto shrunk = [&](float x) {
            return static_cast<float>(arith::dmul(static_cast<double>(x), percent) / 100.0);
        };
        return ValueRange{shrunk(histogram.range().lowest), shrunk(histogram.range().highest)};
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_MSE_HPP
