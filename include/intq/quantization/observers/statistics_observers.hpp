// SPDX-License-Identifier: MIT
//
// Observers that keep a histogram, from which every range method can be read after one pass. Layer: quantization
// (docs/workflow.md section 1).
#ifndef INTQ_QUANTIZATION_OBSERVERS_STATISTICS_OBSERVERS_HPP
#define INTQ_QUANTIZATION_OBSERVERS_STATISTICS_OBSERVERS_HPP

#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/observers/grid_histogram.hpp"
#include "intq/observers/mix.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/observers/observer.hpp"
#include "intq/quantization/observers/range_methods.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The result of a method on one channel's data.
struct RangeChoice {
    observers::ValueRange range{};
    double error = 0.0;  // mean squared error of fake-quantization, of the data, to within a bin
    observers::Cliff cliff{};
};

/// One pass over the data, any method afterwards.
///
///     StatisticsObserver statistics;                      // min_max, until told
///     for (const Tensor& batch : batches) statistics.observe(batch);
///     for (const RangeMethod method : all_range_methods) print(statistics.choose(method));
///     statistics.set_method(RangeMethod::kl);             // calculate_qparams() follows
///
/// The bits do not depend on the order of batches, shards, threads and processes; merge() joins two observers. Buffers:
/// histogram (channels, bins) of int64, grid (channels, 2) of int32, min_val, max_val.
///
/// Memory   8 bytes per bin and channel, independent of the amount of data; a batch takes 16 more bytes per bin and
///          task, for at most 16 tasks
class StatisticsObserver : public nn::Cloneable<StatisticsObserver, Observer> {
public:
    explicit StatisticsObserver(const ObserverOptions& options = {}, RangeMethod method = RangeMethod::min_max);

    std::string type_name() const override { return "StatisticsObserver"; }
    RangeMethod method() const noexcept { return method_; }
    void set_method(RangeMethod method) noexcept { method_ = method; }
    INTQ_INLINE Ranges ranges() const override;

    /// The results of a method on the data of this process, channel by channel; empty if none was seen, and for
    /// PyTorch's counts.
    std::vector<RangeChoice> choose(RangeMethod method) const;
    INTQ_INLINE void check_state() const override;

protected:
    INTQ_INLINE Status add(const RowView& x, int axis) override;
    INTQ_INLINE void merge_state(const Observer& other) override;

private:
    using Histograms = std::vector<observers::GridHistogram>;
    /// Histograms over the memory of `counts`, which is filled with `channels` of them if undefined.
    Histograms histograms(Tensor& counts, index_t channels) const;
    void store(const Tensor& counts, const Histograms& all);
    void synchronize(Tensor& counts, Histograms& all) const;

    RangeMethod method_;
};

namespace detail {

/// The options of a method's observer. Throws for those that it does not take.
ObserverOptions options_of(RangeMethod method, ObserverOptions options);

}  // namespace detail

/// The observer of a row of INTQ_RANGE_METHODS: a StatisticsObserver that has the row's name and its initial method.
template <RangeMethod Method> class MethodObserver : public nn::Cloneable<MethodObserver<Method>, StatisticsObserver> {
public:
    explicit MethodObserver(const ObserverOptions& options = {})
        : nn::Cloneable<MethodObserver<Method>, StatisticsObserver>(detail::options_of(Method, options), Method) {}
    std::string type_name() const override { return detail::range_method_row(Method).observer; }
};

