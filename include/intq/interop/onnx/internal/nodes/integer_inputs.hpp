// SPDX-License-Identifier: MIT
//
// Inputs of integers that a file casts to real numbers, such as a mask of 0 and 1. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_INTEGER_INPUTS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_INTEGER_INPUTS_HPP

#include <set>
#include <string>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The names of the inputs of int64 or int32 whose every reader is a Cast to float32, perhaps behind moves. A model
/// takes them as real numbers.
std::set<std::string> integers_as_reals(const Graph& graph);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <iterator>
#    include <string_view>
#    include <variant>
#    include <vector>

#    include "intq/core/dtype.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool is_cast_to_float(const Node& node) {
    constexpr std::int64_t float_code = 1;
    return node.op_type == "Cast" &&
           std::any_of(node.attributes.begin(), node.attributes.end(), [](const Attribute& attribute) {
               const auto* const to = std::get_if<std::int64_t>(&attribute.value);
               return attribute.name == "to" && to != nullptr && *to == float_code;
           });
}

INTQ_INLINE bool is_cast_to_reals(const Graph& graph, const std::string& input) {
    static constexpr std::string_view moves[] = {"Unsqueeze", "Squeeze", "Reshape", "Transpose",
                                                 "Flatten",   "Slice",   "Expand",  "Identity"};
    std::vector<std::string> open{input};
    bool is_cast = false;
    while (!open.empty()) {
        const std::string value = open.back();
        open.pop_back();
        for (const ValueInfo& output : graph.outputs)
            if (output.name == value) return false;
        for (const Node& node : graph.nodes)
            for (std::size_t i = 0; i < node.inputs.size(); ++i) {
                if (node.inputs[i] != value) continue;
                const bool casts = is_cast_to_float(node);
                const bool is_moved = i == 0 && !node.outputs.empty() &&
                                      std::find(std::begin(moves), std::end(moves), node.op_type) != std::end(moves);
                if (!casts && !is_moved) return false;
                if (is_moved) open.push_back(node.outputs[0]);
                is_cast = is_cast || casts;
            }
    }
    return is_cast;
}

INTQ_INLINE std::set<std::string> integers_as_reals(const Graph& graph) {
    std::set<std::string> names;
    for (const ValueInfo& input : graph.inputs)
        if ((input.dtype == DType::int64 || input.dtype == DType::int32) && is_cast_to_reals(graph, input.name))
            names.insert(input.name);
    return names;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_INTEGER_INPUTS_HPP
