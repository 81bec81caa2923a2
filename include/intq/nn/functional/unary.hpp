// SPDX-License-Identifier: MIT
//
// Functions on Values of single elements, from the table of functional/unary.hpp: sigmoid, tanh, gelu, … Layer: nn.
#ifndef INTQ_NN_FUNCTIONAL_UNARY_HPP
#define INTQ_NN_FUNCTIONAL_UNARY_HPP

#include <span>
#include <string>

#include "intq/core/op_params.hpp"
#include "intq/nn/float_operators/unary.hpp"
#include "intq/nn/model/call.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// "none" is x·Φ(x), "tanh" its approximation.
TableFunction gelu_of(const std::string& approximate);

namespace detail {

Value evaluate_unary(TableFunction function, std::span<const Value> values);
template <TableFunction function> Value evaluate_unary(std::span<const Value> values) {
    return evaluate_unary(function, values);
}

Value evaluate_gelu(std::span<const Value> values);

}  // namespace detail

/// The function of a row under its name; its arguments are x and, where the row has one, the parameter.
template <TableFunction function>
inline constexpr Function unary_function{float_operators::unary_row(function).name, &detail::evaluate_unary<function>};
inline constexpr Function gelu_function{"gelu", &detail::evaluate_gelu};

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
Value leaky_relu(const Value& x, double negative_slope = 0.01);
Value elu(const Value& x, double alpha = 1.0);
/// @param approximate  "none" or "tanh"
Value gelu(const Value& x, const std::string& approximate = "none");

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_functional)

#    include "intq/io/error.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

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

INTQ_INLINE Value leaky_relu(const Value& x, double negative_slope) {
    return call(unary_function<TableFunction::leaky_relu>, x, negative_slope);
}

INTQ_INLINE Value elu(const Value& x, double alpha) { return call(unary_function<TableFunction::elu>, x, alpha); }

INTQ_INLINE Value gelu(const Value& x, const std::string& approximate) { return call(gelu_function, x, approximate); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_functional)
#endif  // INTQ_NN_FUNCTIONAL_UNARY_HPP
