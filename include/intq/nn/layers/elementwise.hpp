// SPDX-License-Identifier: MIT
//
// Functions on Values that compute element by element: add, sub, mul, maximum, minimum, floordiv, clamp.
// FloatFunctional: operators without weights as a module, so that they can have a name, a qconfig and an observer.
// Layer: nn.
#ifndef INTQ_NN_LAYERS_ELEMENTWISE_HPP
#define INTQ_NN_LAYERS_ELEMENTWISE_HPP

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "intq/nn/model/call.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

Value evaluate_add(std::span<const Value> values);
Value evaluate_sub(std::span<const Value> values);
Value evaluate_mul(std::span<const Value> values);
Value evaluate_maximum(std::span<const Value> values);
Value evaluate_minimum(std::span<const Value> values);
Value evaluate_floordiv(std::span<const Value> values);
Value evaluate_clamp(std::span<const Value> values);
Value evaluate_masked_fill(std::span<const Value> values);
Value evaluate_causal_fill(std::span<const Value> values);

}  // namespace detail

inline constexpr Function add_function{"add", &detail::evaluate_add};
inline constexpr Function sub_function{"sub", &detail::evaluate_sub};
inline constexpr Function mul_function{"mul", &detail::evaluate_mul};
inline constexpr Function maximum_function{"maximum", &detail::evaluate_maximum};
inline constexpr Function minimum_function{"minimum", &detail::evaluate_minimum};
inline constexpr Function floordiv_function{"floordiv", &detail::evaluate_floordiv};
inline constexpr Function clamp_function{"clamp", &detail::evaluate_clamp};
inline constexpr Function masked_fill_function{"masked_fill", &detail::evaluate_masked_fill};
inline constexpr Function causal_fill_function{"causal_fill", &detail::evaluate_causal_fill};

/// Of two tensors, broadcast as in PyTorch; of a tensor and a number; or of two numbers.
Value add(const Value& a, const Value& b);
Value sub(const Value& a, const Value& b);
Value mul(const Value& a, const Value& b);
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
/// Of two tensors, broadcast.
Value maximum(const Value& a, const Value& b);
Value minimum(const Value& a, const Value& b);
/// Of two integers, rounded down: Python's //. Throws for a division by 0.
Value floordiv(const Value& a, const Value& b);
/// min(max(x, low), high); none for no limit.
Value clamp(const Value& x, const Value& low, const Value& high);

/// The value where the mask is not 0, and x elsewhere.
///
/// @param mask  uint8, broadcast to x; on codes a tensor of the model, see MaskedFill
Value masked_fill(const Value& x, const Value& mask, double value);

/// The value behind a position along the last axis, and x elsewhere: scores (N, …, T, L) of tokens that are not there
/// yet. In front of a softmax it has an integer form, as MaskedFill has.
///
///     y[n, …, t, j] = j > position[n, t] ? value : x[n, …, t, j]
///
/// @param position  int32 or int64 (N, T); on codes an input of the model
Value causal_fill(const Value& x, const Value& position, double value);

/// masked_fill() with a mask that the module holds. In front of a softmax, with -inf or a value below -80, it has an
/// integer form: masked scores have the lowest code, and the probability 0.
class MaskedFill : public Cloneable<MaskedFill> {
public:
    /// @param mask  uint8, or any type whose elements are 0 and others
    MaskedFill(const Tensor& mask, double value);

    std::string type_name() const override { return "MaskedFill"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    const Tensor& mask() const { return tensor("mask"); }
    double value() const noexcept { return value_; }

private:
    double value_;
};

/// Operators without weights as methods of a module: add, add_scalar, add_relu, sub, mul, mul_scalar, matmul, cat, sum,
/// mean, each with the arguments of its function.
///
/// It is a leaf: a graph sees a call_module node whose method is "add", "cat", …, as Horizon's plug-in keeps it
/// (PyTorch's FX turns it into a function). In the forward of a model that holds one as the child "skip":
///
///     nn::call_float(*this, "skip", "add_relu", x, y)
class FloatFunctional : public Cloneable<FloatFunctional> {
public:
    std::string type_name() const override { return "FloatFunctional"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments) override;
    INTQ_INLINE Value invoke(std::string_view method, Arguments arguments) override;

