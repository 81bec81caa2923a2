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
///
/// Cost     one pass over the nodes, whatever a file says of them
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
#    include <map>
#    include <string_view>
#    include <variant>

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

INTQ_INLINE bool is_move_of_integers(const Node& node) {
    static constexpr std::string_view moves[] = {"Unsqueeze", "Squeeze", "Reshape", "Transpose",
                                                 "Flatten",   "Slice",   "Expand",  "Identity"};
    return !node.outputs.empty() && std::find(std::begin(moves), std::end(moves), node.op_type) != std::end(moves);
}

INTQ_INLINE std::set<std::string> integers_as_reals(const Graph& graph) {
    std::map<std::string, std::string> input_of;  // of an input, and of what moves made of it
    for (const ValueInfo& input : graph.inputs)
        if (input.dtype == DType::int64 || input.dtype == DType::int32) input_of[input.name] = input.name;
    std::set<std::string> cast, read_otherwise;
    for (const Node& node : graph.nodes)
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            const auto known = input_of.find(node.inputs[i]);
            if (known == input_of.end()) continue;
            const std::string input = known->second;
            if (is_cast_to_float(node))
                cast.insert(input);
            else if (i == 0 && is_move_of_integers(node))
                input_of.emplace(node.outputs[0], input);
            else
                read_otherwise.insert(input);
        }
    for (const ValueInfo& output : graph.outputs)
        if (const auto known = input_of.find(output.name); known != input_of.end()) read_otherwise.insert(known->second);
    for (const std::string& input : read_otherwise) cast.erase(input);
    return cast;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_INTEGER_INPUTS_HPP
