// SPDX-License-Identifier: MIT
//
// Observers that keep a histogram, from which every range method can be read after one pass. Layer: quantization
// (docs/workflow.md section 1).
//
// Long because all of these observers are one histogram, from which each reads its range by another method.
#ifndef INTQ_QUANTIZATION_OBSERVERS_STATISTICS_OBSERVERS_HPP
#define INTQ_QUANTIZATION_OBSERVERS_STATISTICS_OBSERVERS_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/observers/grid_histogram.hpp"
#include "intq/observers/mix.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/observers/observer.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// How a range is read from statistics.
enum class RangeMethod : std::uint8_t { min_max, percentile, histogram, mse, kl, mix, clip_std };

inline constexpr RangeMethod all_range_methods[] = {
    RangeMethod::min_max, RangeMethod::percentile, RangeMethod::histogram, RangeMethod::mse,
    RangeMethod::kl,      RangeMethod::mix,        RangeMethod::clip_std};

constexpr const char* name_of(RangeMethod method) noexcept {
    constexpr const char* names[] = {"min_max", "percentile", "histogram", "mse", "kl", "mix", "clip_std"};
    return names[static_cast<std::size_t>(method)];
}

/// What a method makes of one channel's data.
struct RangeChoice {
    observers::ValueRange range{};
    double error = 0.0;  // mean squared error of fake-quantization, of the data to a bin
    observers::Cliff cliff{};
};

/// One pass over the data, any method afterwards.
///
///     StatisticsObserver statistics;                      // min_max, until told
///     for (const Tensor& batch : batches) statistics.observe(batch);
///     for (const RangeMethod method : all_range_methods) print(statistics.choose(method));
///     statistics.set_method(RangeMethod::kl);             // calculate_qparams() follows
///
/// Batches, shards, threads and processes give the same bits in any order; merge() joins two observers. Buffers:
/// histogram (channels, bins) of int64, grid (channels, 2) of int32, min_val, max_val.
///
/// Memory   8 bytes a bin and channel, independent of the amount of data; a batch takes 16 bytes a bin and task more,
///          of at most 16 tasks
class StatisticsObserver : public nn::Cloneable<StatisticsObserver, Observer> {
public:
    explicit StatisticsObserver(const ObserverOptions& options = {}, RangeMethod method = RangeMethod::min_max);

    std::string type_name() const override { return "StatisticsObserver"; }
    RangeMethod method() const noexcept { return method_; }
    void set_method(RangeMethod method) noexcept { method_ = method; }
    INTQ_INLINE Ranges ranges() const override;

    /// What a method makes of the data of this process, channel by channel; empty where none was seen, and for
    /// PyTorch's counts.
    std::vector<RangeChoice> choose(RangeMethod method) const;
    INTQ_INLINE void check_state() const override;

protected:
    INTQ_INLINE Status add(const RowView& x, int axis) override;
    INTQ_INLINE void merge_state(const Observer& other) override;

private:
    using Histograms = std::vector<observers::GridHistogram>;
    static const ObserverOptions& checked(const ObserverOptions& options);
    /// Histograms over the memory of `counts`, which gets `channels` of them when it is undefined.
    Histograms histograms(Tensor& counts, index_t channels) const;
    void store(const Tensor& counts, const Histograms& all);
    void synchronize(Tensor& counts, Histograms& all) const;
    observers::ValueRange range_of(const observers::GridHistogram& histogram, RangeMethod method) const;

    RangeMethod method_;
};

namespace detail {

/// A StatisticsObserver with a name and its method.
template <class Derived, RangeMethod Method> class NamedStatistics : public nn::Cloneable<Derived, StatisticsObserver> {
public:
    explicit NamedStatistics(const ObserverOptions& options = {})
        : nn::Cloneable<Derived, StatisticsObserver>(options, Method) {}
};

}  // namespace detail

/// Leaves out the values of the largest magnitude: options.percentile of them stay. Per tensor.
class PercentileObserver : public detail::NamedStatistics<PercentileObserver, RangeMethod::percentile> {
public:
    explicit PercentileObserver(const ObserverOptions& options = {});
    INTQ_INLINE std::string type_name() const override;
};

