// SPDX-License-Identifier: MIT
//
// QuantStub and DeQuantStub: where a model goes from real numbers to codes and back. Layer: nn.
#ifndef INTQ_NN_LAYERS_QUANTIZE_HPP
#define INTQ_NN_LAYERS_QUANTIZE_HPP

#include <string>

#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// The value passes; prepare puts a quantizer behind it, convert makes it the quantize step.
class QuantStub : public Cloneable<QuantStub> {
public:
    std::string type_name() const override { return "QuantStub"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

/// The value passes, as plain real numbers; convert makes it the dequantize step.
class DeQuantStub : public Cloneable<DeQuantStub> {
public:
    std::string type_name() const override { return "DeQuantStub"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include <optional>

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Value QuantStub::forward(Arguments arguments) { return arguments[0]; }

INTQ_INLINE Value DeQuantStub::forward(Arguments arguments) {
    Tensor x = arguments.tensor(0);
    x.set_qparams(std::nullopt);
    return x;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_QUANTIZE_HPP
