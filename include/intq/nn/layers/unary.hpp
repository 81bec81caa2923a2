// SPDX-License-Identifier: MIT
//
// relu, relu6, and the functions of the table in float_operators/unary.hpp (sigmoid, tanh, gelu, …) as functions on
// Values and as layers. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_UNARY_HPP
#define INTQ_NN_LAYERS_UNARY_HPP

#include <span>
#include <string>

#include "intq/core/op_params.hpp"
#include "intq/nn/float_operators/unary.hpp"
#include "intq/nn/model/call.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// "none" is x·Φ(x), "tanh" its approximation.
TableFunction gelu_of(const std::string& approximate);

namespace detail {

Value evaluate_relu(std::span<const Value> values);
Value evaluate_relu6(std::span<const Value> values);
Value evaluate_unary(TableFunction function, std::span<const Value> values);
template <TableFunction function> Value evaluate_unary(std::span<const Value> values) {
    return evaluate_unary(function, values);
}

Value evaluate_gelu(std::span<const Value> values);

}  // namespace detail

inline constexpr Function relu_function{"relu", &detail::evaluate_relu};
inline constexpr Function relu6_function{"relu6", &detail::evaluate_relu6};
/// The function of a row under its name; its arguments are x and, where the row has one, the parameter.
template <TableFunction function>
inline constexpr Function unary_function{float_operators::unary_row(function).name, &detail::evaluate_unary<function>};
inline constexpr Function gelu_function{"gelu", &detail::evaluate_gelu};

Value relu(const Value& x);
Value relu6(const Value& x);
Value sigmoid(const Value& x);
Value tanh(const Value& x);
Value exp(const Value& x);
Value erf(const Value& x);
Value log(const Value& x);
Value sqrt(const Value& x);
Value rsqrt(const Value& x);
Value reciprocal(const Value& x);
Value hardsigmoid(const Value& x);
Value hardswish(const Value& x);
Value hardtanh(const Value& x);
Value silu(const Value& x);
/// x itself where beta·x is above 20, PyTorch's threshold.
Value softplus(const Value& x, double beta = 1.0);
Value mish(const Value& x);
Value selu(const Value& x);
Value celu(const Value& x, double alpha = 1.0);
Value softsign(const Value& x);
Value tanhshrink(const Value& x);
Value(abs)(const Value& x);  // in parentheses: Arduino has a macro of this name
Value neg(const Value& x);
Value square(const Value& x);
Value leaky_relu(const Value& x, double negative_slope = 0.01);
Value elu(const Value& x, double alpha = 1.0);
/// @param approximate  "none" or "tanh"
Value gelu(const Value& x, const std::string& approximate = "none");

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

/// A function of single elements, from the table of float_operators/unary.hpp.
class Unary : public Module {
public:
    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    TableFunction function() const noexcept { return function_; }
    /// LeakyReLU: the negative slope; ELU and CELU: alpha; Softplus: beta; Hardsigmoid: 6 times its slope; no meaning
    /// for others.
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
using Softplus = UnaryLayer<TableFunction::softplus>;
using Mish = UnaryLayer<TableFunction::mish>;
using SELU = UnaryLayer<TableFunction::selu>;
using CELU = UnaryLayer<TableFunction::celu>;
using Softsign = UnaryLayer<TableFunction::softsign>;
using Tanhshrink = UnaryLayer<TableFunction::tanhshrink>;

class GELU : public Cloneable<GELU, Unary> {
public:
    /// @param approximate  "none" or "tanh"
    explicit GELU(const std::string& approximate = "none");
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Value evaluate_relu(std::span<const Value> values) {
    return float_operators::relu(Arguments(values).tensor(0));
}
INTQ_INLINE Value evaluate_relu6(std::span<const Value> values) {
    return float_operators::relu6(Arguments(values).tensor(0));
}

INTQ_INLINE Value evaluate_unary(TableFunction function, std::span<const Value> values) {
    const Arguments arguments(values);
    const double otherwise = float_operators::unary_row(function).default_parameter;
    return float_operators::unary(function, arguments.tensor(0), arguments.optional_number(1).value_or(otherwise));
}

INTQ_INLINE Value evaluate_gelu(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::unary(gelu_of(arguments.has(1) ? arguments[1].text() : "none"), arguments.tensor(0));
}

}  // namespace detail

INTQ_INLINE TableFunction gelu_of(const std::string& approximate) {
    if (approximate == "none") return TableFunction::gelu_erf;
    if (approximate == "tanh") return TableFunction::gelu_tanh;
    throw Error("gelu: approximate is none or tanh, given \"" + approximate + "\"");
}

INTQ_INLINE Value relu(const Value& x) { return call(relu_function, x); }
INTQ_INLINE Value relu6(const Value& x) { return call(relu6_function, x); }
INTQ_INLINE Value sigmoid(const Value& x) { return call(unary_function<TableFunction::sigmoid>, x); }
INTQ_INLINE Value tanh(const Value& x) { return call(unary_function<TableFunction::tanh>, x); }
INTQ_INLINE Value exp(const Value& x) { return call(unary_function<TableFunction::exp>, x); }
INTQ_INLINE Value erf(const Value& x) { return call(unary_function<TableFunction::erf>, x); }
INTQ_INLINE Value log(const Value& x) { return call(unary_function<TableFunction::log>, x); }
INTQ_INLINE Value sqrt(const Value& x) { return call(unary_function<TableFunction::sqrt>, x); }
INTQ_INLINE Value rsqrt(const Value& x) { return call(unary_function<TableFunction::rsqrt>, x); }
INTQ_INLINE Value reciprocal(const Value& x) { return call(unary_function<TableFunction::reciprocal>, x); }
INTQ_INLINE Value hardsigmoid(const Value& x) { return call(unary_function<TableFunction::hard_sigmoid>, x); }
INTQ_INLINE Value hardswish(const Value& x) { return call(unary_function<TableFunction::hard_swish>, x); }
INTQ_INLINE Value hardtanh(const Value& x) { return call(unary_function<TableFunction::hard_tanh>, x); }
INTQ_INLINE Value silu(const Value& x) { return call(unary_function<TableFunction::silu>, x); }
INTQ_INLINE Value mish(const Value& x) { return call(unary_function<TableFunction::mish>, x); }
INTQ_INLINE Value selu(const Value& x) { return call(unary_function<TableFunction::selu>, x); }
INTQ_INLINE Value softsign(const Value& x) { return call(unary_function<TableFunction::softsign>, x); }
INTQ_INLINE Value tanhshrink(const Value& x) { return call(unary_function<TableFunction::tanhshrink>, x); }
INTQ_INLINE Value(abs)(const Value& x) { return call(unary_function<TableFunction::abs>, x); }
INTQ_INLINE Value neg(const Value& x) { return call(unary_function<TableFunction::neg>, x); }
INTQ_INLINE Value square(const Value& x) { return call(unary_function<TableFunction::square>, x); }

INTQ_INLINE Value leaky_relu(const Value& x, double negative_slope) {
    return call(unary_function<TableFunction::leaky_relu>, x, negative_slope);
}

INTQ_INLINE Value elu(const Value& x, double alpha) { return call(unary_function<TableFunction::elu>, x, alpha); }

INTQ_INLINE Value celu(const Value& x, double alpha) { return call(unary_function<TableFunction::celu>, x, alpha); }

INTQ_INLINE Value softplus(const Value& x, double beta) {
    return call(unary_function<TableFunction::softplus>, x, beta);
}

INTQ_INLINE Value gelu(const Value& x, const std::string& approximate) { return call(gelu_function, x, approximate); }

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
