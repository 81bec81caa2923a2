// SPDX-License-Identifier: MIT
//
// TorchHistogram: PyTorch's HistogramObserver, whose counts depend on the order of the data. Layer: observers
// (docs/workflow.md section 1, torch compatibility).
#ifndef INTQ_OBSERVERS_TORCH_HISTOGRAM_HPP
#define INTQ_OBSERVERS_TORCH_HISTOGRAM_HPP

#include "intq/arith/ieee.hpp"
#include "intq/kernels/streaming/histogram.hpp"
#include "intq/observers/grid_histogram.hpp"
#include "intq/observers/histogram_search.hpp"
#include "intq/simd/select.hpp"

namespace intq::observers {
inline namespace INTQ_ABI {

namespace detail {

/// Parts of a bin that move on their own when the range grows.
inline constexpr index_t upsample_rate = 16;

/// Element i of `count` from `from` to `to`, both included.
///
/// Source   PyTorch 2.6, torch.linspace on CPU: one rounding, from the nearer end
constexpr float linspace(float from, float to, index_t count, index_t i) noexcept {
    const float step = arith::fdiv(arith::fadd(to, -from), static_cast<float>(count - 1));
    if (i < count / 2) return arith::ffma(step, static_cast<float>(i), from);
    return arith::ffma(-step, static_cast<float>(count - 1 - i), to);
}

/// Each part of a former bin goes to the new bin that holds its middle.
inline void split_bins(std::span<const float> memory, const ValueRange& range, const ValueRange& grown,
                       std::span<double> sums) noexcept {
    const auto bins = static_cast<index_t>(memory.size());
    const index_t parts = bins * upsample_rate;
    const float width = arith::fadd(range.highest, -range.lowest);
    const float half = arith::fmul(0.5f, arith::fdiv(width, static_cast<float>(parts)));
    index_t to = 0;
    for (index_t part = 0; part < parts; ++part) {
        const float middle = arith::fadd(linspace(range.lowest, range.highest, parts + 1, part), half);
        while (to + 1 < bins && linspace(grown.lowest, grown.highest, bins + 1, to + 1) <= middle) ++to;
        const float count = memory[static_cast<std::size_t>(part / upsample_rate)];
        sums[static_cast<std::size_t>(to)] += static_cast<double>(count) / static_cast<double>(upsample_rate);
    }
}

/// The former counts in the bins of the grown range.
inline void move_bins(std::span<const float> memory, const ValueRange& range, const ValueRange& grown,
                      const arith::HistogramRange& cut, float batch, std::span<double> sums) noexcept {
    if (grown == range) {
        for (std::size_t i = 0; i < memory.size(); ++i) sums[i] = static_cast<double>(memory[i]);
    } else if (range.lowest == range.highest) {
        // PyTorch assigns the one former value the weight of the new batch.
        const auto bins_of_value =
            arith::HistogramBins<arith::scalar_lanes>::make(cut, static_cast<index_t>(memory.size()));
        sums[static_cast<std::size_t>(bins_of_value.bin(range.lowest))] = static_cast<double>(batch);
    } else {
        split_bins(memory, range, grown, sums);
    }
}

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Histogram between the extremes of the data, whose bins are cut anew when the range grows.
///
/// The order of the batches matters, as in PyTorch: there is no merge. GridHistogram is the one that can be merged.
///
/// Result   the bits of PyTorch for batches of at most 2^24 elements; infinities are refused, where PyTorch drops them
/// Memory   bins floats of the caller, and scratch; independent of the amount of data
/// Source   PyTorch 2.6, HistogramObserver
class TorchHistogram {
public:
    /// @param memory  one count a bin, which must outlive the histogram
    explicit INTQ_ALWAYS_INLINE TorchHistogram(std::span<float> memory) noexcept : memory_(memory) { reset(); }
    /// Continues where another one stopped: the memory holds its counts.
    INTQ_ALWAYS_INLINE TorchHistogram(std::span<float> memory, const ValueRange& range) noexcept
        : memory_(memory), range_(range), seen_(true) {}

    INTQ_ALWAYS_INLINE index_t bins() const noexcept { return static_cast<index_t>(memory_.size()); }
    INTQ_ALWAYS_INLINE bool seen() const noexcept { return seen_; }
    INTQ_ALWAYS_INLINE const ValueRange& range() const noexcept { return range_; }
    INTQ_ALWAYS_INLINE std::span<const float> counts() const noexcept { return memory_; }

    INTQ_ALWAYS_INLINE void reset() noexcept {
        for (float& count : memory_) count = 0.0f;
        seen_ = false;
    }

    /// Adds a batch; an empty one is skipped.
    ///
    /// @param counts   (bins + 1), and sums (bins): scratch
    /// @param scratch  kernels::histogram_scratch_size(x.size(), bins()) words
    /// @return ok; not_finite of input with the row-major number of the first NaN or infinity, or the errors of
    ///         arith::check_histogram() for the grown range; then the state is as before
    template <class Backend = simd::default_backend, class X, int Rank, class LayoutTag, class ExtentsType>
    Status update(const TensorView<X, Rank, LayoutTag, ExtentsType>& x, std::span<std::int64_t> counts,
                  std::span<double> sums, std::span<std::uint32_t> scratch,
                  const Executor& executor = serial) INTQ_NOEXCEPT {
        if (x.empty()) return {};
        float memory[range_memory_size(1)];
        MinMaxRange batch(memory);
        if (const Status status = batch.update<Backend>(x); !status.ok()) return status;
        ValueRange grown{batch.lowest()[0], batch.highest()[0]};
        if (seen_ && range_.lowest < grown.lowest) grown.lowest = range_.lowest;
        if (seen_ && range_.highest > grown.highest) grown.highest = range_.highest;
        const arith::HistogramRange cut = arith::histogram_range(grown.lowest, grown.highest);
        if (const Status status = arith::check_histogram(cut, bins()); !status.ok()) return status;
        for (std::int64_t& count : counts) count = 0;
        kernels::histogram<Backend>(x, cut, counts, scratch, executor);
        for (double& sum : sums) sum = 0.0;
        if (seen_) detail::move_bins(memory_, range_, grown, cut, static_cast<float>(x.size()), sums);
        for (std::size_t i = 0; i < memory_.size(); ++i)
            memory_[i] = static_cast<float>(sums[i] + static_cast<double>(static_cast<float>(counts[i])));
        range_ = grown;
        seen_ = true;
        return {};
    }

private:
    std::span<float> memory_;
    ValueRange range_{};
    bool seen_ = false;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_TORCH_HISTOGRAM_HPP
