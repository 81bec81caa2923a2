// SPDX-License-Identifier: MIT
//
// Value: the arguments and results of modules. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_MODEL_VALUE_HPP
#define INTQ_NN_MODEL_VALUE_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "intq/nn/model/recorder.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// Nothing, a tensor, a proxy (while tracing), a tuple of values, or a scalar.
///
/// Asking a proxy for data throws the TracingError that names the module whose forward asked.
///
/// Threads may copy and read one value at once.
class Value {
public:
    using Tuple = std::vector<Value>;

    Value() noexcept;
    Value(const Value& other);
    Value(Value&& other) noexcept;
    Value& operator=(const Value& other);
    Value& operator=(Value&& other) noexcept;
    ~Value();
    Value(Tensor tensor);
    Value(Proxy proxy);
    Value(Tuple values);
    Value(std::string text);
    Value(const char* text);
    template <class T>
    requires std::is_arithmetic_v<T> Value(T scalar) : Value(Scalar(), static_cast<Kept<T>>(scalar)) {}

    bool is_none() const noexcept;
    bool is_tensor() const noexcept;
    bool is_proxy() const noexcept;
    bool is_tuple() const noexcept;
    bool is_number() const noexcept;
    bool is_integer() const noexcept;
    bool is_bool() const noexcept;
    bool is_text() const noexcept;

    /// Each throws an Error that says what the value really is; a TracingError for a proxy.
    const Tensor& tensor() const;
    const Tuple& tuple() const;
    std::int64_t integer() const;
    const std::string& text() const;
    bool boolean() const;
    const Proxy& proxy() const;
    /// A scalar, or the only element of a float32 tensor.
    double number() const;

    /// The condition of an if: true for a number that is not 0.
    explicit operator bool() const;

    /// An item of a tuple, or element `at` of axis 0 of a tensor. On a proxy it records a getitem node. Negative
    /// numbers count from the end. Defined in nn/layers/move.hpp.
    Value operator[](std::int64_t at) const;

    /// "a tensor", "a tuple", … for messages.
    const char* kind_name() const noexcept;

private:
    /// The type in which a scalar of a C++ type is kept.
    template <class T>
    using Kept = std::conditional_t<std::is_same_v<T, bool>, bool,
                                    std::conditional_t<std::is_integral_v<T>, std::int64_t, double>>;
    struct Scalar {
        explicit Scalar() = default;
    };
    Value(Scalar, bool scalar);
    Value(Scalar, std::int64_t scalar);
    Value(Scalar, double scalar);

    template <class T> const T& get(const char* wanted) const;
    double number_for(const char* use) const;

    std::variant<std::monostate, Tensor, Proxy, Tuple, std::int64_t, double, bool, std::string> content_;

    friend bool operator<(const Value& a, const Value& b) { return a.compared() < b.compared(); }
    friend bool operator>(const Value& a, const Value& b) { return a.compared() > b.compared(); }
    friend bool operator<=(const Value& a, const Value& b) { return a.compared() <= b.compared(); }
    friend bool operator>=(const Value& a, const Value& b) { return a.compared() >= b.compared(); }
    double compared() const;
};

/// The arguments of a module or function, checked when they are read.
class Arguments {
public:
    Arguments(std::span<const Value> values) : values_(values) {}

    std::size_t size() const noexcept { return values_.size(); }
    bool has(std::size_t i) const noexcept;
    std::span<const Value> values() const noexcept { return values_; }
    const Value& operator[](std::size_t i) const;
    const Tensor& tensor(std::size_t i) const;
    std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
    /// Empty where argument `i` is none or missing.
    std::optional<double> optional_number(std::size_t i) const;
    /// Whether argument `i` is present and true.
    bool flag(std::size_t i) const;

private:
    std::span<const Value> values_;
};

/// The recorder of the first proxy in the values, also inside tuples; null when there is none.
Recorder* find_recorder(std::span<const Value> values) noexcept;

/// The tensors of a value in their order, also those inside tuples.
std::vector<Tensor> tensors_of(const Value& value);

/// Whether both are proxies of the same value, or tuples of such.
bool is_same_proxy(const Value& a, const Value& b);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_model)

#    include <algorithm>
#    include <utility>

#    include "intq/io/error.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

template <class T> const T& Value::get(const char* wanted) const {
    if (const T* content = std::get_if<T>(&content_)) return *content;
    if (const Proxy* proxy = std::get_if<Proxy>(&content_)) throw_data_needed(*proxy, wanted);
    throw Error(std::string("expected ") + wanted + ", given " + kind_name());
}

INTQ_INLINE const char* Value::kind_name() const noexcept {
    static constexpr const char* names[] = {"nothing",    "a tensor", "a proxy", "a tuple",
                                            "an integer", "a number", "a bool",  "a text"};
    return names[content_.index()];
}

INTQ_INLINE double Value::number_for(const char* use) const {
    if (const auto* integer = std::get_if<std::int64_t>(&content_)) return static_cast<double>(*integer);
    if (const auto* number = std::get_if<double>(&content_)) return *number;
    if (const auto* tensor = std::get_if<Tensor>(&content_); tensor != nullptr && tensor->size() == 1)
        return static_cast<double>(tensor->flat<float>()[0]);
    return get<double>(use);
}

