// SPDX-License-Identifier: MIT
//
// FakeQuantize: an observer and its grid, on one edge of a prepared model. Long because observed, given, loaded and
// adapted scales are the state of one class. Layer: quantization (docs/workflow.md section 2).
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_FAKE_QUANTIZE_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_FAKE_QUANTIZE_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "intq/arith/quantize.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/quantizer.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/observers/observer.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// MovingAverageMinMaxObserver.
ObserverFactory default_observer();

}  // namespace detail

struct FakeQuantizeOptions {
    ObserverFactory observer = detail::default_observer();
    ObserverOptions observer_options{};
    bool saturate = true;          // a clamped element stops its gradient
    bool in_place = false;         // the output takes the memory of the input; not while a gradient is recorded
    index_t channel_len = 1;       // per channel, the number of channels, if known before any data
    bool use_grad_scaling = true;  // LSQ: gradients of scale and zero point times 1 / sqrt(elements · quant_max)
    float alpha = 6.0f;            // PACT: the bound before any calibration
    arith::QuantizeRule rule{};
    Compatibility compatibility = Compatibility::horizon;
};

/// Changes arguments of a quantizer and its observer: the keyword arguments of the documents.
using QuantizerArguments = std::function<void(FakeQuantizeOptions&)>;

struct QuantizerConfig;

/// Observes, then rounds to the grid of the scale:
///
///     y = dequantize(quantize(x))
///
/// Order in forward: observe, compute the scale, fake-quantize with the fresh scale. With both on it observes always in
/// torch mode, but only while training in horizon mode; with rounding off (calibration) it always observes. Before any
/// data the scale is 1.
///
/// Source   docs/workflow.md section 2; docs/torch_semantics.md section 2
class FakeQuantize : public nn::Cloneable<FakeQuantize, Quantizer> {
public:
    /// Throws for a channel_len that is not positive, or above 1 in a quantizer per tensor.
    explicit FakeQuantize(const FakeQuantizeOptions& options);
    /// A configuration for a quantizer of this class, for a qconfig; a call makes the quantizer. See QuantizerConfig.
    static QuantizerConfig with_args(const QuantizerArguments& arguments);

    std::string type_name() const override { return "FakeQuantize"; }
    /// PyTorch's fields, in its order.
    INTQ_INLINE std::string extra_repr() const override;
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    bool needs_reproducible_sums() const override { return observer_enabled_ || fake_quant_enabled_; }

    /// One observation, whatever the flags say.
    void observe(const Tensor& x);
    /// Takes the observer's current qparams, if it saw data: after a change of its method, a merge, a load of its
    /// state.
    void update_qparams();

    bool observer_enabled() const noexcept { return observer_enabled_; }
    bool fake_quant_enabled() const noexcept { return fake_quant_enabled_; }
    void enable_observer(bool on = true) noexcept { observer_enabled_ = on; }
    virtual void enable_fake_quant(bool on = true) { fake_quant_enabled_ = on; }
    INTQ_INLINE void enable(bool observes, bool rounds) override;
    /// Whether the next call observes its argument.
    bool observes_now() const { return is_observing(); }
    /// Off where the quantizer's input has other readers as well.
    void set_in_place(bool on) noexcept { options_.in_place = on; }

    DType dtype() const override { return options_.observer_options.dtype; }
    bool has_qparams() const override { return tensor("scale").defined(); }
    INTQ_INLINE OwnedQParams qparams() const override;
    bool is_rounding() const override { return fake_quant_enabled_; }
    arith::QuantizeRule rule() const override { return options_.rule; }
    bool saturates() const override { return options_.saturate; }
    const FakeQuantizeOptions& options() const noexcept { return options_; }

