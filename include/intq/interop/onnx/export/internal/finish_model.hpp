// SPDX-License-Identifier: MIT
//
// The parts that every export shares: the opset that a model needs, inputs and outputs, the file's metadata, and the
// check of the result. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_FINISH_MODEL_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_FINISH_MODEL_HPP

#include <functional>
#include <string>
#include <vector>

#include "intq/interop/onnx/export/export_options.hpp"
#include "intq/interop/onnx/export/internal/graph_writer.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Runs `write` for the given opset, or first for the oldest and then for the one that the model turned out to need.
///
/// @param write  fills the graph
/// @throws Error naming the operator that needs a higher opset than opset_version
Model make_model(const ExportOptions& options, const std::string& name,
                 const std::function<void(GraphWriter&, Model&)>& write);

/// Which extents of these inputs dynamic_axes leaves open.
OpenExtents open_extents_of(const ExportOptions& options, const std::vector<std::string>& inputs);

/// Throws for a graph that ONNX's own checker refuses: a value that is read before it is made, two values or nodes of
/// one name, an output that nothing makes, a domain that is not imported, a tensor whose size differs from its dims.
void check_model(const Model& model);

/// The graph as text, a line for each node.
std::string to_string(const Model& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <algorithm>
#    include <cstdint>
#    include <iostream>
#    include <set>
#    include <utility>

#    include "intq/core/config.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/json_text.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The version of the file format that came with an opset.
/// Source   https://github.com/onnx/onnx/blob/main/docs/Versioning.md
INTQ_INLINE std::int64_t ir_version_of(std::int64_t opset) {
    struct Release {
        std::int64_t first_opset, ir_version;
    };
    static constexpr Release releases[] = {{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}};
    for (const Release& release : releases)
        if (opset >= release.first_opset) return release.ir_version;
    return 6;
}

INTQ_INLINE ValueInfo info_of(const FileTensor& tensor) {
    return {.name = tensor.name,
            .dtype = tensor.dtype,
            .has_shape = true,
            .shape = tensor.dims,
            .names = std::vector<std::string>(tensor.dims.size())};
}

INTQ_INLINE void list_initializers(const GraphWriter& writer, const ExportOptions& options, Graph& graph) {
    for (const FileTensor& tensor : graph.initializers)
        if (options.keep_initializers_as_inputs || (!options.export_params && writer.parameters().count(tensor.name)))
            graph.inputs.push_back(info_of(tensor));
    if (options.export_params) return;
    std::erase_if(graph.initializers,
                  [&](const FileTensor& tensor) { return writer.parameters().count(tensor.name) != 0; });
}

INTQ_INLINE void add_domains(const GraphWriter& writer, const ExportOptions& options, Model& model) {
    if (writer.uses_microsoft_domain() && options.custom_opsets.count(microsoft_domain) == 0)
        model.other_opsets.push_back({microsoft_domain, 1});
    for (const auto& [domain, version] : options.custom_opsets) {
        if (domain == "ai.onnx")
            throw Error(
                "export_to_onnx: custom_opsets names \"ai.onnx\", the domain of ONNX's own operators, whose "
                "version is opset_version");
        if (domain.empty() || version < 1)
            throw Error("export_to_onnx: custom_opsets: the domain " + in_quotes(domain) + " with version " +
                        std::to_string(version) + "; a name and a version of at least 1 are needed");
        model.other_opsets.push_back({domain, version});
    }
}

}  // namespace detail

INTQ_INLINE OpenExtents open_extents_of(const ExportOptions& options, const std::vector<std::string>& inputs) {
    OpenExtents open;
    for (const std::string& input : inputs)
        if (const auto axes = options.dynamic_axes.find(input); axes != options.dynamic_axes.end())
            for (const auto& [axis, name] : axes->second) (axis == 0 ? open.samples : open.others) = true;
    return open;
}

