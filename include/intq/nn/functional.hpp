// SPDX-License-Identifier: MIT
//
// Functions on Values that a graph can name: add (operator+), relu, relu6, cat, flatten, softmax. Layer: nn.
//
// On tensors they compute; on a proxy they record a call_function node. The same functions are the methods that a
// call_method node can name. nn/functional/ has the float loops.
#ifndef INTQ_NN_FUNCTIONAL_HPP
#define INTQ_NN_FUNCTIONAL_HPP

#include <array>

#include "intq/nn/functional/conv.hpp"
#include "intq/nn/functional/elementwise.hpp"
#include "intq/nn/functional/linear.hpp"
#include "intq/nn/functional/normalize.hpp"
#include "intq/nn/functional/pool.hpp"
#include "intq/nn/value.hpp"

namespace intq::inline INTQ_ABI::nn {

/// Calls a function, or records the call where an argument is a proxy.
template <class... V> Value call(const Function& function, const V&... arguments) {
    const std::array<Value, sizeof...(V)> values{Value(arguments)...};
    if (Recorder* recorder = find_recorder(values)) return recorder->record_function(function, values);
    return function.evaluate(values);
}

/// As call(), but recorded as a call_method node: what `x.relu()` is in PyTorch.
template <class... V> Value call_method(const Function& function, const V&... arguments) {
    const std::array<Value, sizeof...(V)> values{Value(arguments)...};
    if (Recorder* recorder = find_recorder(values)) return recorder->record_method(function, values);
    return function.evaluate(values);
}

namespace detail {

inline Value evaluate_add(std::span<const Value> values) {
    const Arguments arguments(values);
    if (arguments[1].is_number()) return functional::add(arguments.tensor(0), arguments[1].number());
    if (arguments[0].is_number()) return functional::add(arguments.tensor(1), arguments[0].number());
    return functional::add(arguments.tensor(0), arguments.tensor(1));
}

inline Value evaluate_cat(std::span<const Value> values) {
    const Arguments arguments(values);
    std::vector<Tensor> parts;
    for (const Value& part : arguments[0].tuple()) parts.push_back(part.tensor());
    return functional::cat(parts, static_cast<int>(arguments.integer(1, 0)));
}

inline Value evaluate_relu(std::span<const Value> values) { return functional::relu(Arguments(values).tensor(0)); }
inline Value evaluate_relu6(std::span<const Value> values) { return functional::relu6(Arguments(values).tensor(0)); }

inline Value evaluate_flatten(std::span<const Value> values) {
    const Arguments arguments(values);
    return functional::flatten(arguments.tensor(0), static_cast<int>(arguments.integer(1, 0)),
                               static_cast<int>(arguments.integer(2, -1)));
}

inline Value evaluate_softmax(std::span<const Value> values) {
    const Arguments arguments(values);
    return functional::softmax(arguments.tensor(0), static_cast<int>(arguments[1].integer()));
}

}  // namespace detail

inline constexpr Function add_function{"add", &detail::evaluate_add};
inline constexpr Function cat_function{"cat", &detail::evaluate_cat};
inline constexpr Function relu_function{"relu", &detail::evaluate_relu};
inline constexpr Function relu6_function{"relu6", &detail::evaluate_relu6};
inline constexpr Function flatten_function{"flatten", &detail::evaluate_flatten};
inline constexpr Function softmax_function{"softmax", &detail::evaluate_softmax};

/// a + b of two tensors of one shape, or of a tensor and a number.
inline Value add(const Value& a, const Value& b) { return call(add_function, a, b); }
inline Value operator+(const Value& a, const Value& b) { return add(a, b); }
inline Value relu(const Value& x) { return call(relu_function, x); }
inline Value relu6(const Value& x) { return call(relu6_function, x); }
/// Concatenation of a tuple of tensors.
inline Value cat(const Value::Tuple& parts, int axis = 0) { return call(cat_function, Value(parts), axis); }
/// As PyTorch's: the axes from start_axis on become one.
inline Value flatten(const Value& x, int start_axis = 0, int end_axis = -1) {
    return call(flatten_function, x, start_axis, end_axis);
}
inline Value softmax(const Value& x, int axis) { return call(softmax_function, x, axis); }

}  // namespace intq::inline INTQ_ABI::nn

#endif  // INTQ_NN_FUNCTIONAL_HPP
