// SPDX-License-Identifier: MIT
//
// Linear and LSTM whose weights are int8 and whose inputs are quantized as they arrive. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_DYNAMIC_DYNAMIC_MODULES_HPP
#define INTQ_QUANTIZATION_DYNAMIC_DYNAMIC_MODULES_HPP

#include <memory>
#include <string>
#include <vector>

#include "intq/core/op_params.hpp"
#include "intq/nn/layers/linear.hpp"
#include "intq/nn/layers/lstm.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/dynamic/dynamic_matrix.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A Linear, perhaps with an activation, on codes. Buffers: weight (int8), weight_scale and, with a bias, bias.
class DynamicLinear : public nn::Cloneable<DynamicLinear> {
public:
    /// Throws for a layer with a fused add.
    DynamicLinear(const nn::Linear& layer, const DynamicQConfig& qconfig);

    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    const nn::LinearOptions& options() const noexcept { return options_; }
    const DynamicMatrix& matrix() const noexcept { return *matrix_; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    void tensors_changed() override { pack(); }

private:
    void pack();

    nn::LinearOptions options_;
    Activation activation_;
    bool has_bias_;
    bool reduce_range_;
    std::shared_ptr<const DynamicMatrix> matrix_;
};

/// An LSTM on codes. The whole input of a layer has one scale; the hidden state gets a fresh one at every step. Gates,
/// cell and biases are real numbers.
///
/// Buffers: as the parameters of nn::LSTM, each weight as int8 codes with <weight>_scale.
///
/// Source   reference: PyTorch 2.15, quantized_lstm with use_dynamic
class DynamicLSTM : public nn::Cloneable<DynamicLSTM, nn::LSTM> {
public:
    DynamicLSTM(const nn::LSTM& layer, const DynamicQConfig& qconfig);

    std::string type_name() const override { return "dynamic.LSTM"; }
    void tensors_changed() override { pack(); }

protected:
    INTQ_INLINE nn::float_operators::LstmResult run_layer(const Tensor& x, index_t layer, index_t direction,
                                                          const Tensor& h, const Tensor& c) const override;

private:
    struct Matrices {
        std::shared_ptr<const DynamicMatrix> from_x, from_h;
    };
    void pack();

    bool reduce_range_;
    std::vector<Matrices> matrices_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_dynamic)

#    include <cstddef>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"
#    include "intq/nn/float_operators/lstm.hpp"
#    include "intq/nn/layers/fusion.hpp"
#    include "intq/quantization/modules/weight_codes.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE DynamicLinear::DynamicLinear(const nn::Linear& layer, const DynamicQConfig& qconfig)
    : options_(layer.options()),
      activation_(layer.fusion().activation),
      has_bias_(layer.has_bias()),
      reduce_range_(qconfig.reduce_range) {
    if (layer.fusion().add) throw Error("DynamicLinear: a linear layer with a fused add is not quantized dynamically");
    add_codes(*this, "weight", layer.weight(), qconfig.per_channel ? 0 : -1);
    if (has_bias_) add_buffer("bias", layer.bias().clone());
    train(false);
    pack();
}

INTQ_INLINE std::string DynamicLinear::type_name() const {
    return "dynamic.Linear" + nn::name_of(nn::Fusion{false, activation_});
}

INTQ_INLINE nn::Value DynamicLinear::forward(nn::Arguments arguments) {
    return nn::float_operators::activate((*matrix_)(arguments.tensor(0)), activation_);
}

INTQ_INLINE void DynamicLinear::pack() {
    matrix_ = std::make_shared<DynamicMatrix>(codes_of(*this, "weight"), has_bias_ ? tensor("bias") : Tensor(),
                                              reduce_range_);
}

INTQ_INLINE DynamicLSTM::DynamicLSTM(const nn::LSTM& layer, const DynamicQConfig& qconfig)
    : Cloneable(layer), reduce_range_(qconfig.reduce_range) {
    parameters().clear();
    for (const auto& parameter : layer.parameters())
        if (parameter.name.rfind("weight", 0) == 0) {
            add_codes(*this, parameter.name, parameter.value, qconfig.per_channel ? 0 : -1);
        } else {
            add_buffer(parameter.name, parameter.value.clone());
        }
    train(false);
    pack();
}

INTQ_INLINE nn::float_operators::LstmResult DynamicLSTM::run_layer(const Tensor& x, index_t layer, index_t direction,
                                                                   const Tensor& h, const Tensor& c) const {
    const Matrices& m = matrices_[static_cast<std::size_t>(layer * directions() + direction)];
    return nn::float_operators::lstm_layer_of<float>(x, options().hidden_size, *m.from_x, *m.from_h, h, c,
                                                     direction == 1);
}

INTQ_INLINE void DynamicLSTM::pack() {
    matrices_.clear();
    const auto matrix = [&](const std::string& which, const std::string& suffix) {
        return std::make_shared<DynamicMatrix>(codes_of(*this, "weight" + which + suffix),
                                               options().bias ? tensor("bias" + which + suffix) : Tensor(),
                                               reduce_range_);
    };
    for (index_t layer = 0; layer < options().num_layers; ++layer)
        for (index_t direction = 0; direction < directions(); ++direction) {
            const std::string suffix = suffix_of(layer, direction);
            matrices_.push_back({matrix("_ih", suffix), matrix("_hh", suffix)});
        }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_dynamic)
#endif  // INTQ_QUANTIZATION_DYNAMIC_DYNAMIC_MODULES_HPP
