// SPDX-License-Identifier: MIT
//
// Observer: range statistics of the tensors that pass through, as a module. Layer: quantization
// (docs/workflow.md section 1).
#ifndef INTQ_QUANTIZATION_OBSERVERS_OBSERVER_HPP
#define INTQ_QUANTIZATION_OBSERVERS_OBSERVER_HPP

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "intq/arith/quantize.hpp"
#include "intq/io/make_as.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/observers/mix.hpp"
#include "intq/observers/mse.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// How processes with different data agree on one state, for `is_sync_quantize`. All processes call the same functions
/// in the same order with spans of one length; each call replaces the values by their combination over all processes. A
/// fake-quantizer calls them after every batch that it observes: the processes must run equally many batches, none
/// empty.
class StateReduction {
public:
    virtual ~StateReduction() = default;
    virtual void minimum(std::span<float> values) = 0;
    virtual void maximum(std::span<float> values) = 0;
    virtual void sum(std::span<std::int64_t> values) = 0;
};

/// The codes that an observer makes qparams for, and the arguments of particular observers.
struct ObserverOptions {
    DType dtype = DType::int8;
    std::int64_t quant_min = 0;  // both 0: the range of dtype, by symmetric_scheme
    std::int64_t quant_max = 0;
    /// For a symmetric range whose codes are open. Prepare sets the target's here if it is the default.
    arith::SymmetricScheme symmetric_scheme = arith::SymmetricScheme::full_range;
    bool reduce_range = false;  // half of the codes: of an 8-bit type, or of quant_min and quant_max; see lowest()
    int ch_axis = -1;           // -1: per tensor; else the axis that counts the channels, from the front
    float averaging_constant = 0.01f;
    arith::QuantScheme scheme = arith::QuantScheme::symmetric;
    float eps = 0x1p-23f;

    float scale = 1.0f;  // FixedScaleObserver
    std::int32_t zero_point = 0;
    float xmin = -1.0f;  // ClipObserver
    float xmax = 1.0f;
    index_t bins = 2048;  // of the observers with a histogram
    double percentile = 99.99;
    observers::MseOptions mse{};
    std::vector<double> mix_percentiles{std::begin(observers::mix_percentiles), std::end(observers::mix_percentiles)};
    double std_multiplier = 3.0;  // ClipStdObserver
    /// Of the softmax that reads the values; prepare sets it. Per tensor, masks are observed as by scores_in_reach()
    /// (internal/scores.hpp).
    std::optional<int> softmax_axis{};
    /// Of numbers that only say which scores are masked, or by how much: what becomes of 1 on the way to the softmax;
    /// prepare sets it. Per tensor, masks are observed as by masks_in_reach().
    std::optional<double> mask_factor{};
    float headroom = 1.0f;  // the range of the qparams is the observed one times this; prepare sets it for outputs

    Compatibility compatibility = Compatibility::horizon;
    bool is_sync_quantize = false;  // qparams from the data of all processes, through:
    std::shared_ptr<StateReduction> reduction{};

    /// Whether quant_min and quant_max were left open.
    bool has_open_codes() const noexcept { return quant_min == 0 && quant_max == 0; }
    /// The smallest and largest code. reduce_range halves both, rounded down: -64 … 63 for int8. The whole range of a
    /// wider type stays, as in PyTorch.
    std::int64_t lowest() const noexcept;
    std::int64_t highest() const noexcept { return reduced(has_open_codes() ? highest_code(dtype) : quant_max); }
    arith::RangeRule rule() const noexcept;

private:
    std::int64_t reduced(std::int64_t end) const noexcept {
        const bool is_wide = has_open_codes() && dtype != DType::int8 && dtype != DType::uint8;
        return reduce_range && !is_wide ? end >> 1 : end;
    }
};

/// Range statistics of the tensors that pass through. forward observes and returns its input.
///
/// The state is in the buffers (min_val, max_val, and the class's own), so that clone and state dictionaries carry it.
/// NaN and infinity are an Error, and leave the state as it was; an empty tensor is skipped. -inf and the lowest float
/// are masks, and enter no range: an observer per tensor leaves them out.
///
/// A call changes the state, so each thread needs a clone; merge() joins their states.
class Observer : public nn::Module {
public:
    /// Ranges of all channels; empty when no data was seen.
    struct Ranges {
        std::vector<float> lowest, highest;
    };

