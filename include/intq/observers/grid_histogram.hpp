// SPDX-License-Identifier: MIT
//
// GridHistogram: one pass over the data, from which every range method derives its range. Layer: observers
// (docs/workflow.md section 1).
#ifndef INTQ_OBSERVERS_GRID_HISTOGRAM_HPP
#define INTQ_OBSERVERS_GRID_HISTOGRAM_HPP

#include "intq/arith/value_grid.hpp"
#include "intq/kernels/streaming/histogram.hpp"
#include "intq/observers/min_max.hpp"
#include "intq/simd/select.hpp"

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// A range of real values.
struct ValueRange {
    float lowest = 0.0f;
    float highest = 0.0f;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const ValueRange&, const ValueRange&) = default;
};

/// Everything about a GridHistogram but its counts.
struct GridHistogramState {
    arith::ValueGrid grid{};
    ValueRange range{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};  // exact
    std::int64_t total = 0;  // number of values; 0: no data was seen
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const GridHistogramState&, const GridHistogramState&) = default;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_ABI {
namespace detail {

constexpr std::size_t position(index_t i) noexcept { return static_cast<std::size_t>(i); }

/// Bins of one grid that join to one of a wider grid are 2^join_shift(). A bin's number fits 25 bits.
constexpr int join_shift(const arith::ValueGrid& grid, const arith::ValueGrid& wider) noexcept {
    const int shift = wider.exponent - grid.exponent;
    return shift < 31 ? shift : 31;
}

inline void widen_histogram(std::span<std::int64_t> memory, GridHistogramState& state,
                            const ValueRange& more) noexcept {
    const auto bins = static_cast<index_t>(memory.size());
    const arith::ValueGrid former = state.grid;
    ValueRange& range = state.range;
    if (more.lowest < range.lowest) range.lowest = more.lowest;
    if (more.highest > range.highest) range.highest = more.highest;
    state.grid = arith::grid_of_range(range.lowest, range.highest, bins);
    if (state.total == 0 || state.grid == former) return;
    // Joined bins lie below the old ones, so that the memory can be rewritten upwards; then the window moves.
    const int shift = join_shift(former, state.grid);
    const std::int32_t origin = former.first >> shift;
    for (index_t i = 0; i < bins; ++i) {
        const std::int64_t value = memory[position(i)];
        memory[position(i)] = 0;
        memory[position(((former.first + i) >> shift) - origin)] += value;
    }
    const index_t up = origin - state.grid.first;
    if (up == 0) return;
    for (index_t i = bins; i-- > 0;) memory[position(i)] = i >= up ? memory[position(i - up)] : 0;
}

inline Status merge_histograms(std::span<std::int64_t> memory, GridHistogramState& state,
                               std::span<const std::int64_t> more, const GridHistogramState& more_state) noexcept {
    const auto bins = static_cast<index_t>(memory.size()), more_bins = static_cast<index_t>(more.size());
    if (more_bins != bins) return {StatusCode::shape_mismatch, OpKind::observe, Field::channels, more_bins, bins};
    if (more_state.total == 0) return {};
    widen_histogram(memory, state, more_state.range);
    const int shift = join_shift(more_state.grid, state.grid);
    for (index_t i = 0; i < bins; ++i) {
        // A shard's last bins may lie beyond this one's, and hold nothing.
        const index_t to = ((more_state.grid.first + i) >> shift) - state.grid.first;
        memory[position(to < bins ? to : bins - 1)] += more[position(i)];
    }
    state.total += more_state.total;
    return {};
}

/// The sum of counts from a file or another process; -1 for counts that no histogram holds: a negative one, or a sum
/// beyond 2^53, up to which double is exact and room is left for more data.
inline std::int64_t checked_total(std::span<const std::int64_t> counts) noexcept {
    constexpr std::int64_t most = std::int64_t{1} << 53;
    std::int64_t total = 0;
    for (const std::int64_t count : counts) {
        if (count < 0 || count > most - total) return -1;
        total += count;
    }
    return total;
}

inline Status check_histogram(std::span<const std::int64_t> counts, const GridHistogramState& state) noexcept {
    const Status corrupt{StatusCode::corrupt, OpKind::observe, Field::tensor, 0, 0};
    const auto bins = static_cast<index_t>(counts.size());
    if (bins < arith::fewest_grid_bins) return corrupt;
    const std::int64_t total = checked_total(counts);
    if (total < 0 || total != state.total) return corrupt;
    if (total == 0) return state == GridHistogramState{} ? Status{} : corrupt;
    const auto& [lowest, highest] = state.range;
    if (!arith::is_finite(lowest) || !arith::is_finite(highest))
        return {StatusCode::not_finite, OpKind::observe, Field::input, 0, 0};
    if (lowest > highest) return {StatusCode::value_out_of_range, OpKind::observe, Field::input, 0, 0};
    if (!(state.grid == arith::grid_of_range(lowest, highest, bins))) return corrupt;
    const index_t used = arith::grid_bin(highest, state.grid.exponent) - state.grid.first + 1;
    if (counts[0] == 0 || counts[position(used - 1)] == 0) return corrupt;  // there the extremes are
    for (index_t i = used; i < bins; ++i)
        if (counts[position(i)] != 0) return corrupt;
    return {};
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Counts of all data in equal bins whose width, a power of two, grows with the range of the data; and the exact
/// extremes. Copies share the memory.
///
///     std::int64_t memory[2048];
///     GridHistogram histogram(memory);
///     if (const Status status = histogram.update(x, scratch); !status.ok()) …
///     const ValueRange range = percentile_range(histogram, 0.9999);
///
/// More than half of the bins lie in the range of the data, unless that has fewer different floats. A growing width
/// joins whole bins (arith::GridBins), and the width depends only on the extremes: batches, shards, threads and
/// processes yield the same bits in any order.
///
/// Memory   8 bytes a bin of the caller, independent of the amount of data
class GridHistogram {
public:
    /// @param memory  one count a bin, which must outlive the histogram
    /// @pre memory.size() >= arith::fewest_grid_bins
    explicit INTQ_ALWAYS_INLINE GridHistogram(std::span<std::int64_t> memory) INTQ_NOEXCEPT : memory_(memory) {
        INTQ_ASSERT(bins() >= arith::fewest_grid_bins);
        reset();
    }
    /// Continues where another one stopped: the memory holds its counts.
    /// @pre check() accepts both
    INTQ_ALWAYS_INLINE GridHistogram(std::span<std::int64_t> memory, const GridHistogramState& state) INTQ_NOEXCEPT
        : memory_(memory),
          state_(state) {
        INTQ_ASSERT(check_state(memory, state).ok());
    }

    /// Whether counts and state, from a file or another process, belong to a histogram.
    ///
    /// @return ok; not_finite or value_out_of_range of input (the range); corrupt of tensor (grid or counts)
    static INTQ_ALWAYS_INLINE Status check_state(std::span<const std::int64_t> counts,
                                                 const GridHistogramState& state) noexcept {
        return detail::check_histogram(counts, state);
    }

    /// The `total` of such counts, for their state; -1 for counts that check() refuses.
    static INTQ_ALWAYS_INLINE std::int64_t total_of(std::span<const std::int64_t> counts) noexcept {
        return detail::checked_total(counts);
    }

    INTQ_ALWAYS_INLINE index_t bins() const noexcept { return static_cast<index_t>(memory_.size()); }
    INTQ_ALWAYS_INLINE std::span<const std::int64_t> counts() const noexcept { return memory_; }
    INTQ_ALWAYS_INLINE const GridHistogramState& state() const noexcept { return state_; }
    INTQ_ALWAYS_INLINE bool seen() const noexcept { return state_.total != 0; }
    /// Extremes of the data. @pre seen()
    INTQ_ALWAYS_INLINE const ValueRange& range() const noexcept { return state_.range; }
    INTQ_ALWAYS_INLINE std::int64_t total() const noexcept { return state_.total; }
    /// Width of a bin.
    INTQ_ALWAYS_INLINE double width() const noexcept { return arith::power_of_two(state_.grid.exponent); }
    /// Bins up to the highest value's; the others are 0.
    INTQ_ALWAYS_INLINE index_t used() const noexcept {
        return seen() ? arith::grid_bin(range().highest, state_.grid.exponent) - state_.grid.first + 1 : 0;
    }

    /// The part of a bin that lies in the range of the data.
    struct Interval {
        double from, to;
    };
    INTQ_ALWAYS_INLINE Interval interval(index_t bin) const noexcept {
        const double k = static_cast<double>(state_.grid.first + bin);
        const double low = static_cast<double>(range().lowest), high = static_cast<double>(range().highest);
        const double from = k * width(), to = (k + 1.0) * width();  // products by a power of two are exact
        return {from < low ? low : from, to > high ? high : to};
    }

    INTQ_ALWAYS_INLINE void reset() noexcept {
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

    /// Adds the data of another histogram: shards merged in any order equal one pass over all of the data.
    ///
    /// @return ok; shape_mismatch of channels where the bins differ in number, and then the state is as before
    INTQ_ALWAYS_INLINE Status merge(const GridHistogram& other) noexcept {
        return detail::merge_histograms(memory_, state_, other.memory_, other.state_);
    }

    /// Takes a range without values into account, as if another shard had seen values there. Histograms widened to one
    /// range have one grid, so their counts can be added.
    /// @pre finite, lowest <= highest
    INTQ_ALWAYS_INLINE void widen(const ValueRange& more) noexcept { detail::widen_histogram(memory_, state_, more); }

private:
    std::span<std::int64_t> memory_;
    GridHistogramState state_{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_GRID_HISTOGRAM_HPP
