// SPDX-License-Identifier: MIT
//
// The types on the edges of a prepared graph, and the configurations on them that are seldom meant. Layer: quantization
// (docs/workflow.md section 6).
#ifndef INTQ_QUANTIZATION_CHECK_INTERNAL_UNUSUAL_HPP
#define INTQ_QUANTIZATION_CHECK_INTERNAL_UNUSUAL_HPP

#include <map>
#include <set>
#include <string>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/graph/node.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/operators/operator_table.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The values on the edges of a prepared graph: codes of a type, accumulators (int32) or real values.
class PreparedEdges {
public:
    /// The model must outlive this, and not change.
    explicit PreparedEdges(graph::GraphModule& model);

    /// The type of a node's own value.
    DType dtype_of(const graph::Node& node) const { return dtypes_.at(&node); }
    /// The type that its readers see: behind its output quantizer, if it has one.
    DType dtype_behind(const graph::Node& node) const;
    /// The quantizer that is the only reader of a node, or of its relu that is its only reader; null if there is none.
    const Quantizer* output_quantizer(const graph::Node& node) const;
    /// Whether a node is one that tables list: not a quantizer, Identity, input, output or tensor of the model.
    bool is_operator(const graph::Node& node) const;
    /// Whether all inputs of a node come from behind a DeQuantStub, or from an input that no QuantStub took.
    bool is_outside(const graph::Node& node) const { return outside_.count(&node) != 0; }
    const QuantizedOperator& row_of(const graph::Node& node) { return operators_.of(node); }
    graph::GraphModule& model() const noexcept { return model_; }

private:
    DType find_dtype(const graph::Node& node);

    graph::GraphModule& model_;
    NodeOperators operators_;
    std::map<const graph::Node*, DType> dtypes_;
    std::set<const graph::Node*> outside_;
};

/// The messages about an operator.
std::vector<std::string> unusual_of(const graph::Node& node, PreparedEdges& edges);

/// Channels of a layer's weight, or of a batch norm, that are almost 0, or far above most others.
struct ChannelOutliers {
    std::vector<index_t> dead;  // at most a millionth of the median
    std::vector<index_t> huge;  // at least a hundred times the median
};

/// @param magnitudes  of the channels, none negative
ChannelOutliers find_channel_outliers(std::vector<float> magnitudes);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_check)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>

#    include "intq/graph/operators.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/norm.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/check/internal/unfused.hpp"
#    include "intq/quantization/modules/batch_norm_conv.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/modules/quantizer_of.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE PreparedEdges::PreparedEdges(graph::GraphModule& model) : model_(model), operators_(model) {
    for (const graph::Node* node : model.graph().nodes()) {
        dtypes_[node] = find_dtype(*node);
        const auto inputs = node->inputs();
        const bool is_quantizer = quantizer_of(*node, model) != nullptr;
        const bool begins = inputs.empty() || row_of(*node).role == Role::dequant_stub;
        const bool goes_on = std::all_of(inputs.begin(), inputs.end(),
                                         [&](const graph::Node* input) { return outside_.count(input) != 0; });
        if (!is_quantizer && row_of(*node).role != Role::quant_stub && (begins || goes_on)) outside_.insert(node);
    }
}

INTQ_INLINE DType PreparedEdges::find_dtype(const graph::Node& node) {
    const auto inputs = node.inputs();
    const nn::Module* const module = graph::module_of(node, model_);
    const DType input = inputs.empty() ? DType::float32 : dtypes_.at(inputs.front());
    const auto dtype_of_input_grid = [&] { return inputs.size() > 1 ? dtypes_.at(inputs[1]) : input; };
    if (const auto* quantizer = dynamic_cast<const Quantizer*>(module))
        return quantizer->dtype() == DType::none ? dtype_of_input_grid() : quantizer->dtype();
    switch (row_of(node).role) {
        case Role::item:
        case Role::shares_input:
        case Role::copies_into:
        case Role::output:
            return input;
        case Role::weighted:
            // Codes times codes, unless the layer was not prepared.
            return input != DType::float32 && dynamic_cast<const PreparedWeight*>(module) != nullptr ? DType::int32
                                                                                                     : DType::float32;
        case Role::own_output:
            return input != DType::float32 && row_of(node).gives_sum != nullptr && output_quantizer(node) == nullptr
                       ? DType::int32
                       : DType::float32;
        case Role::gives_ids:
            return input != DType::float32 ? DType::int32 : DType::float32;
        default:
            return DType::float32;
    }
}