    explicit Observer(const ObserverOptions& options);

    bool is_leaf() const override { return true; }
    bool needs_reproducible_sums() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

    void observe(const Tensor& x);
    const ObserverOptions& options() const noexcept { return options_; }
    virtual bool seen() const { return tensor("min_val").defined(); }
    /// The ranges for the scales, over all processes if is_sync_quantize is set.
    virtual INTQ_INLINE Ranges ranges() const;
    /// Scales and zero points; scale 1 if no data was seen, as in PyTorch.
    virtual INTQ_INLINE OwnedQParams calculate_qparams() const;
    /// Adds the state of another observer of the same class and options, as if this one had seen its data. Throws if
    /// the order of the data matters (moving averages, PyTorch's histogram), and for other classes and channels.
    void merge(const Observer& other);
    void reset_min_max_vals();
    /// "min_val=-1, max_val=2"; "[]" if no data was seen, and lists per channel.
    INTQ_INLINE std::string extra_repr() const override;
    /// Throws for buffers, from a file, that no data could have made.
    virtual INTQ_INLINE void check_state() const;
    INTQ_INLINE void tensors_changed() override { check_state(); }

protected:
    using RowView = TensorView<const float, 3>;
    /// Adds a batch, (outer, channels, inner) with the channel axis 1, or -1 for one range of all; on failure nothing
    /// is changed. It must refuse NaN and infinity, as the formulas of intq::observers do on their way through the
    /// data; a class without such a formula calls kernels::check_finite(x) first.
    virtual Status add(const RowView& x, int axis) = 0;
    virtual void merge_state(const Observer& other) = 0;

    Ranges own_ranges() const;
    /// Throws unless a buffer is undefined like the ranges, or has the dtype and shape.
    void check_buffer(const std::string& name, DType dtype, const Shape& shape) const;
    void set_ranges(const Ranges& ranges);
    /// Ranges over all processes. @pre is_sync_quantize
    Ranges synchronized(Ranges ranges) const;

private:
    ObserverOptions options_;
};

/// Makes an observer with given options; part of a qconfig.
using ObserverFactory = std::function<std::shared_ptr<Observer>(const ObserverOptions&)>;

template <class ObserverType> ObserverFactory observer_factory() {
    return [](const ObserverOptions& options) { return make_as<Observer, ObserverType>(options); };
}

namespace detail {

ObserverOptions per_tensor(ObserverOptions options);

ObserverOptions per_channel(ObserverOptions options);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <iterator>
#    include <limits>
#    include <utility>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/repr.hpp"
#    include "intq/quantization/observers/internal/scores.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::int64_t ObserverOptions::lowest() const noexcept {
    if (!has_open_codes()) return reduced(quant_min);
    const bool is_narrow =
        scheme == arith::QuantScheme::symmetric && symmetric_scheme == arith::SymmetricScheme::narrow_range;
    return reduced(is_narrow ? (std::max)(-highest_code(dtype), lowest_code(dtype)) : lowest_code(dtype));
}

INTQ_INLINE arith::RangeRule ObserverOptions::rule() const noexcept {
    const bool is_custom = !has_open_codes() || reduce_range;
    arith::RangeRule rule{lowest(), highest(), scheme,
                          arith::torch_symmetric_zero_point(dtype, lowest(), highest(), is_custom), eps};
    if (has_open_codes() && symmetric_scheme == arith::SymmetricScheme::all_codes)
        rule.divisor = arith::SymmetricDivisor::highest_code;
    return rule;
}

namespace detail {

INTQ_INLINE void check_channel_axis(const ObserverOptions& options) {
    if (options.ch_axis < -1 || options.ch_axis >= max_rank)
        throw Error("an observer's ch_axis is -1, for per tensor, or an axis counted from the front, 0 to " +
                    std::to_string(max_rank - 1) + "; given " + std::to_string(options.ch_axis));
}

}  // namespace detail