INTQ_INLINE Model make_model(const ExportOptions& options, const std::string& name,
                             const std::function<void(GraphWriter&, Model&)>& write) {
    GraphWriter writer(options.opset_version.value_or(oldest_opset));
    Model model;
    write(writer, model);
    if (const NeededOpset needed = writer.needed(); needed.opset > writer.opset()) {
        if (options.opset_version)
            throw Error("export_to_onnx: opset_version " + std::to_string(*options.opset_version) + " is too low for " +
                        needed.reason + ", which needs opset " + std::to_string(needed.opset));
        writer = GraphWriter(needed.opset);
        model = {};
        write(writer, model);
    }
    model.ir_version = detail::ir_version_of(writer.opset());
    model.producer_name = "intq";
    model.producer_version = std::to_string(INTQ_VERSION_MAJOR) + "." + std::to_string(INTQ_VERSION_MINOR) + "." +
                             std::to_string(INTQ_VERSION_PATCH);
    model.opset = writer.opset();
    detail::add_domains(writer, options, model);
    model.graph = std::move(writer.graph());
    model.graph.name = name;
    detail::list_initializers(writer, options, model.graph);
    if (options.enable_onnx_checker) check_model(model);
    if (options.verbose) std::cout << to_string(model);
    return model;
}

namespace detail {

class ModelCheck {
public:
    explicit ModelCheck(const Model& model) : model_(model) {}

    void run() {
        const Graph& graph = model_.graph;
        std::set<std::string> listed;
        for (const ValueInfo& input : graph.inputs) make(input.name), listed.insert(input.name);
        for (const FileTensor& tensor : graph.initializers) {
            if (listed.count(tensor.name) == 0) make(tensor.name);
            check_tensor(tensor);
        }
        for (const Node& node : graph.nodes) check_node(node);
        std::set<std::string> outputs;
        for (const ValueInfo& output : graph.outputs) {
            if (known_.count(output.name) == 0)
                throw Error("the graph's output " + in_quotes(output.name) + " is made by no node");
            if (!outputs.insert(output.name).second) throw Error("two outputs have the name " + in_quotes(output.name));
        }
        if (graph.name.empty()) throw Error("the graph has no name");
    }

private:
    void make(const std::string& value) {
        if (value.empty()) throw Error("an input or an initializer has no name");
        if (!io::is_utf8(value)) throw Error("the name " + in_quotes(value) + " of a value is not UTF-8");
        if (!known_.insert(value).second) throw Error("two values have the name " + in_quotes(value));
    }

    void check_node(const Node& node) {
        const std::string where = describe_node(node, model_.graph.nodes.size());
        if (!io::is_utf8(node.name)) throw Error(where, "its name is not UTF-8");
        if (!node.name.empty() && !names_.insert(node.name).second) throw Error(where, "another node has its name");
        const auto& others = model_.other_opsets;
        if (!node.domain.empty() && std::none_of(others.begin(), others.end(), [&](const OpsetImport& import) {
                return import.domain == node.domain;
            }))
            throw Error(where, "the model does not import its domain " + in_quotes(node.domain));
        for (const std::string& input : node.inputs)
            if (!input.empty() && known_.count(input) == 0)
                throw Error(where, "its input " + in_quotes(input) + " is not there before it");
        for (const std::string& output : node.outputs)
            if (!output.empty()) make(output);
    }

    static void check_tensor(const FileTensor& tensor) {
        index_t bytes = size_of(tensor.dtype);
        for (const index_t dim : tensor.dims) bytes *= dim;
        if (static_cast<std::size_t>(bytes) != tensor.data.size())
            throw Error("the initializer " + in_quotes(tensor.name) + " has " + std::to_string(tensor.data.size()) +
                        " bytes, its dims " + describe_shape(tensor.dims) + " need " + std::to_string(bytes));
    }

    const Model& model_;
    std::set<std::string> known_, names_;
};

}  // namespace detail

INTQ_INLINE void check_model(const Model& model) { detail::ModelCheck(model).run(); }

INTQ_INLINE std::string to_string(const Model& model) {
    const auto list = [](const std::vector<std::string>& names) {
        std::string text;
        for (const std::string& name : names) text += (text.empty() ? "%" : ", %") + printable(name);
        return text;
    };
    const auto ports = [](const std::vector<ValueInfo>& infos) {
        std::string text;
        for (const ValueInfo& info : infos)
            text += (text.empty() ? "%" : ", %") + printable(info.name) + " : " + name_of(info.dtype) + " " +
                    describe_shape(info.shape);
        return text;
    };
    std::string text = "graph " + printable(model.graph.name) + " (" + ports(model.graph.inputs) + ")\n";
    for (const Node& node : model.graph.nodes)
        text += "  " + list(node.outputs) + " = " +
                printable((node.domain.empty() ? "" : node.domain + ".") + node.op_type) + "(" + list(node.inputs) +
                ")  # " + printable(node.name) + "\n";
    return text + "  return " + ports(model.graph.outputs) + "\n";
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_FINISH_MODEL_HPP