/// The range, shrunk in steps of one percent, of the least squared error. Per channel where a ch_axis is given.
class MSEObserver : public detail::NamedStatistics<MSEObserver, RangeMethod::mse> {
public:
    using NamedStatistics::NamedStatistics;
    INTQ_INLINE std::string type_name() const override;
};

/// The range whose quantized distribution diverges least (entropy calibration). Per tensor.
class KLObserver : public detail::NamedStatistics<KLObserver, RangeMethod::kl> {
public:
    explicit KLObserver(const ObserverOptions& options = {});
    INTQ_INLINE std::string type_name() const override;
};

/// Of options.mix_percentiles the one of the least squared error. Per tensor.
class MixObserver : public detail::NamedStatistics<MixObserver, RangeMethod::mix> {
public:
    explicit MixObserver(const ObserverOptions& options = {});
    INTQ_INLINE std::string type_name() const override;
};

/// mean ± options.std_multiplier standard deviations, inside the extremes. Per tensor.
class ClipStdObserver : public detail::NamedStatistics<ClipStdObserver, RangeMethod::clip_std> {
public:
    explicit ClipStdObserver(const ObserverOptions& options = {});
    INTQ_INLINE std::string type_name() const override;
};

/// PyTorch's search for the range of the least squared error. Per tensor.
///
/// In horizon mode over counts that do not depend on the order of the data. In torch mode it is PyTorch's to the last
/// bit: its counts (the buffer histogram, of float32) depend on the order of the batches, and cannot be merged.
class HistogramObserver : public detail::NamedStatistics<HistogramObserver, RangeMethod::histogram> {
public:
    explicit HistogramObserver(const ObserverOptions& options = {});
    std::string type_name() const override { return "HistogramObserver"; }
    INTQ_INLINE Ranges ranges() const override;
    INTQ_INLINE void check_state() const override;

protected:
    INTQ_INLINE Status add(const RowView& x, int axis) override;
    INTQ_INLINE void merge_state(const Observer& other) override;

private:
    bool is_torch() const noexcept { return options().compatibility == Compatibility::torch; }
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

#    include <cmath>

#    include "intq/arith/value_grid.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/streaming/check_finite.hpp"
#    include "intq/kernels/streaming/histogram.hpp"
#    include "intq/observers/histogram_search.hpp"
#    include "intq/observers/kl.hpp"
#    include "intq/observers/mse.hpp"
#    include "intq/observers/percentile.hpp"
#    include "intq/observers/torch_histogram.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE StatisticsObserver::StatisticsObserver(const ObserverOptions& options, RangeMethod method)
    : Cloneable(checked(options)), method_(method) {
    add_buffer("histogram", Tensor());
    add_buffer("grid", Tensor());
}

INTQ_INLINE PercentileObserver::PercentileObserver(const ObserverOptions& options)
    : NamedStatistics(detail::per_tensor(options)) {}

INTQ_INLINE std::string PercentileObserver::type_name() const { return "PercentileObserver"; }

INTQ_INLINE std::string MSEObserver::type_name() const { return "MSEObserver"; }

INTQ_INLINE KLObserver::KLObserver(const ObserverOptions& options) : NamedStatistics(detail::per_tensor(options)) {
    if (options.bins < 512)
        throw Error("KLObserver: at least 512 bins are needed, given " + std::to_string(options.bins));
}

INTQ_INLINE std::string KLObserver::type_name() const { return "KLObserver"; }

INTQ_INLINE MixObserver::MixObserver(const ObserverOptions& options) : NamedStatistics(detail::per_tensor(options)) {}

INTQ_INLINE std::string MixObserver::type_name() const { return "MixObserver"; }

INTQ_INLINE ClipStdObserver::ClipStdObserver(const ObserverOptions& options)
    : NamedStatistics(detail::per_tensor(options)) {}

INTQ_INLINE std::string ClipStdObserver::type_name() const { return "ClipStdObserver"; }

INTQ_INLINE HistogramObserver::HistogramObserver(const ObserverOptions& options)
    : NamedStatistics(detail::per_tensor(options)) {
    if (is_torch() && options.is_sync_quantize)
        throw Error("HistogramObserver: PyTorch's histogram cannot be synchronized; use horizon compatibility");
}

INTQ_INLINE void HistogramObserver::merge_state(const Observer& other) {
    if (is_torch())
        throw Error("HistogramObserver: the order of the batches matters to PyTorch's histogram; it cannot be merged");
    StatisticsObserver::merge_state(other);
}

namespace detail {

/// 2^(bits of the dtype): what the search counts with.
INTQ_INLINE std::int64_t codes_of(DType dtype) noexcept { return highest_code(dtype) - lowest_code(dtype) + 1; }

}  // namespace detail

INTQ_INLINE const ObserverOptions& StatisticsObserver::checked(const ObserverOptions& options) {
    const auto require = [](bool holds, const std::string& sentence) {
        if (!holds) throw Error("StatisticsObserver: " + sentence);
    };
    require(options.bins >= arith::fewest_grid_bins && options.bins <= arith::most_histogram_bins,
            "bins must be in 16 … 2^23, given " + std::to_string(options.bins));
    require(options.percentile >= 0.0 && options.percentile <= 100.0,
            "the percentile must be in 0 … 100, given " + std::to_string(options.percentile));
    require(options.mse.candidates >= 1 && options.mse.candidates <= 100 && options.mse.stride >= 1,
            "of MSE there are 1 … 100 candidates and a stride of at least 1, given " +
                std::to_string(options.mse.candidates) + " and " + std::to_string(options.mse.stride));
    require(options.std_multiplier > 0.0,
            "std_multiplier must be positive, given " + std::to_string(options.std_multiplier));
    require(!options.mix_percentiles.empty(), "mix_percentiles must not be empty");
    for (const double part : options.mix_percentiles)
        require(part >= 0.0 && part <= 1.0, "mix_percentiles must be in 0 … 1, given " + std::to_string(part));
    return options;
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
        for (const std::int64_t count : part) state.total += count;
        // The buffers may come from a file.
        throw_if_failed(observers::GridHistogram::check(part, state), type_name());
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
    Tensor counts = tensor("histogram").clone();  // what fails leaves the old one
    Histograms all = histograms(counts, channels);
    const index_t outer = x.extent(0), inner = axis < 0 ? x.size() / outer : x.extent(2);
    std::vector<std::uint32_t> scratch(
        static_cast<std::size_t>(kernels::grid_histogram_scratch_size(outer * inner, counts.extent(1))));
    // Which element is bad is said for the whole tensor, not for its channel.
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

/// All processes widen to one range, which gives them one grid; then the counts are sums.
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
        state.total = 0;
        for (const std::int64_t count : part) state.total += count;
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
        const observers::ValueRange range = range_of(histogram, method_);
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
        choice.range = range_of(histogram, method);
        choice.error = value_or_throw(observers::quantization_error(histogram, choice.range, options().rule())) /
                       static_cast<double>(histogram.total());
        choice.cliff = value_or_throw(observers::find_cliff(histogram, choice.range, options().rule()));
        result.push_back(choice);
    }
    return result;
}

