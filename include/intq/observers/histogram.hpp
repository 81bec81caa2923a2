// SPDX-License-Identifier: MIT
//
// Counts of a histogram of one fixed range, on caller's memory. Layer: observers (docs/workflow.md section 1).
#ifndef INTQ_OBSERVERS_HISTOGRAM_HPP
#define INTQ_OBSERVERS_HISTOGRAM_HPP

#include "intq/arith/histogram.hpp"
#include "intq/kernels/streaming/histogram.hpp"
#include "intq/simd/select.hpp"

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Exact counts of the values seen, in equal bins; copies share the memory.
///
/// Integers: batches, threads and processes may be added in any order.
class HistogramCounts {
public:
    /// @param memory  bins + 1 counts, which must outlive the histogram
    /// @pre arith::check_histogram()
    INTQ_ALWAYS_INLINE HistogramCounts(std::span<std::int64_t> memory, const arith::HistogramRange& range) INTQ_NOEXCEPT
        : memory_(memory),
          range_(range) {
        INTQ_ASSERT(arith::check_histogram(range, bins()).ok());
        reset();
    }

    INTQ_ALWAYS_INLINE index_t bins() const noexcept { return static_cast<index_t>(memory_.size()) - 1; }
    INTQ_ALWAYS_INLINE const arith::HistogramRange& range() const noexcept { return range_; }
    /// One a bin.
    INTQ_ALWAYS_INLINE std::span<const std::int64_t> counts() const noexcept {
        return memory_.first(memory_.size() - 1);
    }
    /// Values that were in no bin: below, above, NaN.
    INTQ_ALWAYS_INLINE std::int64_t ignored() const noexcept { return memory_.back(); }
    /// Values in the bins.
    INTQ_ALWAYS_INLINE std::int64_t total() const noexcept {
        std::int64_t sum = 0;
        for (const std::int64_t count : counts()) sum += count;
        return sum;
    }

    INTQ_ALWAYS_INLINE void reset() noexcept {
        for (std::int64_t& count : memory_) count = 0;
    }

    /// Counts a batch; the arguments are kernels::histogram()'s.
    template <class Backend = simd::default_backend, class View>
    void update(const View& x, std::span<std::uint32_t> scratch, const Executor& executor = serial) INTQ_NOEXCEPT {
        kernels::histogram<Backend>(x, range_, memory_, scratch, executor);
    }

    /// Adds the counts of another part of the data.
    ///
    /// @return ok; shape_mismatch of channels where the bins differ in number; value_out_of_range of input where the
    ///         ranges differ: then nothing is added
    INTQ_ALWAYS_INLINE Status merge(const HistogramCounts& other) noexcept {
        if (other.bins() != bins())
            return {StatusCode::shape_mismatch, OpKind::observe, Field::channels, other.bins(), bins()};
        if (!(other.range_ == range_)) return {StatusCode::value_out_of_range, OpKind::observe, Field::input, 0, 0};
        for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] += other.memory_[i];
        return {};
    }

private:
    std::span<std::int64_t> memory_;
    arith::HistogramRange range_;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_HISTOGRAM_HPP
