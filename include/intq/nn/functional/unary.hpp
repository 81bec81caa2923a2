// SPDX-License-Identifier: MIT
//
// Functions on Values of single elements, from the table of functional/unary.hpp: sigmoid, tanh, gelu, … Layer: nn.
#ifndef INTQ_NN_FUNCTIONAL_UNARY_HPP
#define INTQ_NN_FUNCTIONAL_UNARY_HPP

#include "intq/nn/float_operators/unary.hpp"
#include "intq/nn/functional/call.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

using arith::TableFunction;

namespace detail {

template <TableFunction function> Value evaluate_unary(std::span<const Value> values) {
    const Arguments arguments(values);
    const double otherwise = functional::unary_row(function).default_parameter;
    return functional::unary(function, arguments.tensor(0), optional_number(arguments, 1).value_or(otherwise));
}

/// "none" is x·Φ(x), "tanh" its approximation.
inline TableFunction gelu_of(const std::string& approximate) {
    if (approximate == "none") return TableFunction::gelu_erf;
    if (approximate == "tanh") return TableFunction::gelu_tanh;
    throw Error("gelu: approximate is none or tanh, given \"" + approximate + "\"");
}

inline Value evaluate_gelu(std::span<const Value> values) {
    const Arguments arguments(values);
    return functional::unary(gelu_of(arguments.has(1) ? arguments[1].text() : "none"), arguments.tensor(0));
}

}  // namespace detail

/// The function of a row under its name; its arguments are x and, where the row has one, the parameter.
template <TableFunction function>
inline constexpr Function unary_function{functional::unary_row(function).name, &detail::evaluate_unary<function>};
inline constexpr Function gelu_function{"gelu", &detail::evaluate_gelu};

inline Value sigmoid(const Value& x) { return call(unary_function<TableFunction::sigmoid>, x); }
inline Value tanh(const Value& x) { return call(unary_function<TableFunction::tanh>, x); }
inline Value exp(const Value& x) { return call(unary_function<TableFunction::exp>, x); }
inline Value log(const Value& x) { return call(unary_function<TableFunction::log>, x); }
inline Value sqrt(const Value& x) { return call(unary_function<TableFunction::sqrt>, x); }
inline Value rsqrt(const Value& x) { return call(unary_function<TableFunction::rsqrt>, x); }
inline Value reciprocal(const Value& x) { return call(unary_function<TableFunction::reciprocal>, x); }
inline Value hardsigmoid(const Value& x) { return call(unary_function<TableFunction::hard_sigmoid>, x); }
inline Value hardswish(const Value& x) { return call(unary_function<TableFunction::hard_swish>, x); }
inline Value hardtanh(const Value& x) { return call(unary_function<TableFunction::hard_tanh>, x); }
inline Value silu(const Value& x) { return call(unary_function<TableFunction::silu>, x); }
inline Value leaky_relu(const Value& x, double negative_slope = 0.01) {
    return call(unary_function<TableFunction::leaky_relu>, x, negative_slope);
}
inline Value elu(const Value& x, double alpha = 1.0) { return call(unary_function<TableFunction::elu>, x, alpha); }
/// @param approximate  "none" or "tanh"
inline Value gelu(const Value& x, const std::string& approximate = "none") {
    return call(gelu_function, x, approximate);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_NN_FUNCTIONAL_UNARY_HPP
