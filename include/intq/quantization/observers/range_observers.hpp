// SPDX-License-Identifier: MIT
//
// Observers that keep a range: extremes, moving averages, fixed scales, fixed bounds. Layer: quantization
// (docs/workflow.md section 1).
#ifndef INTQ_QUANTIZATION_OBSERVERS_RANGE_OBSERVERS_HPP
#define INTQ_QUANTIZATION_OBSERVERS_RANGE_OBSERVERS_HPP

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "intq/io/error.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/observers/min_max.hpp"
#include "intq/observers/moving_average.hpp"
#include "intq/quantization/observers/observer.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// An observer based on one of the ranges of observers/.
template <class Derived> class RangeObserver : public nn::Cloneable<Derived, Observer> {
public:
    using nn::Cloneable<Derived, Observer>::Cloneable;

protected:
    template <class Range, class... Options> Status add_to(const Observer::RowView& x, int axis, Options... options) {
        Observer::Ranges ranges = this->own_ranges();
        const index_t channels = axis < 0 ? 1 : x.extent(axis);
        std::vector<float> memory(static_cast<std::size_t>(observers::range_memory_size(channels)));
        Range range(memory, axis, options...);
        if (!ranges.lowest.empty())
            if (const Status status = range.assign(ranges.lowest, ranges.highest); !status.ok()) return status;
        if (const Status status = range.update(x); !status.ok()) return status;
        ranges.lowest.assign(range.lowest().begin(), range.lowest().end());
        ranges.highest.assign(range.highest().begin(), range.highest().end());
        this->set_ranges(ranges);
        return {};
    }
};

template <class Derived> class MinMaxBase : public RangeObserver<Derived> {
public:
    using RangeObserver<Derived>::RangeObserver;

protected:
    Status add(const Observer::RowView& x, int axis) override {
        return this->template add_to<observers::MinMaxRange>(x, axis);
    }
    void merge_state(const Observer& other) override {
        Observer::Ranges all = this->own_ranges();
        const auto lowest = other.tensor("min_val").flat<float>(), highest = other.tensor("max_val").flat<float>();
        if (all.lowest.empty()) all = {{lowest.begin(), lowest.end()}, {highest.begin(), highest.end()}};
        for (std::size_t c = 0; c < lowest.size(); ++c) {
            all.lowest[c] = (std::min)(all.lowest[c], lowest[c]);
            all.highest[c] = (std::max)(all.highest[c], highest[c]);
        }
        this->set_ranges(all);
    }
};

template <class Derived> class MovingAverageBase : public RangeObserver<Derived> {
public:
    using RangeObserver<Derived>::RangeObserver;

protected:
    Status add(const Observer::RowView& x, int axis) override {
        return this->template add_to<observers::MovingAverageRange>(x, axis, this->options().averaging_constant);
    }
    void merge_state(const Observer&) override {
        throw Error(this->type_name() + ": the order of the batches matters to a moving average; it cannot be merged");
    }
};

}  // namespace detail

/// Smallest and largest value of all data.
class MinMaxObserver : public detail::MinMaxBase<MinMaxObserver> {
public:
    explicit MinMaxObserver(const ObserverOptions& options = {});
    INTQ_INLINE std::string type_name() const override;
};

/// The same for each channel of ch_axis (0 unless given).
class PerChannelMinMaxObserver : public detail::MinMaxBase<PerChannelMinMaxObserver> {
public:
    explicit PerChannelMinMaxObserver(const ObserverOptions& options = {});
    INTQ_INLINE std::string type_name() const override;
};

/// Moving average of the batches' ranges; averaging_constant 0 freezes, 1 keeps the last batch.
class MovingAverageMinMaxObserver : public detail::MovingAverageBase<MovingAverageMinMaxObserver> {
public:
    explicit MovingAverageMinMaxObserver(const ObserverOptions& options = {});
    INTQ_INLINE std::string type_name() const override;
};

/// The same for each channel of ch_axis (0 unless given).
class MovingAveragePerChannelMinMaxObserver : public detail::MovingAverageBase<MovingAveragePerChannelMinMaxObserver> {
public:
    explicit MovingAveragePerChannelMinMaxObserver(const ObserverOptions& options = {});
    INTQ_INLINE std::string type_name() const override;
};

