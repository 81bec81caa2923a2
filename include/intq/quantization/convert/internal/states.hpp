// SPDX-License-Identifier: MIT
//
// State of a converted model: inputs into which rows are copied, and the outputs that are the result, as codes. Layer:
// quantization.
#ifndef INTQ_QUANTIZATION_CONVERT_INTERNAL_STATES_HPP
#define INTQ_QUANTIZATION_CONVERT_INTERNAL_STATES_HPP

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

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <algorithm>
#    include <cstddef>

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

INTQ_INLINE StatefulGraph with_states(const QuantizedGraph& quantized) {
    StatefulGraph result{quantized, {}};
    QuantizedGraph& graph = result.graph;
    for (int& output : graph.outputs) {
        const QuantizedNode* const real = producer_of(graph, output);
        if (real == nullptr || real->as<DequantizeStep>() == nullptr || readers_of(graph, output) != 1) continue;
        const QuantizedNode* const copy = producer_of(graph, real->inputs[0]);
        if (copy == nullptr || copy->as<IndexCopyStep>() == nullptr) continue;
        const QuantizedNode* const codes = producer_of(graph, copy->inputs[0]);
        if (codes == nullptr || codes->as<QuantizeStep>() == nullptr || readers_of(graph, codes->output) != 1) continue;
        const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), codes->inputs[0]);
        if (input == graph.inputs.end() || readers_of(graph, *input) != 1 ||
            !(graph.tensor(codes->output).qparams == graph.tensor(copy->output).qparams))
            continue;
        const StatefulGraph::Pair pair{codes->output, copy->output};
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
