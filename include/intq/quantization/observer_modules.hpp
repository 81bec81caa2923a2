// SPDX-License-Identifier: MIT
//
// Observers as modules: the names that users of PyTorch know, over the ranges of observers/. Layer: quantization
// (WORKFLOW section 1).
#ifndef INTQ_QUANTIZATION_OBSERVER_MODULES_HPP
#define INTQ_QUANTIZATION_OBSERVER_MODULES_HPP

#include <functional>
#include <vector>

#include "intq/nn/module.hpp"
#include "intq/observers/min_max.hpp"
#include "intq/observers/moving_average.hpp"
#include "intq/quantization/tensor_kernels.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// What an observer makes qparams for.
struct ObserverOptions {
    DType dtype = DType::int8;
    std::int64_t quant_min = 0;  // both 0: the whole range of dtype
    std::int64_t quant_max = 0;
    int ch_axis = -1;  // per channel where it is not negative
    float averaging_constant = 0.01f;
    arith::QuantScheme scheme = arith::QuantScheme::symmetric;
    float eps = 0x1p-23f;

    std::int64_t lowest() const noexcept { return quant_min == 0 && quant_max == 0 ? lowest_code(dtype) : quant_min; }
    std::int64_t highest() const noexcept { return quant_min == 0 && quant_max == 0 ? highest_code(dtype) : quant_max; }
};

/// Range statistics of the tensors that pass through. forward observes and returns its input.
///
/// The state lies in the buffers min_val and max_val, so that clone and state dictionaries carry it. NaN and infinity
/// are an Error, and leave the state as it was; an empty tensor is skipped.
class Observer : public nn::Module {
public:
    explicit Observer(const ObserverOptions& options) : options_(options) {
        throw_if_failed(arith::check_range_rule(rule(), options.dtype), "Observer");
        add_buffer("min_val", nn::Tensor());
        add_buffer("max_val", nn::Tensor());
    }

    bool is_leaf() const override { return true; }
    nn::Value forward(nn::Arguments arguments) override {
        observe(arguments.tensor(0));
        return arguments[0];
    }

    void observe(const nn::Tensor& x);
    const ObserverOptions& options() const noexcept { return options_; }
    bool seen() const { return tensor("min_val").defined(); }
    /// Scales and zero points; scale 1 where no data was seen, as PyTorch's.
    nn::OwnedQParams calculate_qparams() const;
    void reset_min_max_vals() { tensor("min_val") = tensor("max_val") = nn::Tensor(); }

protected:
    using RowView = TensorView<const float, 3>;
    /// Ranges of all channels; empty when no data was seen.
    struct Ranges {
        std::vector<float> lowest, highest;
    };
    /// Adds a batch, whose channel axis is `axis`, to the ranges; nothing is changed unless all is well.
    virtual Status update(Ranges& ranges, int axis, const RowView& x) const = 0;

    /// update() of the subclasses, by the range class that each stands on.
    template <class Range, class... Options>
    static Status update_by(Ranges& ranges, int axis, const RowView& x, Options... options) {
        const index_t channels = axis < 0 ? 1 : x.extent(axis);
        std::vector<float> memory(static_cast<std::size_t>(observers::range_memory_size(channels)));
        Range range(memory, axis, options...);
        if (!ranges.lowest.empty())
            if (const Status status = range.assign(ranges.lowest, ranges.highest); !status.ok()) return status;
        if (const Status status = range.update(x); !status.ok()) return status;
        ranges.lowest.assign(range.lowest().begin(), range.lowest().end());
        ranges.highest.assign(range.highest().begin(), range.highest().end());
        return {};
    }

private:
    arith::RangeRule rule() const noexcept {
        const bool whole = options_.quant_min == 0 && options_.quant_max == 0;
        return {options_.lowest(), options_.highest(), options_.scheme,
                arith::torch_symmetric_zero_point(options_.dtype, options_.lowest(), options_.highest(), !whole),
                options_.eps};
    }

    ObserverOptions options_;
};

namespace detail {

/// The four observers are the two ranges, each with the number of channels that its name says.
template <class Derived> class MinMaxBase : public nn::Cloneable<Derived, Observer> {
public:
    using nn::Cloneable<Derived, Observer>::Cloneable;

protected:
    Status update(Observer::Ranges& ranges, int axis, const Observer::RowView& x) const override {
        return Observer::update_by<observers::MinMaxRange>(ranges, axis, x);
    }
};

template <class Derived> class MovingAverageBase : public nn::Cloneable<Derived, Observer> {
public:
    using nn::Cloneable<Derived, Observer>::Cloneable;

protected:
    Status update(Observer::Ranges& ranges, int axis, const Observer::RowView& x) const override {
        return Observer::update_by<observers::MovingAverageRange>(ranges, axis, x, this->options().averaging_constant);
    }
};

inline ObserverOptions per_tensor(ObserverOptions options) {
    if (options.ch_axis >= 0) throw Error("this observer is per tensor; its PerChannel kin takes a ch_axis");
    return options;
}

inline ObserverOptions per_channel(ObserverOptions options) {
    if (options.ch_axis < 0) options.ch_axis = 0;
    return options;
}

}  // namespace detail