    Value add(const Value& a, const Value& b);
    Value add_scalar(const Value& a, double b);
    Value add_relu(const Value& a, const Value& b);
    Value sub(const Value& a, const Value& b);
    Value mul(const Value& a, const Value& b);
    Value mul_scalar(const Value& a, double b);
    Value matmul(const Value& a, const Value& b);
    Value cat(const Value::Tuple& parts, int axis = 0);
    Value sum(const Value& a, std::initializer_list<index_t> axes = {}, bool keepdim = false);
    Value mean(const Value& a, std::initializer_list<index_t> axes = {}, bool keepdim = false);
};

/// The method calls whatever module is in a slot, which may have been replaced.
template <class... Arguments>
Value call_float(const Module& parent, std::string_view name, std::string_view method, const Arguments&... arguments) {
    const std::array<Value, sizeof...(Arguments)> values{Value(arguments)...};
    return parent.child(name)->dispatch(method, values);
}
Value call_add(const Module& parent, std::string_view name, const Value& a, const Value& b);
Value call_cat(const Module& parent, std::string_view name, const Value::Tuple& parts, int axis = 0);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/reduce.hpp"

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

INTQ_INLINE Value evaluate_maximum(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::maximum(arguments.tensor(0), arguments.tensor(1));
}

INTQ_INLINE Value evaluate_minimum(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::minimum(arguments.tensor(0), arguments.tensor(1));
}

INTQ_INLINE Value evaluate_clamp(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::clamp(arguments.tensor(0), arguments.optional_number(1), arguments.optional_number(2));
}

INTQ_INLINE Value evaluate_causal_fill(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::causal_fill(arguments.tensor(0), arguments.tensor(1), arguments[2].number());
}

INTQ_INLINE Value evaluate_masked_fill(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::masked_fill(arguments.tensor(0), arguments.tensor(1), arguments[2].number());
}

INTQ_INLINE Value evaluate_add_relu(std::span<const Value> values) {
    return float_operators::relu(evaluate_add(values).tensor());
}

struct FloatFunctionalMethod {
    std::string_view name;
    Value (*evaluate)(std::span<const Value> arguments);
};

inline constexpr FloatFunctionalMethod float_functional_methods[] = {
    {"add", &evaluate_add},           {"add_scalar", &evaluate_add}, {"add_relu", &evaluate_add_relu},
    {"sub", &evaluate_sub},           {"mul", &evaluate_mul},        {"mul_scalar", &evaluate_mul},
    {"matmul", &evaluate_matmul},     {"cat", &evaluate_cat},        {"sum", sum_function.evaluate},
    {"mean", mean_function.evaluate},
};

INTQ_INLINE const FloatFunctionalMethod& float_functional_method(std::string_view name) {
    std::string names;
    for (const FloatFunctionalMethod& method : float_functional_methods) {
        if (method.name == name) return method;
        names += (names.empty() ? "" : ", ") + std::string(method.name);
    }
    throw Error("FloatFunctional has the methods " + names + "; given \"" + std::string(name) + "\"");
}

}  // namespace detail

INTQ_INLINE Value add(const Value& a, const Value& b) { return call(add_function, a, b); }
INTQ_INLINE Value sub(const Value& a, const Value& b) { return call(sub_function, a, b); }
INTQ_INLINE Value mul(const Value& a, const Value& b) { return call(mul_function, a, b); }
INTQ_INLINE Value operator+(const Value& a, const Value& b) { return add(a, b); }
INTQ_INLINE Value operator-(const Value& a, const Value& b) { return sub(a, b); }
INTQ_INLINE Value operator*(const Value& a, const Value& b) { return mul(a, b); }
INTQ_INLINE Value maximum(const Value& a, const Value& b) { return call(maximum_function, a, b); }
INTQ_INLINE Value minimum(const Value& a, const Value& b) { return call(minimum_function, a, b); }
INTQ_INLINE Value floordiv(const Value& a, const Value& b) { return call(floordiv_function, a, b); }

