// SPDX-License-Identifier: MIT
//
// How functions on Values are called, and how a C++ function becomes one: call, call_method, wrap. Layer: nn (DESIGN
// section 6).
#ifndef INTQ_NN_FUNCTIONAL_CALL_HPP
#define INTQ_NN_FUNCTIONAL_CALL_HPP

#include <array>
#include <optional>

#include "intq/nn/model/value.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

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

/// A name as a template argument.
template <std::size_t Size> struct FunctionName {
    char text[Size]{};
    constexpr FunctionName(const char (&name)[Size]) { std::copy_n(name, Size, text); }
};

/// Makes a function that a trace does not look into: one call_function node of this name, whatever it does inside.
///
///     Tensor compute_softsign(const Tensor& x);
///     inline constexpr nn::Wrapped<"softsign", &compute_softsign> softsign;      // softsign(x) on any Value
///
/// @tparam function  takes and returns tensors, Values and scalars; called with the arguments in their order
template <FunctionName name, auto function> class Wrapped {
public:
    static constexpr const Function& as_function() noexcept { return record_; }
    template <class... V> Value operator()(const V&... arguments) const { return call(record_, arguments...); }

private:
    template <class T> static T argument(const Value& value) {
        if constexpr (std::is_same_v<T, Tensor>) {
            return value.tensor();
        } else if constexpr (std::is_same_v<T, bool>) {
            return value.boolean();
        } else if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(value.integer());
        } else if constexpr (std::is_floating_point_v<T>) {
            return static_cast<T>(value.number());
        } else {
            static_assert(std::is_same_v<T, Value>, "a wrapped function takes Tensor, Value, bool, integer or float");
            return value;
        }
    }
    template <class Result, class... T, std::size_t... I>
    static Value apply(Result (*target)(T...), std::span<const Value> values, std::index_sequence<I...>) {
        if (values.size() != sizeof...(T))
            throw Error(std::string(name.text) + " takes " + std::to_string(sizeof...(T)) + " arguments, given " +
                        std::to_string(values.size()));
        return target(argument<std::remove_cvref_t<T>>(values[I])...);
    }
    template <class Result, class... T> static Value apply(Result (*target)(T...), std::span<const Value> values) {
        return apply(target, values, std::index_sequence_for<T...>{});
    }
    static Value evaluate(std::span<const Value> values) { return apply(function, values); }

    static constexpr Function record_{name.text, &evaluate};
};

namespace detail {

/// The integers of a tuple, or one integer; nothing for none.
inline std::vector<index_t> integers_of(const Value& value) {
    std::vector<index_t> result;
    if (value.is_none()) return result;
    if (!value.is_tuple()) return {value.integer()};
    for (const Value& item : value.tuple()) result.push_back(item.integer());
    return result;
}

/// A tuple of integers.
inline Value tuple_of(std::span<const index_t> integers) { return Value::Tuple(integers.begin(), integers.end()); }

inline std::optional<double> optional_number(const Arguments& arguments, std::size_t i) {
    return arguments.has(i) ? std::optional(arguments[i].number()) : std::nullopt;
}

inline bool flag(const Arguments& arguments, std::size_t i) { return arguments.has(i) && arguments[i].boolean(); }

inline int axis_of(const Arguments& arguments, std::size_t i, int otherwise) {
    return static_cast<int>(arguments.integer(i, otherwise));
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_NN_FUNCTIONAL_CALL_HPP