INTQ_INLINE Observer::Observer(const ObserverOptions& options) : options_(options) {
    detail::check_channel_axis(options);
    if (lowest_code(options.dtype) >= highest_code(options.dtype))
        throw Error(std::string("Observer: the dtype is ") + name_of(options.dtype) + ", expected one of codes");
    if (options.reduce_range && options.dtype == DType::uint8 && options.scheme == arith::QuantScheme::symmetric)
        throw Error(
            "Observer: reduce_range has no symmetric scheme for uint8, as in PyTorch; use int8 or the affine one");
    throw_if_failed(arith::check_range_rule(options.rule(), options.dtype), "Observer");
    if (!(options.averaging_constant >= 0.0f && options.averaging_constant <= 1.0f))
        throw Error("Observer: averaging_constant must be in 0 … 1, given " +
                    std::to_string(options.averaging_constant));
    if (options.is_sync_quantize && options.reduction == nullptr)
        throw Error("Observer: is_sync_quantize needs a reduction, the StateReduction that joins the processes");
    add_buffer("min_val", Tensor());
    add_buffer("max_val", Tensor());
}

INTQ_INLINE nn::Value Observer::forward(nn::Arguments arguments) {
    observe(arguments.tensor(0));
    return arguments[0];
}

INTQ_INLINE std::string Observer::extra_repr() const {
    const Ranges seen = own_ranges();
    return "min_val=" + nn::repr_of(seen.lowest) + ", max_val=" + nn::repr_of(seen.highest);
}

INTQ_INLINE void Observer::reset_min_max_vals() {
    for (auto& buffer : buffers()) buffer.value = Tensor();
}

INTQ_INLINE void Observer::set_ranges(const Ranges& ranges) {
    const Shape channels(static_cast<index_t>(ranges.lowest.size()));
    tensor("min_val") = Tensor::from(channels, ranges.lowest);
    tensor("max_val") = Tensor::from(channels, ranges.highest);
}

namespace detail {

INTQ_INLINE ObserverOptions per_tensor(ObserverOptions options) {
    if (options.ch_axis >= 0) throw Error("this observer is per tensor; its PerChannel kin takes a ch_axis");
    return options;
}

INTQ_INLINE ObserverOptions per_channel(ObserverOptions options) {
    check_channel_axis(options);
    if (options.ch_axis < 0) options.ch_axis = 0;
    return options;
}

}  // namespace detail

namespace detail {

/// The elements that are not masks; the tensor itself if it has no masks.
INTQ_INLINE Tensor without_masks(const Tensor& x) {
    const Tensor all = x.contiguous();
    const auto values = all.flat<float>();
    const auto is_mask = [](float value) { return value <= std::numeric_limits<float>::lowest(); };
    if (std::none_of(values.begin(), values.end(), is_mask)) return x;
    std::vector<float> kept;
    std::copy_if(values.begin(), values.end(), std::back_inserter(kept), [&](float value) { return !is_mask(value); });
    return Tensor::from(Shape(static_cast<index_t>(kept.size())), kept);
}

}  // namespace detail

INTQ_INLINE void Observer::observe(const Tensor& given) {
    if (given.size() == 0) return;
    const bool has_scores = options_.ch_axis < 0 && options_.softmax_axis.has_value();
    const bool has_masks = options_.ch_axis < 0 && options_.mask_factor.has_value();
    const Tensor reached = has_scores  ? detail::scores_in_reach(given, *options_.softmax_axis, options_.dtype)
                           : has_masks ? detail::masks_in_reach(given, *options_.mask_factor)
                                       : given;
    const Tensor x = options_.ch_axis < 0 ? detail::without_masks(reached) : reached;
    if (x.size() == 0) return;
    const int axis = options_.ch_axis;
    if (axis >= x.rank())
        throw Error(type_name() + ": there is no channel axis " + std::to_string(axis) + " in " + to_string(x.shape()));
    const index_t channels = tensor("min_val").size();
    if (axis >= 0 && channels != 0 && channels != x.extent(axis))
        throw Error(type_name() + ": a batch has " + std::to_string(x.extent(axis)) +
                    " channels, the ones before had " + std::to_string(channels));
    const Tensor rows = x.reshape(tensor_detail::blocks_around(x, axis));
    const Status status = add(rows.view<float, 3>(), axis < 0 ? observers::per_tensor : 1);
    const std::string where = type_name() + " of a tensor " + to_string(x.shape());
    if (status.code == StatusCode::not_finite)
        throw Error(where, describe(status) +
                               ", which no grid holds; clamp the tensor in the model, as in front of a division, or "
                               "leave out the samples that make it so");
    throw_if_failed(status, where);
}