    /// Sets the scale, and the zero point (default 0), of every channel. From then on the quantizer observes nothing,
    /// whatever the state of the model: calibration, training and convert leave the scale as it is. A kind that learns
    /// its scale (learns_qparams()) starts from it: its gradient still moves it.
    ///
    /// @throws Error for a grid that does not fit, see check_grid(); the quantizer is as before
    void set_qparams(float scale, std::optional<std::int32_t> zero_point = std::nullopt);
    /// The same with a scale, and a zero point, for each channel; one serves all.
    void set_qparams(std::span<const float> scales, std::span<const std::int32_t> zero_points = {});
    /// @param scale       float32 of rank 0 or 1
    /// @param zero_point  int32 of the same shape, or undefined
    void set_qparams(const Tensor& scale, const Tensor& zero_point = {});
    void set_qparams(const OwnedQParams& qparams);
    /// Throws the Error that says how a grid does not fit this quantizer: the type or range of its codes, its channel
    /// axis, its number of channels, a zero point that the scheme or the kind lacks, an invalid scale.
    virtual INTQ_INLINE void check_grid(const OwnedQParams& grid) const;
    /// The axis whose channels have a scale each; -1 per tensor.
    int channel_axis() const { return observer().options().ch_axis; }
    /// For the layer whose weight this quantizes: the axis and the number of its channels. In a quantizer per tensor
    /// they describe the grid of a weight that a batch norm was folded into.
    void set_weight_channels(int axis, index_t count) noexcept { weight_axis_ = axis, weight_channels_ = count; }
    /// Refuses a state that no run can produce.
    INTQ_INLINE void tensors_changed() override { check_state(); }
    /// Whether the qparams were given, so that data does not change them. It is a buffer, and is part of the state.
    bool has_given_qparams() const;
    /// Whether an optimizer moves the qparams.
    virtual bool learns_qparams() const noexcept { return false; }
    /// For a tool that changed the values that this quantizes: the scale becomes that of x, unless it is given or
    /// learned.
    void observe_anew(const Tensor& x);
    /// The observer's current qparams, whatever is stored.
    OwnedQParams calculate_qparams() const { return observer().calculate_qparams(); }
    Observer& observer() const { return static_cast<Observer&>(*child("activation_post_process")); }
    /// Takes a grid that codes lie on already, whether or not data could produce it here: from a folded weight, or
    /// another quantizer. The observer is left as it is.
    void adopt(const OwnedQParams& qparams);
    /// Takes the state of a quantizer of another kind, or with another observer: the scale is converted to this kind's
    /// form; the observer stays unchanged, because it cannot read the statistics.
    INTQ_INLINE void adapt_state(std::vector<nn::Named<Tensor>>& state) const override;

protected:
    virtual bool is_observing() const {
        return observer_enabled_ && !has_given_qparams() &&
               (training() || !fake_quant_enabled_ || options_.compatibility == Compatibility::torch);
    }
    bool is_in_place() const override { return options_.in_place; }
    /// Turns the scale, zero point or bound in a state into the form of this kind.
    virtual INTQ_INLINE void adapt_scale(std::vector<nn::Named<Tensor>>& state) const;
    void add_zero_points(std::vector<nn::Named<Tensor>>& state) const;
    /// Half of the codes' range: the bound of a symmetric scale of 1.
    float half_range() const noexcept;
    /// Throws for tensors, from a file, that no run could have made.
    virtual INTQ_INLINE void check_state() const;
    /// The same for the scales, or the values they follow from, once there are some.
    void check_scales(const Tensor& kept) const;
    /// Where scales and zero points are kept.
    virtual INTQ_INLINE void store(const OwnedQParams& qparams);
    /// For a kind whose scale is a parameter, or follows from one.
    void remove_scale_buffers();
    /// The grid of given scales and zero points, one per channel.
    OwnedQParams grid(std::span<const float> scales, std::span<const std::int32_t> zero_points) const;

private:
    std::size_t channel_count() const;
    void check_channel_len(const Tensor& x) const;

    FakeQuantizeOptions options_;
    int weight_axis_ = -1;
    index_t weight_channels_ = 0;
    bool observer_enabled_ = true;
    bool fake_quant_enabled_ = true;
};