/// Smallest and largest value of all data.
class MinMaxObserver : public detail::MinMaxBase<MinMaxObserver> {
public:
    explicit MinMaxObserver(const ObserverOptions& options = {}) : MinMaxBase(detail::per_tensor(options)) {}
    std::string type_name() const override { return "MinMaxObserver"; }
};

/// The same for each channel of ch_axis (0 unless given).
class PerChannelMinMaxObserver : public detail::MinMaxBase<PerChannelMinMaxObserver> {
public:
    explicit PerChannelMinMaxObserver(const ObserverOptions& options = {}) : MinMaxBase(detail::per_channel(options)) {}
    std::string type_name() const override { return "PerChannelMinMaxObserver"; }
};

/// Moving average of the batches' ranges; averaging_constant 0 freezes, 1 keeps the last batch.
class MovingAverageMinMaxObserver : public detail::MovingAverageBase<MovingAverageMinMaxObserver> {
public:
    explicit MovingAverageMinMaxObserver(const ObserverOptions& options = {})
        : MovingAverageBase(detail::per_tensor(options)) {}
    std::string type_name() const override { return "MovingAverageMinMaxObserver"; }
};

/// The same for each channel of ch_axis (0 unless given).
class MovingAveragePerChannelMinMaxObserver : public detail::MovingAverageBase<MovingAveragePerChannelMinMaxObserver> {
public:
    explicit MovingAveragePerChannelMinMaxObserver(const ObserverOptions& options = {})
        : MovingAverageBase(detail::per_channel(options)) {}
    std::string type_name() const override { return "MovingAveragePerChannelMinMaxObserver"; }
};

/// Makes an observer with given options: what a qconfig holds.
using ObserverFactory = std::function<std::shared_ptr<Observer>(const ObserverOptions&)>;

template <class ObserverType> ObserverFactory observer_factory() {
    return [](const ObserverOptions& options) { return std::make_shared<ObserverType>(options); };
}

// ---------------------------------------------------------------------------------------------------------------------

inline void Observer::observe(const nn::Tensor& x) {
    if (x.size() == 0) return;
    const int axis = options_.ch_axis;
    if (axis >= x.rank())
        throw Error(type_name() + ": there is no channel axis " + std::to_string(axis) + " in " +
                    nn::to_string(x.shape()));
    const nn::Tensor rows = x.reshape(detail::blocks_around(x, axis));
    Ranges ranges;
    if (seen()) {
        const auto lowest = tensor("min_val").flat<float>(), highest = tensor("max_val").flat<float>();
        ranges.lowest.assign(lowest.begin(), lowest.end());
        ranges.highest.assign(highest.begin(), highest.end());
        if (axis >= 0 && static_cast<index_t>(ranges.lowest.size()) != x.extent(axis))
            throw Error(type_name() + ": a batch has " + std::to_string(x.extent(axis)) +
                        " channels, the ones before had " + std::to_string(ranges.lowest.size()));
    }
    const Status status = update(ranges, axis < 0 ? observers::per_tensor : 1, std::as_const(rows).view<float, 3>());
    throw_if_failed(status, type_name() + " of a tensor " + nn::to_string(x.shape()));
    const Shape channels(static_cast<index_t>(ranges.lowest.size()));
    tensor("min_val") = nn::Tensor::from(channels, ranges.lowest);
    tensor("max_val") = nn::Tensor::from(channels, ranges.highest);
}

inline nn::OwnedQParams Observer::calculate_qparams() const {
    nn::OwnedQParams result = nn::OwnedQParams::per_tensor(1.0f, options_.dtype);
    result.quant_min = options_.lowest();
    result.quant_max = options_.highest();
    if (!seen()) return result;
    const auto lowest = tensor("min_val").flat<float>(), highest = tensor("max_val").flat<float>();
    result.axis = options_.ch_axis;
    result.scales.resize(lowest.size());
    std::vector<std::int32_t> zero_points(lowest.size());
    for (std::size_t c = 0; c < lowest.size(); ++c) {
        const auto pair = value_or_throw(arith::qparams_from_range(lowest[c], highest[c], rule()), type_name());
        result.scales[c] = pair.scale;
        zero_points[c] = pair.zero_point;
    }
    if (std::any_of(zero_points.begin(), zero_points.end(), [](std::int32_t zero_point) { return zero_point != 0; }))
        result.zero_points = std::move(zero_points);
    return result;
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_OBSERVER_MODULES_HPP
