// SPDX-License-Identifier: MIT
//
// Custom modules on codes: no program executes them. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_CUSTOM_HPP
#define INTQ_QUANTIZATION_OPERATORS_CUSTOM_HPP

#include <string>
#include <vector>

#include "intq/arith/quantize.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Real values to real values by way of a quantized custom module.
class CustomOnReals : public nn::Cloneable<CustomOnReals> {
public:
    CustomOnReals(nn::ModulePtr module, OwnedQParams input, arith::QuantizeRule rule);
    std::string type_name() const override { return type_; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

private:
    std::string type_;
    OwnedQParams input_;
    arith::QuantizeRule rule_;
};

/// A custom module: observed, or quantized once its FromObserved was called.
class CustomStep : public Step {
public:
    CustomStep(nn::ModulePtr module, bool is_quantized);
    OpKind kind() const noexcept override { return OpKind::none; }
    const nn::ModulePtr& module() const noexcept { return module_; }

    /// @param inputs  codes
    virtual INTQ_INLINE Tensor run(const QuantizedGraph& quantized, const QuantizedNode& node,
                                   const std::vector<Tensor>& inputs) const;
    INTQ_INLINE void lower(Lowering&, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;

private:
    const nn::ModulePtr& quantized(const QuantizedNode& node) const;

    nn::ModulePtr module_;
    bool is_quantized_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <array>
#    include <memory>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/quantization/modules/custom_modules.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/reference.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE CustomOnReals::CustomOnReals(nn::ModulePtr module, OwnedQParams input, arith::QuantizeRule rule)
    : type_(custom_type(module)), input_(std::move(input)), rule_(rule) {
    add_child("module", std::move(module));
}

INTQ_INLINE nn::Value CustomOnReals::forward(nn::Arguments arguments) {
    const Tensor y = call("module", quantize(arguments.tensor(0), input_, rule_)).tensor();
    return dequantize(y, *y.qparams());
}

INTQ_INLINE CustomStep::CustomStep(nn::ModulePtr module, bool is_quantized)
    : module_(std::move(module)), is_quantized_(is_quantized) {}

INTQ_INLINE Tensor CustomStep::run(const QuantizedGraph& quantized_graph, const QuantizedNode& node,
                                   const std::vector<Tensor>& inputs) const {
    Tensor codes = inputs.at(0);
    codes.set_qparams(quantized_graph.input(node, 0).qparams);
    return quantized(node)->dispatch("forward", std::array{nn::Value(codes)}).tensor();
}

INTQ_INLINE void CustomStep::lower(Lowering&, const QuantizedNode& node) const {
    throw Error("lower: " + node.layer() + " (" + node.type + ")",
                "it is a custom module; a program executes operators of the library only, a HybridModel both");
}

INTQ_INLINE void CustomStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    const QuantizedGraph& quantized_graph = reference.quantized();
    const auto on_reals = std::make_shared<CustomOnReals>(quantized(node), quantized_graph.input(node, 0).qparams,
                                                          quantized_graph.target.quantize);
    reference.quantize_output(node, reference.call(node, on_reals, {reference.real_input(node, 0)}));
}

INTQ_INLINE const nn::ModulePtr& CustomStep::quantized(const QuantizedNode& node) const {
    if (!is_quantized_)
        throw Error(node.layer() + " (" + node.type + ")",
                    "the custom module is observed only; give its from_observed to convert_fx()");
    return module_;
}

namespace operators {

INTQ_INLINE StepPtr make_custom(const StepRequest& request) {
    if (request.inputs.size() != 1) throw request.error("a custom module on codes takes one value");
    return make_as<Step, CustomStep>(nn::clone(*request.module), false);
}

inline constexpr QuantizedOperator custom{.name = "custom", .role = Role::own_output, .make_step = &make_custom};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_CUSTOM_HPP