/// Observes and passes through; never rounds.
class CalibFakeQuantize : public nn::Cloneable<CalibFakeQuantize, FakeQuantize> {
public:
    explicit CalibFakeQuantize(const FakeQuantizeOptions& options);
    static QuantizerConfig with_args(const QuantizerArguments& arguments);
    INTQ_INLINE std::string type_name() const override;
    void enable_fake_quant(bool) override {}
};

/// State of all quantizers of a model.
enum class FakeQuantState : std::uint8_t {
    calibration,  // observe only
    validation,   // quantize only
    qat,          // both
    float_        // neither
};

void set_fake_quantize(nn::Module& model, FakeQuantState state);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <utility>

#    include "intq/arith/learnable.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/repr.hpp"
#    include "intq/quantization/fake_quantize/internal/check_grid.hpp"
#    include "intq/quantization/observers/range_observers.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE ObserverFactory default_observer() { return observer_factory<MovingAverageMinMaxObserver>(); }

}  // namespace detail

INTQ_INLINE FakeQuantize::FakeQuantize(const FakeQuantizeOptions& options) : options_(options) {
    if (options.channel_len < 1 || (options.channel_len > 1 && options.observer_options.ch_axis < 0))
        throw Error("FakeQuantize: channel_len counts the channels of ch_axis; given " +
                    std::to_string(options.channel_len) + " with ch_axis " +
                    std::to_string(options.observer_options.ch_axis));
    ObserverOptions observed = options.observer_options;
    if (options.compatibility == Compatibility::torch) observed.compatibility = Compatibility::torch;
    add_child("activation_post_process", options.observer(observed));
    add_buffer("scale", Tensor());
    add_buffer("zero_point", Tensor());
    add_buffer("qparams_given", Tensor::zeros(Shape(1), DType::uint8));
    update_qparams();  // a fixed scale needs no data
}

INTQ_INLINE nn::Value FakeQuantize::forward(nn::Arguments arguments) {
    if (is_observing()) observe(arguments.tensor(0));
    return pass(arguments.tensor(0));
}

INTQ_INLINE void FakeQuantize::check_channel_len(const Tensor& x) const {
    const int axis = channel_axis();
    if (options_.channel_len == 1 || axis < 0 || axis >= x.rank() || x.extent(axis) == options_.channel_len) return;
    throw Error(type_name() + ": a tensor has " + std::to_string(x.extent(axis)) + " channels, channel_len says " +
                std::to_string(options_.channel_len));
}

INTQ_INLINE void FakeQuantize::observe(const Tensor& x) {
    check_channel_len(x);
    observer().observe(x);
    update_qparams();
}

INTQ_INLINE void FakeQuantize::update_qparams() {
    if (observer().seen() && !has_given_qparams()) store(observer().calculate_qparams());
}

INTQ_INLINE void FakeQuantize::observe_anew(const Tensor& x) {
    if (has_given_qparams() || learns_qparams() || !has_qparams()) return;
    observer().reset_min_max_vals();
    observe(x);
}

INTQ_INLINE CalibFakeQuantize::CalibFakeQuantize(const FakeQuantizeOptions& options)
    : Cloneable(FakeQuantize(options)) {
    FakeQuantize::enable_fake_quant(false);
}

INTQ_INLINE std::string CalibFakeQuantize::type_name() const { return "CalibFakeQuantize"; }

INTQ_INLINE void set_fake_quantize(nn::Module& model, FakeQuantState state) {
    const bool observes = state == FakeQuantState::calibration || state == FakeQuantState::qat,
               rounds = state == FakeQuantState::validation || state == FakeQuantState::qat;
    for (const auto& module : model.named_modules())
        if (auto* quantizer = dynamic_cast<Quantizer*>(module.value)) quantizer->enable(observes, rounds);
}

INTQ_INLINE void FakeQuantize::enable(bool observes, bool rounds) {
    enable_observer(observes);
    enable_fake_quant(rounds);
}