INTQ_INLINE const Quantizer* PreparedEdges::output_quantizer(const graph::Node& node) const {
    if (node.users().size() != 1) return nullptr;
    const graph::Node& user = *node.users().front();
    if (const Quantizer* quantizer = quantizer_of(user, model_)) return quantizer;
    const std::string name = graph::operator_of(user, model_);
    const bool bounds = name == "relu" || name == "relu6" || name == "clamp" || name == "hardtanh";
    return bounds ? output_quantizer(user) : nullptr;
}

INTQ_INLINE DType PreparedEdges::dtype_behind(const graph::Node& node) const {
    const Quantizer* quantizer = output_quantizer(node);
    return quantizer == nullptr || quantizer->dtype() == DType::none ? dtype_of(node) : quantizer->dtype();
}

INTQ_INLINE bool PreparedEdges::is_operator(const graph::Node& node) const {
    using graph::Op;
    const bool is_call = node.op() == Op::call_module || node.op() == Op::call_function || node.op() == Op::call_method;
    return is_call && !detail::passes_value(node, model_);
}

INTQ_INLINE ChannelOutliers find_channel_outliers(std::vector<float> magnitudes) {
    constexpr float least = 1e-6f, most = 100.0f;
    std::vector<float> sorted = magnitudes;
    if (sorted.size() < 2) return {};
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    ChannelOutliers found;
    for (std::size_t i = 0; i < magnitudes.size(); ++i) {
        if (magnitudes[i] <= least * *middle) found.dead.push_back(static_cast<index_t>(i));
        if (magnitudes[i] >= most * *middle && *middle > 0.0f) found.huge.push_back(static_cast<index_t>(i));
    }
    return found;
}

namespace detail {

/// The factors of a batch norm on its channels.
INTQ_INLINE std::vector<float> factors_of(const nn::BatchNorm& norm) {
    const auto gamma = norm.tensor("weight").flat<float>(), variance = norm.tensor("running_var").flat<float>();
    std::vector<float> factors(gamma.size());
    for (std::size_t i = 0; i < factors.size(); ++i)
        factors[i] = (std::abs)(gamma[i]) / std::sqrt(variance[i] + static_cast<float>(norm.options().eps));
    return factors;
}

/// The largest weight of each output channel, times the factor of a batch norm that the layer keeps.
INTQ_INLINE std::vector<float> channel_magnitudes(const nn::Weighted& layer) {
    std::vector<float> magnitudes(static_cast<std::size_t>(layer.out_channels()), 0.0f);
    const Tensor weight = layer.weight().contiguous();
    const auto values = weight.flat<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
        float& largest = magnitudes[static_cast<std::size_t>(layer.output_channel_of(static_cast<index_t>(i)))];
        largest = (std::max)(largest, (std::abs)(values[i]));
    }
    if (layer.norm() == nullptr) return magnitudes;
    const std::vector<float> factors = factors_of(*layer.norm());
    for (std::size_t i = 0; i < magnitudes.size(); ++i) magnitudes[i] *= factors[i];
    return magnitudes;
}

INTQ_INLINE std::string list_channels(const std::vector<index_t>& channels) {
    std::string text;
    for (std::size_t i = 0; i < channels.size() && i < 8; ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(channels[i]);
    return channels.size() > 8 ? text + ", ... (" + std::to_string(channels.size()) + " in all)" : text;
}

INTQ_INLINE void note_channels(const graph::Node& node, nn::Module& root, std::vector<std::string>& messages) {
    ChannelOutliers found;
    if (const auto* layer = dynamic_cast<const nn::Weighted*>(graph::module_of(node, root)))
        found = find_channel_outliers(channel_magnitudes(*layer));
    else if (const auto* norm = dynamic_cast<const nn::BatchNorm*>(graph::module_of(node, root)))
        found = find_channel_outliers(factors_of(*norm));
    if (!found.dead.empty()) messages.push_back("Dead channels " + list_channels(found.dead));
    if (!found.huge.empty())
        messages.push_back("Channels " + list_channels(found.huge) + " are at least 100 times the median channel");
}

INTQ_INLINE bool feeds_dequant_only(const graph::Node& node, PreparedEdges& edges) {
    const auto readers = readers_of(node, edges.model());
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](const graph::Node* reader) {
        return edges.row_of(*reader).role == Role::dequant_stub;
    });
}

