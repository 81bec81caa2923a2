// SPDX-License-Identifier: MIT
//
// FakeQuantize: an observer and the grid that it makes, on one edge of a prepared model. Long because scales that are
// observed, given, loaded and adapted are the state of one class. Layer: quantization (docs/workflow.md section 2).
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_FAKE_QUANTIZE_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_FAKE_QUANTIZE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "intq/arith/quantize.hpp"
#include "intq/nn/model/module.hpp"
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
    bool use_grad_scaling = true;  // LSQ: gradients of scale and zero point times 1 / sqrt(elements · quant_max)
    float alpha = 6.0f;            // PACT: the bound before any calibration
    arith::QuantizeRule rule{};
    Compatibility compatibility = Compatibility::horizon;
};

/// What a quantizer on an edge is to the others: its output carries its qparams.
///
/// A call that observes or learns changes the object; threads may share one that only quantizes.
class Quantizer : public nn::Module {
public:
    bool is_leaf() const override { return true; }
    virtual DType dtype() const = 0;
    /// Whether data was seen or qparams were set.
    virtual bool has_qparams() const = 0;
    virtual OwnedQParams qparams() const = 0;
    virtual bool is_rounding() const = 0;
    virtual arith::QuantizeRule rule() const = 0;
    /// Whether a clamped element stops its gradient.
    virtual bool saturates() const = 0;

protected:
    /// Rounds x to the grid if the quantizer rounds; in both cases the result says its scale and type.
    Tensor pass(const Tensor& x) const;
    Tensor pass(const Tensor& x, const OwnedQParams& grid) const;
};

/// Observes, then rounds to the grid of the scale:
///
///     y = dequantize(quantize(x))
///
/// Order in forward: observe, compute the scale, fake-quantize with the fresh scale. With both on it observes only
/// while training in horizon mode, and always in torch mode; with rounding off (calibration) it always observes.
/// Before any data the scale is 1.
///
/// Source   docs/workflow.md section 2; docs/torch_semantics.md section 2
class FakeQuantize : public nn::Cloneable<FakeQuantize, Quantizer> {
public:
    explicit FakeQuantize(const FakeQuantizeOptions& options);

    std::string type_name() const override { return "FakeQuantize"; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    bool needs_reproducible_sums() const override { return observer_enabled_ || fake_quant_enabled_; }

    /// One observation, whatever the flags say.
    void observe(const Tensor& x);
    /// Takes what the observer says now, if it saw data: after a change of its method, a merge, a load of its state.
    void update_qparams();

    bool observer_enabled() const noexcept { return observer_enabled_; }
    bool fake_quant_enabled() const noexcept { return fake_quant_enabled_; }
    void enable_observer(bool on = true) noexcept { observer_enabled_ = on; }
    virtual void enable_fake_quant(bool on = true) { fake_quant_enabled_ = on; }

    DType dtype() const override { return options_.observer_options.dtype; }
    bool has_qparams() const override { return tensor("scale").defined(); }
    INTQ_INLINE OwnedQParams qparams() const override;
    bool is_rounding() const override { return fake_quant_enabled_; }
    arith::QuantizeRule rule() const override { return options_.rule; }
    bool saturates() const override { return options_.saturate; }
    const FakeQuantizeOptions& options() const noexcept { return options_; }

    /// Gives the scale, and the zero point (0 unless given), of every channel. From then on the quantizer observes
    /// nothing, whatever the state of the model: calibration, training and convert leave the scale as it is. A kind
    /// that learns its scale (learns_qparams()) starts from it: its gradient still moves it.
    ///
    /// @throws Error for a grid that does not fit, see check_grid(); the quantizer is as before
    void set_qparams(float scale, std::optional<std::int32_t> zero_point = std::nullopt);
    /// The same with a scale for each channel.
    void set_qparams(const OwnedQParams& qparams);
    /// Throws the Error that says what of a grid is not this quantizer's: the type or range of its codes, its channel
    /// axis, its number of channels, a zero point that the scheme or the kind does not have, a scale that is none.
    virtual INTQ_INLINE void check_grid(const OwnedQParams& grid) const;
    /// The axis whose channels have a scale each; -1 per tensor.
    int channel_axis() const { return observer().options().ch_axis; }
    /// For the layer whose weight this quantizes: the axis and the number of its channels. Of a quantizer per tensor
    /// they are those of the grid of a weight that a batch norm was folded into.
    void set_weight_channels(int axis, index_t count) noexcept { weight_axis_ = axis, weight_channels_ = count; }
    /// Refuses a state that no run makes.
    INTQ_INLINE void tensors_changed() override { check_state(); }
    /// Whether the qparams were given, so that data does not change them. It is a buffer, and goes with the state.
    bool has_given_qparams() const;
    /// Whether an optimizer moves the qparams.
    virtual bool learns_qparams() const noexcept { return false; }
    /// For a tool that changed what this quantizes: the scale is that of x alone, unless it is given or learned.
    void observe_anew(const Tensor& x);
    /// What the observer says now, whatever is stored.
    OwnedQParams calculate_qparams() const { return observer().calculate_qparams(); }
    Observer& observer() const { return static_cast<Observer&>(*child("activation_post_process")); }
    /// Takes a grid that codes lie on already, whether or not it is one that data could make here: that of a folded
    /// weight, or of another quantizer. The observer is left as it is.
    void adopt(const OwnedQParams& qparams);

protected:
    virtual bool is_observing() const {
        return observer_enabled_ && !has_given_qparams() &&
               (training() || !fake_quant_enabled_ || options_.compatibility == Compatibility::torch);
    }
    /// Throws for tensors, from a file, that no run could have made.
    virtual INTQ_INLINE void check_state() const;
    /// Where scales and zero points are kept.
    virtual INTQ_INLINE void store(const OwnedQParams& qparams);
    /// For a kind whose scale is a parameter, or follows from one.
    void remove_scale_buffers();
    /// The grid of given scales and zero points, each one a channel.
    OwnedQParams grid(std::span<const float> scales, std::span<const std::int32_t> zero_points) const;

private:
    std::size_t channel_count() const;

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
    INTQ_INLINE std::string type_name() const override;
    void enable_fake_quant(bool) override {}
};

/// Rounds to the grid of another quantizer: the output of an operator that keeps the scale of its input but not its
/// values (an average of codes that divides the codes). Observes nothing.
class FollowingFakeQuantize : public nn::Cloneable<FollowingFakeQuantize, Quantizer> {
public:
    explicit FollowingFakeQuantize(std::shared_ptr<Quantizer> source);

