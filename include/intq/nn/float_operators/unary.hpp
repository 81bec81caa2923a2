// SPDX-License-Identifier: MIT
//
// Real functions of one element, and the table of their PyTorch names. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_UNARY_HPP
#define INTQ_NN_FLOAT_OPERATORS_UNARY_HPP

#include <string_view>

#include "intq/core/op_params.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {
/// A function's names in PyTorch: function and method, module, and parameter with its default. A null
/// module or parameter means that there is none.
struct UnaryRow {
    TableFunction function;
    std::string_view name;
    const char* module;
    const char* parameter = nullptr;
    double default_parameter = 1.0;
};

/// One row per function; arith/unary.hpp has the formulas, for these as for tables of codes.
inline constexpr UnaryRow unary_rows[] = {
    {TableFunction::sigmoid, "sigmoid", "Sigmoid"},
    {TableFunction::tanh, "tanh", "Tanh"},
    {TableFunction::hard_sigmoid, "hardsigmoid", "Hardsigmoid"},
    {TableFunction::hard_swish, "hardswish", "Hardswish"},
    {TableFunction::hard_tanh, "hardtanh", "Hardtanh"},
    {TableFunction::leaky_relu, "leaky_relu", "LeakyReLU", "negative_slope", 0.01},
    {TableFunction::elu, "elu", "ELU", "alpha", 1.0},
    {TableFunction::silu, "silu", "SiLU"},
    {TableFunction::softplus, "softplus", "Softplus", "beta", 1.0},
    {TableFunction::mish, "mish", "Mish"},
    {TableFunction::selu, "selu", "SELU"},
    {TableFunction::celu, "celu", "CELU", "alpha", 1.0},
    {TableFunction::softsign, "softsign", "Softsign"},
    {TableFunction::tanhshrink, "tanhshrink", "Tanhshrink"},
    {TableFunction::abs, "abs", nullptr},
    {TableFunction::neg, "neg", nullptr},
    {TableFunction::square, "square", nullptr},
    {TableFunction::gelu_erf, "gelu", "GELU"},
    {TableFunction::gelu_tanh, "gelu", "GELU"},
    {TableFunction::exp, "exp", nullptr},
    {TableFunction::erf, "erf", nullptr},
    {TableFunction::log, "log", nullptr},
    {TableFunction::sqrt, "sqrt", nullptr},
    {TableFunction::rsqrt, "rsqrt", nullptr},
    {TableFunction::reciprocal, "reciprocal", nullptr},
};

/// The row of a function.
constexpr const UnaryRow& unary_row(TableFunction function) {
    for (const UnaryRow& row : unary_rows)
        if (row.function == function) return row;
    return unary_rows[0];
}

/// Throws for a parameter that is NaN or infinite, or 0 where the function divides by it, naming it as PyTorch does.
void check_parameter(TableFunction function, double parameter);

/// f of each element.
///
/// @param parameter  leaky_relu: the factor of negative elements; elu and celu: alpha; softplus: beta; hardsigmoid:
///                   6 times its slope (1 in PyTorch); no meaning for others
/// @throws Error of check_parameter()
///
/// Result   of arith::table_function in double, rounded once; NaN stays NaN
Tensor unary(TableFunction function, const Tensor& x, double parameter = 1.0);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <cmath>
#    include <string>

#    include "intq/arith/unary.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void check_parameter(TableFunction function, double parameter) {
    const UnaryRow& row = unary_row(function);
    const std::string name =
        std::string(row.name) + ": " + (row.parameter != nullptr ? row.parameter : "the parameter");
    if (!std::isfinite(parameter)) throw Error(name + " must be finite, given " + std::to_string(parameter));
    const bool is_divisor = function == TableFunction::celu || function == TableFunction::softplus ||
                            function == TableFunction::hard_sigmoid;
    if (is_divisor && parameter == 0.0) throw Error(name + " cannot be 0");
}

INTQ_INLINE Tensor unary(TableFunction function, const Tensor& x, double parameter) {
    check_parameter(function, parameter);
    return detail::map(x, [=](float value) {
        if (value != value) return value;
        return static_cast<float>(arith::table_function(function, static_cast<double>(value), parameter));
    });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_UNARY_HPP
