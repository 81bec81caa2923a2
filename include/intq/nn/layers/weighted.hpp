// SPDX-License-Identifier: MIT
//
// Weighted: what convolutions and Linear have in common, and what fusing adds to them. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_LAYERS_WEIGHTED_HPP
#define INTQ_NN_LAYERS_WEIGHTED_HPP

#include "intq/nn/functional.hpp"
#include "intq/nn/layers/fusion.hpp"
#include "intq/nn/module.hpp"

namespace intq::inline INTQ_ABI::nn {

/// A layer with a weight and perhaps a bias.
///
///     y = activation(product(x, weight) + bias [+ second argument])
class Weighted : public Module, public FusedFrom {
public:
    bool is_leaf() const override { return true; }
    /// The operator of graph/operators.hpp that this layer is, whatever is fused into it.
    virtual std::string operator_name() const = 0;
    Value forward(Arguments arguments) override {
        const Tensor product = apply(arguments.tensor(0), effective_weight(arguments));
        const Tensor sum = fusion().add ? functional::add(product, arguments.tensor(1)) : product;
        return functional::activate(sum, fusion().activation);
    }

    const Tensor& weight() const { return tensor("weight"); }
    void set_weight(Tensor weight) { tensor("weight") = std::move(weight); }
    bool has_bias() const noexcept {
        for (const auto& parameter : parameters())
            if (parameter.name == "bias") return true;
        return false;
    }
    /// Undefined without a bias.
    Tensor bias() const { return has_bias() ? tensor("bias") : Tensor(); }
    /// Adds the parameter where there was none.
    void set_bias(Tensor bias) {
        if (has_bias()) {
            tensor("bias") = std::move(bias);
        } else {
            add_parameter("bias", std::move(bias));
        }
    }
    /// The axis of the weight on which each output channel has its own scale; within a group where it is not axis 0.
    virtual int weight_channel_axis() const noexcept { return 0; }
    virtual index_t out_channels() const { return weight().extent(0); }

    virtual Fusion fusion() const { return {}; }

    /// Product with another weight, and bias; no add, no activation.
    virtual Tensor apply(const Tensor& x, const Tensor& weight) const = 0;

protected:
    /// The weight that forward uses; a prepared layer fake-quantizes it.
    virtual Tensor effective_weight(Arguments) { return weight(); }
};

/// A Conv2d or Linear with an add or an activation inside. Its second argument is the operand of the add.
template <class Base> class Fused : public Cloneable<Fused<Base>, Base> {
public:
    Fused(const Base& layer, const Fusion& fusion) : Cloneable<Fused<Base>, Base>(layer), fusion_(fusion) {}

    std::string type_name() const override { return Base::fused_type_name(fusion_); }
    std::vector<std::string> input_names() const override {
        return fusion_.add ? std::vector<std::string>{"x", "y"} : std::vector<std::string>{"x"};
    }
    Fusion fusion() const override { return fusion_; }

private:
    Fusion fusion_;
};

}  // namespace intq::inline INTQ_ABI::nn

#endif  // INTQ_NN_LAYERS_WEIGHTED_HPP
