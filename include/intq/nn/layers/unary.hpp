// SPDX-License-Identifier: MIT
//
// ReLU, ReLU6, and the functions of functional/unary.hpp as layers: Sigmoid, Tanh, GELU, … Layer: nn
// (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_UNARY_HPP
#define INTQ_NN_LAYERS_UNARY_HPP

#include <string>

#include "intq/core/op_params.hpp"
#include "intq/nn/float_operators/unary.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {
class ReLU : public Cloneable<ReLU> {
public:
    std::string type_name() const override { return "ReLU"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

class ReLU6 : public Cloneable<ReLU6> {
public:
    std::string type_name() const override { return "ReLU6"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

/// A function of single elements, from the table of functional/unary.hpp.
class Unary : public Module {
public:
    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    TableFunction function() const noexcept { return function_; }
    /// LeakyReLU: the negative slope; ELU: alpha; Hardsigmoid: 6 times its slope; no meaning for others.
    double parameter() const noexcept { return parameter_; }

protected:
    Unary(TableFunction function, double parameter);

private:
    TableFunction function_;
    double parameter_;
};

/// The layer of a row.
template <TableFunction function> class UnaryLayer : public Cloneable<UnaryLayer<function>, Unary> {
    static_assert(float_operators::unary_row(function).module != nullptr, "the row of this function names no module");

public:
    explicit UnaryLayer(double parameter = float_operators::unary_row(function).default_parameter)
        : Cloneable<UnaryLayer<function>, Unary>(function, parameter) {}
};

using Sigmoid = UnaryLayer<TableFunction::sigmoid>;
using Tanh = UnaryLayer<TableFunction::tanh>;
using Hardsigmoid = UnaryLayer<TableFunction::hard_sigmoid>;
using Hardswish = UnaryLayer<TableFunction::hard_swish>;
using Hardtanh = UnaryLayer<TableFunction::hard_tanh>;
using LeakyReLU = UnaryLayer<TableFunction::leaky_relu>;
using ELU = UnaryLayer<TableFunction::elu>;
using SiLU = UnaryLayer<TableFunction::silu>;

class GELU : public Cloneable<GELU, Unary> {
public:
    /// @param approximate  "none" or "tanh"
    explicit GELU(const std::string& approximate = "none");
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/nn/float_operators/elementwise.hpp"
#    include "intq/nn/functional/unary.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Value ReLU::forward(Arguments arguments) { return float_operators::relu(arguments.tensor(0)); }
INTQ_INLINE Value ReLU6::forward(Arguments arguments) { return float_operators::relu6(arguments.tensor(0)); }

INTQ_INLINE Value Unary::forward(Arguments arguments) {
    return float_operators::unary(function_, arguments.tensor(0), parameter_);
}

INTQ_INLINE std::string Unary::type_name() const { return float_operators::unary_row(function_).module; }
INTQ_INLINE Unary::Unary(TableFunction function, double parameter) : function_(function), parameter_(parameter) {
    float_operators::check_parameter(function, parameter);
}
INTQ_INLINE GELU::GELU(const std::string& approximate) : Cloneable(gelu_of(approximate), 1.0) {}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_UNARY_HPP