INTQ_INLINE void note_output(const graph::Node& node, PreparedEdges& edges, std::vector<std::string>& messages) {
    const Role role = edges.row_of(node).role;
    const bool has_output =
        role == Role::quant_stub || role == Role::weighted || role == Role::own_output || role == Role::cat;
    const Quantizer* quantizer = edges.output_quantizer(node);
    const bool gives_accumulator = edges.dtype_of(node) == DType::int32 && feeds_dequant_only(node, edges);
    // A layer in float passes real values on, which another one may quantize.
    const bool in_float =
        role == Role::weighted && dynamic_cast<const PreparedWeight*>(graph::module_of(node, edges.model())) == nullptr;
    if (has_output && (quantizer == nullptr || in_float) && !gives_accumulator && !edges.is_outside(node))
        messages.push_back("No activation quantizer");
    if (const FakeQuantize* const own = observing_quantizer(quantizer)) {
        const bool is_fixed = own->has_given_qparams() || own->observer().type_name() == "FixedScaleObserver";
        if (is_fixed && own->has_qparams())
            messages.push_back("Fixed scale " + shortest_text(own->qparams().scales.front()));
    }
    const auto* layer = dynamic_cast<const nn::Weighted*>(graph::module_of(node, edges.model()));
    const bool is_clamped = layer != nullptr && layer->fusion().activation != Activation::none;
    if (role == Role::weighted && quantizer != nullptr && !is_clamped && feeds_dequant_only(node, edges))
        messages.push_back("Output before a DeQuantStub is " + std::string("q") + name_of(edges.dtype_behind(node)) +
                           ", not of high precision");
}

INTQ_INLINE void note_types(const graph::Node& node, PreparedEdges& edges, std::vector<std::string>& messages) {
    std::set<DType> inputs;
    for (const graph::Node* input : node.inputs())
        if (edges.dtype_of(*input) != DType::float32) inputs.insert(edges.dtype_of(*input));
    std::string names;
    for (const DType input : inputs) names += (names.empty() ? "q" : ", q") + std::string(name_of(input));
    const DType output = edges.dtype_behind(node);
    if (inputs.size() > 1) messages.push_back("Input dtypes differ: " + names);
    const bool gives_codes = output == DType::int8 || output == DType::int16;
    if (inputs.size() == 1 && gives_codes && *inputs.begin() != output && *inputs.begin() != DType::int32)
        messages.push_back("Input dtype " + names + ", out dtype q" + name_of(output));
}

INTQ_INLINE void note_weight(const graph::Node& node, nn::Module& root, std::vector<std::string>& messages) {
    nn::Module* const module = graph::module_of(node, root);
    const auto* prepared = dynamic_cast<const PreparedWeight*>(module);
    if (prepared == nullptr) return;
    const FakeQuantize& weight = prepared->weight_fake_quant();
    if (weight.dtype() != DType::int8) messages.push_back("Weight dtype q" + std::string(name_of(weight.dtype())));
    const auto* conv = dynamic_cast<const nn::Conv2d*>(module);
    const bool is_depthwise =
        conv != nullptr && conv->options().groups > 1 && conv->options().groups == conv->options().in_channels;
    if (is_depthwise && weight.channel_axis() < 0) messages.push_back("Depthwise convolution with a weight per tensor");
}

/// In training; QATMode::fuse_bn makes it so.
INTQ_INLINE void note_frozen_norm(const graph::Node& node, nn::Module& root, std::vector<std::string>& messages) {
    const auto* norm = dynamic_cast<const BatchNormConv2d*>(graph::module_of(node, root));
    if (norm != nullptr && norm->norm() == nullptr && norm->training())
        messages.emplace_back("Batch norm that no layer takes is frozen");
}

/// A value that a relu cut off, and that only an add reads: conv-add-relu would be one operator.
INTQ_INLINE void note_relu_before_add(const graph::Node& node, PreparedEdges& edges,
                                      std::vector<std::string>& messages) {
    nn::Module& root = edges.model();
    if (graph::operator_of(node, root) != "add" || node.inputs().size() < 2) return;
    for (const graph::Node* input : node.inputs()) {
        while (passes_value(*input, root)) input = input->inputs().front();
        const auto* layer = dynamic_cast<const nn::Weighted*>(graph::module_of(*input, root));
        const std::string name = graph::operator_of(*input, root);
        const bool is_relu =
            name == "relu" || name == "relu6" || (layer != nullptr && layer->fusion().activation != Activation::none);
        if (is_relu && readers_of(*input, root).size() == 1) messages.push_back("relu before add: %" + input->name());
    }
}

}  // namespace detail

INTQ_INLINE std::vector<std::string> unusual_of(const graph::Node& node, PreparedEdges& edges) {
    std::vector<std::string> messages;
    detail::note_output(node, edges, messages);
    detail::note_types(node, edges, messages);
    detail::note_weight(node, edges.model(), messages);
    detail::note_channels(node, edges.model(), messages);
    detail::note_frozen_norm(node, edges.model(), messages);
    detail::note_relu_before_add(node, edges, messages);
    return messages;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_check)
#endif  // INTQ_QUANTIZATION_CHECK_INTERNAL_UNUSUAL_HPP
