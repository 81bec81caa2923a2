// SPDX-License-Identifier: MIT
//
// The layers with weights of a prepared model, and their inputs when it runs. Layer: improve.
#ifndef INTQ_IMPROVE_LAYER_CALLS_HPP
#define INTQ_IMPROVE_LAYER_CALLS_HPP

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "intq/graph/node.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {
class GraphModule;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {
class Weighted;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {
class PreparedWeight;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

/// A layer that was left unchanged, and why.
struct SkippedLayer {
    std::string layer;
    std::string reason;
};

/// A layer with a weight quantizer, at the one node that calls it.
struct LayerCall {
    const graph::Node* node = nullptr;
    std::string layer;  // qualified name
    nn::Weighted* weighted = nullptr;
    quantization::PreparedWeight* prepared = nullptr;

    /// The axis of the output that counts its channels.
    int channel_axis(const Tensor& output) const;
};

/// The layers of a prepared model in the order in which they run. One that several nodes call is skipped: it has as
/// many outputs as calls, and one weight for all.
///
/// @throws Error for a quantizer that saw no data, and for a layer that keeps a batch norm: its product is not its
/// output
std::vector<LayerCall> layer_calls(quantization::PreparedModel& model, std::vector<SkippedLayer>& skipped);

/// Called for a node with its inputs and output.
using CallHook =
    std::function<void(const graph::Node& node, std::span<const nn::Value> inputs, const nn::Value& output)>;

/// Runs a model on a batch; `visit` sees the calls of the nodes with these names.
void run_and_visit(graph::GraphModule& model, std::span<const nn::Value> batch, const std::set<std::string>& nodes,
                   const CallHook& visit);
/// The same for a model with one input.
void run_and_visit(graph::GraphModule& model, const Tensor& batch, const std::set<std::string>& nodes,
                   const CallHook& visit);

/// A copy of the prepared model that computes in float.
std::shared_ptr<quantization::PreparedModel> float_copy(const quantization::PreparedModel& model);

/// The batches of a source that hold samples, one after the other. Throws if there are none.
void for_each_batch(const quantization::BatchSource& source, const char* who,
                    const std::function<void(std::span<const nn::Value> batch)>& visit);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <cstddef>

#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/interpreter.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE int LayerCall::channel_axis(const Tensor& output) const {
    const int axis = weighted->channel_axis();
    return axis < 0 ? axis + output.rank() : axis;
}

INTQ_INLINE std::vector<LayerCall> layer_calls(quantization::PreparedModel& model, std::vector<SkippedLayer>& skipped) {
    for (const auto& module : model.named_modules())
        if (const auto* quantizer = dynamic_cast<const quantization::FakeQuantize*>(module.value))
            if (!quantizer->has_qparams())
                throw Error(module.name, "this quantizer saw no data; calibrate or train the model first");
    const auto nodes = model.graph().nodes();
    std::vector<LayerCall> calls;
    for (const graph::Node* node : nodes) {
        nn::Module* module = graph::module_of(*node, model);
        auto* prepared = dynamic_cast<quantization::PreparedWeight*>(module);
        if (prepared == nullptr) continue;
        if (prepared->layer().norm() != nullptr)
            throw Error(node->target(), "this layer keeps its batch norm; call fold_batch_norms() first");
        const auto count = std::count_if(nodes.begin(), nodes.end(), [&](const graph::Node* other) {
            return graph::module_of(*other, model) == module;
        });
        if (count == 1)
            calls.push_back({node, node->target(), &dynamic_cast<nn::Weighted&>(*module), prepared});
        else if (skipped.empty() || skipped.back().layer != node->target())
            skipped.push_back({node->target(), "it is called " + std::to_string(count) + " times"});
    }
    return calls;
}

INTQ_INLINE void run_and_visit(graph::GraphModule& model, const Tensor& batch, const std::set<std::string>& nodes,
                               const CallHook& visit) {
    const nn::Value input(batch);
    run_and_visit(model, std::span(&input, 1), nodes, visit);
}

INTQ_INLINE void run_and_visit(graph::GraphModule& model, std::span<const nn::Value> batch,
                               const std::set<std::string>& nodes, const CallHook& visit) {
    std::set<const graph::Node*> read;
    for (const graph::Node* node : model.graph().nodes())
        if (nodes.count(node->name()) != 0)
            for (const graph::Node* input : node->inputs()) read.insert(input);
    graph::Interpreter::Values values;
    model.run(batch, [&](const graph::Node& node, const nn::Value& value) {
        if (read.count(&node) != 0) values[&node] = value;
        if (nodes.count(node.name()) != 0) visit(node, graph::Interpreter::resolve(node.args(), values), value);
    });
}

INTQ_INLINE std::shared_ptr<quantization::PreparedModel> float_copy(const quantization::PreparedModel& model) {
    auto copy =
        std::dynamic_pointer_cast<quantization::PreparedModel>(nn::clone(static_cast<const nn::Module&>(model)));
    set_fake_quantize(*copy, quantization::FakeQuantState::float_);
    return copy;
}

INTQ_INLINE void for_each_batch(const quantization::BatchSource& source, const char* who,
                                const std::function<void(std::span<const nn::Value> batch)>& visit) {
    bool any = false;
    for (std::size_t i = 0; i < source.count; ++i)
        if (const std::vector<nn::Value> batch = source.values(i); quantization::has_data(batch)) {
            any = true;
            visit(batch);
        }
    if (!any) throw Error(std::string(who) + ": there is no data; give at least one batch");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_LAYER_CALLS_HPP
