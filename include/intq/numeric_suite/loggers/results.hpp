// SPDX-License-Identifier: MIT
//
// What the numeric suites give back: values by name in the order of the model, and their JSON form. Layer:
// numeric_suite (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_LOGGERS_RESULTS_HPP
#define INTQ_NUMERIC_SUITE_LOGGERS_RESULTS_HPP

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "intq/io/error.hpp"
#include "intq/io/nearest_names.hpp"
#include "intq/nn/model/value.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// A dictionary that keeps the order in which its keys came, as Python's does.
template <class T> class Ordered {
public:
    using Item = std::pair<std::string, T>;

    /// The value of a key, which is added where it is missing.
    T& operator[](const std::string& key) {
        if (T* known = find(key)) return *known;
        items_.emplace_back(key, T());
        return items_.back().second;
    }
    /// Throws the Error with the nearest keys.
    const T& at(const std::string& key) const {
        if (const T* known = find(key)) return *known;
        throw Error("there is no \"" + key + "\"; the nearest are " + nearest_names(key, keys()));
    }
    T& at(const std::string& key) { return const_cast<T&>(std::as_const(*this).at(key)); }
    /// Null where there is no such key.
    const T* find(const std::string& key) const {
        const auto found = std::find_if(begin(), end(), [&](const Item& item) { return item.first == key; });
        return found == end() ? nullptr : &found->second;
    }
    T* find(const std::string& key) { return const_cast<T*>(std::as_const(*this).find(key)); }
    bool contains(const std::string& key) const { return find(key) != nullptr; }
    /// Whether the key was there.
    bool erase(const std::string& key) {
        return std::erase_if(items_, [&](const Item& item) { return item.first == key; }) != 0;
    }
    std::vector<std::string> keys() const {
        std::vector<std::string> result;
        for (const Item& item : items_) result.push_back(item.first);
        return result;
    }
    std::size_t size() const noexcept { return items_.size(); }
    bool empty() const noexcept { return items_.empty(); }
    auto begin() const noexcept { return items_.begin(); }
    auto end() const noexcept { return items_.end(); }
    auto begin() noexcept { return items_.begin(); }
    auto end() noexcept { return items_.end(); }

private:
    std::vector<Item> items_;
};

/// A list of values, one for each run.
using ValueList = std::vector<nn::Value>;

/// What JSON says of a tensor: its shape and dtype ("qint8" for int8 codes that carry a scale), or its elements too.
enum class TensorJson { shape, data };

/// A value as JSON: a tensor as an object, a tuple as a list, nothing as null. NaN and infinity, which JSON does not
/// have, are the words "nan", "inf" and "-inf".
std::string to_json(const nn::Value& value, TensorJson tensors = TensorJson::shape);
std::string to_json(const ValueList& values, TensorJson tensors = TensorJson::shape);

/// A dictionary of whatever has a JSON form.
template <class T> std::string to_json(const Ordered<T>& dictionary, TensorJson tensors = TensorJson::shape);

/// The name that PyTorch has for what a tensor holds: "qint8", "quint8", "qint16" and "qint32" for codes that carry
/// their scale, else that of the dtype.
std::string dtype_word(const Tensor& tensor);

/// The value with real numbers in place of codes, also inside tuples. Other values are returned as they are.
nn::Value dequantized(const nn::Value& value);

/// A value of its own: nobody else can write the tensors.
nn::Value kept(const nn::Value& value);

namespace detail {

/// {"key": member, …} of the members, each one JSON already.
std::string json_object(const std::vector<std::pair<std::string, std::string>>& members);
std::string json_list(const std::vector<std::string>& items);
std::string json_string(const std::string& text);

}  // namespace detail

// ---------------------------------------------------------------------------------------------------------------------

template <class T> std::string to_json(const Ordered<T>& dictionary, TensorJson tensors) {
    std::vector<std::pair<std::string, std::string>> members;
    for (const auto& [key, value] : dictionary) members.emplace_back(key, to_json(value, tensors));
    return detail::json_object(members);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_loggers)

#    include <cstdint>
#    include <span>

#    include "intq/io/describe.hpp"
#    include "intq/io/json_text.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::string json_string(const std::string& text) { return io::write_json_string(text); }

INTQ_INLINE std::string json_object(const std::vector<std::pair<std::string, std::string>>& members) {
    std::string text = "{";
    for (const auto& [key, value] : members) text += (text.size() == 1 ? "" : ",") + json_string(key) + ":" + value;
    return text + "}";
}

