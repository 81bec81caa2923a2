// SPDX-License-Identifier: MIT
//
// What is known of the values of a graph while their samples are moved back to axis 0. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_KEPT_VALUES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_KEPT_VALUES_HPP

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#include "intq/interop/onnx/internal/nodes/graph_editor.hpp"
#include "intq/interop/onnx/internal/nodes/sample_axis.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// A value by the name of its kept form.
struct KeptValue {
    std::string name;
    SampleAxis at;
};

/// A node on kept values, without names of its outputs, and where the samples of the file's outputs lie.
struct KeptNode {
    Node node;
    std::vector<SampleAxis> outputs;
};

/// The values of the nodes up to one. The model must outlive it.
class KeptValues {
public:
    explicit KeptValues(const Model& model);

    /// Takes in the next node of the graph.
    /// @return whether it may be rewritten: no Constant, and no node that reads constants alone
    bool begin(const Node& node);
    /// Adds a node in the place of the file's, and remembers its outputs. Those that are kept have the file's names.
    void finish(const KeptNode& made, const Node& in_file);

    /// Remembers the shapes of a node's outputs that are kept.
    void note_shapes(const KeptNode& made, const Node& in_file);

    /// Whether the samples of a value are not in axis 0.
    bool is_moved(const std::string& name) const { return moved_.count(name) != 0; }
    /// Whether a value is computed from inputs of the model.
    bool has_samples(const std::string& name) const { return of_samples_.count(name) != 0; }
    /// A value of samples in its kept form; none for another one, and without a shape.
    std::optional<KeptValue> kept(const std::string& name) const;
    /// Adds a node before the one that is made.
    /// @return the name of its output
    std::string push(Node node, const Node& in_file);
    /// A kept value in the shape of (N, extents).
    std::string with_extents(const std::string& kept, const std::vector<index_t>& extents, const Node& in_file);

    /// As the file says; -1 for an extent that is not known.
    std::optional<std::vector<index_t>> shape(const std::string& name) const;
    const ConstantsOf& constants() const noexcept { return constants_; }
    GraphEditor& editor() noexcept { return editor_; }
    std::int64_t opset() const noexcept { return opset_; }
    /// N of the file, or -1.
    index_t samples() const noexcept { return samples_; }

private:
    const Graph& graph_;
    std::int64_t opset_;
    ConstantsOf constants_;
    GraphEditor editor_;
    index_t samples_ = 0;  // 0 where the inputs differ
    std::set<std::string> of_samples_;
    std::map<std::string, KeptValue> moved_;
    std::map<std::string, std::vector<index_t>> shapes_;  // of inputs, and of values that are kept again
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cstddef>
#    include <utility>

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE KeptValues::KeptValues(const Model& model)
    : graph_(model.graph), opset_(model.opset), constants_(model.graph), editor_(model.graph) {
    bool is_first = true;
    for (const ValueInfo& input : graph_.inputs) {
        if (constants_.tensor(input.name) != nullptr) continue;
        of_samples_.insert(input.name);
        const index_t samples = input.shape.empty() ? 0 : input.shape[0];
        if (!std::exchange(is_first, false) && samples != samples_)
            samples_ = 0;
        else
            samples_ = samples;
        if (input.has_shape) shapes_[input.name] = input.shape;
        if (samples_ == 0) break;
    }
    if (samples_ == 0) of_samples_.clear();
}

INTQ_INLINE bool KeptValues::begin(const Node& node) {
    if (constants_.add(node) || (is_of_onnx(node) && node.op_type == "Shape")) return false;
    const bool has_any =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& name) { return has_samples(name); });
    if (has_any) of_samples_.insert(node.outputs.begin(), node.outputs.end());
    return has_any;
}

INTQ_INLINE std::optional<std::vector<index_t>> KeptValues::shape(const std::string& name) const {
    if (const FileTensor* const constant = constants_.tensor(name)) return constant->dims;
    for (const auto* shapes : {&shapes_, &graph_.shapes})
        if (const auto found = shapes->find(name); found != shapes->end()) return found->second;
    for (const ValueInfo& output : graph_.outputs)
        if (output.name == name && output.has_shape) return output.shape;
    return std::nullopt;
}

INTQ_INLINE std::optional<KeptValue> KeptValues::kept(const std::string& name) const {
    if (const auto found = moved_.find(name); found != moved_.end()) return found->second;
    if (!has_samples(name)) return std::nullopt;
    std::optional<std::vector<index_t>> extents = shape(name);
    if (!extents || extents->empty() || (*extents)[0] != samples_) return std::nullopt;
    (*extents)[0] = 1;
    if (std::any_of(extents->begin(), extents->end(), [](index_t extent) { return extent < 1; })) return std::nullopt;
    return KeptValue{name, {*std::move(extents), 0, 1}};
}

INTQ_INLINE std::string KeptValues::push(Node node, const Node& in_file) {
    std::string name = editor_.fresh(in_file.outputs[0]);
    node.outputs = {name};
    editor_.push(std::move(node));
    return name;
}

INTQ_INLINE std::string KeptValues::with_extents(const std::string& kept, const std::vector<index_t>& extents,
                                                 const Node& in_file) {
    std::vector<std::int64_t> target{0};
    target.insert(target.end(), extents.begin(), extents.end());
    return push(GraphEditor::in_place_of(in_file, "Reshape", {kept, editor_.constant(target, in_file)}, {}, ".kept"),
                in_file);
}

INTQ_INLINE void KeptValues::note_shapes(const KeptNode& made, const Node& in_file) {
    for (std::size_t i = 0; i < made.outputs.size(); ++i) {
        if (!made.outputs[i].is_first()) continue;
        std::vector<index_t>& shape = shapes_[in_file.outputs[i]];
        shape = made.outputs[i].extents;
        shape[0] = samples_;
    }
}

INTQ_INLINE void KeptValues::finish(const KeptNode& made, const Node& in_file) {
    note_shapes(made, in_file);
    Node node = made.node;
    const bool is_same = node.op_type == "Identity" && !made.outputs[0].is_first();
    for (std::size_t i = 0; i < made.outputs.size(); ++i) {
        const SampleAxis& at = made.outputs[i];
        const std::string& name = in_file.outputs[i];
        if (at.is_first()) {
            node.outputs.push_back(name);
            continue;
        }
        node.outputs.push_back(is_same ? node.inputs[0] : editor_.fresh(name));
        moved_[name] = {node.outputs.back(), at};
    }
    if (!is_same) editor_.push(std::move(node));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_KEPT_VALUES_HPP
