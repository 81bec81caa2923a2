// SPDX-License-Identifier: MIT
//
// Oracle, part 11: the functions of tables in long double, docs/arithmetic.md section 4. Layer: tests/reference
// (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_TABLE_FUNCTIONS_HPP
#define INTQ_TESTS_REFERENCE_TABLE_FUNCTIONS_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "intq/core/op_params.hpp"

namespace intq_reference {

using intq::TableFunction;

/// The functions again, in other forms where there are any.
inline long double real_function(TableFunction function, long double x, long double slope) {
    const long double e = std::exp(x), tail = std::erfc(-x / std::sqrt(2.0L)) / 2;
    const auto half_tanh = [](long double v) { return (std::tanh(v / 2) + 1) / 2; };
    const long double cubic = std::sqrt(8.0L / std::acos(-1.0L)) * (x + 0.044715L * x * x * x);
    const long double gate = x <= -3 ? 0.0L : x >= 3 ? 1.0L : x / 6 + 0.5L;
    switch (function) {
        case TableFunction::sigmoid:
            return half_tanh(x);
        case TableFunction::tanh:
            return 2 * half_tanh(2 * x) - 1;
        case TableFunction::exp:
            return e;
        case TableFunction::gelu_erf:
            return x * tail;
        case TableFunction::erf:
            return std::erf(x);
        case TableFunction::gelu_tanh:
            return x * half_tanh(cubic);
        case TableFunction::silu:
            return x * half_tanh(x);
        case TableFunction::elu:
            return x > 0 ? x : slope * (e - 1);
        case TableFunction::hard_sigmoid:
            return std::min(std::max(slope * x / 6 + 0.5L, 0.0L), 1.0L);
        case TableFunction::hard_tanh:
            return x < -1 ? -1.0L : x > 1 ? 1.0L : x;
        case TableFunction::hard_swish:
            return x * gate;
        case TableFunction::softplus:
            return slope * x > 20 ? x : std::log1p(std::exp(slope * x)) / slope;
        case TableFunction::mish:
            return x * std::tanh(x > 20 ? x : std::log1p(e));
        case TableFunction::selu:
            return 1.0507009873554804934193349852946L *
                   (x > 0 ? x : 1.6732632423543772848170429916717L * std::expm1(x));
        case TableFunction::celu:
            return std::max(x, 0.0L) + std::min(0.0L, slope * std::expm1(x / slope));
        case TableFunction::softsign:
            return x / (1 + std::fabs(x));
        case TableFunction::tanhshrink:
            return x - std::tanh(x);
        case TableFunction::abs:
            return std::fabs(x);
        case TableFunction::neg:
            return -x;
        case TableFunction::square:
            return std::pow(x, 2.0L);
        case TableFunction::leaky_relu:
            return x < 0 ? slope * x : x;
        case TableFunction::log:
            return std::log(x);
        case TableFunction::sqrt:
            return std::sqrt(x);
        case TableFunction::rsqrt:
            return std::pow(x, -0.5L);
        case TableFunction::reciprocal:
            return 1 / x;
    }
    return 0;
}

inline constexpr TableFunction all_functions[] = {
    TableFunction::sigmoid,      TableFunction::tanh,       TableFunction::exp,        TableFunction::erf,
    TableFunction::gelu_erf,     TableFunction::gelu_tanh,  TableFunction::silu,       TableFunction::elu,
    TableFunction::hard_sigmoid, TableFunction::hard_tanh,  TableFunction::hard_swish, TableFunction::leaky_relu,
    TableFunction::log,          TableFunction::sqrt,       TableFunction::rsqrt,      TableFunction::reciprocal,
    TableFunction::softplus,     TableFunction::mish,       TableFunction::selu,       TableFunction::celu,
    TableFunction::softsign,     TableFunction::tanhshrink, TableFunction::abs,        TableFunction::neg,
    TableFunction::square};

/// clamp(floor(real/s_out + 1/2)); NaN counts as 0.
inline std::int64_t nearest_code(long double real, long double s_out, std::int64_t low, std::int64_t high) {
    const long double steps = std::isnan(real) ? 0.0L : std::floor(real / s_out + 0.5L);
    return static_cast<std::int64_t>(std::clamp(steps, static_cast<long double>(low), static_cast<long double>(high)));
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_TABLE_FUNCTIONS_HPP
