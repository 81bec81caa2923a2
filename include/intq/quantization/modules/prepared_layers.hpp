// SPDX-License-Identifier: MIT
//
// Prepared layers: Conv2d and Linear whose weight passes a fake-quantizer. Layer: quantization
// (docs/workflow.md section 2).
#ifndef INTQ_QUANTIZATION_MODULES_PREPARED_LAYERS_HPP
#define INTQ_QUANTIZATION_MODULES_PREPARED_LAYERS_HPP

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/linear.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/modules/qat_mode.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/quantize.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The weight's qparams with each scale raised so that bias and fused add fit the accumulator
/// (docs/arithmetic.md section 3, step 0). A per-tensor scale is raised to the largest that any channel needs.
///
/// @param bias       (O), or undefined
/// @param input      qparams of the input; per tensor
/// @param sumin      qparams of the operand of the fused add, or null
/// @param hands_out  whether the layer's output is its accumulator
OwnedQParams raise_weight_scales(const arith::PolicyRecord& target, OwnedQParams weight, const Tensor& bias,
                                 const OwnedQParams& input, const OwnedQParams* sumin, bool hands_out);

/// Weight and bias that a layer is deployed with, its batch norm folded, and the grid of the weight before
/// raise_weight_scales().
struct DeployedWeight {
    Tensor weight, bias;
    OwnedQParams qparams;
};

/// The part that prepare adds to a layer with weights: the child weight_fake_quant, used by forward.
class PreparedWeight {
public:
    virtual ~PreparedWeight() = default;
    virtual FakeQuantize& weight_fake_quant() const = 0;
    virtual const nn::Weighted& layer() const = 0;
    /// The weight by which the layer currently multiplies these inputs. If it is on a grid, it carries the qparams. A
    /// batch norm that the layer keeps uses its running statistics.
    virtual Tensor quantized_weight(nn::Arguments inputs) const = 0;

    /// How a batch norm that the layer keeps is trained; here fuse_bn acts as with_bn.
    void set_qat_mode(QATMode mode) noexcept { qat_mode_ = mode; }
    virtual INTQ_INLINE bool folds_in_reverse() const noexcept;
    /// Whether no quantizer is behind the layer, so that its accumulator is the output and must fit 32 bits.
    bool hands_out_accumulator() const noexcept { return hands_out_accumulator_; }
    void set_hands_out_accumulator() noexcept { hands_out_accumulator_ = true; }
    /// The tensor that the weight's quantizer observes: the weight, or the folded one.
    Tensor observed_weight() const;
    /// The grid of observed_weight() that a forward in the state `validation` uses at this moment: learned, given, or
    /// last observed. Before any observation, it is the grid of the current weight. Simulation, exact simulation, the
    /// reference graph and the program take it from here.
    OwnedQParams weight_qparams() const;
    /// @param observed  weight_qparams()
    DeployedWeight deployed(OwnedQParams observed) const;

protected:
    /// The weight in front of a batch norm that the layer keeps, and its origin in reverse folding.
    struct WeightBeforeNorm {
        Tensor weight;
        Tensor folded, rounded;      // weight = rounded / k, rounded = FQ(folded), folded = w · k
        std::vector<float> factors;  // k; empty if nothing is rounded, and without reverse folding
    };
    /// @param raise  raise(grid, bias) is the deployed grid
    WeightBeforeNorm weight_before_norm(
        const std::function<OwnedQParams(OwnedQParams grid, const Tensor& bias)>& raise) const;
    /// Keeps "folded", "rounded" and "factors" on the tape, unless there are no factors.
    void keep_on_tape(const WeightBeforeNorm& before) const;

private:
    QATMode qat_mode_ = QATMode::fuse_bn;
    bool hands_out_accumulator_ = false;
};

