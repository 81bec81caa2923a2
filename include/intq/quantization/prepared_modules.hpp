// SPDX-License-Identifier: MIT
//
// Prepared layers: Conv2d and Linear whose weight passes a fake-quantizer. Layer: quantization (WORKFLOW section 2).
#ifndef INTQ_QUANTIZATION_PREPARED_MODULES_HPP
#define INTQ_QUANTIZATION_PREPARED_MODULES_HPP

#include "intq/arith/gemm.hpp"
#include "intq/arith/target.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/linear.hpp"
#include "intq/quantization/fake_quantize.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// The weight's qparams with each scale raised so that bias and fused add fit the accumulator (ARITHMETIC section 3,
/// step 0). A per-tensor scale is raised to the largest that a channel asks for.
///
/// @param bias   (O), or undefined
/// @param input  qparams of the input; per tensor
/// @param sumin  qparams of the operand of the fused add, or null
nn::OwnedQParams raise_weight_scales(const arith::PolicyRecord& target, nn::OwnedQParams weight, const nn::Tensor& bias,
                                     const nn::OwnedQParams& input, const nn::OwnedQParams* sumin);

/// What prepare gives to a layer with weights: the child weight_fake_quant, used by forward.
class PreparedWeight {
public:
    virtual ~PreparedWeight() = default;
    virtual FakeQuantize& weight_fake_quant() const = 0;
    virtual const nn::Weighted& layer() const = 0;
    /// The weight as forward uses it for these inputs, with the qparams of its grid where it is rounded.
    virtual nn::Tensor quantized_weight(nn::Arguments inputs) const = 0;
};

/// A Conv2d or Linear, fused or not, that fake-quantizes its weight: with the raised scale where the inputs say theirs.
///
/// @tparam Base  nn::Conv2d or nn::Linear
template <class Base> class Prepared : public nn::Cloneable<Prepared<Base>, nn::Fused<Base>>, public PreparedWeight {
public:
    Prepared(const Base& layer, const nn::Fusion& fusion, std::shared_ptr<FakeQuantize> weight,
             const arith::PolicyRecord& target)
        : nn::Cloneable<Prepared<Base>, nn::Fused<Base>>(nn::Fused<Base>(layer, fusion)), target_(target) {
        this->add_child("weight_fake_quant", std::move(weight));
    }

    /// "qat.ConvReLU2d": the name that PyTorch gives to its kin.
    std::string type_name() const override { return "qat." + nn::Fused<Base>::type_name(); }
    FakeQuantize& weight_fake_quant() const override {
        return static_cast<FakeQuantize&>(*this->child("weight_fake_quant"));
    }
    const nn::Weighted& layer() const override { return *this; }
    nn::Tensor quantized_weight(nn::Arguments inputs) const override {
        const FakeQuantize& quantizer = weight_fake_quant();
        if (!quantizer.fake_quant_enabled()) return this->weight();
        nn::OwnedQParams qparams = quantizer.qparams();
        const nn::Tensor& x = inputs.tensor(0);
        if (x.qparams()) {
            const nn::Tensor* operand = this->fusion().add ? &inputs.tensor(1) : nullptr;
            const nn::OwnedQParams* sumin = operand != nullptr && operand->qparams() ? &*operand->qparams() : nullptr;
            qparams = raise_weight_scales(target_, std::move(qparams), this->bias(), *x.qparams(), sumin);
        }
        return fake_quantize(this->weight(), qparams, quantizer.rule());
    }

protected:
    nn::Tensor effective_weight(nn::Arguments arguments) override {
        weight_fake_quant()(this->weight());  // observes, and is what a hook sees
        return quantized_weight(arguments);
    }

private:
    arith::PolicyRecord target_;
};

using PreparedConv2d = Prepared<nn::Conv2d>;
using PreparedLinear = Prepared<nn::Linear>;

// ---------------------------------------------------------------------------------------------------------------------

inline nn::OwnedQParams raise_weight_scales(const arith::PolicyRecord& target, nn::OwnedQParams weight,
                                            const nn::Tensor& bias, const nn::OwnedQParams& input,
                                            const nn::OwnedQParams* sumin) {
    arith::SuminOperand operand;
    if (sumin != nullptr)
        operand = {sumin->scale(), sumin->zero_points.empty() ? 0 : sumin->zero_points[0], sumin->quant_min,
                   sumin->quant_max};
    const std::size_t channels = bias.defined() ? static_cast<std::size_t>(bias.size()) : weight.scales.size();
    for (std::size_t c = 0; c < channels; ++c) {
        // A transposed convolution has a scale for each channel of a group, which the groups share.
        float& scale = weight.scales[weight.is_per_channel() ? c % weight.scales.size() : 0];
        const double b = bias.defined() ? static_cast<double>(bias.flat<float>()[c]) : 0.0;
        scale = arith::raise_weight_scale(target, scale, b, input.scale(), sumin != nullptr ? &operand : nullptr);
    }
    return weight;
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_PREPARED_MODULES_HPP
