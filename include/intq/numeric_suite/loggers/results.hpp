// SPDX-License-Identifier: MIT
//
// Results of the numeric suites: values by name in the order of the model, and their JSON form. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_LOGGERS_RESULTS_HPP
#define INTQ_NUMERIC_SUITE_LOGGERS_RESULTS_HPP

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "intq/io/error.hpp"
#include "intq/io/json_text.hpp"
#include "intq/io/nearest_names.hpp"
#include "intq/nn/model/value.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// A dictionary that keeps the order in which its keys were added, as Python's does.
template <class T> class Ordered {
public:
    using Item = std::pair<std::string, T>;

    /// The value of a key, which is added if missing.
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

/// The JSON form of a tensor: its shape and dtype ("qint8" for int8 codes that carry a scale), or its elements too.
enum class TensorJson { shape, data };

/// A value as JSON: a tensor as an object, a tuple as a list, nothing as null. NaN and infinity, which JSON lacks, are
/// the words "nan", "inf" and "-inf".
std::string to_json(const nn::Value& value, TensorJson tensors = TensorJson::shape);
std::string to_json(const ValueList& values, TensorJson tensors = TensorJson::shape);

/// A dictionary of whatever has a JSON form.
template <class T> std::string to_json(const Ordered<T>& dictionary, TensorJson tensors = TensorJson::shape);

/// PyTorch's name for a tensor's content: "qint8", "quint8", "qint16" and "qint32" for codes that carry their scale,
/// else the dtype's.
std::string dtype_word(const Tensor& tensor);

/// The value with real numbers in place of codes, also inside tuples. Other values are returned as they are.
nn::Value dequantized(const nn::Value& value);

/// An independent copy: nobody else can write the tensors.
nn::Value kept(const nn::Value& value);

// ---------------------------------------------------------------------------------------------------------------------

template <class T> std::string to_json(const Ordered<T>& dictionary, TensorJson tensors) {
    io::JsonObject object;
    for (const auto& [key, value] : dictionary) object.add(key, to_json(value, tensors));
    return object.str();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_loggers)

#    include <cstdint>
#    include <span>

#    include "intq/io/describe.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

template <class T> std::string json_elements(const Tensor& tensor) {
    return io::write_json_list(tensor.flat<T>(), [](T element) {
        if constexpr (sizeof(T) == 1) {
            return io::write_json_number(static_cast<int>(element));
        } else {
            return io::write_json_number(element);
        }
    });
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

INTQ_INLINE bool are_codes(const Tensor& tensor) {
    return tensor.qparams() && tensor.dtype() != DType::float32 && tensor.dtype() != DType::none;
}

INTQ_INLINE std::string json_tensor(const Tensor& tensor, TensorJson how) {
    const auto number = [](auto value) { return io::write_json_number(value); };
    const std::span<const index_t> extents(tensor.shape().extents.data(), static_cast<std::size_t>(tensor.rank()));
    io::JsonObject object;
    object.add("shape", io::write_json_list(extents, number)).add_text("dtype", dtype_word(tensor));
    if (how == TensorJson::data) {
        object.add("data", json_data(tensor.contiguous()));
        if (are_codes(tensor)) {
            object.add("scale", io::write_json_list(tensor.qparams()->scales, number));
            object.add("zero_point", io::write_json_list(tensor.qparams()->zero_points, number));
        }
    }
    return object.str();
}

/// The value with `change` applied to each of its tensors.
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
    if (value.is_text()) return io::write_json_string(value.text());
    return "null";
}

INTQ_INLINE std::string to_json(const ValueList& values, TensorJson tensors) {
    return io::write_json_list(values, [&](const nn::Value& value) { return to_json(value, tensors); });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_loggers)
#endif  // INTQ_NUMERIC_SUITE_LOGGERS_RESULTS_HPP
