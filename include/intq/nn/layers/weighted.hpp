// SPDX-License-Identifier: MIT
//
// Weighted: the common part of convolutions and Linear, with their fused operators. Layer: nn
// (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_WEIGHTED_HPP
#define INTQ_NN_LAYERS_WEIGHTED_HPP

#include <memory>
#include <string>
#include <vector>

#include "intq/nn/float_operators/float_layer_cache.hpp"
#include "intq/nn/layers/fusion.hpp"
#include "intq/nn/layers/norm.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// A layer with a weight and perhaps a bias.
///
///     y = activation(product(x, weight) + bias [+ second argument])
///
/// The parameters of a new layer begin as PyTorch's do (initial_uniform()).
///
/// A call with a batch norm behind the product keeps on the tape the batch norm's input, "product", and the "weight"
/// that the product took.
class Weighted : public Module, public FusedFrom {
public:
    bool is_leaf() const override { return true; }
    /// The operator of graph/operators.hpp that this layer is, whatever is fused into it.
    virtual std::string operator_name() const = 0;
    INTQ_INLINE Value forward(Arguments arguments) override;

    const Tensor& weight() const { return tensor("weight"); }
    void set_weight(Tensor weight);
    bool has_bias() const noexcept;
    /// Undefined without a bias.
    Tensor bias() const;
    /// Adds the parameter where there was none.
    void set_bias(Tensor bias);
    /// The batch norm behind the product, child "bn"; null where there is none.
    BatchNorm* norm() const;
    /// No effect where there is none.
    virtual INTQ_INLINE void remove_norm();
    /// Whether weight and bias include a folded batch norm that was behind the product.
    bool has_folded_norm() const noexcept { return has_folded_norm_; }
    void set_folded_norm() noexcept { has_folded_norm_ = true; }

    /// The axis of the weight on which each output channel has its own scale; within a group where it is not axis 0.
    virtual int weight_channel_axis() const noexcept { return 0; }
    /// The axis that counts the channels of input and output; -1: the last.
    virtual int channel_axis() const noexcept { return 1; }
    virtual INTQ_INLINE index_t out_channels() const;
    /// The output channel of an element of the weight, in row_major order.
    index_t output_channel_of(index_t element) const;

    virtual INTQ_INLINE Fusion fusion() const;

    /// Product with another weight, and bias; no add, no activation. Several threads may call it.
    virtual Tensor apply(const Tensor& x, const Tensor& weight) const = 0;
    /// The packed layer that the last apply() ran; null before the first. The next one runs it again unless weight,
    /// bias or backend have changed; for another size of the input it takes the packed weight. Copies and clones of the
    /// layer begin without it.
    std::shared_ptr<const float_operators::PackedFloatLayer> packed() const { return cache_.get(); }

protected:
    /// For the constructor of a layer: adds "weight" and, where there is a bias, "bias".
    void add_weight(const Shape& shape, bool has_bias, index_t out_channels);
    /// The weight that forward uses; a prepared layer fake-quantizes it.
    virtual INTQ_INLINE Tensor effective_weight(Arguments);
    /// Where apply() keeps the packed layer.
    float_operators::FloatLayerCache& cache() const noexcept { return cache_; }

private:
    mutable float_operators::FloatLayerCache cache_;
    bool has_folded_norm_ = false;
};

namespace detail {

/// "x", and "y" where there is an add.
std::vector<std::string> fused_input_names(const Fusion& fusion);

}  // namespace detail

/// A Conv2d or Linear with an add or an activation inside. Its second argument is the operand of the add.
template <class Base> class Fused : public Cloneable<Fused<Base>, Base> {
public:
    Fused(const Base& layer, const Fusion& fusion) : Cloneable<Fused<Base>, Base>(layer), fusion_(fusion) {}

    std::string type_name() const override { return Base::fused_type_name(fusion()); }
    std::vector<std::string> input_names() const override { return detail::fused_input_names(fusion_); }
    Fusion fusion() const override { return {fusion_.add, fusion_.activation, this->norm() != nullptr}; }

private:
    Fusion fusion_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"
#    include "intq/nn/layers/initial_weights.hpp"
#    include "intq/nn/model/tape.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Value Weighted::forward(Arguments arguments) {
    const Tensor weight = effective_weight(arguments);
    Tensor product = apply(arguments.tensor(0), weight);
    if (BatchNorm* const own = norm()) {
        keep_on_tape(*this, "product", product);
        keep_on_tape(*this, "weight", weight);
        product = (*own)(product).tensor();
    }
    const Tensor sum = fusion().add ? float_operators::add(product, arguments.tensor(1)) : product;
    return float_operators::activate(sum, fusion().activation);
}

INTQ_INLINE void Weighted::add_weight(const Shape& shape, bool has_bias, index_t out_channels) {
    const index_t fan_in = shape.size() / shape[0];  // PyTorch's, also for a transposed convolution
    add_parameter("weight", initial_uniform(shape, fan_in));
    if (has_bias) add_parameter("bias", initial_uniform(Shape(out_channels), fan_in));
}

INTQ_INLINE void Weighted::set_weight(Tensor weight) {
    Tensor& own = tensor("weight");
    if (own.defined() && weight.defined() && !(own.shape() == weight.shape()))
        throw Error(type_name() + ": the weight has shape " + to_string(weight.shape()) + ", expected " +
                    to_string(own.shape()));
    own = std::move(weight);
}

INTQ_INLINE bool Weighted::has_bias() const noexcept {
    for (const auto& parameter : parameters())
        if (parameter.name == "bias") return true;
    return false;
}

INTQ_INLINE Tensor Weighted::bias() const { return has_bias() ? tensor("bias") : Tensor(); }

INTQ_INLINE void Weighted::set_bias(Tensor bias) {
    if (has_bias()) {
        tensor("bias") = std::move(bias);
    } else {
        add_parameter("bias", std::move(bias));
    }
}

INTQ_INLINE BatchNorm* Weighted::norm() const {
    return has_child("bn") ? static_cast<BatchNorm*>(child("bn").get()) : nullptr;
}

INTQ_INLINE void Weighted::remove_norm() {
    if (norm() != nullptr) remove_child("bn");
}

INTQ_INLINE index_t Weighted::out_channels() const { return weight().extent(0); }

INTQ_INLINE index_t Weighted::output_channel_of(index_t element) const {
    const Shape& shape = weight().shape();
    if (weight_channel_axis() == 0) return element / (shape.size() / shape[0]);
    const index_t input = element / (shape.size() / shape[0]), groups = out_channels() / shape[1];
    return input / (shape[0] / groups) * shape[1] + element / (shape.size() / (shape[0] * shape[1])) % shape[1];
}

INTQ_INLINE Fusion Weighted::fusion() const { return {}; }
INTQ_INLINE Tensor Weighted::effective_weight(Arguments) { return weight(); }

namespace detail {

INTQ_INLINE std::vector<std::string> fused_input_names(const Fusion& fusion) {
    return fusion.add ? std::vector<std::string>{"x", "y"} : std::vector<std::string>{"x"};
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_WEIGHTED_HPP
