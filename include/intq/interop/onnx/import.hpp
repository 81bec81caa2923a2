// SPDX-License-Identifier: MIT
//
// From an ONNX model to a graph of intq's modules. Layer: interop (docs/design.md section 2).
//
// Long because one class takes in the inputs, nodes and outputs of a file.
#ifndef INTQ_INTEROP_ONNX_IMPORT_HPP
#define INTQ_INTEROP_ONNX_IMPORT_HPP

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/interop/onnx/internal/nodes/node_import.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Makes a float model of an ONNX model, in evaluation mode.
///
/// A quantized model becomes one whose values pass a QuantizeDequantize where the file has codes, and whose weights are
/// the real numbers of their codes. Inputs and outputs of the file that are codes become the real numbers that these
/// represent. interop/quantized_onnx/import_quantized.hpp makes a converted model of it.
///
/// Modules are named after the nodes (/stem/conv becomes stem.conv), placeholders after the inputs. The operators are
/// listed in operators.hpp. A function of one element or norm that is written in parts is read as one. Moves that take
/// the samples from axis 0 and back, as PyTorch's default export writes attention, become moves that keep them there.
///
/// @return the model; its graph has one node for each ONNX node, except constants, a bias that a separate node added,
///         parts, and such moves
/// @throws Error naming the node by type, name and position ("node 7 of 23"): an unsupported operator, attribute, dtype
///         or shape, a missing initializer, a graph that is not in order, or numbers beyond internal/read/limits.hpp
std::shared_ptr<graph::GraphModule> import_model(const Model& model);

/// An imported model, and the file's information on its layers, by the names of their modules.
struct ImportedModel {
    std::shared_ptr<graph::GraphModule> module;
    std::map<std::string, LayerCodes> layers;  // layers whose weights the file holds as codes
    std::set<std::string> constant_norms;      // batch norms that an operator with a constant for each channel became
    std::set<std::string> averages_of_values;  // pools that were QLinearAveragePool
};
ImportedModel import_with_codes(const Model& model);

/// The inputs of a model that are positions of tokens (T), or a single one. The imported model takes them as (N, T), T
/// of each sample: a file states those of one sample, or the same for all.
std::set<std::string> position_inputs(const Model& model);

/// A node that import_model() refuses.
struct RefusedNode {
    std::string layer;  // as its module would be named, unless that name is taken
    std::string op_type;
    std::string reason;
};

/// Whether a model takes integers for an input, as ids of rows. Integers that the file casts to float32, such as a mask
/// of 0 and 1, are real numbers of the model.
bool takes_ids(const Model& model, const std::string& input);

/// The inputs of int64 or int32, of two axes or more, that hold 0 and 1 for the model: they are compared with 0 or 1,
/// or cast to bool, for a Where of a value and a number, and are read in no other way but cast to float32.
std::set<std::string> mask_inputs(const Model& model);

/// Whether a model is quantized: it holds QuantizeLinear, or a quantizer that is written in parts
/// (internal/nodes/quantizers_by_parts.hpp).
bool is_quantized(const Model& model);

/// All nodes that import_model() refuses, where it would throw the Error of the first. Of a node that reads the output
/// of a refused node, only the operator is checked. Empty for a model that is imported.
///
/// @throws Error for inputs, outputs and initializers, which belong to no node
std::vector<RefusedNode> find_refused_nodes(const Model& model);

/// Reads and imports a file; messages begin with the path.
std::shared_ptr<graph::GraphModule> import_file(const std::filesystem::path& path);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <iterator>
#    include <optional>
#    include <string_view>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/graph.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/expand_attention.hpp"
#    include "intq/interop/onnx/internal/nodes/functions_by_parts.hpp"
#    include "intq/interop/onnx/internal/nodes/gelu_by_parts.hpp"
#    include "intq/interop/onnx/internal/nodes/integer_inputs.hpp"
#    include "intq/interop/onnx/internal/nodes/norm_by_parts.hpp"
#    include "intq/interop/onnx/internal/nodes/quantizers_by_parts.hpp"
#    include "intq/interop/onnx/internal/nodes/read_form.hpp"
#    include "intq/interop/onnx/internal/nodes/unit_vectors_by_parts.hpp"
#    include "intq/interop/onnx/internal/operators.hpp"
#    include "intq/interop/onnx/internal/position_tables.hpp"
#    include "intq/interop/onnx/internal/uneven_averages.hpp"
#    include "intq/interop/onnx/read/read.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/nn/layers/initial_weights.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

class Importer {
public:
    /// @param node_count  of the file, for messages
    Importer(const Model& model, std::size_t node_count) : model_(model), graph_(model.graph) {
        state_.opset = model.opset;
        state_.node_count = node_count;
    }