/// HistogramObserver: PyTorch's search for the range with the least squared error.
///
/// In horizon mode the search reads counts that do not depend on the order of the data. In torch mode it is PyTorch's
/// to the last bit: its counts (the buffer histogram, of float32) depend on the order of the batches and cannot be
/// merged.
template <>
class MethodObserver<RangeMethod::histogram>
    : public nn::Cloneable<MethodObserver<RangeMethod::histogram>, StatisticsObserver> {
public:
    explicit MethodObserver(const ObserverOptions& options = {});
    std::string type_name() const override { return "HistogramObserver"; }
    INTQ_INLINE Ranges ranges() const override;
    INTQ_INLINE void check_state() const override;

protected:
    INTQ_INLINE Status add(const RowView& x, int axis) override;
    INTQ_INLINE void merge_state(const Observer& other) override;

private:
    bool is_torch() const noexcept { return options().compatibility == Compatibility::torch; }
};

// PercentileObserver, MSEObserver and the others of the table.
#define INTQ_DETAIL_METHOD(name, observer, ...) using observer = MethodObserver<RangeMethod::name>;
INTQ_RANGE_METHODS(INTQ_DETAIL_METHOD)
#undef INTQ_DETAIL_METHOD

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <utility>

#    include "intq/arith/ieee.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/streaming/check_finite.hpp"
#    include "intq/kernels/streaming/histogram.hpp"
#    include "intq/observers/histogram_search.hpp"
#    include "intq/observers/quantization_error.hpp"
#    include "intq/observers/torch_histogram.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE StatisticsObserver::StatisticsObserver(const ObserverOptions& options, RangeMethod method)
    : Cloneable(options), method_(method) {
    detail::check_range_options(options);
    add_buffer("histogram", Tensor());
    add_buffer("grid", Tensor());
}

namespace detail {

INTQ_INLINE ObserverOptions options_of(RangeMethod method, ObserverOptions options) {
    const RangeMethodRow& row = range_method_row(method);
    if (options.bins < row.fewest_bins)
        throw Error(std::string(row.observer) + ": at least " + std::to_string(row.fewest_bins) +
                    " bins are needed, given " + std::to_string(options.bins));
    return row.channels == RangeMethodRow::Channels::per_tensor ? per_tensor(std::move(options)) : options;
}

}  // namespace detail

INTQ_INLINE MethodObserver<RangeMethod::histogram>::MethodObserver(const ObserverOptions& options)
    : Cloneable(detail::options_of(RangeMethod::histogram, options), RangeMethod::histogram) {
    if (is_torch() && options.is_sync_quantize)
        throw Error("HistogramObserver: PyTorch's histogram cannot be synchronized; use horizon compatibility");
}

INTQ_INLINE void HistogramObserver::merge_state(const Observer& other) {
    if (is_torch())
        throw Error("HistogramObserver: the order of the batches matters to PyTorch's histogram; it cannot be merged");
    StatisticsObserver::merge_state(other);
}

INTQ_INLINE StatisticsObserver::Histograms StatisticsObserver::histograms(Tensor& counts, index_t channels) const {
    const bool fresh = !counts.defined();
    if (fresh) counts = Tensor::zeros(Shape(channels, options().bins), DType::int64);
    const auto memory = counts.flat<std::int64_t>();
    const auto bins = static_cast<std::size_t>(counts.extent(1));
    Histograms result;
    for (std::size_t c = 0; c < static_cast<std::size_t>(counts.extent(0)); ++c) {
        const auto part = memory.subspan(c * bins, bins);
        if (fresh) {
            result.emplace_back(part);
            continue;
        }
        observers::GridHistogramState state;
        const auto grid = tensor("grid").flat<std::int32_t>();
        state.grid = {grid[2 * c], grid[2 * c + 1]};
        state.range = {tensor("min_val").flat<float>()[c], tensor("max_val").flat<float>()[c]};
        state.total = observers::GridHistogram::total_of(part);
        // The buffers may come from a file.
        throw_if_failed(observers::GridHistogram::check_state(part, state), type_name());
        result.emplace_back(part, state);
    }
    return result;
}

INTQ_INLINE void StatisticsObserver::check_state() const {
    Observer::check_state();
    const index_t channels = tensor("min_val").size();
    check_buffer("histogram", DType::int64, Shape(channels, options().bins));
    check_buffer("grid", DType::int32, Shape(channels, 2));
    Tensor counts = tensor("histogram");
    if (counts.defined()) histograms(counts, channels);
}

