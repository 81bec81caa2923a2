// SPDX-License-Identifier: MIT
//
// histogram, grid_histogram: how many elements of a float tensor lie in each of many equal bins. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_HISTOGRAM_HPP
#define INTQ_KERNELS_STREAMING_HISTOGRAM_HPP

#include <span>

#include "intq/arith/histogram.hpp"
#include "intq/arith/value_grid.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// Tables of one task. Neighbours are often in the same bin: counted in one table, each count would wait until the
/// one before it is stored.
inline constexpr index_t histogram_tables = 4;

/// Elements of a task: enough to make its tables' clearing and adding small.
constexpr index_t histogram_step(index_t bins) noexcept {
    constexpr index_t most_tasks_at_once = index_t{1} << 17, elements_a_bin = 128;
    return bins * elements_a_bin < most_tasks_at_once ? most_tasks_at_once : bins * elements_a_bin;
}

/// Tasks, of at most 2^31 elements, that count at the same time, each into its own tables.
constexpr index_t histogram_tasks(index_t size, index_t bins) noexcept {
    constexpr index_t most = 16;
    return smaller(chunks_of(size, histogram_step(bins)), most);
}

/// @tparam Formula  bin(x), the place of a value's count
template <class L, class Formula> struct HistogramOp {
    Formula formula;
    std::uint32_t* tables;
    index_t stride;  // of the tables: one more than bins

    void run(index_t, index_t count, const float* x) const {
        constexpr index_t block = 64;
        alignas(64) std::int32_t bins[block];
        index_t first = 0;
        for (; first + block <= count; first += block) {
            find(x + first, block, bins);
            for (index_t i = 0; i < block; i += histogram_tables)
                for (index_t table = 0; table < histogram_tables; ++table) ++tables[table * stride + bins[i + table]];
        }
        find(x + first, count - first, bins);
        for (index_t i = 0; i < count - first; ++i) ++tables[bins[i]];
    }
    void rows(index_t, index_t channels, index_t rows, const float* x) const { run(0, channels * rows, x); }

private:
    INTQ_ALWAYS_INLINE void find(const float* x, index_t count, std::int32_t* bins) const {
        for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            store_codes<L>(bins + i, formula.bin(load_floats<L>(x + i, lanes)), lanes);
        });
    }
};

/// Counts a tensor into tables of scratch, and adds them to the counts.
template <class Backend, class View, class Formula>
void count_into_bins(const View& x, const Formula& formula, std::span<std::int64_t> counts,
                     std::span<std::uint32_t> scratch, const Executor& executor) {
    using Op = HistogramOp<simd::lanes<Backend>, Formula>;
    const auto stride = static_cast<index_t>(counts.size());
    const index_t size = x.size();
    const index_t tasks = x.is_contiguous() ? histogram_tasks(size, stride - 1) : 1;
    const index_t task_size = histogram_tables * stride;
    for (index_t i = 0; i < tasks * task_size; ++i) scratch[static_cast<std::size_t>(i)] = 0;
    if (x.is_contiguous()) {
        executor(tasks, [&](index_t task) {
            const index_t first = size * task / tasks, last = size * (task + 1) / tasks;
            Op{formula, scratch.data() + task * task_size, stride}.run(0, last - first, x.data() + first);
        });
    } else {
        walk_rows(Op{formula, scratch.data(), stride}, -1, serial, x);
    }
    for (index_t table = 0; table < tasks * histogram_tables; ++table)
        for (index_t bin = 0; bin < stride; ++bin)
            counts[static_cast<std::size_t>(bin)] += scratch[static_cast<std::size_t>(table * stride + bin)];
}

}  // namespace detail

/// uint32 words of scratch that histogram() needs for a tensor of `size` elements.
constexpr index_t histogram_scratch_size(index_t size, index_t bins) noexcept {
    const index_t tasks = detail::histogram_tasks(size, bins);
    return (tasks < 1 ? 1 : tasks) * detail::histogram_tables * (bins + 1);
}

/// The same for grid_histogram(), which has no count of values outside.
constexpr index_t grid_histogram_scratch_size(index_t size, index_t bins) noexcept {
    return histogram_scratch_size(size, bins - 1);
}

/// Counts a tensor into bins.
///
///     counts[b] += number of x[i] with bin(x[i]) = b,   bins = counts.size() - 1
///
/// The last count is of the values in no bin: below, above, NaN. See arith::HistogramBins.
///
/// @param x        any layout, fewer than 2^31 elements
/// @param range    both ends belong to it
/// @param counts   (bins + 1); is added to
/// @param scratch  histogram_scratch_size() words
/// @pre   arith::check_histogram()
///
/// Result   exact; the same on every backend, layout and executor
/// Memory   scratch
/// Cost     O(n + bins)
/// Source   PyTorch's torch.histc
template <class Backend = simd::default_backend, class X, int Rank, class XLayout, class XExtents>
void histogram(const TensorView<X, Rank, XLayout, XExtents>& x, const arith::HistogramRange& range,
               std::span<std::int64_t> counts, std::span<std::uint32_t> scratch,
               const Executor& executor = serial) INTQ_NOEXCEPT {
    const index_t bins = static_cast<index_t>(counts.size()) - 1;
    INTQ_ASSERT(arith::check_histogram(range, bins).ok() && x.size() <= INT32_MAX);
    INTQ_ASSERT(static_cast<index_t>(scratch.size()) >= histogram_scratch_size(x.size(), bins));
    const TensorView<const float, Rank, XLayout, XExtents> input = x;
    const auto formula = arith::HistogramBins<simd::lanes<Backend>>::make(range, bins);
    detail::count_into_bins<Backend>(input, formula, counts, scratch, executor);
}

/// Counts a tensor into the bins of a grid.
///
///     counts[b] += number of x[i] with bin(x[i]) = grid.first + b
///
/// @param x        any layout, fewer than 2^31 elements
/// @param counts   (bins); is added to
/// @param scratch  grid_histogram_scratch_size(x.size(), bins) words
/// @pre   every element lies in one of the bins; arith::GridBins' precondition
///
/// Result   exact; the same on every backend, layout and executor
/// Memory   scratch
/// Cost     O(n + bins)
template <class Backend = simd::default_backend, class X, int Rank, class XLayout, class XExtents>
void grid_histogram(const TensorView<X, Rank, XLayout, XExtents>& x, const arith::ValueGrid& grid,
                    std::span<std::int64_t> counts, std::span<std::uint32_t> scratch,
                    const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(x.size() <= INT32_MAX);
    INTQ_ASSERT(static_cast<index_t>(scratch.size()) >=
                grid_histogram_scratch_size(x.size(), static_cast<index_t>(counts.size())));
    const TensorView<const float, Rank, XLayout, XExtents> input = x;
    const auto formula = arith::GridBins<simd::lanes<Backend>>::make(grid);
    detail::count_into_bins<Backend>(input, formula, counts, scratch, executor);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_HISTOGRAM_HPP