    ImportedModel run() {
        begin();
        for (const Node& node : graph_.nodes) {
            if (live_.count(&node) == 0) continue;
            try {
                add_node(node);
            } catch (const Error& error) {
                throw Error(describe_node(node, state_.node_count), error.what());
            }
        }
        add_output();
        for (auto node = state_.passed_over.rbegin(); node != state_.passed_over.rend(); ++node)
            if ((*node)->users().empty()) state_.graph.erase(**node);
        state_.root.eval();
        return {std::make_shared<graph::GraphModule>(state_.root, std::move(state_.graph)), std::move(state_.layers),
                std::move(state_.constant_norms), std::move(state_.averages_of_values)};
    }

    std::vector<RefusedNode> find_refused() {
        begin();
        std::vector<RefusedNode> refused;
        std::set<std::string_view> lost;  // outputs of refused nodes, and values made of them
        for (const Node& node : graph_.nodes) {
            if (live_.count(&node) == 0) continue;
            const std::vector<std::string>& inputs = read_form(node).inputs;
            const bool reads_lost = std::any_of(inputs.begin(), inputs.end(),
                                                [&](const std::string& name) { return lost.count(name) != 0; });
            try {
                reads_lost ? static_cast<void>(find_row(node)) : add_node(node);
                if (!reads_lost) continue;
            } catch (const Error& error) {
                refused.push_back({qualified_name_of(node), node.op_type, error.what()});
            }
            lost.insert(node.outputs.begin(), node.outputs.end());
        }
        if (refused.empty()) add_output();
        return refused;
    }

private:
    /// Takes in the parts of the file beside its nodes, and finds which nodes are read.
    void begin() {
        positions_ = position_inputs(graph_);
        joined_ = gelus_by_parts(graph_);
        joined_.merge(norms_by_parts(graph_));
        joined_.merge(functions_by_parts(graph_));
        joined_.merge(unit_vectors_by_parts(graph_));
        add_initializers();
        add_inputs();
        count_uses();
    }

    void add_initializers() {
        for (const FileTensor& tensor : graph_.initializers) {
            check_dims("the initializer " + in_quotes(tensor.name), tensor.dims);
            state_.constant_bytes += tensor.data.size();
            if (!state_.values.emplace(tensor.name, ImportedValue{.constant = &tensor, .dims = tensor.dims}).second)
                throw Error("two initializers have the name " + in_quotes(tensor.name));
        }
    }

    // Up to IR version 3 an initializer is listed among the inputs too.
    void add_inputs() {
        bool any = false;
        const std::set<std::string> reals = integers_as_reals(graph_);
        for (const ValueInfo& input : graph_.inputs) {
            const auto known = state_.values.find(input.name);
            if (known != state_.values.end() && known->second.constant != nullptr) continue;
            if (known != state_.values.end()) throw Error("two inputs have the name " + in_quotes(input.name));
            any = true;
            const bool holds_codes =
                input.type == "int8" || input.type == "uint8" || input.type == "int16";  // bool is another uint8
            const bool holds_ids = input.dtype == DType::int64 || input.dtype == DType::int32;
            if (input.dtype != DType::float32 && !holds_codes && !holds_ids)
                throw Error("the input " + in_quotes(input.name) + " has dtype " +
                            (input.type.empty() ? name_of(input.dtype) : input.type) +
                            ", expected float32, or int64 or int32 ids" +
                            (input.type == "bool" ? "; export a mask as int64 of 0 and 1, and compare it in the "
                                                    "model (mask == 0), or as float32 of 0 and 1"
                                                  : ""));
            if (input.shape.size() > static_cast<std::size_t>(max_rank))
                throw Error("the input " + in_quotes(input.name) + " has shape " + describe_shape(input.shape) +
                            ", more than " + std::to_string(max_rank) + " axes");
            check_dims("the input " + in_quotes(input.name), input.shape);
            state_.values[input.name] = {.node = &state_.next_node().placeholder(input.name), .dims = dims_of(input)};
            if (holds_codes) state_.values[input.name].codes = input.dtype;
            if (holds_ids && reals.count(input.name) == 0) note_ids(input);
        }
        if (!any) throw Error("the graph has no input");
    }

    /// Integers of several axes may be positions; those of fewer are if they are read so.
    void note_ids(const ValueInfo& input) {
        ImportedValue& value = state_.values[input.name];
        value.is_ids = true;
        if (!value.dims || (value.dims->size() != 2 && positions_.count(input.name) == 0)) return;
        const index_t count = value.dims->empty() ? 1 : value.dims->back();
        value.positions = {.kind = PositionValue::Kind::positions,
                           .node = value.node,
                           .columns = count,
                           .axis = value.dims->empty() ? 0 : value.dims->size() - 1};
    }

