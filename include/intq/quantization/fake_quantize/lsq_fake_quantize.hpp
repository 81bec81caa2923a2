// SPDX-License-Identifier: MIT
//
// LSQFakeQuantize: a quantizer whose scale, and zero point if it has one, are learned. Layer: quantization
// (docs/workflow.md section 2).
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_LSQ_FAKE_QUANTIZE_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_LSQ_FAKE_QUANTIZE_HPP

#include <string>
#include <vector>

#include "intq/arith/quantize.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/fake_quantize/internal/learnable_fake_quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Rounds to a grid whose scale is a parameter.
///
/// The observer provides the first scale, and each forward after calibration takes scale = max(|scale|, eps); see
/// LearnableFakeQuantize. The zero point learns only in the affine scheme; it is kept as a real number and rounded to a
/// code on use.
///
/// Source   Esser et al. 2020; docs/torch_semantics.md section 3 (Horizon's form; PyTorch's _LearnableFakeQuantize)
class LSQFakeQuantize : public nn::Cloneable<LSQFakeQuantize, LearnableFakeQuantize> {
public:
    explicit LSQFakeQuantize(const FakeQuantizeOptions& options);
    static QuantizerConfig with_args(const QuantizerArguments& arguments);

    std::string type_name() const override { return "LSQFakeQuantize"; }

    bool learns_zero_point() const noexcept { return options().observer_options.scheme == arith::QuantScheme::affine; }
    /// The grid of the next forward: with scale and zero point as constrained there.
    INTQ_INLINE OwnedQParams qparams() const override;
    /// Factor of the gradients of scale and zero point.
    float grad_factor(const Tensor& x) const;

protected:
    float least_value() const noexcept override { return options().observer_options.eps; }
    INTQ_INLINE void keep_in_range() override;
    INTQ_INLINE void store(const OwnedQParams& qparams) override;
    INTQ_INLINE void check_state() const override;
    INTQ_INLINE void adapt_scale(std::vector<nn::Named<Tensor>>& state) const override;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

#    include <algorithm>
#    include <cmath>
#    include <cstdint>

#    include "intq/arith/learnable.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/fake_quantize/quantizer_config.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE LSQFakeQuantize::LSQFakeQuantize(const FakeQuantizeOptions& options)
    : Cloneable(options, "scale", Tensor()) {
    if (learns_zero_point()) {
        add_parameter("zero_point", Tensor());
    } else {
        add_buffer("zero_point", Tensor());
    }
}

INTQ_INLINE QuantizerConfig LSQFakeQuantize::with_args(const QuantizerArguments& arguments) {
    return QuantizerConfig{{}, fake_quantize_factory<LSQFakeQuantize>()}.with_args(arguments);
}

INTQ_INLINE float LSQFakeQuantize::grad_factor(const Tensor& x) const {
    const auto steps = static_cast<double>(x.size()) * static_cast<double>(options().observer_options.highest());
    return options().use_grad_scaling && steps > 0 ? static_cast<float>(1.0 / std::sqrt(steps)) : 1.0f;
}

INTQ_INLINE OwnedQParams LSQFakeQuantize::qparams() const {
    if (!has_qparams()) return FakeQuantize::qparams();
    const ObserverOptions& range = options().observer_options;
    std::vector<std::int32_t> codes;
    const Tensor& zero_point = tensor("zero_point");
    if (learns_zero_point()) {
        for (const float real : zero_point.flat<float>())
            codes.push_back(arith::learnable_zero_point(real, range.lowest(), range.highest()));
    } else if (zero_point.defined()) {
        const auto given = zero_point.flat<std::int32_t>();
        codes.assign(given.begin(), given.end());
    }
    return grid(constrained(), codes);
}

INTQ_INLINE void LSQFakeQuantize::store(const OwnedQParams& qparams) {
    FakeQuantize::store(qparams);
    if (!learns_zero_point()) return;
    std::vector<float> real(qparams.zero_points.begin(), qparams.zero_points.end());
    real.resize(qparams.scales.size());
    tensor("zero_point") = Tensor::from(Shape(static_cast<index_t>(real.size())), real);
}

INTQ_INLINE void LSQFakeQuantize::check_state() const {
    if (learns_zero_point()) {
        const Tensor &scale = tensor("scale"), &zero_point = tensor("zero_point");
        if (scale.defined() && !(zero_point.defined() && zero_point.shape() == scale.shape()))
            throw Error(type_name() + ": it needs a zero_point for each scale");
        if (zero_point.defined())
            for (const float real : zero_point.flat<float>())
                if (!std::isfinite(real)) throw Error(type_name() + ": its zero_point is NaN or infinite");
    }
    FakeQuantize::check_state();
}

INTQ_INLINE void LSQFakeQuantize::adapt_scale(std::vector<nn::Named<Tensor>>& state) const {
    if (!learns_zero_point()) return FakeQuantize::adapt_scale(state);
    nn::Named<Tensor>* zero_point = detail::entry_of(state, "zero_point");
    const nn::Named<Tensor>* scale = detail::entry_of(state, "scale");
    if (scale == nullptr) return;
    if (zero_point == nullptr) {  // all were 0, in a state of the symmetric scheme
        if (tensor("zero_point").defined()) return;
        state.push_back({"zero_point", Tensor::zeros(scale->value.shape())});
    } else if (zero_point->value.dtype() == DType::int32) {
        const auto codes = zero_point->value.flat<std::int32_t>();
        zero_point->value = Tensor::from(zero_point->value.shape(), std::vector<float>(codes.begin(), codes.end()));
    }
}

INTQ_INLINE void LSQFakeQuantize::keep_in_range() {
    LearnableFakeQuantize::keep_in_range();
    if (!learns_zero_point()) return;
    const auto low = static_cast<float>(options().observer_options.lowest());
    const auto high = static_cast<float>(options().observer_options.highest());
    for (float& zero_point : tensor("zero_point").flat<float>()) zero_point = std::clamp(zero_point, low, high);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_LSQ_FAKE_QUANTIZE_HPP
