// SPDX-License-Identifier: MIT
//
// BatchNormConv2d: a batch norm that no layer takes, as the equivalent depthwise convolution in evaluation; and its
// prepared form, which trains it as a batch norm. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_MODULES_BATCH_NORM_CONV_HPP
#define INTQ_QUANTIZATION_MODULES_BATCH_NORM_CONV_HPP

#include <string>

#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/norm.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/modules/qat_mode.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// An evaluated batch norm as the equivalent depthwise convolution:
///
///     y[c] = x[c] · gamma[c] / sqrt(var[c] + eps) + (beta[c] - mean[c] · gamma[c] / sqrt(var[c] + eps))
///
/// Its integers are a convolution's: the window is one pixel, and the codes are the largest, with one scale per
/// channel.
///
/// QATMode::fuse_bn folds the batch norm, which is then frozen; weight and bias are parameters. The other modes keep it
/// as the child "bn" behind a weight of ones, which is a buffer, until fold_batch_norms() folds it.
class BatchNormConv2d : public nn::Cloneable<BatchNormConv2d, nn::Conv2d> {
public:
    explicit BatchNormConv2d(const nn::BatchNorm2d& norm, QATMode mode = QATMode::fuse_bn);
    std::string type_name() const override { return fused_type_name({}); }
    static std::string fused_type_name(const nn::Fusion& fusion);

    /// A kept batch norm takes the input itself.
    INTQ_INLINE Tensor apply(const Tensor& x, const Tensor& weight) const override;
    INTQ_INLINE void remove_norm() override;
    /// Refuses a weight of ones whose values are not 1.
    INTQ_INLINE void tensors_changed() override;
};

/// In training, runs the batch norm that it keeps, on statistics of the batch unless they are frozen; no weight is
/// rounded. In evaluation, if its quantizer rounds, runs the depthwise convolution of the running statistics with its
/// weight on the deployed grid. A call keeps its input on the tape as "product".
///
/// The quantizer of the weight observes the ones, so that the largest code always means the current factor; the scales
/// take the factors (PreparedWeight::deployed()).
class PreparedBatchNorm2d : public nn::Cloneable<PreparedBatchNorm2d, Prepared<BatchNormConv2d>> {
public:
    using Cloneable::Cloneable;

    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    /// The weight of the depthwise convolution, even when the batch norm runs in its place.
    INTQ_INLINE Tensor quantized_weight(nn::Arguments inputs) const override;
    /// The factor is the whole weight, and determines its grid in both modes.
    bool folds_in_reverse() const noexcept override { return false; }

protected:
    INTQ_INLINE Tensor effective_weight(nn::Arguments arguments) override;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

#    include <algorithm>
#    include <memory>
#    include <string_view>
#    include <utility>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/nn/layers/initial_weights.hpp"
#    include "intq/nn/model/tape.hpp"
#    include "intq/quantization/modules/fold_batch_norm.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Without bias, or with one of zeros.
INTQ_INLINE nn::Conv2d depthwise_conv(index_t channels, bool bias) {
    const nn::SkipInitScope zeros;
    return nn::Conv2d({channels, channels, {}, channels, bias});
}

/// Moves a tensor of a module, with its name, from one list to the other.
INTQ_INLINE void move_tensor(std::vector<nn::Named<Tensor>>& from, std::vector<nn::Named<Tensor>>& to,
                             std::string_view name) {
    const auto found = std::find_if(from.begin(), from.end(), [&](const auto& item) { return item.name == name; });
    if (found == from.end()) return;
    to.push_back(std::move(*found));
    from.erase(found);
}

}  // namespace detail

INTQ_INLINE BatchNormConv2d::BatchNormConv2d(const nn::BatchNorm2d& norm, QATMode mode)
    : Cloneable(detail::depthwise_conv(norm.options().num_features, mode == QATMode::fuse_bn)) {
    set_weight(Tensor::full(weight().shape(), 1.0f));
    if (mode == QATMode::fuse_bn) {
        fold_batch_norm(*this, norm);
        return;
    }
    detail::move_tensor(parameters(), buffers(), "weight");
    // Operators fused behind it belong to the layer.
    const auto own = std::make_shared<nn::BatchNorm2d>(norm);
    own->set_members({});
    add_child("bn", own);
}

INTQ_INLINE std::string BatchNormConv2d::fused_type_name(const nn::Fusion& fusion) {
    if (fusion.activation == Activation::none) return "BatchNorm2d";
    return nn::fused_norm_name("BatchNorm2d", fusion.activation);
}

INTQ_INLINE Tensor BatchNormConv2d::apply(const Tensor& x, const Tensor& weight) const {
    return norm() == nullptr ? Conv2d::apply(x, weight) : x;
}

INTQ_INLINE void BatchNormConv2d::remove_norm() {
    Conv2d::remove_norm();
    detail::move_tensor(buffers(), parameters(), "weight");
}

INTQ_INLINE void BatchNormConv2d::tensors_changed() {
    Conv2d::tensors_changed();
    if (norm() == nullptr) return;
    for (const float value : weight().contiguous().flat<float>())
        if (value != 1.0f)
            throw Error(type_name() + ": its weight is 1 in front of the batch norm that it keeps, given " +
                        std::to_string(value));
}

INTQ_INLINE nn::Value PreparedBatchNorm2d::forward(nn::Arguments arguments) {
    const bool is_rounded = norm() != nullptr && !training() && weight_fake_quant().fake_quant_enabled();
    if (!is_rounded) return Cloneable::forward(arguments);
    weight_fake_quant()(observed_weight());
    nn::keep_on_tape(*this, "product", arguments.tensor(0));
    nn::Fused<nn::Conv2d> layer(static_cast<const nn::Conv2d&>(*with_folded_norm(*this)), fusion());
    layer.set_weight(quantized_weight(arguments));
    return layer.forward(arguments);
}

INTQ_INLINE Tensor PreparedBatchNorm2d::effective_weight(nn::Arguments arguments) {
    if (norm() == nullptr) return Cloneable::effective_weight(arguments);
    weight_fake_quant()(observed_weight());
    return weight();
}

INTQ_INLINE Tensor PreparedBatchNorm2d::quantized_weight(nn::Arguments inputs) const {
    if (norm() == nullptr) return Cloneable::quantized_weight(inputs);
    const DeployedWeight folded = deployed(weight_qparams());
    const FakeQuantize& quantizer = weight_fake_quant();
    if (!quantizer.fake_quant_enabled()) return folded.weight;
    return fake_quantize(folded.weight, raised(folded.qparams, folded.bias, inputs), quantizer.rule());
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_modules)
#endif  // INTQ_QUANTIZATION_MODULES_BATCH_NORM_CONV_HPP
