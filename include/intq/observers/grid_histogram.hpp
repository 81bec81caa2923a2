// SPDX-License-Identifier: MIT
//
// GridHistogram: one pass over the data from which every range method reads its range. Layer: observers
// (WORKFLOW section 1).
#ifndef INTQ_OBSERVERS_GRID_HISTOGRAM_HPP
#define INTQ_OBSERVERS_GRID_HISTOGRAM_HPP

#include "intq/kernels/streaming/histogram.hpp"
#include "intq/observers/min_max.hpp"

namespace intq::observers {
inline namespace INTQ_ABI {

/// A range of real values.
struct ValueRange {
    float lowest = 0.0f;
    float highest = 0.0f;
    friend constexpr bool operator==(const ValueRange&, const ValueRange&) = default;
};

/// Everything about a GridHistogram but its counts.
struct GridHistogramState {
    arith::ValueGrid grid{};
    ValueRange range{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};  // exact
    std::int64_t total = 0;  // number of values; 0: no data was seen
    friend constexpr bool operator==(const GridHistogramState&, const GridHistogramState&) = default;
};

/// Counts of all data in equal bins whose width, a power of two, grows with the range of the data; and the exact
/// extremes. Copies share the memory.
///
///     std::int64_t memory[2048];
///     GridHistogram histogram(memory);
///     if (const Status status = histogram.update(x, scratch); !status.ok()) …
///     const ValueRange range = percentile_range(histogram, 0.9999);
///
/// More than half of the bins lie in the range of the data, unless that has fewer different floats. A growing width
/// joins whole bins (arith::GridBins), and the width depends on the extremes alone: batches, shards, threads and
/// processes give the same bits in any order.
///
/// Memory   8 bytes a bin of the caller, independent of the amount of data
class GridHistogram {
public:
    /// @param memory  one count a bin, which must outlive the histogram
    /// @pre memory.size() >= arith::fewest_grid_bins
    explicit GridHistogram(std::span<std::int64_t> memory) INTQ_NOEXCEPT : memory_(memory) {
        INTQ_ASSERT(bins() >= arith::fewest_grid_bins);
        reset();
    }
    /// Goes on where another one stopped: the memory holds its counts.
    /// @pre check() accepts both
    GridHistogram(std::span<std::int64_t> memory, const GridHistogramState& state) INTQ_NOEXCEPT : memory_(memory),
                                                                                                   state_(state) {
        INTQ_ASSERT(check(memory, state).ok());
    }

    /// Whether counts and state, from a file or another process, are those of a histogram.
    ///
    /// @return ok; not_finite or value_out_of_range of input (the range); corrupt of tensor (grid or counts)
    static Status check(std::span<const std::int64_t> counts, const GridHistogramState& state) noexcept;

    index_t bins() const noexcept { return static_cast<index_t>(memory_.size()); }
    std::span<const std::int64_t> counts() const noexcept { return memory_; }
    const GridHistogramState& state() const noexcept { return state_; }
    bool seen() const noexcept { return state_.total != 0; }
    /// Extremes of the data. @pre seen()
    const ValueRange& range() const noexcept { return state_.range; }
    std::int64_t total() const noexcept { return state_.total; }
    /// Width of a bin.
    double width() const noexcept { return arith::power_of_two(state_.grid.exponent); }
    /// Bins up to that of the highest value; the others are 0.
    index_t used() const noexcept {
        return seen() ? arith::grid_bin(range().highest, state_.grid.exponent) - state_.grid.first + 1 : 0;
    }

    /// The part of a bin that lies in the range of the data.
    struct Interval {
        double from, to;
    };
    Interval interval(index_t bin) const noexcept {
        const double k = static_cast<double>(state_.grid.first + bin);
        const double low = static_cast<double>(range().lowest), high = static_cast<double>(range().highest);
        const double from = k * width(), to = (k + 1.0) * width();  // products by a power of two are exact
        return {from < low ? low : from, to > high ? high : to};
    }

    void reset() noexcept {
        for (std::int64_t& count : memory_) count = 0;
        state_ = {};
    }

    /// Adds a batch; an empty one is skipped.
    ///
    /// @param x        any layout, fewer than 2^31 elements
    /// @param scratch  kernels::grid_histogram_scratch_size(x.size(), bins()) words
    /// @return ok; not_finite of input with the row-major number of the first NaN or infinity, and then the state is
    ///         as before
    template <class Backend = simd::default_backend, class X, int Rank, class LayoutTag, class ExtentsType>
    Status update(const TensorView<X, Rank, LayoutTag, ExtentsType>& x, std::span<std::uint32_t> scratch,
                  const Executor& executor = serial) INTQ_NOEXCEPT {
        if (x.empty()) return {};
        float memory[range_memory_size(1)];
        MinMaxRange batch(memory);
        if (const Status status = batch.update<Backend>(x); !status.ok()) return status;
        widen({batch.lowest()[0], batch.highest()[0]});
        kernels::grid_histogram<Backend>(x, state_.grid, memory_, scratch, executor);
        state_.total += x.size();
        return {};
    }

    /// Adds what another histogram saw: shards merged in any order equal one pass over all of the data.
    ///
    /// @return ok; shape_mismatch of channels where the bins differ in number, and then the state is as before
    Status merge(const GridHistogram& other) noexcept {
        if (other.bins() != bins())
            return {StatusCode::shape_mismatch, OpKind::observe, Field::channels, other.bins(), bins()};
        if (!other.seen()) return {};
        widen(other.range());
        const int shift = fold(other.state_.grid);
        for (index_t i = 0; i < other.bins(); ++i)
            count(((other.state_.grid.first + i) >> shift) - state_.grid.first) += other.memory_[index(i)];
        state_.total += other.total();
        return {};
    }

    /// Takes a range into account in which there is no value, as if another shard had seen one there: histograms that
    /// were widened to one range have one grid, and their counts can be added.
    /// @pre finite, lowest <= highest
    void widen(const ValueRange& more) noexcept;

private:
    static std::size_t index(index_t i) noexcept { return static_cast<std::size_t>(i); }
    /// Bins of another grid that join to one of this are 2^fold(). A bin's number fits 25 bits.
    int fold(const arith::ValueGrid& other) const noexcept {
        const int shift = state_.grid.exponent - other.exponent;
        return shift < 31 ? shift : 31;
    }
    /// A shard's last bins may lie beyond this one's, and hold nothing.
    std::int64_t& count(index_t i) noexcept { return memory_[index(i < bins() ? i : bins() - 1)]; }

    std::span<std::int64_t> memory_;
    GridHistogramState state_{};
};

// ---------------------------------------------------------------------------------------------------------------------

inline void GridHistogram::widen(const ValueRange& more) noexcept {
    const arith::ValueGrid former = state_.grid;
    ValueRange& range = state_.range;
    if (more.lowest < range.lowest) range.lowest = more.lowest;
    if (more.highest > range.highest) range.highest = more.highest;
    state_.grid = arith::grid_of_range(range.lowest, range.highest, bins());
    if (!seen() || state_.grid == former) return;
    // Joined bins lie below the old ones, so that the memory can be rewritten upwards; then the window moves.
    const int shift = fold(former);
    const std::int32_t origin = former.first >> shift;
    for (index_t i = 0; i < bins(); ++i) {
        const std::int64_t value = memory_[index(i)];
        memory_[index(i)] = 0;
        memory_[index(((former.first + i) >> shift) - origin)] += value;
    }
    const index_t up = origin - state_.grid.first;
    if (up == 0) return;
    for (index_t i = bins(); i-- > 0;) memory_[index(i)] = i >= up ? memory_[index(i - up)] : 0;
}

inline Status GridHistogram::check(std::span<const std::int64_t> counts, const GridHistogramState& state) noexcept {
    const Status corrupt{StatusCode::corrupt, OpKind::observe, Field::tensor, 0, 0};
    const auto bins = static_cast<index_t>(counts.size());
    if (bins < arith::fewest_grid_bins) return corrupt;
    std::int64_t total = 0;
    for (const std::int64_t count : counts)
        if (count < 0 || __builtin_add_overflow(total, count, &total)) return corrupt;
    if (total != state.total) return corrupt;
    if (total == 0) return state == GridHistogramState{} ? Status{} : corrupt;
    const auto& [lowest, highest] = state.range;
    if (!arith::is_finite(lowest) || !arith::is_finite(highest))
        return {StatusCode::not_finite, OpKind::observe, Field::input, 0, 0};
    if (lowest > highest) return {StatusCode::value_out_of_range, OpKind::observe, Field::input, 0, 0};
    if (!(state.grid == arith::grid_of_range(lowest, highest, bins))) return corrupt;
    const index_t used = arith::grid_bin(highest, state.grid.exponent) - state.grid.first + 1;
    if (counts[0] == 0 || counts[index(used - 1)] == 0) return corrupt;  // there the extremes are
    for (index_t i = used; i < bins; ++i)
        if (counts[index(i)] != 0) return corrupt;
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_GRID_HISTOGRAM_HPP
