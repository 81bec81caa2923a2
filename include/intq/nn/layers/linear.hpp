// SPDX-License-Identifier: MIT
//
// Linear, and the functions on Values linear and matmul. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_LINEAR_HPP
#define INTQ_NN_LAYERS_LINEAR_HPP

#include <span>
#include <string>

#include "intq/nn/layers/weighted.hpp"
#include "intq/nn/model/call.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

Value evaluate_matmul(std::span<const Value> values);
Value evaluate_linear(std::span<const Value> values);

}  // namespace detail

inline constexpr Function matmul_function{"matmul", &detail::evaluate_matmul};
inline constexpr Function linear_function{"linear", &detail::evaluate_linear};

/// Product of the matrices in the last two axes.
Value matmul(const Value& a, const Value& b);
/// x · weight^T + bias, with the weight (O, I) as an argument; bias may be none.
Value linear(const Value& x, const Value& weight, const Value& bias = {});

struct LinearOptions {
    index_t in_features = 1;
    index_t out_features = 1;
    bool bias = true;
};

/// Linear layer on the last axis. Parameters: weight (O, I) and, with a bias, bias (O).
///
/// With a batch norm fused into it, folded or not, it takes only (N, C): on other shapes a batch norm counts axis 1.
class Linear : public Cloneable<Linear, Weighted> {
public:
    explicit Linear(const LinearOptions& options);

    std::string type_name() const override { return "Linear"; }
    std::string operator_name() const override { return "linear"; }
    int channel_axis() const noexcept override { return -1; }
    const LinearOptions& options() const noexcept { return options_; }
    INTQ_INLINE Tensor apply(const Tensor& x, const Tensor& weight) const override;

    /// "LinearReLU", "LinearAddReLU6", "LinearBn1d", …
    static std::string fused_type_name(const Fusion& fusion);

private:
    LinearOptions options_;
};

/// LinearReLU, LinearReLU6, LinearAdd, LinearAddReLU, LinearAddReLU6.
using FusedLinear = Fused<Linear>;

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/linear.hpp"
#    include "intq/nn/float_operators/matmul.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Value evaluate_matmul(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::matmul(arguments.tensor(0), arguments.tensor(1));
}

INTQ_INLINE Value evaluate_linear(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::linear(arguments.tensor(0), arguments.tensor(1),
                                   arguments.has(2) ? arguments.tensor(2) : Tensor());
}

}  // namespace detail

INTQ_INLINE Value matmul(const Value& a, const Value& b) { return call(matmul_function, a, b); }

INTQ_INLINE Value linear(const Value& x, const Value& weight, const Value& bias) {
    return bias.is_none() ? call(linear_function, x, weight) : call(linear_function, x, weight, bias);
}

INTQ_INLINE Linear::Linear(const LinearOptions& options) : options_(options) {
    if (options.in_features < 1 || options.out_features < 1)
        throw Error("Linear: features must be at least 1, given " + std::to_string(options.in_features) + " and " +
                    std::to_string(options.out_features));
    add_weight(Shape(options.out_features, options.in_features), options.bias, options.out_features);
}

INTQ_INLINE Tensor Linear::apply(const Tensor& x, const Tensor& weight) const {
    if (x.rank() > 2 && (norm() != nullptr || has_folded_norm()))
        throw Error("a " + type_name() + " that a batch norm was fused into takes (N, C), given " +
                    to_string(x.shape()) +
                    ", of which the batch norm counts axis 1 and not the features; leave the two apart: prepare does "
                    "so where it is given example_inputs, fuse_fx() where the shapes of the trace were recorded, "
                    "fuse_modules() where its list does not name the batch norm");
    return float_operators::linear(x, weight, bias(), &cache());
}

INTQ_INLINE std::string Linear::fused_type_name(const Fusion& fusion) {
    return "Linear" + name_of(fusion) + (fusion.norm ? "1d" : "");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_LINEAR_HPP