INTQ_INLINE float FakeQuantize::half_range() const noexcept {
    const ObserverOptions& range = options_.observer_options;
    return static_cast<float>(static_cast<double>(range.highest() - range.lowest()) / 2.0);
}

INTQ_INLINE void FakeQuantize::adapt_state(std::vector<nn::Named<Tensor>>& state) const {
    adapt_scale(state);
    add_zero_points(state);
    const std::string prefix = "activation_post_process.";
    const auto is_observed = [&](const nn::Named<Tensor>& item) { return item.name.rfind(prefix, 0) == 0; };
    const auto& own = observer().buffers();
    const auto known = static_cast<std::size_t>(std::count_if(state.begin(), state.end(), [&](const auto& item) {
        return is_observed(item) && std::any_of(own.begin(), own.end(),
                                                [&](const auto& buffer) { return prefix + buffer.name == item.name; });
    }));
    const auto given = static_cast<std::size_t>(std::count_if(state.begin(), state.end(), is_observed));
    if (given == 0 || (known == given && given == own.size())) return;
    // Every kind has both ends of the range; a state with only one is damaged, and check_state() refuses it.
    const bool is_half = (detail::entry_of(state, prefix + "min_val") == nullptr) !=
                         (detail::entry_of(state, prefix + "max_val") == nullptr);
    if (is_half) return;
    std::erase_if(state, is_observed);
    for (const auto& buffer : own)
        if (buffer.value.defined()) state.push_back({prefix + buffer.name, buffer.value});
}

INTQ_INLINE void FakeQuantize::adapt_scale(std::vector<nn::Named<Tensor>>& state) const {
    if (nn::Named<Tensor>* bound = detail::entry_of(state, "alpha"); bound != nullptr) {
        bound->name = "scale";
        bound->value = bound->value.contiguous().clone();
        for (float& value : bound->value.flat<float>()) value /= half_range();
    }
    if (nn::Named<Tensor>* learnt = detail::entry_of(state, "zero_point");
        learnt != nullptr && learnt->value.dtype() == DType::float32) {
        std::vector<std::int32_t> codes;
        const ObserverOptions& range = options_.observer_options;
        for (const float real : learnt->value.flat<float>())
            codes.push_back(arith::learnable_zero_point(real, range.lowest(), range.highest()));
        learnt->value = Tensor::from(learnt->value.shape(), codes);
    }
}

/// Zero points that are all 0 are not in a dictionary; a model that has others loads it as well.
INTQ_INLINE void FakeQuantize::add_zero_points(std::vector<nn::Named<Tensor>>& state) const {
    const bool has_own = std::any_of(buffers().begin(), buffers().end(), [](const auto& buffer) {
        return buffer.name == "zero_point" && buffer.value.defined();
    });
    const nn::Named<Tensor>* const scale = detail::entry_of(state, "scale");
    if (!has_own || scale == nullptr || detail::entry_of(state, "zero_point") != nullptr) return;
    state.push_back({"zero_point", Tensor::zeros(scale->value.shape(), DType::int32)});
}

INTQ_INLINE OwnedQParams FakeQuantize::qparams() const {
    if (!has_qparams()) return grid({}, {});
    const Tensor& zero_point = tensor("zero_point");
    return grid(tensor("scale").flat<float>(),
                zero_point.defined() ? zero_point.flat<std::int32_t>() : std::span<const std::int32_t>());
}

