// SPDX-License-Identifier: MIT
//
// PACTFakeQuantize: a quantizer whose clipping bound is learned. Layer: quantization (docs/workflow.md section 2).
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_PACT_FAKE_QUANTIZE_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_PACT_FAKE_QUANTIZE_HPP

#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/fake_quantize/internal/learnable_fake_quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Clips to [-alpha, alpha] and rounds to the grid of that range; alpha is a parameter.
///
///     scale = alpha / ((quant_max - quant_min) / 2)
///     y     = dequantize(quantize(clamp(x, -alpha, alpha)))
///
/// alpha starts as FakeQuantizeOptions::alpha; calibration sets it to the range that the observer saw. With a ch_axis
/// each channel has an alpha, which starts as the range of calibration, or else of the first forward, because a bound
/// for activations does not suit a weight's channels. Symmetric only.
///
/// Where x was not clipped, the gradient passes through the rounding to x. Where it was clipped, the gradient goes to
/// alpha. In Horizon's form the clamp of the codes stops it there a second time: alpha lies half a step above the last
/// code, so elements above alpha could not change it.
///
/// Source   Choi et al. 2018; docs/torch_semantics.md section 4
class PACTFakeQuantize : public nn::Cloneable<PACTFakeQuantize, LearnableFakeQuantize> {
public:
    /// Throws for an affine scheme, and an alpha that is not positive and finite.
    explicit PACTFakeQuantize(const FakeQuantizeOptions& options);
    static QuantizerConfig with_args(const QuantizerArguments& arguments);

    std::string type_name() const override { return "PACTFakeQuantize"; }

    /// The bound of a channel.
    ///
    /// @pre has_qparams()
    float alpha(index_t channel = 0) const { return tensor("alpha").flat<float>()[static_cast<std::size_t>(channel)]; }
    /// The grid of the next forward, with alpha as constrained there.
    INTQ_INLINE OwnedQParams qparams() const override;
    INTQ_INLINE void check_grid(const OwnedQParams& grid) const override;

protected:
    INTQ_INLINE void check_state() const override;
    float least_value() const noexcept override { return options().observer_options.eps * half_range(); }
    INTQ_INLINE void store(const OwnedQParams& qparams) override;
    INTQ_INLINE void adapt_scale(std::vector<nn::Named<Tensor>>& state) const override;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

#    include <cmath>
#    include <cstdint>

#    include "intq/arith/quantize.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/fake_quantize/quantizer_config.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE PACTFakeQuantize::PACTFakeQuantize(const FakeQuantizeOptions& options)
    : Cloneable(options, "alpha",
                options.observer_options.ch_axis >= 0 ? Tensor() : Tensor::full(Shape(1), options.alpha)) {
    if (options.observer_options.scheme == arith::QuantScheme::affine)
        throw Error("PACTFakeQuantize: the scheme must be symmetric; alpha bounds both sides");
    if (!(options.alpha > 0.0f && std::isfinite(options.alpha)))
        throw Error("PACTFakeQuantize: alpha must be positive, given " + std::to_string(options.alpha));
}

INTQ_INLINE QuantizerConfig PACTFakeQuantize::with_args(const QuantizerArguments& arguments) {
    return QuantizerConfig{{}, fake_quantize_factory<PACTFakeQuantize>()}.with_args(arguments);
}

INTQ_INLINE OwnedQParams PACTFakeQuantize::qparams() const {
    if (!has_qparams()) return grid({}, {});
    const ObserverOptions& range = options().observer_options;
    const arith::RangeRule rule{range.lowest(), range.highest(), arith::QuantScheme::symmetric, 0, range.eps};
    std::vector<float> scales;
    for (const float bound : constrained())
        scales.push_back(value_or_throw(arith::qparams_from_range(-bound, bound, rule), type_name()).scale);
    return grid(scales, {});
}

INTQ_INLINE void PACTFakeQuantize::store(const OwnedQParams& qparams) {
    std::vector<float> bounds;
    for (const float scale : qparams.scales) bounds.push_back(scale * half_range());
    tensor("alpha") = Tensor::from(Shape(static_cast<index_t>(bounds.size())), bounds);
}

INTQ_INLINE void PACTFakeQuantize::check_grid(const OwnedQParams& grid) const {
    FakeQuantize::check_grid(grid);
    for (const std::int32_t zero_point : grid.zero_points)
        if (zero_point != 0)
            throw Error("the grid has the zero point " + std::to_string(zero_point) +
                        ", and alpha bounds both sides alike");
    for (const float scale : grid.scales)
        if (!std::isfinite(scale * half_range())) throw Error("the range of the grid ends beyond the largest number");
}

INTQ_INLINE void PACTFakeQuantize::check_state() const {
    FakeQuantize::check_state();
    const Tensor& bounds = tensor("alpha");
    if (!bounds.defined()) {
        if (has_given_qparams()) throw Error(type_name() + ": its qparams are given, and it has no alpha");
        return;
    }
    for (const float bound : bounds.flat<float>())
        if (!std::isfinite(bound)) throw Error(type_name() + ": its alpha is NaN or infinite");
    check_scales(bounds);
}

INTQ_INLINE void PACTFakeQuantize::adapt_scale(std::vector<nn::Named<Tensor>>& state) const {
    nn::Named<Tensor>* scale = detail::entry_of(state, "scale");
    if (scale == nullptr) return;
    scale->name = "alpha";
    scale->value = scale->value.contiguous().clone();
    for (float& value : scale->value.flat<float>()) value *= half_range();
    if (detail::entry_of(state, "zero_point") != nullptr)
        throw Error("PACTFakeQuantize: the state has zero points, and alpha bounds both sides alike");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_PACT_FAKE_QUANTIZE_HPP