INTQ_INLINE Recorder* find_recorder(std::span<const Value> values) noexcept {
    for (const Value& value : values) {
        if (value.is_proxy()) return value.proxy().recorder;
        if (value.is_tuple())
            if (Recorder* recorder = find_recorder(value.tuple())) return recorder;
    }
    return nullptr;
}

INTQ_INLINE std::vector<Tensor> tensors_of(const Value& value) {
    if (value.is_tensor()) return {value.tensor()};
    std::vector<Tensor> result;
    if (value.is_tuple())
        for (const Value& item : value.tuple())
            for (Tensor& tensor : tensors_of(item)) result.push_back(std::move(tensor));
    return result;
}

INTQ_INLINE bool is_same_proxy(const Value& a, const Value& b) {
    if (a.is_proxy() && b.is_proxy()) {
        const Proxy &one = a.proxy(), &other = b.proxy();
        return one.recorder == other.recorder && one.id == other.id && one.output == other.output;
    }
    return a.is_tuple() && b.is_tuple() &&
           std::equal(a.tuple().begin(), a.tuple().end(), b.tuple().begin(), b.tuple().end(), &is_same_proxy);
}

INTQ_INLINE Value::Value() noexcept = default;
INTQ_INLINE Value::Value(const Value& other) = default;
INTQ_INLINE Value::Value(Value&& other) noexcept = default;
INTQ_INLINE Value& Value::operator=(const Value& other) = default;
INTQ_INLINE Value& Value::operator=(Value&& other) noexcept = default;
INTQ_INLINE Value::~Value() = default;

INTQ_INLINE Value::Value(Tensor tensor) : content_(std::move(tensor)) {}

INTQ_INLINE Value::Value(Proxy proxy) : content_(proxy) {}

INTQ_INLINE Value::Value(Tuple values) : content_(std::move(values)) {}

INTQ_INLINE Value::Value(std::string text) : content_(std::move(text)) {}

INTQ_INLINE Value::Value(const char* text) : content_(std::string(text)) {}

INTQ_INLINE bool Value::is_none() const noexcept { return std::holds_alternative<std::monostate>(content_); }

INTQ_INLINE bool Value::is_tensor() const noexcept { return std::holds_alternative<Tensor>(content_); }

INTQ_INLINE bool Value::is_proxy() const noexcept { return std::holds_alternative<Proxy>(content_); }

INTQ_INLINE bool Value::is_tuple() const noexcept { return std::holds_alternative<Tuple>(content_); }

INTQ_INLINE bool Value::is_number() const noexcept { return is_integer() || std::holds_alternative<double>(content_); }

INTQ_INLINE bool Value::is_integer() const noexcept { return std::holds_alternative<std::int64_t>(content_); }

INTQ_INLINE bool Value::is_bool() const noexcept { return std::holds_alternative<bool>(content_); }

INTQ_INLINE bool Value::is_text() const noexcept { return std::holds_alternative<std::string>(content_); }

INTQ_INLINE const Tensor& Value::tensor() const { return get<Tensor>("a tensor"); }

INTQ_INLINE const Value::Tuple& Value::tuple() const { return get<Tuple>("a tuple"); }

INTQ_INLINE std::int64_t Value::integer() const { return get<std::int64_t>("an integer"); }

INTQ_INLINE const std::string& Value::text() const { return get<std::string>("a text"); }

INTQ_INLINE bool Value::boolean() const { return get<bool>("a bool"); }

INTQ_INLINE const Proxy& Value::proxy() const { return get<Proxy>("a proxy"); }

INTQ_INLINE double Value::number() const { return number_for("a number"); }

INTQ_INLINE Value::operator bool() const {
    return is_bool() ? boolean() : number_for("the condition of an if or a loop") != 0;
}

INTQ_INLINE Value::Value(Scalar, bool scalar) : content_(scalar) {}

INTQ_INLINE Value::Value(Scalar, std::int64_t scalar) : content_(scalar) {}

INTQ_INLINE Value::Value(Scalar, double scalar) : content_(scalar) {}

INTQ_INLINE double Value::compared() const { return number_for("an operand of a comparison"); }

INTQ_INLINE const Value& Arguments::operator[](std::size_t i) const {
    if (i >= values_.size())
        throw Error("argument " + std::to_string(i + 1) + " is missing, given " + std::to_string(values_.size()));
    return values_[i];
}

INTQ_INLINE bool Arguments::has(std::size_t i) const noexcept { return i < values_.size() && !values_[i].is_none(); }

INTQ_INLINE const Tensor& Arguments::tensor(std::size_t i) const { return (*this)[i].tensor(); }

INTQ_INLINE std::int64_t Arguments::integer(std::size_t i, std::int64_t otherwise) const {
    return has(i) ? values_[i].integer() : otherwise;
}

INTQ_INLINE std::optional<double> Arguments::optional_number(std::size_t i) const {
    return has(i) ? std::optional(values_[i].number()) : std::nullopt;
}

INTQ_INLINE bool Arguments::flag(std::size_t i) const { return has(i) && values_[i].boolean(); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_model)
#endif  // INTQ_NN_MODEL_VALUE_HPP
