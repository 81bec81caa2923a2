// SPDX-License-Identifier: MIT
//
// conv3d and conv_transpose3d: layers with weights that train quantized but have no integer form. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_INTERNAL_HOST_LAYER_HPP
#define INTQ_QUANTIZATION_OPERATORS_INTERNAL_HOST_LAYER_HPP

#include <memory>
#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/quantization/operators/custom.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr const char* no_integer_form = "it has no integer form, and is computed in float between its codes";

}  // namespace detail

/// A prepared layer in the state `validation`, on real values that lie on the grids of its inputs.
class LayerOnGrids : public nn::Cloneable<LayerOnGrids> {
public:
    /// @param prepared  a clone of it is put into the state `validation`
    /// @param inputs    qparams of the layer's arguments; empty if they are codes that carry their own
    explicit LayerOnGrids(const nn::Module& prepared, std::vector<OwnedQParams> inputs = {});
    std::string type_name() const override { return type_; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

private:
    const OwnedQParams& codes_of(const Tensor& x) const;

    std::string type_;
    std::vector<OwnedQParams> inputs_;
};

/// A layer between codes that the host computes in float, with the weights that validation rounds: the codes equal fake
/// quantization's.
class HostLayerStep : public CustomStep {
public:
    explicit HostLayerStep(const std::shared_ptr<LayerOnGrids>& layer) : CustomStep(layer, true) {}
    INTQ_INLINE Tensor run(const QuantizedGraph& quantized, const QuantizedNode& node,
                           const std::vector<Tensor>& inputs) const override;
    INTQ_INLINE void lower(Lowering&, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <utility>

#    include "intq/graph/graph.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/conv3d.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/reference.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE LayerOnGrids::LayerOnGrids(const nn::Module& prepared, std::vector<OwnedQParams> inputs)
    : type_(prepared.type_name()), inputs_(std::move(inputs)) {
    const nn::ModulePtr layer = nn::clone(prepared);
    set_fake_quantize(*layer, FakeQuantState::validation);
    layer->eval();
    add_child("layer", layer);
    eval();
}

INTQ_INLINE const OwnedQParams& LayerOnGrids::codes_of(const Tensor& x) const {
    if (!x.qparams() || x.dtype() == DType::float32)
        throw Error(type_, "it takes codes, given real values: put a QuantStub before it, or give it no qconfig");
    return *x.qparams();
}

INTQ_INLINE nn::Value LayerOnGrids::forward(nn::Arguments arguments) {
    std::vector<nn::Value> values;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const OwnedQParams qparams = inputs_.empty() ? codes_of(arguments.tensor(i)) : inputs_.at(i);
        Tensor x = inputs_.empty() ? dequantize(arguments.tensor(i), qparams) : arguments.tensor(i);
        x.set_qparams(qparams);
        values.emplace_back(std::move(x));
    }
    return child("layer")->invoke("forward", nn::Arguments(values));
}

INTQ_INLINE Tensor HostLayerStep::run(const QuantizedGraph& quantized, const QuantizedNode& node,
                                      const std::vector<Tensor>& inputs) const {
    std::vector<nn::Value> real;
    for (std::size_t i = 0; i < inputs.size(); ++i)
        real.emplace_back(dequantize(inputs[i], quantized.input(node, i).qparams));
    return quantize(module()->dispatch("forward", real).tensor(), quantized.output(node).qparams,
                    quantized.target.quantize);
}

INTQ_INLINE void HostLayerStep::lower(Lowering&, const QuantizedNode& node) const {
    throw Error("lower: " + node.layer() + " (" + node.type + ")",
                "it has no integer form; a HybridModel computes it in float between its codes");
}

INTQ_INLINE void HostLayerStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    graph::ArgumentList arguments;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) arguments.emplace_back(reference.real_input(node, i));
    reference.quantize_output(node, reference.call(node, module(), std::move(arguments)));
}

namespace operators {

INTQ_INLINE StepPtr make_host_layer(const StepRequest& request) {
    std::vector<OwnedQParams> inputs;
    for (const QuantizedTensor* input : request.inputs) inputs.push_back(input->qparams);
    return make_as<Step, HostLayerStep>(std::make_shared<LayerOnGrids>(*request.module, std::move(inputs)));
}

inline constexpr QuantizedOperator conv3d{.name = "conv3d",
                                          .role = Role::weighted,
                                          .make_step = &make_host_layer,
                                          .prepare = &prepare_layer<nn::Conv3d>,
                                          .on_host = true};
inline constexpr QuantizedOperator conv_transpose3d{.name = "conv_transpose3d",
                                                    .role = Role::weighted,
                                                    .make_step = &make_host_layer,
                                                    .prepare = &prepare_layer<nn::ConvTranspose3d>,
                                                    .on_host = true};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_INTERNAL_HOST_LAYER_HPP