INTQ_INLINE std::string json_list(const std::vector<std::string>& items) {
    std::string text = "[";
    for (const std::string& item : items) text += (text.size() == 1 ? "" : ",") + item;
    return text + "]";
}

template <class T> std::string json_elements(const Tensor& tensor) {
    std::vector<std::string> items;
    for (const T element : tensor.flat<T>()) {
        if constexpr (sizeof(T) == 1) {
            items.push_back(io::write_json_number(static_cast<int>(element)));
        } else {
            items.push_back(io::write_json_number(element));
        }
    }
    return json_list(items);
}

INTQ_INLINE std::string json_data(const Tensor& tensor) {
    switch (tensor.dtype()) {
        case DType::float32:
            return json_elements<float>(tensor);
        case DType::float64:
            return json_elements<double>(tensor);
        case DType::int8:
            return json_elements<std::int8_t>(tensor);
        case DType::uint8:
            return json_elements<std::uint8_t>(tensor);
        case DType::int16:
            return json_elements<std::int16_t>(tensor);
        case DType::int32:
            return json_elements<std::int32_t>(tensor);
        case DType::int64:
            return json_elements<std::int64_t>(tensor);
        case DType::none:
            break;
    }
    return "[]";
}

INTQ_INLINE std::string json_tensor(const Tensor& tensor, TensorJson how) {
    std::vector<std::string> extents;
    for (int axis = 0; axis < tensor.rank(); ++axis) extents.push_back(io::write_json_number(tensor.extent(axis)));
    std::vector<std::pair<std::string, std::string>> members{{"shape", json_list(extents)},
                                                             {"dtype", json_string(dtype_word(tensor))}};
    if (how == TensorJson::data) {
        members.emplace_back("data", json_data(tensor.contiguous()));
        if (tensor.qparams() && tensor.dtype() != DType::float32) {
            std::vector<std::string> scales, zero_points;
            for (const float scale : tensor.qparams()->scales) scales.push_back(io::write_json_number(scale));
            for (const auto zero_point : tensor.qparams()->zero_points)
                zero_points.push_back(io::write_json_number(zero_point));
            members.emplace_back("scale", json_list(scales));
            members.emplace_back("zero_point", json_list(zero_points));
        }
    }
    return json_object(members);
}

INTQ_INLINE bool are_codes(const Tensor& tensor) {
    return tensor.qparams() && tensor.dtype() != DType::float32 && tensor.dtype() != DType::none;
}

/// A value whose tensors are `change` of the former ones.
template <class Change> nn::Value with_tensors(const nn::Value& value, const Change& change) {
    if (value.is_tensor()) return change(value.tensor());
    if (!value.is_tuple()) return value;
    nn::Value::Tuple items;
    for (const nn::Value& item : value.tuple()) items.push_back(with_tensors(item, change));
    return items;
}

}  // namespace detail

INTQ_INLINE std::string dtype_word(const Tensor& tensor) {
    return detail::are_codes(tensor) ? std::string("q") + name_of(tensor.dtype()) : name_of(tensor.dtype());
}

INTQ_INLINE nn::Value dequantized(const nn::Value& value) {
    return detail::with_tensors(value, [](const Tensor& tensor) {
        return detail::are_codes(tensor) ? dequantize(tensor, *tensor.qparams()) : tensor;
    });
}

INTQ_INLINE nn::Value kept(const nn::Value& value) {
    return detail::with_tensors(value, [](const Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; });
}

INTQ_INLINE std::string to_json(const nn::Value& value, TensorJson tensors) {
    if (value.is_tensor()) return detail::json_tensor(value.tensor(), tensors);
    if (value.is_tuple()) return to_json(ValueList(value.tuple()), tensors);
    if (value.is_bool()) return value.boolean() ? "true" : "false";
    if (value.is_integer()) return io::write_json_number(value.integer());
    if (value.is_number()) return io::write_json_number(value.number());
    if (value.is_text()) return detail::json_string(value.text());
    return "null";
}

INTQ_INLINE std::string to_json(const ValueList& values, TensorJson tensors) {
    std::vector<std::string> items;
    for (const nn::Value& value : values) items.push_back(to_json(value, tensors));
    return detail::json_list(items);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_loggers)
#endif  // INTQ_NUMERIC_SUITE_LOGGERS_RESULTS_HPP
