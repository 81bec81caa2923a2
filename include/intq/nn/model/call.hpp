// SPDX-License-Identifier: MIT
//
// How functions on Values are called, and how a C++ function becomes one: call, call_method, Wrapped. Layer: nn
// (docs/design.md section 6).
#ifndef INTQ_NN_MODEL_CALL_HPP
#define INTQ_NN_MODEL_CALL_HPP

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "intq/nn/model/value.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

Value call_values(const Function& function, std::span<const Value> values);
Value call_method_values(const Function& function, std::span<const Value> values);
/// Throws where a wrapped function is called with the wrong number of arguments.
void check_argument_count(const char* function, std::size_t given, std::size_t expected);

}  // namespace detail

/// Calls a function, or records the call where an argument is a proxy.
template <class... Arguments> Value call(const Function& function, const Arguments&... arguments) {
    const std::array<Value, sizeof...(Arguments)> values{Value(arguments)...};
    return detail::call_values(function, values);
}

/// As call(), but recorded as a call_method node: like `x.relu()` in PyTorch.
template <class... Arguments> Value call_method(const Function& function, const Arguments&... arguments) {
    const std::array<Value, sizeof...(Arguments)> values{Value(arguments)...};
    return detail::call_method_values(function, values);
}

/// A name as a template argument.
template <std::size_t Size> struct FunctionName {
    char text[Size]{};
    constexpr FunctionName(const char (&name)[Size]) {
        for (std::size_t i = 0; i < Size; ++i) text[i] = name[i];
    }
};

/// Makes a C++ function opaque to tracing, which records one call_function node of this name for each call.
///
///     Tensor compute_softsign(const Tensor& x);
///     inline constexpr nn::Wrapped<"softsign", &compute_softsign> softsign;      // softsign(x) on any Value
///
/// @tparam function  takes and returns tensors, Values and scalars; called with the arguments in their order
template <FunctionName name, auto function> class Wrapped {
public:
    static constexpr const Function& as_function() noexcept { return record_; }
    template <class... Arguments> Value operator()(const Arguments&... arguments) const {
        return call(record_, arguments...);
    }

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
    template <class Result, class... T, std::size_t... Index>
    static Value apply(Result (*target)(T...), std::span<const Value> values, std::index_sequence<Index...>) {
        detail::check_argument_count(name.text, values.size(), sizeof...(T));
        return target(argument<std::remove_cvref_t<T>>(values[Index])...);
    }
    template <class Result, class... T> static Value apply(Result (*target)(T...), std::span<const Value> values) {
        return apply(target, values, std::index_sequence_for<T...>{});
    }
    static Value evaluate(std::span<const Value> values) { return apply(function, values); }

    static constexpr Function record_{name.text, &evaluate};
};

/// The integers of a tuple, or one integer; empty for none.
std::vector<index_t> integers_of(const Value& value);

namespace detail {

/// A tuple of integers.
Value tuple_of(std::span<const index_t> integers);

int axis_of(const Arguments& arguments, std::size_t i, int otherwise);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_model)

#    include <string>

#    include "intq/core/dtype.hpp"
#    include "intq/io/error.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The first tensor of codes that carry their scale, also inside tuples; null if there is none.
INTQ_INLINE const Tensor* find_codes(std::span<const Value> values) {
    for (const Value& value : values) {
        if (value.is_tensor() && value.tensor().dtype() != DType::float32 && value.tensor().qparams())
            return &value.tensor();
        if (value.is_tuple())
            if (const Tensor* codes = find_codes(value.tuple())) return codes;
    }
    return nullptr;
}

/// Evaluates a function; throws if it returns codes without a scale, as all do but those that only move values.
INTQ_INLINE Value evaluate(const Function& function, std::span<const Value> values) {
    const Tensor* codes = find_codes(values);
    if (codes == nullptr) return function.evaluate(values);
    const std::string refusal =
        std::string("it is a function on real values, given ") + name_of(codes->dtype()) +
        " codes: in a model that is quantized module by module, use a module or a FloatFunctional in its place, or put "
        "a DeQuantStub before it";
    Value result;
    try {
        result = function.evaluate(values);
    } catch (const Error& error) {
        throw Error(function.name, refusal + " (" + error.what() + ")");
    }
    if (result.is_tensor() && result.tensor().dtype() == codes->dtype() && !result.tensor().qparams())
        throw Error(function.name, refusal);
    return result;
}

INTQ_INLINE Value call_values(const Function& function, std::span<const Value> values) {
    if (Recorder* recorder = find_recorder(values)) return recorder->record_function(function, values);
    return evaluate(function, values);
}

INTQ_INLINE Value call_method_values(const Function& function, std::span<const Value> values) {
    if (Recorder* recorder = find_recorder(values)) return recorder->record_method(function, values);
    return evaluate(function, values);
}

INTQ_INLINE void check_argument_count(const char* function, std::size_t given, std::size_t expected) {
    if (given != expected)
        throw Error(std::string(function) + " takes " + std::to_string(expected) + " arguments, given " +
                    std::to_string(given));
}

INTQ_INLINE Value tuple_of(std::span<const index_t> integers) { return Value::Tuple(integers.begin(), integers.end()); }

INTQ_INLINE int axis_of(const Arguments& arguments, std::size_t i, int otherwise) {
    return static_cast<int>(arguments.integer(i, otherwise));
}

}  // namespace detail

INTQ_INLINE std::vector<index_t> integers_of(const Value& value) {
    std::vector<index_t> result;
    if (value.is_none()) return result;
    if (!value.is_tuple()) return {value.integer()};
    for (const Value& item : value.tuple()) result.push_back(item.integer());
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_model)
#endif  // INTQ_NN_MODEL_CALL_HPP