INTQ_INLINE void StatisticsObserver::store(const Tensor& counts, const Histograms& all) {
    const auto channels = static_cast<index_t>(all.size());
    Tensor grid = Tensor::empty(Shape(channels, 2), DType::int32);
    Ranges ranges;
    for (std::size_t c = 0; c < all.size(); ++c) {
        grid.flat<std::int32_t>()[2 * c] = all[c].state().grid.exponent;
        grid.flat<std::int32_t>()[2 * c + 1] = all[c].state().grid.first;
        ranges.lowest.push_back(all[c].range().lowest);
        ranges.highest.push_back(all[c].range().highest);
    }
    tensor("histogram") = counts;
    tensor("grid") = grid;
    set_ranges(ranges);
}

INTQ_INLINE Status StatisticsObserver::add(const RowView& x, int axis) {
    const index_t channels = axis < 0 ? 1 : x.extent(axis);
    Tensor counts = tensor("histogram").clone();  // a failure leaves the old one
    Histograms all = histograms(counts, channels);
    const index_t outer = x.extent(0), inner = axis < 0 ? x.size() / outer : x.extent(2);
    std::vector<std::uint32_t> scratch(
        static_cast<std::size_t>(kernels::grid_histogram_scratch_size(outer * inner, counts.extent(1))));
    // The index of a bad element refers to the whole tensor, not to its channel.
    if (channels > 1)
        if (const Status status = kernels::check_finite(x); !status.ok()) return status;
    for (index_t c = 0; c < channels; ++c) {
        const TensorView<const float, 2, strided> channel(x.data() + c * inner, {outer, inner}, {channels * inner, 1});
        const Status status = all[static_cast<std::size_t>(c)].update(channel, scratch);
        if (!status.ok()) return status;
    }
    store(counts, all);
    return {};
}

INTQ_INLINE void StatisticsObserver::merge_state(const Observer& other) {
    const auto& more = static_cast<const StatisticsObserver&>(other);
    Tensor counts = tensor("histogram").clone(), theirs = more.tensor("histogram");
    Histograms added = more.histograms(theirs, 0);
    Histograms all = histograms(counts, static_cast<index_t>(added.size()));
    for (std::size_t c = 0; c < all.size(); ++c) throw_if_failed(all[c].merge(added[c]), type_name() + "::merge");
    store(counts, all);
}

/// All processes widen to one range, so they share one grid; then counts are summed.
INTQ_INLINE void StatisticsObserver::synchronize(Tensor& counts, Histograms& all) const {
    Ranges ranges = synchronized(own_ranges());
    if (all.empty()) all = histograms(counts, static_cast<index_t>(ranges.lowest.size()));
    for (std::size_t c = 0; c < all.size(); ++c) all[c].widen({ranges.lowest[c], ranges.highest[c]});
    if (all.empty()) return;  // no process saw data
    const auto values = counts.flat<std::int64_t>();
    options().reduction->sum(values);
    const auto bins = static_cast<std::size_t>(counts.extent(1));
    for (std::size_t c = 0; c < all.size(); ++c) {
        observers::GridHistogramState state = all[c].state();
        const auto part = values.subspan(c * bins, bins);
        state.total = observers::GridHistogram::total_of(part);
        throw_if_failed(observers::GridHistogram::check_state(part, state), type_name());
        all[c] = observers::GridHistogram(part, state);
    }
}

INTQ_INLINE Observer::Ranges StatisticsObserver::ranges() const {
    if (method_ == RangeMethod::min_max) return Observer::ranges();
    Tensor counts = tensor("histogram").clone();
    Histograms all;
    if (counts.defined()) all = histograms(counts, 0);
    if (options().is_sync_quantize) synchronize(counts, all);
    Ranges result;
    for (const observers::GridHistogram& histogram : all) {
        const observers::ValueRange range = detail::range_of(method_, histogram, options(), type_name());
        result.lowest.push_back(range.lowest);
        result.highest.push_back(range.highest);
    }
    return result;
}