/// Smallest and largest value of all data, each clamped to [xmin, xmax]. Per channel if a ch_axis is given.
class ClipObserver : public detail::MinMaxBase<ClipObserver> {
public:
    explicit ClipObserver(const ObserverOptions& options);
    std::string type_name() const override { return "ClipObserver"; }
    INTQ_INLINE Ranges ranges() const override;
};

/// Always returns its fixed scale and zero point. NaN and infinity are refused nevertheless.
class FixedScaleObserver : public nn::Cloneable<FixedScaleObserver, Observer> {
public:
    explicit FixedScaleObserver(const ObserverOptions& options);
    std::string type_name() const override { return "FixedScaleObserver"; }
    bool seen() const override { return true; }
    OwnedQParams calculate_qparams() const override { return fixed(); }
    INTQ_INLINE std::string extra_repr() const override;

protected:
    Status add(const RowView& x, int) override { return kernels::check_finite(x); }
    void merge_state(const Observer&) override {}

private:
    OwnedQParams fixed() const;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

#    include <cmath>

#    include "intq/arith/quantize.hpp"
#    include "intq/kernels/streaming/check_finite.hpp"
#    include "intq/nn/model/repr.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE MinMaxObserver::MinMaxObserver(const ObserverOptions& options) : MinMaxBase(detail::per_tensor(options)) {}

INTQ_INLINE std::string MinMaxObserver::type_name() const { return "MinMaxObserver"; }

INTQ_INLINE PerChannelMinMaxObserver::PerChannelMinMaxObserver(const ObserverOptions& options)
    : MinMaxBase(detail::per_channel(options)) {}

INTQ_INLINE std::string PerChannelMinMaxObserver::type_name() const { return "PerChannelMinMaxObserver"; }

INTQ_INLINE MovingAverageMinMaxObserver::MovingAverageMinMaxObserver(const ObserverOptions& options)
    : MovingAverageBase(detail::per_tensor(options)) {}

INTQ_INLINE std::string MovingAverageMinMaxObserver::type_name() const { return "MovingAverageMinMaxObserver"; }

INTQ_INLINE MovingAveragePerChannelMinMaxObserver::MovingAveragePerChannelMinMaxObserver(const ObserverOptions& options)
    : MovingAverageBase(detail::per_channel(options)) {}

INTQ_INLINE std::string MovingAveragePerChannelMinMaxObserver::type_name() const {
    return "MovingAveragePerChannelMinMaxObserver";
}

INTQ_INLINE ClipObserver::ClipObserver(const ObserverOptions& options) : MinMaxBase(options) {
    if (!std::isfinite(options.xmin) || !std::isfinite(options.xmax) || options.xmin > options.xmax)
        throw Error("ClipObserver: xmin and xmax must be finite and xmin <= xmax, given " +
                    std::to_string(options.xmin) + " and " + std::to_string(options.xmax));
}

INTQ_INLINE Observer::Ranges ClipObserver::ranges() const {
    Ranges clipped = Observer::ranges();
    for (auto* ends : {&clipped.lowest, &clipped.highest})
        for (float& end : *ends) end = std::clamp(end, options().xmin, options().xmax);
    return clipped;
}

INTQ_INLINE FixedScaleObserver::FixedScaleObserver(const ObserverOptions& options)
    : Cloneable(detail::per_tensor(options)) {
    throw_if_failed(check_qparams(fixed().view(), options.dtype, 1, OpKind::observe), "FixedScaleObserver");
    if (options.scheme == arith::QuantScheme::symmetric && options.zero_point != 0 &&
        options.zero_point != options.rule().symmetric_zero_point)
        throw Error("FixedScaleObserver: the zero point " + std::to_string(options.zero_point) +
                    " needs the affine scheme; the scheme is symmetric");
}

INTQ_INLINE std::string FixedScaleObserver::extra_repr() const {
    return "scale=" + nn::repr_of(options().scale) + ", zero_point=" + std::to_string(options().zero_point);
}

INTQ_INLINE OwnedQParams FixedScaleObserver::fixed() const {
    OwnedQParams result = OwnedQParams::per_tensor(options().scale, options().dtype);
    result.quant_min = options().lowest();
    result.quant_max = options().highest();
    if (options().zero_point != 0) result.zero_points = {options().zero_point};
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_observers)
#endif  // INTQ_QUANTIZATION_OBSERVERS_RANGE_OBSERVERS_HPP