/// A layer with weights, fused or not, that fake-quantizes its weight. If the inputs carry scales, the weight's scales
/// are raised (raise_weight_scales()).
///
/// @tparam Base  nn::Conv2d, nn::Linear or another nn::Weighted
template <class Base> class Prepared : public nn::Cloneable<Prepared<Base>, nn::Fused<Base>>, public PreparedWeight {
public:
    Prepared(const Base& layer, const nn::Fusion& fusion, std::shared_ptr<FakeQuantize> weight,
             const arith::PolicyRecord& target)
        : nn::Cloneable<Prepared<Base>, nn::Fused<Base>>(nn::Fused<Base>(layer, fusion)), target_(target) {
        weight->set_weight_channels(layer.weight_channel_axis(), layer.weight().extent(layer.weight_channel_axis()));
        this->add_child("weight_fake_quant", std::move(weight));
    }

    /// "qat.ConvReLU2d": PyTorch's name for such layers.
    std::string type_name() const override { return "qat." + nn::Fused<Base>::type_name(); }
    FakeQuantize& weight_fake_quant() const override {
        return static_cast<FakeQuantize&>(*this->child("weight_fake_quant"));
    }
    const nn::Weighted& layer() const override { return *this; }
    Tensor quantized_weight(nn::Arguments inputs) const override {
        if (this->norm() != nullptr) return before_norm(inputs).weight;
        const FakeQuantize& quantizer = weight_fake_quant();
        if (!quantizer.fake_quant_enabled()) return this->weight();
        return fake_quantize(this->weight(), raised(this->weight_qparams(), this->bias(), inputs), quantizer.rule());
    }

protected:
    Tensor effective_weight(nn::Arguments arguments) override {
        weight_fake_quant()(observed_weight());  // observes, and a hook sees it
        if (this->norm() == nullptr) return quantized_weight(arguments);
        const PreparedWeight::WeightBeforeNorm before = before_norm(arguments);
        PreparedWeight::keep_on_tape(before);
        return before.weight;
    }

    /// The grid that is deployed for these inputs.
    OwnedQParams raised(OwnedQParams grid, const Tensor& bias, const nn::Arguments& inputs) const {
        const Tensor& x = inputs.tensor(0);
        if (!x.qparams()) return grid;
        const Tensor* operand = this->fusion().add ? &inputs.tensor(1) : nullptr;
        const OwnedQParams* sumin = operand != nullptr && operand->qparams() ? &*operand->qparams() : nullptr;
        return raise_weight_scales(target_, std::move(grid), bias, *x.qparams(), sumin, hands_out_accumulator());
    }

private:
    PreparedWeight::WeightBeforeNorm before_norm(const nn::Arguments& inputs) const {
        return weight_before_norm(
            [&](OwnedQParams grid, const Tensor& bias) { return raised(std::move(grid), bias, inputs); });
    }

    arith::PolicyRecord target_;
};

using PreparedConv2d = Prepared<nn::Conv2d>;
using PreparedLinear = Prepared<nn::Linear>;

/// Folds the batch norms that the layers of a model kept into their weights, so that training goes on without them. A
/// batch norm that no layer takes becomes the depthwise convolution that it equals in evaluation.
///
/// After with_bn the weights' scales no longer fit. Observed scales are observed anew on the folded weights, whatever
/// the state of the quantizers; learned or given scales are folded like the weights. After reverse folding, all scales
/// fit and stay.
///
/// @return how many were folded
int fold_batch_norms(nn::Module& model);

/// Each element times the factor of its output channel.
template <class Factor>
Tensor scaled_channels(const nn::Weighted& layer, const Tensor& weight, const Factor& factor_of) {
    Tensor result = weight.contiguous().clone();
    result.set_qparams(std::nullopt);
    const auto values = result.flat<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] *= factor_of(static_cast<std::size_t>(layer.output_channel_of(static_cast<index_t>(i))));
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

#    include <algorithm>
#    include <cmath>

#    include "intq/arith/conv.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/tape.hpp"
#    include "intq/quantization/modules/fold_batch_norm.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE bool PreparedWeight::folds_in_reverse() const noexcept {
    return qat_mode_ == QATMode::with_bn_reverse_fold && layer().norm() != nullptr;
}

INTQ_INLINE Tensor PreparedWeight::observed_weight() const {
    return folds_in_reverse() ? with_folded_norm(layer())->weight() : layer().weight();
}

INTQ_INLINE OwnedQParams PreparedWeight::weight_qparams() const {
    const FakeQuantize& quantizer = weight_fake_quant();
    if (quantizer.has_qparams()) return quantizer.qparams();
    const auto fresh = nn::clone(static_cast<const nn::Module&>(quantizer));
    auto& copy = static_cast<FakeQuantize&>(*fresh);
    copy.observe(observed_weight());
    return copy.qparams();
}

namespace detail {

/// The grid of a weight after the factors of folding: each channel's scale times |k|, unchanged where k is 0.
INTQ_INLINE OwnedQParams scaled_grid(const nn::Weighted& layer, OwnedQParams grid, const std::vector<float>& factors) {
    const int axis = layer.weight_channel_axis();
    if (axis != 0 && layer.out_channels() != layer.weight().extent(axis))
        throw Error(
            "the groups of a transposed convolution share their weight's scales, which with_bn would part; use "
            "with_bn_reverse_fold or fuse_bn");
    if (!grid.is_per_channel()) {
        grid.scales.assign(factors.size(), grid.scales.at(0));
        grid.axis = axis;
    }
    for (std::size_t c = 0; c < factors.size(); ++c)
        if (factors[c] != 0.0f) grid.scales[c] = arith::fmul(grid.scales[c], std::fabs(factors[c]));
    return grid;
}

}  // namespace detail

INTQ_INLINE DeployedWeight PreparedWeight::deployed(OwnedQParams observed) const {
    if (layer().norm() == nullptr) return {layer().weight(), layer().bias(), std::move(observed)};
    const auto folded = with_folded_norm(layer());
    if (!folds_in_reverse())
        observed = detail::scaled_grid(layer(), std::move(observed), fold_factors(*layer().norm()));
    return {folded->weight(), folded->bias(), std::move(observed)};
}

