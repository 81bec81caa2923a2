// SPDX-License-Identifier: MIT
//
// LearnableFakeQuantize: the base of quantizers whose grid follows from a parameter. Layer: quantization
// (docs/workflow.md section 2).
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_INTERNAL_LEARNABLE_FAKE_QUANTIZE_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_INTERNAL_LEARNABLE_FAKE_QUANTIZE_HPP

#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Rounds to a grid that follows from a parameter, which an optimizer moves: a scale, or a bound.
///
/// The observer decides the parameter while rounding is off (calibration), or at the first forward if there was no
/// calibration. From then on each forward takes max(|parameter|, least_value()), so that no optimizer step can make it
/// meaningless.
class LearnableFakeQuantize : public FakeQuantize {
public:
    /// @param parameter  its name
    /// @param initial    undefined until data decides
    LearnableFakeQuantize(const FakeQuantizeOptions& options, const char* parameter, const Tensor& initial);

    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    /// False until the parameter has a value.
    bool has_qparams() const override { return tensor(parameter_).defined(); }
    bool learns_qparams() const noexcept override { return true; }

protected:
    bool is_observing() const override {
        return observer_enabled() && !has_given_qparams() && (!fake_quant_enabled() || !has_qparams());
    }
    /// The smallest meaningful value.
    virtual float least_value() const noexcept = 0;
    /// Brings a value that an optimizer moved back into the meaningful range.
    virtual INTQ_INLINE void keep_in_range();
    /// The parameter as the next forward uses it.
    std::vector<float> constrained() const;

private:
    const char* parameter_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

#    include <algorithm>
#    include <cmath>

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE LearnableFakeQuantize::LearnableFakeQuantize(const FakeQuantizeOptions& options, const char* parameter,
                                                         const Tensor& initial)
    : FakeQuantize(options), parameter_(parameter) {
    remove_scale_buffers();
    add_parameter(parameter, initial);
}

INTQ_INLINE nn::Value LearnableFakeQuantize::forward(nn::Arguments arguments) {
    if (is_observing()) {
        observe(arguments.tensor(0));
    } else if (has_qparams()) {
        keep_in_range();
    }
    return pass(arguments.tensor(0));
}

INTQ_INLINE std::vector<float> LearnableFakeQuantize::constrained() const {
    std::vector<float> values;
    for (const float value : tensor(parameter_).flat<float>())
        values.push_back((std::max)(std::fabs(value), least_value()));
    return values;
}

INTQ_INLINE void LearnableFakeQuantize::keep_in_range() {
    const std::vector<float> values = constrained();
    std::copy(values.begin(), values.end(), tensor(parameter_).flat<float>().begin());
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_INTERNAL_LEARNABLE_FAKE_QUANTIZE_HPP
