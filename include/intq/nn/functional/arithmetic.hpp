// SPDX-License-Identifier: MIT
//
// Functions on Values that compute: add, sub, mul, matmul, linear, relu, relu6, clamp, softmax, sum, mean. Layer: nn.
#ifndef INTQ_NN_FUNCTIONAL_ARITHMETIC_HPP
#define INTQ_NN_FUNCTIONAL_ARITHMETIC_HPP

#include <initializer_list>
#include <span>

#include "intq/nn/model/call.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

Value evaluate_add(std::span<const Value> values);
Value evaluate_sub(std::span<const Value> values);
Value evaluate_mul(std::span<const Value> values);
Value evaluate_floordiv(std::span<const Value> values);
Value evaluate_matmul(std::span<const Value> values);
Value evaluate_linear(std::span<const Value> values);
Value evaluate_relu(std::span<const Value> values);
Value evaluate_relu6(std::span<const Value> values);
Value evaluate_clamp(std::span<const Value> values);
Value evaluate_softmax(std::span<const Value> values);
Value evaluate_sum(std::span<const Value> values);
Value evaluate_mean(std::span<const Value> values);

}  // namespace detail

inline constexpr Function add_function{"add", &detail::evaluate_add};
inline constexpr Function sub_function{"sub", &detail::evaluate_sub};
inline constexpr Function mul_function{"mul", &detail::evaluate_mul};
inline constexpr Function floordiv_function{"floordiv", &detail::evaluate_floordiv};
inline constexpr Function matmul_function{"matmul", &detail::evaluate_matmul};
inline constexpr Function linear_function{"linear", &detail::evaluate_linear};
inline constexpr Function relu_function{"relu", &detail::evaluate_relu};
inline constexpr Function relu6_function{"relu6", &detail::evaluate_relu6};
inline constexpr Function clamp_function{"clamp", &detail::evaluate_clamp};
inline constexpr Function softmax_function{"softmax", &detail::evaluate_softmax};
inline constexpr Function sum_function{"sum", &detail::evaluate_sum};
inline constexpr Function mean_function{"mean", &detail::evaluate_mean};

/// Of two tensors, broadcast as in PyTorch; of a tensor and a number; or of two numbers.
Value add(const Value& a, const Value& b);
Value sub(const Value& a, const Value& b);
Value mul(const Value& a, const Value& b);
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
/// Of two integers, rounded down: Python's //. Throws for a division by 0.
Value floordiv(const Value& a, const Value& b);
/// Product of the matrices in the last two axes.
Value matmul(const Value& a, const Value& b);
/// x · weight^T + bias, with the weight (O, I) as an argument; bias may be none.
Value linear(const Value& x, const Value& weight, const Value& bias = {});
Value relu(const Value& x);
Value relu6(const Value& x);
/// min(max(x, low), high); none for no limit.
Value clamp(const Value& x, const Value& low, const Value& high);
Value softmax(const Value& x, int axis);
/// Along axes, which are dropped, or become 1 with keepdim; no axes: over all elements.
Value sum(const Value& x, std::initializer_list<index_t> axes = {}, bool keepdim = false);
Value mean(const Value& x, std::initializer_list<index_t> axes = {}, bool keepdim = false);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_functional)

#    include <cstdint>
#    include <string>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"
#    include "intq/nn/float_operators/linear.hpp"
#    include "intq/nn/float_operators/matmul.hpp"
#    include "intq/nn/float_operators/reduce.hpp"
#    include "intq/nn/float_operators/softmax.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Of two numbers; an integer where both are integers.
template <class Operation> Value of_numbers(const Arguments& arguments, const Operation& operation) {
    if (arguments[0].is_integer() && arguments[1].is_integer())
        return operation(arguments[0].integer(), arguments[1].integer());
    return operation(arguments[0].number(), arguments[1].number());
}

INTQ_INLINE bool are_numbers(const Arguments& arguments) {
    return arguments[0].is_number() && arguments[1].is_number();
}