INTQ_INLINE OwnedQParams FakeQuantize::grid(std::span<const float> scales,
                                            std::span<const std::int32_t> zero_points) const {
    OwnedQParams result = OwnedQParams::per_tensor(1.0f, dtype());
    result.quant_min = options_.observer_options.lowest();
    result.quant_max = options_.observer_options.highest();
    const int axis = channel_axis();
    if (scales.empty()) {
        if (options_.channel_len == 1) return result;
        result.scales.assign(static_cast<std::size_t>(options_.channel_len), 1.0f);
        result.axis = axis;
        return result;
    }
    result.scales.assign(scales.begin(), scales.end());
    // One scale that was given before the channels were known serves all of them.
    const int several = axis >= 0 ? axis : (std::max)(weight_axis_, 0);
    result.axis = scales.size() > 1 ? several : has_given_qparams() ? -1 : axis;
    const bool is_affine =
        std::any_of(zero_points.begin(), zero_points.end(), [](std::int32_t zero) { return zero != 0; });
    if (is_affine) result.zero_points.assign(zero_points.begin(), zero_points.end());
    return result;
}

INTQ_INLINE void FakeQuantize::store(const OwnedQParams& qparams) {
    const Shape channels(static_cast<index_t>(qparams.scales.size()));
    tensor("scale") = Tensor::from(channels, qparams.scales);
    tensor("zero_point") = qparams.zero_points.empty() ? Tensor() : Tensor::from(channels, qparams.zero_points);
}

INTQ_INLINE void FakeQuantize::set_qparams(float scale, std::optional<std::int32_t> zero_point) {
    OwnedQParams fixed = qparams();
    if (fixed.scales.size() == 1) {
        fixed.axis = channel_axis();
        fixed.scales.resize(std::max<std::size_t>(channel_count(), 1));
    }
    fixed.scales.assign(fixed.scales.size(), scale);
    fixed.zero_points.clear();
    if (zero_point) fixed.zero_points.assign(fixed.scales.size(), *zero_point);
    set_qparams(fixed);
}

INTQ_INLINE void FakeQuantize::set_qparams(std::span<const float> scales, std::span<const std::int32_t> zero_points) {
    if (scales.size() == 1 && zero_points.size() <= 1)
        return set_qparams(scales[0], zero_points.empty() ? std::nullopt : std::optional(zero_points[0]));
    OwnedQParams fixed = qparams();
    fixed.axis = channel_axis();
    fixed.scales.assign(scales.begin(), scales.end());
    fixed.zero_points.assign(zero_points.begin(), zero_points.end());
    set_qparams(fixed);
}

INTQ_INLINE void FakeQuantize::set_qparams(const Tensor& scale, const Tensor& zero_point) {
    if (scale.rank() > 1 || zero_point.rank() > 1)
        throw Error(type_name() + "::set_qparams: scales and zero points are one for each channel; given " +
                    to_string((scale.rank() > 1 ? scale : zero_point).shape()));
    const auto dtype_of = [](const Tensor& x) { return x.defined() ? name_of(x.dtype()) : "undefined"; };
    if (!scale.defined() || scale.dtype() != DType::float32)
        throw Error(type_name() + "::set_qparams: the scale is " + dtype_of(scale) + ", expected float32");
    if (zero_point.defined() && zero_point.dtype() != DType::int32)
        throw Error(type_name() + "::set_qparams: the zero point is " + dtype_of(zero_point) + ", expected int32");
    set_qparams(scale.flat<float>(),
                zero_point.defined() ? zero_point.flat<std::int32_t>() : std::span<const std::int32_t>());
}

INTQ_INLINE std::string FakeQuantize::extra_repr() const {
    const auto flag = [](bool on) { return on ? "true" : "false"; };
    const OwnedQParams now = qparams();
    const ObserverOptions& o = options_.observer_options;
    const std::vector<float> zeros(now.zero_points.begin(), now.zero_points.end());
    return std::string("fake_quant_enabled=") + flag(fake_quant_enabled_) +
           ", observer_enabled=" + flag(observer_enabled_) + ", quant_min=" + std::to_string(now.quant_min) +
           ", quant_max=" + std::to_string(now.quant_max) + ", dtype=" + name_of(dtype()) +
           ", qscheme=" + (o.ch_axis >= 0 ? "per_channel_" : "per_tensor_") +
           (o.scheme == arith::QuantScheme::symmetric ? "symmetric" : "affine") +
           ", ch_axis=" + std::to_string(o.ch_axis) + ", scale=" + nn::repr_of(now.scales) +
           ", zero_point=" + (zeros.empty() ? "0" : nn::repr_of(zeros));
}

