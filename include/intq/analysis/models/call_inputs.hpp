// SPDX-License-Identifier: MIT
//
// CallInputs: the inputs of a model's call, by position or by name, and their file. Layer: analysis
// (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_MODELS_CALL_INPUTS_HPP
#define INTQ_ANALYSIS_MODELS_CALL_INPUTS_HPP

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "intq/nn/model/value.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// The inputs of one call of a model: one tensor, several values in the order of the model's inputs, or values by the
/// names of its inputs. A value may be a tuple of values.
class CallInputs {
public:
    using Named = std::map<std::string, nn::Value>;

    CallInputs() = default;
    CallInputs(Tensor tensor) : values_{nn::Value(std::move(tensor))} {}
    CallInputs(std::vector<nn::Value> values) : values_(std::move(values)) {}
    CallInputs(Named values) : named_(std::move(values)) {}

    bool empty() const noexcept { return values_.empty() && named_.empty(); }
    /// In the order of a model's inputs.
    ///
    /// @throws Error for a name that the model lacks, with the nearest, and for a missing input before a given one
    std::vector<nn::Value> in_order(const std::vector<std::string>& input_names) const;

    /// @throws Error for a case without inputs, an undefined tensor and one without elements, naming the input
    void require_samples() const;

    /// A safetensors file. An array has the path of its tensor as its name: "0", "1/0" by position, "image", "pair/1"
    /// by name.
    ///
    /// @throws Error for values that are neither tensors nor tuples of them, a tuple of more than 4096, a name that is
    ///         empty or has a "/", and as io::write_file()
    void save(const std::filesystem::path& path) const;
    /// @throws Error naming the file, for one that save() did not write
    static CallInputs load(const std::filesystem::path& path);

private:
    std::vector<nn::Value> values_;
    Named named_;
};

/// The inputs of a call as a line, to compare two calls: "float32 (1, 3, 8, 8) 90150983;" for each tensor, also inside
/// tuples, with the CRC-32 of its values in the order of the axes.
std::string fingerprint_of(const std::vector<nn::Value>& inputs);

/// Cases by number; one at a time is in memory.
struct CaseSource {
    std::size_t count = 0;
    std::function<CallInputs(std::size_t)> at{};
};

CaseSource cases_of(std::vector<CallInputs> cases);
/// Batches of a calibration: each is a case.
CaseSource cases_of(const quantization::BatchSource& batches);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_models)

#    include <algorithm>
#    include <charconv>
#    include <memory>

#    include "intq/core/checksum.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/io/safetensors.hpp"
#    include "intq/tensor/npy.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<nn::Value> CallInputs::in_order(const std::vector<std::string>& input_names) const {
    if (named_.empty()) return values_;
    std::vector<nn::Value> values;
    for (const auto& [name, value] : named_) {
        const auto found = std::find(input_names.begin(), input_names.end(), name);
        if (found == input_names.end())
            throw Error("the model has no input \"" + name + "\"; the nearest are " + nearest_names(name, input_names));
        const auto at = static_cast<std::size_t>(found - input_names.begin());
        values.resize((std::max)(values.size(), at + 1));
        values[at] = value;
    }
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i].is_none()) throw Error("no value was given for the input \"" + input_names[i] + "\"");
    return values;
}

namespace detail {

inline constexpr const char* case_format = "intq case 1";
inline constexpr std::size_t largest_tuple = 4096;

INTQ_INLINE void add_arrays(const std::string& path, const nn::Value& value, io::Safetensors& content) {
    if (value.is_tensor()) {
        content.arrays.push_back({path, to_array(value.tensor())});
    } else if (value.is_tuple() && !value.tuple().empty()) {
        if (value.tuple().size() > largest_tuple)
            throw Error("the input " + path, "a case that is saved holds tuples of at most " +
                                                 std::to_string(largest_tuple) + " values, given " +
                                                 std::to_string(value.tuple().size()));
        for (std::size_t i = 0; i < value.tuple().size(); ++i)
            add_arrays(path + "/" + std::to_string(i), value.tuple()[i], content);
    } else {
        throw Error("the input " + path, std::string("a case that is saved holds tensors and tuples of them, given ") +
                                             (value.is_tuple() ? "an empty tuple" : value.kind_name()));
    }
}

/// Puts a tensor at a path of numbers below a value, creating tuples on the way.
INTQ_INLINE void put(nn::Value& value, std::string_view path, const Tensor& tensor, const std::string& where) {
    if (path.empty()) {
        value = tensor;
        return;
    }
    const std::size_t end = (std::min)(path.find('/'), path.size());
    std::size_t at = 0;
    const auto [stop, error] = std::from_chars(path.data(), path.data() + end, at);
    if (error != std::errc() || stop != path.data() + end || at >= largest_tuple)
        throw Error(where, "the name of an array is not the path of an input");
    nn::Value::Tuple items = value.is_tuple() ? value.tuple() : nn::Value::Tuple();
    items.resize((std::max)(items.size(), at + 1));
    put(items[at], path.substr((std::min)(end + 1, path.size())), tensor, where);
    value = nn::Value(std::move(items));
}

}  // namespace detail