INTQ_INLINE PreparedWeight::WeightBeforeNorm PreparedWeight::weight_before_norm(
    const std::function<OwnedQParams(OwnedQParams grid, const Tensor& bias)>& raise) const {
    const FakeQuantize& quantizer = weight_fake_quant();
    if (!quantizer.fake_quant_enabled()) return {layer().weight(), {}, {}, {}};
    const OwnedQParams own = weight_qparams();
    const DeployedWeight deployed_weight = deployed(own);
    OwnedQParams grid = raise(deployed_weight.qparams, deployed_weight.bias);
    const std::vector<float> factors = fold_factors(*layer().norm());
    if (folds_in_reverse()) {
        const Tensor rounded = fake_quantize(deployed_weight.weight, grid, quantizer.rule());
        Tensor result = scaled_channels(layer(), rounded,
                                        [&](std::size_t c) { return factors[c] == 0.0f ? 0.0f : 1.0f / factors[c]; });
        const auto to = result.flat<float>();
        for (std::size_t i = 0; i < to.size(); ++i)
            if (factors[static_cast<std::size_t>(layer().output_channel_of(static_cast<index_t>(i)))] == 0.0f)
                to[i] = layer().weight().contiguous().flat<float>()[i];
        return {result, deployed_weight.weight, rounded, factors};
    }
    // Back to the weight's own grid; a scale that was not raised is the quantizer's to the bit.
    for (std::size_t c = 0; c < grid.scales.size(); ++c) {
        const float before = own.scales[own.is_per_channel() ? c : 0];
        const bool is_raised = grid.scales[c] != deployed_weight.qparams.scales[c] && factors[c] != 0.0f;
        grid.scales[c] = is_raised ? grid.scales[c] / std::fabs(factors[c]) : before;
    }
    if (!own.is_per_channel() &&
        std::all_of(grid.scales.begin(), grid.scales.end(), [&](float scale) { return scale == own.scales[0]; }))
        grid = own;
    return {fake_quantize(layer().weight(), grid, quantizer.rule()), {}, {}, {}};
}

INTQ_INLINE void PreparedWeight::keep_on_tape(const WeightBeforeNorm& before) const {
    if (nn::current_tape() == nullptr || before.factors.empty()) return;
    nn::keep_on_tape(layer(), "folded", before.folded);
    nn::keep_on_tape(layer(), "rounded", before.rounded);
    nn::keep_on_tape(layer(), "factors",
                     Tensor::from(Shape(static_cast<index_t>(before.factors.size())), before.factors));
}

INTQ_INLINE int fold_batch_norms(nn::Module& model) {
    std::vector<nn::Weighted*> layers;
    for (const auto& module : model.named_modules())
        if (auto* layer = dynamic_cast<nn::Weighted*>(module.value); layer != nullptr && layer->norm() != nullptr)
            layers.push_back(layer);
    for (nn::Weighted* layer : layers) {
        const auto* prepared = dynamic_cast<const PreparedWeight*>(layer);
        std::optional<OwnedQParams> grid;  // kept after reverse folding, or if given or learned
        if (prepared != nullptr && prepared->weight_fake_quant().has_qparams()) {
            const FakeQuantize& quantizer = prepared->weight_fake_quant();
            if (prepared->folds_in_reverse() || quantizer.has_given_qparams() || quantizer.learns_qparams())
                grid = prepared->deployed(prepared->weight_qparams()).qparams;
        }
        fold_batch_norm(*layer, *layer->norm());
        layer->remove_norm();
        if (prepared == nullptr) continue;
        if (grid)
            prepared->weight_fake_quant().adopt(*grid);
        else
            prepared->weight_fake_quant().observe_anew(layer->weight());
    }
    return static_cast<int>(layers.size());
}

INTQ_INLINE OwnedQParams raise_weight_scales(const arith::PolicyRecord& target, OwnedQParams weight, const Tensor& bias,
                                             const OwnedQParams& input, const OwnedQParams* sumin, bool hands_out) {
    arith::SuminOperand operand;
    if (sumin != nullptr)
        operand = {sumin->scale(), sumin->zero_points.empty() ? 0 : sumin->zero_points[0], sumin->quant_min,
                   sumin->quant_max};
    // The accumulator as output must fit 32 bits, even if the sum has 64.
    arith::PolicyRecord policy = target.for_weights(weight.dtype);
    if (hands_out) policy.headroom = (std::min)(policy.headroom, 30);
    const std::size_t channels = bias.defined() ? static_cast<std::size_t>(bias.size()) : weight.scales.size();
    for (std::size_t c = 0; c < channels; ++c) {
        // A transposed convolution has a scale for each channel of a group, shared by the groups.
        float& scale = weight.scales[weight.is_per_channel() ? c % weight.scales.size() : 0];
        const double b = bias.defined() ? static_cast<double>(bias.flat<float>()[c]) : 0.0;
        scale = arith::raise_weight_scale(policy, scale, b, input.scale(), sumin != nullptr ? &operand : nullptr);
    }
    return weight;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_modules)
#endif  // INTQ_QUANTIZATION_MODULES_PREPARED_LAYERS_HPP
