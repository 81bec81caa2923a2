// SPDX-License-Identifier: MIT
//
// Custom modules on codes: no program executes them. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_CUSTOM_HPP
#define INTQ_QUANTIZATION_OPERATORS_CUSTOM_HPP

#include "intq/quantization/modules/custom_modules.hpp"
#include "intq/quantization/operators/lowering.hpp"
#include "intq/quantization/operators/operator.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Real values to real values by way of a quantized custom module.
class CustomOnReals : public nn::Cloneable<CustomOnReals> {
public:
    CustomOnReals(nn::ModulePtr module, OwnedQParams input, arith::QuantizeRule rule)
        : type_(custom_type(module)), input_(std::move(input)), rule_(rule) {
        add_child("module", std::move(module));
    }
    std::string type_name() const override { return type_; }
    bool is_leaf() const override { return true; }
    nn::Value forward(nn::Arguments arguments) override {
        const Tensor y = call("module", quantize(arguments.tensor(0), input_, rule_)).tensor();
        return dequantize(y, *y.qparams());
    }

private:
    std::string type_;
    OwnedQParams input_;
    arith::QuantizeRule rule_;
};

/// A custom module: observed, or quantized once its FromObserved was called.
class CustomStep : public Step {
public:
    CustomStep(nn::ModulePtr module, bool is_quantized) : module_(std::move(module)), is_quantized_(is_quantized) {}
    OpKind kind() const noexcept override { return OpKind::none; }
    const nn::Module& module() const noexcept { return *module_; }

    Tensor run(const QuantizedNode& node, const Tensor& codes) const {
        return quantized(node)->dispatch("forward", std::array{nn::Value(codes)}).tensor();
    }
    void lower(Lowering&, const QuantizedNode& node) const override {
        throw Error("lower: " + node.name + " (" + node.type + ")",
                    "it is a custom module; a program executes operators of the library only, a HybridModel both");
    }
    void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override {
        const QuantizedGraph& quantized_graph = reference.quantized();
        const auto on_reals = std::make_shared<CustomOnReals>(quantized(node), quantized_graph.input(node, 0).qparams,
                                                              quantized_graph.target.quantize);
        reference.quantize_output(node, reference.call(node, on_reals, {reference.real_input(node, 0)}));
    }

private:
    const nn::ModulePtr& quantized(const QuantizedNode& node) const {
        if (!is_quantized_)
            throw Error(node.name + " (" + node.type + ")",
                        "the custom module is observed only; give its from_observed to convert_fx()");
        return module_;
    }

    nn::ModulePtr module_;
    bool is_quantized_;
};

namespace operators {

inline StepPtr make_custom(const StepRequest& request) {
    if (request.inputs.size() != 1) throw request.error("a custom module on codes takes one value");
    return std::make_shared<CustomStep>(nn::clone(*request.module), false);
}

inline constexpr QuantizedOperator custom{.name = "custom", .role = Role::own_output, .make_step = &make_custom};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_OPERATORS_CUSTOM_HPP
