// SPDX-License-Identifier: MIT
//
// The table of range methods. A method reads a range from a histogram, and the table names an observer after it.
// Layer: quantization (docs/workflow.md section 1).
//
// A row is X(name, observer, channels, fewest_bins, range):
//
//     name         its RangeMethod, and its name in observer_table() and in the presets of qconfigs
//     observer     the name of its class, which statistics_observers.hpp makes
//     channels     per_channel if the class takes a ch_axis, else per_tensor
//     fewest_bins  that the class demands; 0 if any histogram will do
//     range        its formula, as an expression of `histogram` and `options`; the value is a ValueRange or a Result of
//                  one, and the memory that the formula needs is a detail::Scratch
//
// Formulas are in intq/observers/, and the definitions below include their headers. An option of a method is a field of
// ObserverOptions, and check_range_options() holds its bounds.
#ifndef INTQ_QUANTIZATION_OBSERVERS_RANGE_METHODS_HPP
#define INTQ_QUANTIZATION_OBSERVERS_RANGE_METHODS_HPP

#include <cstddef>
#include <cstdint>
#include <string>

#include "intq/core/shape.hpp"
#include "intq/observers/grid_histogram.hpp"
#include "intq/quantization/observers/observer.hpp"

// clang-format off
#define INTQ_RANGE_METHODS(X)                                                                                          \
    /* Leaves out the values of the largest magnitude: options.percentile of them stay. */                             \
    X(percentile, PercentileObserver, per_tensor, 0,                                                                   \
      observers::percentile_range(histogram, options.percentile / 100.0))                                              \
    /* PyTorch's search for the range of the least squared error. In torch mode the counts are PyTorch's, too. */      \
    X(histogram, HistogramObserver, per_tensor, 0,                                                                     \
      observers::search_range(histogram, detail::codes_of(options.dtype),                                              \
                              detail::Scratch<float>(2 * histogram.bins())))                                           \
    /* The range, shrunk in steps of one percent, of the least squared error. */                                       \
    X(mse, MSEObserver, per_channel, 0,                                                                                \
      observers::mse_range(histogram, options.rule(), options.mse))                                                    \
    /* The range whose quantized distribution diverges least (entropy calibration). */                                 \
    X(kl, KLObserver, per_tensor, 512,                                                                                 \
      observers::kl_range(histogram, options.rule(),                                                                   \
                          detail::Scratch<double>(observers::kl_scratch_size(histogram.bins()))))                      \
    /* Of options.mix_percentiles the one of the least squared error. */                                               \
    X(mix, MixObserver, per_tensor, 0,                                                                                 \
      observers::mix_range(histogram, options.rule(), options.mix_percentiles))                                        \
    /* The mean ± options.std_multiplier standard deviations, inside the extremes. */                                  \
    X(clip_std, ClipStdObserver, per_tensor, 0,                                                                        \
      observers::clip_std_range(histogram, options.std_multiplier))
// clang-format on

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

#define INTQ_DETAIL_METHOD(name, ...) name,
/// How a range is read from statistics: the extremes, or a method of the table.
enum class RangeMethod : std::uint8_t { min_max, INTQ_RANGE_METHODS(INTQ_DETAIL_METHOD) };
#undef INTQ_DETAIL_METHOD

#define INTQ_DETAIL_METHOD(name, ...) RangeMethod::name,
inline constexpr RangeMethod all_range_methods[] = {RangeMethod::min_max, INTQ_RANGE_METHODS(INTQ_DETAIL_METHOD)};
#undef INTQ_DETAIL_METHOD

namespace detail {

/// A row of the table without its formula.
struct RangeMethodRow {
    enum class Channels : bool { per_tensor, per_channel };

