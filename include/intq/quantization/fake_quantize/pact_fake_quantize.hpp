// SPDX-License-Identifier: MIT
//
// PACTFakeQuantize: a quantizer whose clipping bound is learnt. Layer: quantization (docs/workflow.md section 2).
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_PACT_FAKE_QUANTIZE_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_PACT_FAKE_QUANTIZE_HPP

#include <string>

#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Clips to [-alpha, alpha] and rounds to the grid of that range; alpha is a parameter.
///
///     scale = alpha / ((quant_max - quant_min) / 2)
///     y     = dequantize(quantize(clamp(x, -alpha, alpha)))
///
/// alpha starts as FakeQuantizeOptions::alpha; calibration sets it to the range that the observer saw. Symmetric and
/// per tensor only.
///
/// Where x was not clipped, the gradient passes through the rounding to x. Where it was clipped, the gradient goes to
/// alpha. In Horizon's form the clamp of the codes stops it there a second time: alpha lies half a step above the last
/// code, so elements above alpha could not change it.
///
/// Source   Choi et al. 2018; docs/torch_semantics.md section 4
class PACTFakeQuantize : public nn::Cloneable<PACTFakeQuantize, FakeQuantize> {
public:
    /// Throws for an affine scheme, a channel axis, and an alpha that is not positive and finite.
    explicit PACTFakeQuantize(const FakeQuantizeOptions& options);

    std::string type_name() const override { return "PACTFakeQuantize"; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

    float alpha() const { return tensor("alpha").flat<float>()[0]; }
    bool has_qparams() const override { return true; }
    /// The grid of the next forward: that of alpha as it will constrain it.
    INTQ_INLINE OwnedQParams qparams() const override;
    bool learns_qparams() const noexcept override { return true; }

protected:
    bool is_observing() const override { return observer_enabled() && !has_given_qparams() && !fake_quant_enabled(); }
    INTQ_INLINE void store(const OwnedQParams& qparams) override;

private:
    float half_range() const noexcept;
    float constrained_alpha() const;
    void constrain();
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

#    include <algorithm>
#    include <cmath>
#    include <span>

#    include "intq/arith/quantize.hpp"
#    include "intq/io/error.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE PACTFakeQuantize::PACTFakeQuantize(const FakeQuantizeOptions& options) : Cloneable(FakeQuantize(options)) {
    if (options.observer_options.scheme == arith::QuantScheme::affine || options.observer_options.ch_axis >= 0)
        throw Error("PACTFakeQuantize: the scheme must be symmetric and per tensor; alpha is one bound");
    if (!(options.alpha > 0.0f && std::isfinite(options.alpha)))
        throw Error("PACTFakeQuantize: alpha must be positive, given " + std::to_string(options.alpha));
    remove_scale_buffers();
    add_parameter("alpha", Tensor::full(Shape(1), options.alpha));
}

INTQ_INLINE nn::Value PACTFakeQuantize::forward(nn::Arguments arguments) {
    if (is_observing()) {
        observe(arguments.tensor(0));
    } else {
        constrain();
    }
    return pass(arguments.tensor(0));
}

INTQ_INLINE OwnedQParams PACTFakeQuantize::qparams() const {
    const ObserverOptions& range = options().observer_options;
    const arith::RangeRule rule{range.lowest(), range.highest(), arith::QuantScheme::symmetric, 0, range.eps};
    const float bound = constrained_alpha();
    const float scale = value_or_throw(arith::qparams_from_range(-bound, bound, rule), type_name()).scale;
    return grid(std::span(&scale, 1), {});
}

INTQ_INLINE void PACTFakeQuantize::store(const OwnedQParams& qparams) {
    tensor("alpha") = Tensor::full(Shape(1), qparams.scale() * half_range());
}

INTQ_INLINE float PACTFakeQuantize::half_range() const noexcept {
    const ObserverOptions& range = options().observer_options;
    return static_cast<float>(static_cast<double>(range.highest() - range.lowest()) / 2.0);
}

INTQ_INLINE float PACTFakeQuantize::constrained_alpha() const {
    return std::max(std::fabs(alpha()), options().observer_options.eps * half_range());
}

INTQ_INLINE void PACTFakeQuantize::constrain() { tensor("alpha").flat<float>()[0] = constrained_alpha(); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_PACT_FAKE_QUANTIZE_HPP