    Dims dims_of(const ValueInfo& input) {
        if (!input.has_shape) return std::nullopt;
        std::vector<index_t> dims = input.shape;
        for (std::size_t i = 0; i < dims.size(); ++i)
            if (dims[i] < 0) dims[i] = state_.unknown_extent(i < input.names.size() ? input.names[i] : std::string());
        return dims;
    }

    void count_uses() {
        live_ = nodes_of_outputs();
        for (const Node& node : graph_.nodes) {
            for (const std::string& name : node.outputs) makers_.emplace(name, &node);
            if (live_.count(&node) == 0) continue;
            for (const std::string& name : read_form(node).inputs) ++state_.uses[name];
        }
        for (const ValueInfo& output : graph_.outputs) ++state_.uses[output.name];
    }

    /// The nodes that the outputs of the model depend on; the rest is not computed.
    std::set<const Node*> nodes_of_outputs() const {
        std::set<std::string_view> wanted;
        for (const ValueInfo& output : graph_.outputs) wanted.insert(output.name);
        std::set<const Node*> live;
        for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
            const bool is_wanted = std::any_of(node->outputs.begin(), node->outputs.end(),
                                               [&](const std::string& name) { return wanted.count(name) != 0; });
            if (!is_wanted) continue;
            live.insert(&*node);
            const std::vector<std::string>& inputs = read_form(*node).inputs;
            wanted.insert(inputs.begin(), inputs.end());
        }
        return live;
    }

    /// A node as it is read: the function or norm that it ends, or itself.
    const Node& read_form(const Node& node) const {
        const auto joined = joined_.find(&node);
        return joined == joined_.end() ? node : joined->second;
    }

    /// How one that was written in parts is read, whatever the opset.
    static auto import_of_joined(const Node& node) {
        if (node.op_type == "Softplus") return &operators::softplus_of_product;
        return std::find_if(std::begin(onnx_operators), std::end(onnx_operators),
                            [&](const OnnxOperator& row) { return node.op_type == row.op_type; })
            ->import;
    }

    void add_node(const Node& in_file) {
        const Node& node = read_form(in_file);
        void (*const import_node)(NodeImport&) = &node == &in_file ? find_row(node).import : import_of_joined(node);
        for (const std::string& name : node.inputs)
            if (!name.empty() && state_.values.find(name) == state_.values.end()) throw Error(why_missing(name));
        for (const std::string& name : node.outputs)
            if (!name.empty() && state_.values.find(name) != state_.values.end())
                throw Error("its output " + in_quotes(name) + " has a name that is taken");
        for (std::size_t i = 1; i < node.outputs.size(); ++i)
            if (!node.outputs[i].empty())
                state_.values[node.outputs[i]].unsupported = "output " + std::to_string(i + 1) + " of " +
                                                             describe_node(node, state_.node_count) +
                                                             ", which is not supported";
        NodeImport import(node, state_);
        if (operators::read_positions(import)) return;
        if (!operators::fold_constants(import)) import_node(import);
        import.check_attributes_are_read();
    }

    const OnnxOperator& find_row(const Node& node) const {
        const bool ours = node.domain.empty() || node.domain == "ai.onnx";
        const auto* const row =
            std::find_if(std::begin(onnx_operators), std::end(onnx_operators), [&](const OnnxOperator& r) {
                return ours && node.op_type == r.op_type && model_.opset >= r.first_opset &&
                       model_.opset <= r.last_opset;
            });
        if (row != std::end(onnx_operators)) return *row;
        throw Error("the operator " + in_quotes(ours ? node.op_type : node.domain + "." + node.op_type) +
                    " is not supported in opset " + std::to_string(model_.opset) + what_is_read(ours, node.op_type));
    }

    /// The reason of principle; null for an operator that has none.
    static const char* why_not_read(const std::string& op_type) {
        for (const char* recurrent : {"LSTM", "GRU", "RNN"})
            if (op_type == recurrent)
                return ", because a program has no loop over time steps; run the layers before and behind it as "
                       "programs, and the recurrence in float between them";
        if (op_type == "ArgMin") return "; the place of the smallest is the ArgMax of the negated numbers";
        if (op_type == "TopK")
            return ", because a program sorts nothing; end the model before it, and sort the numbers that the program "
                   "returns, whose order is that of their codes";
        if (op_type == "Cos" || op_type == "Sin")
            return ", but of a position that is compared with a range, or by which a row is copied into a cache; for "
                   "other angles gather rows of a constant table of cosines and sines";
        if (op_type == "Round")
            return ", but as a part of a quantizer, (Clip(Round(x / s) + z, low, high) - z) * s, with the same "
                   "constants "
                   "s and z in both places, and whole numbers z, low and high of int8, uint8 or int16";
        return nullptr;
    }

    /// Why an operator is not read, the opsets of one that others read, or the operators with the nearest names.
    static std::string what_is_read(bool ours, const std::string& op_type) {
        std::vector<std::string> names;
        if (const char* const reason = ours ? why_not_read(op_type) : nullptr; reason != nullptr) return reason;
        for (const OnnxOperator& row : onnx_operators) {
            if (ours && op_type == row.op_type)
                return "; it is read in opsets " + std::to_string(row.first_opset) + " to " +
                       std::to_string(row.last_opset);
            names.emplace_back(row.op_type);
        }
        constexpr std::size_t longest = 32;  // that is compared: a file may hold many long names
        return "; the nearest of those that are read are " + nearest_names(op_type.substr(0, longest), names) +
               ", and docs/onnx.md lists all";
    }

    std::string why_missing(const std::string& name) const {
        const auto maker = makers_.find(name);
        if (maker == makers_.end())
            return "its input " + in_quotes(name) +
                   " is missing: no initializer, no input of the graph and no node makes it";
        return "its input " + in_quotes(name) + " is made by " + describe_node(*maker->second, state_.node_count) +
               ", which does not come before it: the graph is not sorted or has a cycle";
    }

    void add_output() {
        graph::ArgumentList outputs;
        for (const ValueInfo& output : graph_.outputs) {
            const auto found = state_.values.find(output.name);
            if (found == state_.values.end())
                throw Error("the graph's output " + in_quotes(output.name) + " is made by no node");
            if (found->second.node == nullptr)
                throw Error("the graph's output " + in_quotes(output.name) + " is " +
                            (found->second.constant != nullptr ? "a constant" : found->second.unsupported));
            outputs.emplace_back(*found->second.node);
        }
        if (outputs.empty()) throw Error("the graph has no output");
        if (outputs.size() == 1) {
            state_.graph.output(outputs[0]);
        } else {
            state_.graph.output(std::move(outputs));
        }
    }

    const Model& model_;
    const Graph& graph_;
    ImportState state_;
    std::map<std::string, const Node*> makers_;
    std::set<const Node*> live_;
    std::set<std::string> positions_;     // inputs without an axis of samples
    std::map<const Node*, Node> joined_;  // by the last of its parts
};

}  // namespace detail

