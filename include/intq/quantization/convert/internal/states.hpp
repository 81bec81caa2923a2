// SPDX-License-Identifier: MIT
//
// State of a converted model: inputs into which rows are copied, and the outputs that are the result, as codes. Layer:
// quantization.
#ifndef INTQ_QUANTIZATION_CONVERT_INTERNAL_STATES_HPP
#define INTQ_QUANTIZATION_CONVERT_INTERNAL_STATES_HPP

#include <string>
#include <vector>

#include "intq/quantization/operators/quantized_graph.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// A converted model whose state is codes at its ends.
struct StatefulGraph {
    QuantizedGraph graph;
    struct Pair {
        int input, output;  // tensors of the graph, of codes
    };
    std::vector<Pair> states;
};

/// Finds each input that is quantized for an index_copy alone, whose result is an output of the model, and leaves out
/// the steps between real numbers and codes there. The result may have other readers, which see the new rows.
StatefulGraph with_states(const QuantizedGraph& quantized);

/// The tensors at both ends of an index_copy.
struct CopyEnds {
    int input = -1;   // of the model, which is quantized for the copy; -1: another tensor
    int codes = -1;   // of the input
    int output = -1;  // of the model, which is the result; -1: it is none
};
CopyEnds ends_of_copy(const QuantizedGraph& graph, const QuantizedNode& copy);
/// Why the input of an index_copy is no state; empty where it is.
///
/// @pre  ends.input >= 0
std::string reason_against_state(const QuantizedGraph& graph, const QuantizedNode& copy, const CopyEnds& ends);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <algorithm>
#    include <cstddef>

#    include "intq/io/describe.hpp"
#    include "intq/quantization/operators/index_copy.hpp"
#    include "intq/quantization/operators/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// The step that computes a tensor; null for an input.
INTQ_INLINE const QuantizedNode* producer_of(const QuantizedGraph& graph, int tensor) {
    for (const QuantizedNode& node : graph.nodes)
        if (node.output == tensor) return &node;
    return nullptr;
}

/// How often steps and outputs read a tensor.
INTQ_INLINE std::ptrdiff_t readers_of(const QuantizedGraph& graph, int tensor) {
    std::ptrdiff_t readers = std::count(graph.outputs.begin(), graph.outputs.end(), tensor);
    for (const QuantizedNode& node : graph.nodes) readers += std::count(node.inputs.begin(), node.inputs.end(), tensor);
    return readers;
}

INTQ_INLINE CopyEnds ends_of_copy(const QuantizedGraph& graph, const QuantizedNode& copy) {
    CopyEnds ends;
    const QuantizedNode* const codes = producer_of(graph, copy.inputs[0]);
    if (codes == nullptr || codes->as<QuantizeStep>() == nullptr) return ends;
    if (std::count(graph.inputs.begin(), graph.inputs.end(), codes->inputs[0]) == 0) return ends;
    ends.input = codes->inputs[0];
    ends.codes = codes->output;
    for (const int output : graph.outputs) {
        const QuantizedNode* const real = producer_of(graph, output);
        if (real != nullptr && real->as<DequantizeStep>() != nullptr && real->inputs[0] == copy.output)
            ends.output = output;
    }
    return ends;
}

/// The first step that computes with a tensor of real numbers or codes; null where it is an output of the model.
INTQ_INLINE const QuantizedNode* computing_reader(const QuantizedGraph& graph, const QuantizedNode& reader) {
    if (reader.as<DequantizeStep>() == nullptr && reader.as<QuantizeStep>() == nullptr) return &reader;
    for (const QuantizedNode& node : graph.nodes)
        if (std::count(node.inputs.begin(), node.inputs.end(), reader.output) != 0)
            return computing_reader(graph, node);
    return nullptr;
}

/// A reader of the input beside the copy, in words; empty where there is none.
INTQ_INLINE std::string other_reader(const QuantizedGraph& graph, const QuantizedNode& copy, const CopyEnds& ends) {
    if (std::count(graph.outputs.begin(), graph.outputs.end(), ends.input) != 0) return "it is an output as it comes";
    for (const QuantizedNode& node : graph.nodes) {
        const bool reads = std::count(node.inputs.begin(), node.inputs.end(), ends.input) != 0 ||
                           std::count(node.inputs.begin(), node.inputs.end(), ends.codes) != 0;
        if (!reads || &node == &copy || node.output == ends.codes) continue;
        const QuantizedNode* const reader = computing_reader(graph, node);
        if (reader == nullptr) return "it is an output as it comes";
        const std::string name = in_quotes(reader->layer()) + " (" + reader->type + ")";
        if (reader->as<IndexCopyStep>() != nullptr) return "rows are copied into it twice, also by " + name;
        return name + " reads it as it was before the row is copied; let it read the result of index_copy";
    }
    const bool is_read_twice = std::count(copy.inputs.begin(), copy.inputs.end(), ends.codes) != 1;
    return is_read_twice ? "its rows are copied into itself" : "";
}

INTQ_INLINE std::string reason_against_state(const QuantizedGraph& graph, const QuantizedNode& copy,
                                             const CopyEnds& ends) {
    const std::string name = in_quotes(copy.layer()) + " (" + copy.type + ")";
    if (const std::string reader = other_reader(graph, copy, ends); !reader.empty()) return reader;
    if (ends.output < 0) return "the result of " + name + " is no output of the model";
    if (readers_of(graph, ends.output) != 1) return "the result of " + name + " is an output more than once";
    const bool has_one_grid = graph.tensor(ends.codes).qparams == graph.tensor(copy.output).qparams;
    return has_one_grid ? "" : "the result of " + name + " has another scale";
}

INTQ_INLINE StatefulGraph with_states(const QuantizedGraph& quantized) {
    StatefulGraph result{quantized, {}};
    QuantizedGraph& graph = result.graph;
    for (int& output : graph.outputs) {
        const QuantizedNode* const real = producer_of(graph, output);
        if (real == nullptr || real->as<DequantizeStep>() == nullptr) continue;
        const QuantizedNode* const copy = producer_of(graph, real->inputs[0]);
        if (copy == nullptr || copy->as<IndexCopyStep>() == nullptr) continue;
        const CopyEnds ends = ends_of_copy(graph, *copy);
        if (ends.input < 0 || !reason_against_state(graph, *copy, ends).empty()) continue;
        const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), ends.input);
        const StatefulGraph::Pair pair{ends.codes, copy->output};
        const int real_output = output;
        graph.tensors[static_cast<std::size_t>(pair.input)].name = graph.tensor(*input).name;
        *input = pair.input;
        output = pair.output;
        std::erase_if(graph.nodes, [&](const QuantizedNode& node) {
            return node.output == pair.input || node.output == real_output;
        });
        result.states.push_back(pair);
    }
    return result;
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_INTERNAL_STATES_HPP