INTQ_INLINE void CallInputs::require_samples() const {
    if (empty()) throw Error("the case has no inputs");
    const auto check_value = [](const std::string& input, const nn::Value& value) {
        for (const Tensor& tensor : nn::tensors_of(value))
            if (tensor.size() == 0)
                throw Error("the input " + input + " of the case",
                            tensor.defined() ? "it has no samples: its shape is " + to_string(tensor.shape())
                                             : "it is an undefined tensor");
    };
    for (std::size_t i = 0; i < values_.size(); ++i) check_value(std::to_string(i), values_[i]);
    for (const auto& [name, value] : named_) check_value(in_quotes(name), value);
}

INTQ_INLINE void CallInputs::save(const std::filesystem::path& path) const {
    io::Safetensors content;
    content.metadata["format"] = detail::case_format;
    content.metadata["inputs"] = named_.empty() ? "by position" : "by name";
    for (const auto& [name, value] : named_)
        if (name.empty() || name.find('/') != std::string::npos)
            throw Error(path.string(), "the name " + in_quotes(name) +
                                           " of an input is empty or has a \"/\", which separates "
                                           "the parts of a tuple here");
    for (std::size_t i = 0; i < values_.size(); ++i) detail::add_arrays(std::to_string(i), values_[i], content);
    for (const auto& [name, value] : named_) detail::add_arrays(name, value, content);
    io::write_safetensors(path, content);
}

INTQ_INLINE CallInputs CallInputs::load(const std::filesystem::path& path) {
    const io::Safetensors content = io::read_safetensors(path);
    const auto format = content.metadata.find("format"), inputs = content.metadata.find("inputs");
    if (format == content.metadata.end() || format->second != detail::case_format || inputs == content.metadata.end())
        throw Error(path.string(), "this is no case that save_bad_case() wrote");
    CallInputs result;
    nn::Value all;
    for (const io::NamedArray& array : content.arrays) {
        const Tensor tensor = to_tensor(array.array, array.name);
        const std::string where = path.string() + ": " + array.name;
        if (inputs->second == "by name") {
            const std::size_t end = (std::min)(array.name.find('/'), array.name.size());
            detail::put(result.named_[array.name.substr(0, end)],
                        std::string_view(array.name).substr((std::min)(end + 1, array.name.size())), tensor, where);
        } else {
            detail::put(all, array.name, tensor, where);
        }
    }
    if (all.is_tuple()) result.values_ = all.tuple();
    if (result.empty()) throw Error(path.string(), "the case holds no inputs");
    return result;
}

INTQ_INLINE std::string fingerprint_of(const std::vector<nn::Value>& inputs) {
    std::string text;
    for (const nn::Value& input : inputs)
        for (const Tensor& tensor : nn::tensors_of(input)) {
            const Tensor values = tensor.contiguous();
            const std::span<const std::byte> bytes(values.data(), static_cast<std::size_t>(values.bytes()));
            text += std::string(name_of(values.dtype())) + " " + to_string(values.shape()) + " " +
                    std::to_string(crc32(bytes)) + ";";
        }
    return text;
}

INTQ_INLINE CaseSource cases_of(std::vector<CallInputs> cases) {
    const auto shared = std::make_shared<const std::vector<CallInputs>>(std::move(cases));
    return {shared->size(), [shared](std::size_t i) { return shared->at(i); }};
}

INTQ_INLINE CaseSource cases_of(const quantization::BatchSource& batches) {
    return {batches.count, [batches](std::size_t i) { return CallInputs(batches.values(i)); }};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_models)
#endif  // INTQ_ANALYSIS_MODELS_CALL_INPUTS_HPP