INTQ_INLINE void FakeQuantize::set_qparams(const OwnedQParams& qparams) {
    try {
        check_grid(qparams);
    } catch (const Error& error) {
        throw Error(type_name() + "::set_qparams", error.what());
    }
    store(qparams);
    enable_observer(false);
    tensor("qparams_given") = Tensor::from<std::uint8_t>(Shape(1), {std::uint8_t{1}});
}

INTQ_INLINE bool FakeQuantize::has_given_qparams() const {
    return tensor("qparams_given").flat<std::uint8_t>()[0] != 0;
}

INTQ_INLINE void FakeQuantize::remove_scale_buffers() {
    std::erase_if(buffers(), [](const auto& buffer) { return buffer.name == "scale" || buffer.name == "zero_point"; });
}

INTQ_INLINE void FakeQuantize::adopt(const OwnedQParams& qparams) {
    throw_if_failed(
        check_qparams(qparams.view(), dtype(), static_cast<index_t>(qparams.scales.size()), OpKind::fake_quantize),
        type_name() + "::adopt");
    store(qparams);
}

/// 0 if not known yet.
INTQ_INLINE std::size_t FakeQuantize::channel_count() const {
    if (channel_axis() < 0) return 1;
    if (options_.channel_len > 1) return static_cast<std::size_t>(options_.channel_len);
    if (weight_channels_ != 0) return static_cast<std::size_t>(weight_channels_);
    // One scale that was given serves any number of channels.
    const std::size_t known = has_qparams() ? qparams().scales.size() : 0;
    if (known > 1 || (known == 1 && !has_given_qparams())) return known;
    return static_cast<std::size_t>(observer().tensor("min_val").size());
}

INTQ_INLINE void FakeQuantize::check_grid(const OwnedQParams& grid) const {
    const OwnedQParams own = qparams();
    // The quantizer's current grid fits in any case: one scale for all channels, or the grid of a folded weight.
    const bool is_as_now = has_qparams() && grid.axis == own.axis && grid.scales.size() == own.scales.size();
    if (!is_as_now) detail::check_channels(grid, channel_axis(), channel_count());
    detail::check_codes(grid, options_.observer_options);
}

INTQ_INLINE void FakeQuantize::check_state() const {
    if (tensor("qparams_given").flat<std::uint8_t>()[0] > 1) throw Error(type_name() + ": qparams_given is 0 or 1");
    const auto is_scale_of_it = [](const auto& item) { return item.name == "scale"; };
    if (std::none_of(buffers().begin(), buffers().end(), is_scale_of_it) &&
        std::none_of(parameters().begin(), parameters().end(), is_scale_of_it))
        return;  // a kind whose scale follows from another parameter
    if (!has_qparams()) {
        if (tensor("zero_point").defined()) throw Error(type_name() + ": it has a zero_point and no scale");
        if (has_given_qparams()) throw Error(type_name() + ": its qparams are given, and it has no scale");
        return;
    }
    check_scales(tensor("scale"));
}

INTQ_INLINE void FakeQuantize::check_scales(const Tensor& kept) const {
    try {
        if (kept.size() == 0) throw Error("it has no scale");
        // One scale that was given serves all channels; a folded weight's grid stays if data does not decide.
        const bool is_decided = has_given_qparams() || learns_qparams();
        const OwnedQParams own = qparams();
        detail::check_scale_count(own.scales.size(), channel_axis(), static_cast<std::size_t>(weight_channels_),
                                  has_given_qparams(), is_decided);
        detail::check_codes(own, options_.observer_options);
    } catch (const Error& error) {
        throw Error(type_name(), error.what());
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_FAKE_QUANTIZE_HPP