INTQ_INLINE Value evaluate_floordiv(std::span<const Value> values) {
    const Arguments arguments(values);
    const std::int64_t a = arguments[0].integer(), b = arguments[1].integer();
    if (b == 0) throw Error("floordiv: " + std::to_string(a) + " is divided by 0");
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

INTQ_INLINE Value evaluate_add(std::span<const Value> values) {
    const Arguments arguments(values);
    if (are_numbers(arguments)) return of_numbers(arguments, [](auto a, auto b) { return a + b; });
    if (arguments[1].is_number()) return float_operators::add(arguments.tensor(0), arguments[1].number());
    if (arguments[0].is_number()) return float_operators::add(arguments.tensor(1), arguments[0].number());
    return float_operators::add(arguments.tensor(0), arguments.tensor(1));
}

INTQ_INLINE Value evaluate_sub(std::span<const Value> values) {
    const Arguments arguments(values);
    if (are_numbers(arguments)) return of_numbers(arguments, [](auto a, auto b) { return a - b; });
    if (arguments[1].is_number()) return float_operators::sub(arguments.tensor(0), arguments[1].number());
    if (arguments[0].is_number()) return float_operators::sub(arguments[0].number(), arguments.tensor(1));
    return float_operators::sub(arguments.tensor(0), arguments.tensor(1));
}

INTQ_INLINE Value evaluate_mul(std::span<const Value> values) {
    const Arguments arguments(values);
    if (are_numbers(arguments)) return of_numbers(arguments, [](auto a, auto b) { return a * b; });
    if (arguments[1].is_number()) return float_operators::mul(arguments.tensor(0), arguments[1].number());
    if (arguments[0].is_number()) return float_operators::mul(arguments.tensor(1), arguments[0].number());
    return float_operators::mul(arguments.tensor(0), arguments.tensor(1));
}

INTQ_INLINE Value evaluate_matmul(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::matmul(arguments.tensor(0), arguments.tensor(1));
}

INTQ_INLINE Value evaluate_linear(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::linear(arguments.tensor(0), arguments.tensor(1),
                                   arguments.has(2) ? arguments.tensor(2) : Tensor());
}

INTQ_INLINE Value evaluate_relu(std::span<const Value> values) {
    return float_operators::relu(Arguments(values).tensor(0));
}
INTQ_INLINE Value evaluate_relu6(std::span<const Value> values) {
    return float_operators::relu6(Arguments(values).tensor(0));
}

INTQ_INLINE Value evaluate_clamp(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::clamp(arguments.tensor(0), arguments.optional_number(1), arguments.optional_number(2));
}

INTQ_INLINE Value evaluate_softmax(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::softmax(arguments.tensor(0), static_cast<int>(arguments[1].integer()));
}

INTQ_INLINE Value evaluate_reduce(Tensor (*reduce)(const Tensor&, std::span<const index_t>, bool),
                                  std::span<const Value> values) {
    const Arguments arguments(values);
    const auto axes = arguments.has(1) ? integers_of(arguments[1]) : std::vector<index_t>();
    return reduce(arguments.tensor(0), axes, arguments.flag(2));
}

INTQ_INLINE Value evaluate_sum(std::span<const Value> values) { return evaluate_reduce(&float_operators::sum, values); }
INTQ_INLINE Value evaluate_mean(std::span<const Value> values) {
    return evaluate_reduce(&float_operators::mean, values);
}

}  // namespace detail

INTQ_INLINE Value add(const Value& a, const Value& b) { return call(add_function, a, b); }
INTQ_INLINE Value sub(const Value& a, const Value& b) { return call(sub_function, a, b); }
INTQ_INLINE Value mul(const Value& a, const Value& b) { return call(mul_function, a, b); }
INTQ_INLINE Value operator+(const Value& a, const Value& b) { return add(a, b); }
INTQ_INLINE Value operator-(const Value& a, const Value& b) { return sub(a, b); }
INTQ_INLINE Value operator*(const Value& a, const Value& b) { return mul(a, b); }
INTQ_INLINE Value floordiv(const Value& a, const Value& b) { return call(floordiv_function, a, b); }
INTQ_INLINE Value matmul(const Value& a, const Value& b) { return call(matmul_function, a, b); }

INTQ_INLINE Value linear(const Value& x, const Value& weight, const Value& bias) {
    return bias.is_none() ? call(linear_function, x, weight) : call(linear_function, x, weight, bias);
}

INTQ_INLINE Value relu(const Value& x) { return call(relu_function, x); }
INTQ_INLINE Value relu6(const Value& x) { return call(relu6_function, x); }

INTQ_INLINE Value clamp(const Value& x, const Value& low, const Value& high) {
    return call(clamp_function, x, low, high);
}

INTQ_INLINE Value softmax(const Value& x, int axis) { return call(softmax_function, x, axis); }

INTQ_INLINE Value sum(const Value& x, std::initializer_list<index_t> axes, bool keepdim) {
    return call(sum_function, x, detail::tuple_of({axes.begin(), axes.size()}), keepdim);
}

INTQ_INLINE Value mean(const Value& x, std::initializer_list<index_t> axes, bool keepdim) {
    return call(mean_function, x, detail::tuple_of({axes.begin(), axes.size()}), keepdim);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_functional)
#endif  // INTQ_NN_FUNCTIONAL_ARITHMETIC_HPP