INTQ_INLINE observers::ValueRange StatisticsObserver::range_of(const observers::GridHistogram& histogram,
                                                               RangeMethod method) const {
    const ObserverOptions& o = options();
    switch (method) {
        case RangeMethod::percentile:
            return observers::percentile_range(histogram, o.percentile / 100.0);
        case RangeMethod::histogram: {
            std::vector<float> scratch(static_cast<std::size_t>(2 * histogram.bins()));
            return observers::search_range(histogram, detail::codes_of(o.dtype), scratch);
        }
        case RangeMethod::mse:
            return value_or_throw(observers::mse_range(histogram, o.rule(), o.mse), type_name());
        case RangeMethod::kl: {
            std::vector<double> scratch(static_cast<std::size_t>(observers::kl_scratch_size(histogram.bins())));
            return observers::kl_range(histogram, o.rule(), scratch);
        }
        case RangeMethod::mix:
            return value_or_throw(observers::mix_range(histogram, o.rule(), o.mix_percentiles), type_name());
        case RangeMethod::clip_std:
            return observers::clip_std_range(histogram, o.std_multiplier);
        case RangeMethod::min_max:
            break;
    }
    return histogram.range();
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
    if (const Status status = histogram.update(x, counts, sums, scratch); !status.ok()) return status;
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
    return {{found.lowest}, {found.highest}};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_observers)
#endif  // INTQ_QUANTIZATION_OBSERVERS_STATISTICS_OBSERVERS_HPP
