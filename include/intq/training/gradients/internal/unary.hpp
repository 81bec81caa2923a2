// SPDX-License-Identifier: MIT
//
// Gradients of the functions of one element. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_UNARY_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_UNARY_HPP

#include "intq/core/op_params.hpp"
#include "intq/nn/float_operators/unary.hpp"
#include "intq/nn/layers/unary.hpp"
#include "intq/training/gradients/context.hpp"
#include "intq/training/gradients/internal/elementwise.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {
/// The derivative of arith::table_function at x; at a kink, on the side that PyTorch takes.
///
/// @param slope  as there
double table_derivative(TableFunction function, double x, double slope = 1.0) noexcept;

namespace detail {

/// @tparam named  the function of that name; for gelu, whose kind is an argument, either name
template <class T, TableFunction named> void unary_backward(GradientContext& context) {
    TableFunction function = named;
    double parameter = nn::float_operators::unary_row(named).default_parameter;
    if (context.has_module()) {
        function = context.module_as<nn::Unary>().function();
        parameter = context.module_as<nn::Unary>().parameter();
    } else if (context.inputs().has(1) && context.inputs()[1].is_text()) {
        function = nn::gelu_of(context.inputs()[1].text());
    } else if (context.inputs().has(1)) {
        parameter = context.inputs()[1].number();
    }
    context.add_input(0, zip<T>(context.input(0), context.gradient(), [&](T x, T dy) {
                          return static_cast<T>(static_cast<double>(dy) *
                                                table_derivative(function, static_cast<double>(x), parameter));
                      }));
}

template <class T, TableFunction function>
inline constexpr GradientRow unary_gradient{nn::float_operators::unary_row(function).name,
                                            &unary_backward<T, function>};

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training_gradients)

#    include <cmath>

#    include "intq/arith/unary.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE double table_derivative(TableFunction function, double x, double slope) noexcept {
    const auto f = [&](TableFunction other) { return arith::table_function(other, x, slope); };
    switch (function) {
        case TableFunction::sigmoid:
            return f(TableFunction::sigmoid) * (1.0 - f(TableFunction::sigmoid));
        case TableFunction::tanh:
            return 1.0 - f(TableFunction::tanh) * f(TableFunction::tanh);
        case TableFunction::exp:
            return f(TableFunction::exp);
        case TableFunction::erf:  // 2/√π·exp(-x²)
            return 1.12837916709551257390 * std::exp(-x * x);
        case TableFunction::gelu_erf:  // Φ(x) + x·φ(x)
            return 0.5 * (1.0 + std::erf(x * 0.70710678118654752440)) +
                   x * 0.39894228040143267794 * std::exp(-0.5 * x * x);
        case TableFunction::gelu_tanh: {  // (1 + t) / 2 + x·(1 - t²)·u' / 2, t = tanh(u)
            const double t = std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
            return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * 0.79788456080286535588 * (1.0 + 3.0 * 0.044715 * x * x);
        }
        case TableFunction::silu: {
            const double s = f(TableFunction::sigmoid);
            return s * (1.0 + x * (1.0 - s));
        }
        case TableFunction::elu:
            return x > 0.0 ? 1.0 : slope * std::exp(x);
        case TableFunction::hard_sigmoid:
            return x > -3.0 / slope && x < 3.0 / slope ? slope / 6.0 : 0.0;
        case TableFunction::hard_tanh:
            return x > -1.0 && x < 1.0 ? 1.0 : 0.0;
        case TableFunction::hard_swish:
            return x < -3.0 ? 0.0 : x <= 3.0 ? x / 3.0 + 0.5 : 1.0;
        case TableFunction::softplus:  // sigmoid(beta·x)
            return slope * x > arith::softplus_threshold ? 1.0
                                                         : arith::table_function(TableFunction::sigmoid, slope * x);
        case TableFunction::mish: {  // t + x·(1 - t²)·sigmoid(x), t = tanh(softplus(x))
            const double t = std::tanh(arith::softplus(x));
            return t + x * (1.0 - t * t) * f(TableFunction::sigmoid);
        }
        case TableFunction::selu:
            return arith::selu_scale * (x > 0.0 ? 1.0 : arith::selu_alpha * std::exp(x));
        case TableFunction::celu:
            return x > 0.0 ? 1.0 : std::exp(x / slope);
        case TableFunction::softsign:
            return 1.0 / ((1.0 + std::fabs(x)) * (1.0 + std::fabs(x)));
        case TableFunction::tanhshrink:
            return f(TableFunction::tanh) * f(TableFunction::tanh);
        case TableFunction::abs:
            return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0;
        case TableFunction::neg:
            return -1.0;
        case TableFunction::square:
            return 2.0 * x;
        case TableFunction::leaky_relu:
            return x > 0.0 ? 1.0 : slope;
        case TableFunction::log:
            return 1.0 / x;
        case TableFunction::sqrt:
            return 0.5 / std::sqrt(x);
        case TableFunction::rsqrt:
            return -0.5 / (x * std::sqrt(x));
        case TableFunction::reciprocal:
            break;
    }
    return -1.0 / (x * x);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training_gradients)
#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_UNARY_HPP