INTQ_INLINE std::shared_ptr<graph::GraphModule> import_model(const Model& model) {
    return import_with_codes(model).module;
}

INTQ_INLINE ImportedModel import_with_codes(const Model& model) {
    const nn::SkipInitScope weights_are_in_the_file;
    const std::size_t node_count = model.graph.nodes.size();
    const std::optional<Model> averages = detail::with_uneven_averages(model);
    const std::optional<Model> tables = detail::with_position_tables(averages ? *averages : model);
    const detail::ReadForm form(tables ? *tables : averages ? *averages : model);
    return detail::Importer(form.model(), node_count).run();
}

INTQ_INLINE std::set<std::string> position_inputs(const Model& model) { return position_inputs(model.graph); }

INTQ_INLINE std::set<std::string> mask_inputs(const Model& model) {
    const std::optional<Model> attended = with_attention_expanded(model);
    return detail::MaskSearch((attended ? *attended : model).graph).masks();
}

INTQ_INLINE bool takes_ids(const Model& model, const std::string& input) {
    const auto holds_integers = [&](const ValueInfo& given) {
        return given.name == input && (given.dtype == DType::int64 || given.dtype == DType::int32);
    };
    const auto& inputs = model.graph.inputs;
    return std::any_of(inputs.begin(), inputs.end(), holds_integers) &&
           detail::integers_as_reals(model.graph).count(input) == 0 && mask_inputs(model).count(input) == 0;
}

INTQ_INLINE bool is_quantized(const Model& model) {
    const auto& nodes = model.graph.nodes;
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.op_type == "QuantizeLinear"; }) ||
           with_quantizers_joined(model).has_value();
}

INTQ_INLINE std::vector<RefusedNode> find_refused_nodes(const Model& model) {
    const std::size_t node_count = model.graph.nodes.size();
    const std::optional<Model> averages = detail::with_uneven_averages(model);
    const std::optional<Model> tables = detail::with_position_tables(averages ? *averages : model);
    const detail::ReadForm form(tables ? *tables : averages ? *averages : model);
    return detail::Importer(form.model(), node_count).find_refused();
}

INTQ_INLINE std::shared_ptr<graph::GraphModule> import_file(const std::filesystem::path& path) {
    const Model model = read_model(path);
    try {
        return import_model(model);
    } catch (const Error& error) {
        throw Error(path.string(), error.what());
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx)
#endif  // INTQ_INTEROP_ONNX_IMPORT_HPP