    std::string type_name() const override { return "FollowingFakeQuantize"; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    DType dtype() const override { return source().dtype(); }
    bool has_qparams() const override { return source().has_qparams(); }
    OwnedQParams qparams() const override { return source().qparams(); }
    bool is_rounding() const override { return source().is_rounding(); }
    arith::QuantizeRule rule() const override { return source().rule(); }
    bool saturates() const override { return source().saturates(); }

private:
    const Quantizer& source() const { return static_cast<const Quantizer&>(*child("source")); }
};

/// FollowingFakeQuantize where no graph says whose grid that is: rounds its first argument to the grid that the second
/// one carries, the input of the operator. Real values, which carry none, pass. Observes nothing and keeps nothing.
class InputGridFakeQuantize : public nn::Cloneable<InputGridFakeQuantize, Quantizer> {
public:
    explicit InputGridFakeQuantize(const arith::QuantizeRule& rule) : rule_(rule) {}

    std::string type_name() const override { return "InputGridFakeQuantize"; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    void enable_fake_quant(bool on = true) noexcept { is_rounding_ = on; }

    DType dtype() const override { return DType::none; }
    /// A call says the grid: its output carries it.
    bool has_qparams() const override { return false; }
    OwnedQParams qparams() const override { return {}; }
    bool is_rounding() const override { return is_rounding_; }
    arith::QuantizeRule rule() const override { return rule_; }
    bool saturates() const override { return true; }

private:
    arith::QuantizeRule rule_;
    bool is_rounding_ = true;
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
#    include <utility>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/quantization/fake_quantize/check_grid.hpp"
#    include "intq/quantization/observers/range_observers.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE ObserverFactory default_observer() { return observer_factory<MovingAverageMinMaxObserver>(); }

}  // namespace detail

INTQ_INLINE Tensor Quantizer::pass(const Tensor& x) const {
    return is_rounding() || has_qparams() ? pass(x, qparams()) : x;
}

INTQ_INLINE Tensor Quantizer::pass(const Tensor& x, const OwnedQParams& grid) const {
    if (is_rounding()) return fake_quantize(x, grid, rule());
    Tensor y = x;
    y.set_qparams(grid);
    return y;
}

INTQ_INLINE FakeQuantize::FakeQuantize(const FakeQuantizeOptions& options) : options_(options) {
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

INTQ_INLINE void FakeQuantize::observe(const Tensor& x) {
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

INTQ_INLINE FollowingFakeQuantize::FollowingFakeQuantize(std::shared_ptr<Quantizer> source) {
    add_child("source", std::move(source));
}

INTQ_INLINE nn::Value FollowingFakeQuantize::forward(nn::Arguments arguments) { return pass(arguments.tensor(0)); }

INTQ_INLINE nn::Value InputGridFakeQuantize::forward(nn::Arguments arguments) {
    const std::optional<OwnedQParams>& grid = arguments.tensor(1).qparams();
    return grid ? pass(arguments.tensor(0), *grid) : arguments.tensor(0);
}

INTQ_INLINE void set_fake_quantize(nn::Module& model, FakeQuantState state) {
    const bool observes = state == FakeQuantState::calibration || state == FakeQuantState::qat,
               rounds = state == FakeQuantState::validation || state == FakeQuantState::qat;
    for (const auto& module : model.named_modules()) {
        if (auto* quantizer = dynamic_cast<FakeQuantize*>(module.value)) {
            quantizer->enable_observer(observes);
            quantizer->enable_fake_quant(rounds);
        }
        if (auto* following = dynamic_cast<InputGridFakeQuantize*>(module.value)) following->enable_fake_quant(rounds);
    }
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
    if (scales.empty()) return result;
    result.scales.assign(scales.begin(), scales.end());
    // One scale that was given before the channels were known serves all of them.
    const int several = channel_axis() >= 0 ? channel_axis() : std::max(weight_axis_, 0);
    result.axis = scales.size() > 1 ? several : has_given_qparams() ? -1 : channel_axis();
    result.zero_points.assign(zero_points.begin(), zero_points.end());
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

/// 0 where it is not known yet.
INTQ_INLINE std::size_t FakeQuantize::channel_count() const {
    if (channel_axis() < 0) return 1;
    if (weight_channels_ != 0) return static_cast<std::size_t>(weight_channels_);
    if (has_qparams() && !has_given_qparams()) return qparams().scales.size();
    return static_cast<std::size_t>(observer().tensor("min_val").size());
}

INTQ_INLINE void FakeQuantize::check_grid(const OwnedQParams& grid) const {
    const OwnedQParams own = qparams();
    // What the quantizer has now fits in any case: one scale for all channels, or the grid of a folded weight.
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
    try {
        if (tensor("scale").size() == 0) throw Error("it has no scale");
        // One scale that was given serves all channels; a grid of a folded weight stays where data does not decide.
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