INTQ_INLINE void Observer::check_buffer(const std::string& name, DType dtype, const Shape& shape) const {
    const Tensor& buffer = tensor(name);
    if (buffer.defined() != tensor("min_val").defined())
        throw Error(type_name() + ": of the buffers min_val and " + name + " only one is there");
    if (buffer.defined() && (buffer.dtype() != dtype || !(buffer.shape() == shape)))
        throw Error(type_name() + ": the buffer " + name + " is " + name_of(buffer.dtype()) + " " +
                    to_string(buffer.shape()) + ", expected " + name_of(dtype) + " " + to_string(shape));
}

INTQ_INLINE void Observer::check_state() const {
    const index_t channels = options_.ch_axis < 0 ? 1 : tensor("min_val").size();
    check_buffer("min_val", DType::float32, Shape(channels));
    check_buffer("max_val", DType::float32, Shape(channels));
    const Ranges ranges = own_ranges();
    for (std::size_t c = 0; c < ranges.lowest.size(); ++c) {
        const float low = ranges.lowest[c], high = ranges.highest[c];
        if (!std::isfinite(low) || !std::isfinite(high) || low > high)
            throw Error(type_name() + ": the range of channel " + std::to_string(c) + " is from " +
                        std::to_string(low) + " to " + std::to_string(high));
    }
}

INTQ_INLINE Observer::Ranges Observer::own_ranges() const {
    if (!tensor("min_val").defined()) return {};
    const auto lowest = tensor("min_val").flat<float>(), highest = tensor("max_val").flat<float>();
    return {{lowest.begin(), lowest.end()}, {highest.begin(), highest.end()}};
}

INTQ_INLINE Observer::Ranges Observer::ranges() const {
    return options_.is_sync_quantize ? synchronized(own_ranges()) : own_ranges();
}

INTQ_INLINE Observer::Ranges Observer::synchronized(Ranges ranges) const {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (ranges.lowest.empty()) {
        // One range has a neutral element; the number of channels is known only to processes with data.
        if (options_.ch_axis >= 0)
            throw Error(type_name() + ": is_sync_quantize per channel needs data in every process");
        ranges = {{infinity}, {-infinity}};
    }
    options_.reduction->minimum(ranges.lowest);
    options_.reduction->maximum(ranges.highest);
    return ranges.lowest[0] > ranges.highest[0] ? Ranges{} : ranges;
}

INTQ_INLINE void Observer::merge(const Observer& other) {
    if (type_name() != other.type_name() || options_.ch_axis != other.options_.ch_axis)
        throw Error(type_name() + ": only an observer of the same class and channel axis can be merged, given " +
                    other.type_name());
    if (!other.tensor("min_val").defined()) return;
    const index_t own = tensor("min_val").size(), more = other.tensor("min_val").size();
    if (own != 0 && own != more)
        throw Error(type_name() + ": an observer of " + std::to_string(more) +
                    " channels cannot be merged with one of " + std::to_string(own));
    merge_state(other);
}

INTQ_INLINE OwnedQParams Observer::calculate_qparams() const {
    OwnedQParams result = OwnedQParams::per_tensor(1.0f, options_.dtype);
    result.quant_min = options_.lowest();
    result.quant_max = options_.highest();
    const Ranges found = ranges();
    if (found.lowest.empty()) return result;
    result.axis = options_.ch_axis;
    result.scales.resize(found.lowest.size());
    std::vector<std::int32_t> zero_points(found.lowest.size());
    for (std::size_t c = 0; c < found.lowest.size(); ++c) {
        const float low = found.lowest[c] * options_.headroom, high = found.highest[c] * options_.headroom;
        const bool has_room = std::isfinite(low) && std::isfinite(high);
        const auto pair = value_or_throw(arith::qparams_from_range(has_room ? low : found.lowest[c],
                                                                   has_room ? high : found.highest[c], options_.rule()),
                                         type_name());
        result.scales[c] = pair.scale;
        zero_points[c] = pair.zero_point;
    }
    if (std::any_of(zero_points.begin(), zero_points.end(), [](std::int32_t zero_point) { return zero_point != 0; }))
        result.zero_points = std::move(zero_points);
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_observers)
#endif  // INTQ_QUANTIZATION_OBSERVERS_OBSERVER_HPP