INTQ_INLINE Value clamp(const Value& x, const Value& low, const Value& high) {
    return call(clamp_function, x, low, high);
}

INTQ_INLINE Value FloatFunctional::forward(Arguments) {
    throw Error("FloatFunctional is not meant to be called; use its methods, such as add and cat");
}

INTQ_INLINE Value FloatFunctional::invoke(std::string_view method, Arguments arguments) {
    return detail::float_functional_method(method).evaluate(arguments.values());
}

INTQ_INLINE Value FloatFunctional::add(const Value& a, const Value& b) { return dispatch("add", std::array{a, b}); }

INTQ_INLINE Value FloatFunctional::add_scalar(const Value& a, double b) {
    return dispatch("add_scalar", std::array{a, Value(b)});
}

INTQ_INLINE Value FloatFunctional::add_relu(const Value& a, const Value& b) {
    return dispatch("add_relu", std::array{a, b});
}

INTQ_INLINE Value FloatFunctional::sub(const Value& a, const Value& b) { return dispatch("sub", std::array{a, b}); }
INTQ_INLINE Value FloatFunctional::mul(const Value& a, const Value& b) { return dispatch("mul", std::array{a, b}); }

INTQ_INLINE Value FloatFunctional::mul_scalar(const Value& a, double b) {
    return dispatch("mul_scalar", std::array{a, Value(b)});
}

INTQ_INLINE Value FloatFunctional::matmul(const Value& a, const Value& b) {
    return dispatch("matmul", std::array{a, b});
}

INTQ_INLINE Value FloatFunctional::cat(const Value::Tuple& parts, int axis) {
    return dispatch("cat", std::array{Value(parts), Value(axis)});
}

INTQ_INLINE Value FloatFunctional::sum(const Value& a, std::initializer_list<index_t> axes, bool keepdim) {
    return dispatch("sum", std::array{a, detail::tuple_of({axes.begin(), axes.size()}), Value(keepdim)});
}

INTQ_INLINE Value FloatFunctional::mean(const Value& a, std::initializer_list<index_t> axes, bool keepdim) {
    return dispatch("mean", std::array{a, detail::tuple_of({axes.begin(), axes.size()}), Value(keepdim)});
}

INTQ_INLINE Value causal_fill(const Value& x, const Value& position, double value) {
    return call(causal_fill_function, x, position, value);
}

INTQ_INLINE Value masked_fill(const Value& x, const Value& mask, double value) {
    return call(masked_fill_function, x, mask, value);
}

INTQ_INLINE MaskedFill::MaskedFill(const Tensor& mask, double value) : value_(value) {
    if (!(value == value)) throw Error("MaskedFill: the value is NaN");
    const Tensor given = mask.contiguous();
    Tensor kept = Tensor::zeros(given.shape(), DType::uint8);
    const index_t unit = size_of(given.dtype());
    for (index_t i = 0; i < given.size(); ++i) {
        const std::byte* const element = given.data() + i * unit;
        if (std::any_of(element, element + unit, [](std::byte b) { return b != std::byte{0}; }))
            kept.data()[i] = std::byte{1};
    }
    add_buffer("mask", std::move(kept));
}

INTQ_INLINE Value MaskedFill::forward(Arguments arguments) {
    return float_operators::masked_fill(arguments.tensor(0), mask(), value_);
}

INTQ_INLINE Value call_add(const Module& parent, std::string_view name, const Value& a, const Value& b) {
    return call_float(parent, name, "add", a, b);
}

INTQ_INLINE Value call_cat(const Module& parent, std::string_view name, const Value::Tuple& parts, int axis) {
    return call_float(parent, name, "cat", parts, axis);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_ELEMENTWISE_HPP
