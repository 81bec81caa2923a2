// SPDX-License-Identifier: MIT
//
// The constants of a graph, by name. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_CONSTANTS_OF_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_CONSTANTS_OF_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Initializers and Constant nodes, for a search that reads the nodes in their order. The graph must outlive it.
class ConstantsOf {
public:
    explicit ConstantsOf(const Graph& graph);

    /// Takes a node in, if it is a Constant.
    /// @return whether it is
    bool add(const Node& node);

    /// Null for another value, and for a number that a Constant holds as an attribute.
    const FileTensor* tensor(const std::string& name) const;
    /// The elements of a list of int64; none for another value.
    std::optional<std::vector<std::int64_t>> integers(const std::string& name) const;
    /// The same of input i of a node, or of the attribute that older opsets have in its place.
    std::optional<std::vector<std::int64_t>> integers(const Node& node, std::size_t i,
                                                      std::string_view attribute) const;
    /// The value of a float constant of one element. One of a rank above 1 could add axes to a result, and is none.
    std::optional<double> number(const std::string& name) const;

private:
    std::map<std::string, const FileTensor*> tensors_;
    std::map<std::string, double> numbers_;
};

/// The value of an attribute of integers, or of one; none if it is not there, or of another type.
std::optional<std::vector<std::int64_t>> integers_of_attribute(const Node& node, std::string_view name);

/// The order of the axes of a Transpose; none for one that is damaged or says none.
std::optional<std::vector<std::int64_t>> permutation_of(const Node& node);

/// Whether a node is of ONNX's own operators.
inline bool is_of_onnx(const Node& node) { return node.domain.empty() || node.domain == "ai.onnx"; }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <variant>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE ConstantsOf::ConstantsOf(const Graph& graph) {
    for (const FileTensor& tensor : graph.initializers) tensors_.emplace(tensor.name, &tensor);
}

INTQ_INLINE bool ConstantsOf::add(const Node& node) {
    if (node.op_type != "Constant" || node.outputs.size() != 1) return false;
    for (const Attribute& attribute : node.attributes) {
        if (const auto* tensor = std::get_if<FileTensor>(&attribute.value); tensor && attribute.name == "value")
            tensors_.emplace(node.outputs[0], tensor);
        if (const auto* number = std::get_if<float>(&attribute.value); number && attribute.name == "value_float")
            numbers_[node.outputs[0]] = static_cast<double>(*number);
    }
    return true;
}

INTQ_INLINE const FileTensor* ConstantsOf::tensor(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : found->second;
}

INTQ_INLINE std::optional<std::vector<std::int64_t>> integers_of_attribute(const Node& node, std::string_view name) {
    for (const Attribute& attribute : node.attributes) {
        if (attribute.name != name) continue;
        if (const auto* const list = std::get_if<std::vector<std::int64_t>>(&attribute.value)) return *list;
        if (const auto* const one = std::get_if<std::int64_t>(&attribute.value)) return std::vector{*one};
    }
    return std::nullopt;
}

INTQ_INLINE std::optional<std::vector<std::int64_t>> permutation_of(const Node& node) {
    const std::optional<std::vector<std::int64_t>> axes = integers_of_attribute(node, "perm");
    if (!axes || axes->empty() || axes->size() > static_cast<std::size_t>(max_rank)) return std::nullopt;
    std::vector<std::int64_t> sorted = *axes;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i)
        if (sorted[i] != static_cast<std::int64_t>(i)) return std::nullopt;
    return axes;
}

INTQ_INLINE std::optional<std::vector<std::int64_t>> ConstantsOf::integers(const std::string& name) const {
    const FileTensor* const list = tensor(name);
    if (list == nullptr || list->dtype != DType::int64 || list->dims.size() != 1) return std::nullopt;
    const auto values = list->as<std::int64_t>();
    return std::vector(values.begin(), values.end());
}

INTQ_INLINE std::optional<std::vector<std::int64_t>> ConstantsOf::integers(const Node& node, std::size_t i,
                                                                           std::string_view attribute) const {
    if (i < node.inputs.size() && !node.inputs[i].empty()) return integers(node.inputs[i]);
    return integers_of_attribute(node, attribute);
}

INTQ_INLINE std::optional<double> ConstantsOf::number(const std::string& name) const {
    if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
    const FileTensor* const one = tensor(name);
    if (one == nullptr || one->dtype != DType::float32 || one->dims.size() > 1 || one->size() != 1) return std::nullopt;
    return static_cast<double>(one->as<float>()[0]);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_CONSTANTS_OF_HPP