    const char* name;
    const char* observer;
    Channels channels;
    index_t fewest_bins;
};

#define INTQ_DETAIL_METHOD(name, observer, channels, fewest_bins, ...) \
    {#name, #observer, RangeMethodRow::Channels::channels, fewest_bins},
/// In the order of RangeMethod. The first row names no observer, because MinMaxObserver keeps no histogram.
inline constexpr RangeMethodRow range_method_rows[] = {{"min_max", "", RangeMethodRow::Channels::per_channel, 0},
                                                       INTQ_RANGE_METHODS(INTQ_DETAIL_METHOD)};
#undef INTQ_DETAIL_METHOD

constexpr const RangeMethodRow& range_method_row(RangeMethod method) noexcept {
    return range_method_rows[static_cast<std::size_t>(method)];
}

/// Throws for options that some method cannot work with.
void check_range_options(const ObserverOptions& options);

/// The range that a method's formula reads from a histogram.
///
/// @param where  who asks, for messages
/// @pre histogram.seen(); check_range_options()
observers::ValueRange range_of(RangeMethod method, const observers::GridHistogram& histogram,
                               const ObserverOptions& options, const std::string& where);

}  // namespace detail

constexpr const char* name_of(RangeMethod method) noexcept { return detail::range_method_row(method).name; }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

#    include <cmath>
#    include <span>
#    include <vector>

#    include "intq/arith/histogram.hpp"
#    include "intq/arith/value_grid.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/io/error.hpp"
#    include "intq/observers/histogram_search.hpp"
#    include "intq/observers/kl.hpp"
#    include "intq/observers/mix.hpp"
#    include "intq/observers/mse.hpp"
#    include "intq/observers/percentile.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Memory of one call of a formula.
template <class T> class Scratch {
public:
    explicit Scratch(index_t size) : memory_(static_cast<std::size_t>(size)) {}
    operator std::span<T>() noexcept { return memory_; }

private:
    std::vector<T> memory_;
};

/// 2^(bits of the dtype): used by the search.
INTQ_INLINE std::int64_t codes_of(DType dtype) noexcept { return highest_code(dtype) - lowest_code(dtype) + 1; }

INTQ_INLINE void check_range_options(const ObserverOptions& options) {
    const auto expect = [](bool holds, const std::string& sentence) {
        if (!holds) throw Error("StatisticsObserver: " + sentence);
    };
    expect(options.bins >= arith::fewest_grid_bins && options.bins <= arith::most_histogram_bins,
           "bins must be in 16 … 2^23, given " + std::to_string(options.bins));
    expect(options.percentile >= 0.0 && options.percentile <= 100.0,
           "the percentile must be in 0 … 100, given " + std::to_string(options.percentile));
    expect(options.mse.candidates >= 1 && options.mse.candidates <= 100 && options.mse.stride >= 1,
           "of MSE there are 1 … 100 candidates and a stride of at least 1, given " +
               std::to_string(options.mse.candidates) + " and " + std::to_string(options.mse.stride));
    expect(options.std_multiplier > 0.0 && std::isfinite(options.std_multiplier),
           "std_multiplier must be positive and finite, given " + std::to_string(options.std_multiplier));
    expect(!options.mix_percentiles.empty(), "mix_percentiles must not be empty");
    for (const double part : options.mix_percentiles)
        expect(part >= 0.0 && part <= 1.0, "mix_percentiles must be in 0 … 1, given " + std::to_string(part));
}

INTQ_INLINE observers::ValueRange range_of(RangeMethod method, const observers::GridHistogram& histogram,
                                           const ObserverOptions& options, const std::string& where) {
    switch (method) {
#    define INTQ_DETAIL_METHOD(name, observer, channels, fewest_bins, ...) \
        case RangeMethod::name:                                            \
            return value_or_throw(Result<observers::ValueRange>(__VA_ARGS__), where);
        INTQ_RANGE_METHODS(INTQ_DETAIL_METHOD)
#    undef INTQ_DETAIL_METHOD
        case RangeMethod::min_max:
            break;
    }
    return histogram.range();
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_observers)
#endif  // INTQ_QUANTIZATION_OBSERVERS_RANGE_METHODS_HPP