INTQ_INLINE std::vector<RangeChoice> StatisticsObserver::choose(RangeMethod method) const {
    std::vector<RangeChoice> result;
    Tensor counts = tensor("histogram");
    if (!counts.defined() || counts.dtype() != DType::int64) return result;
    for (const observers::GridHistogram& histogram : histograms(counts, 0)) {
        RangeChoice choice;
        choice.range = detail::range_of(method, histogram, options(), type_name());
        choice.error = value_or_throw(observers::quantization_error(histogram, choice.range, options().rule())) /
                       static_cast<double>(histogram.total());
        choice.cliff = value_or_throw(observers::find_cliff(histogram, choice.range, options().rule()));
        result.push_back(choice);
    }
    return result;
}

INTQ_INLINE Status HistogramObserver::add(const RowView& x, int axis) {
    if (!is_torch()) return StatisticsObserver::add(x, axis);
    const auto bins = static_cast<std::size_t>(options().bins);
    Tensor memory = tensor("histogram").clone();
    const bool fresh = !memory.defined();
    if (fresh) memory = Tensor::zeros(Shape(options().bins));
    const Ranges known = own_ranges();
    observers::TorchHistogram histogram =
        fresh ? observers::TorchHistogram(memory.flat<float>())
              : observers::TorchHistogram(memory.flat<float>(), {known.lowest[0], known.highest[0]});
    std::vector<std::int64_t> counts(bins + 1);
    std::vector<double> sums(bins);
    std::vector<std::uint32_t> scratch(
        static_cast<std::size_t>(kernels::histogram_scratch_size(x.size(), options().bins)));
    const Status status = histogram.update(x, counts, sums, scratch);
    // The width of the range, times the bins, overflows a float: no element is at fault.
    if (status.code == StatusCode::not_finite && status.given == 0 && arith::is_finite(*x.data()))
        throw Error("HistogramObserver: the range of the data is too wide for a histogram of " +
                    std::to_string(options().bins) + " bins; another observer, or horizon mode, takes it");
    if (!status.ok()) return status;
    tensor("histogram") = memory;
    set_ranges({{histogram.range().lowest}, {histogram.range().highest}});
    return {};
}

INTQ_INLINE void HistogramObserver::check_state() const {
    if (!is_torch()) return StatisticsObserver::check_state();
    Observer::check_state();
    check_buffer("histogram", DType::float32, Shape(options().bins));
    if (!tensor("histogram").defined()) return;
    double total = 0.0;
    for (const float count : tensor("histogram").flat<float>()) {
        if (!(count >= 0.0f)) throw Error("HistogramObserver: a count is negative or NaN");
        total += static_cast<double>(count);
    }
    if (!(total > 0.0) || !std::isfinite(total)) throw Error("HistogramObserver: there are no counts");
}

INTQ_INLINE Observer::Ranges HistogramObserver::ranges() const {
    if (!is_torch()) return StatisticsObserver::ranges();
    const Ranges known = own_ranges();
    if (known.lowest.empty()) return known;
    const auto counts = tensor("histogram").flat<float>();
    std::vector<float> running(counts.size());
    const observers::ValueRange found = observers::search_histogram({counts, known.lowest[0], known.highest[0]},
                                                                    detail::codes_of(options().dtype), running);
    // A range near the largest float has no width in floats, and PyTorch's search finds none.
    if (!arith::is_finite(found.lowest) || !arith::is_finite(found.highest)) return known;
    return {{found.lowest}, {found.highest}};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_observers)
#endif  // INTQ_QUANTIZATION_OBSERVERS_STATISTICS_OBSERVERS_HPP
