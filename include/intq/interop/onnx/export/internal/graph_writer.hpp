// SPDX-License-Identifier: MIT
//
// GraphWriter: the ONNX graph that an export makes: nodes, initializers, unique names, and the lowest opset that has
// all of it. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_GRAPH_WRITER_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_GRAPH_WRITER_HPP

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The lowest opset that an export asks for, and the operator that asks.
struct NeededOpset {
    std::int64_t opset = oldest_opset;
    std::string reason{};  // "a scale for each channel, of \"conv1\""
};

/// Which extents a file leaves open, so that no node may hold the extents of the example.
struct OpenExtents {
    bool samples = false;  // axis 0 of an input
    bool others = false;   // any other axis
};

class GraphWriter {
public:
    /// @param opset  the one that the nodes are written for
    explicit GraphWriter(std::int64_t opset) : opset_(opset) {}

    std::int64_t opset() const noexcept { return opset_; }
    const OpenExtents& open() const noexcept { return open_; }
    void leave_open(const OpenExtents& open) noexcept { open_ = open; }
    /// Says that the model needs an opset.
    void need(std::int64_t opset, const std::string& reason);
    const NeededOpset& needed() const noexcept { return needed_; }

    /// A name for a node that no other has: the given one, with a number appended where it is taken.
    std::string node_name(const std::string& name) { return unique(node_names_, name); }

    /// Adds a node with one output, and returns the output's name: <name>_output.
    std::string add_node(const std::string& name, const std::string& op_type, std::vector<std::string> inputs,
                         std::vector<Attribute> attributes = {}, const std::string& domain = {});
    /// The same with several outputs: <name>_output_0, …
    std::vector<std::string> add_node_of(const std::string& name, const std::string& op_type,
                                         std::vector<std::string> inputs, std::size_t outputs,
                                         std::vector<Attribute> attributes);

    /// Adds an initializer, and returns its name, which is the tensor's unless that is taken.
    std::string add_initializer(FileTensor tensor);
    /// The same for a parameter of the model: a weight or a bias, or their codes.
    std::string add_parameter(FileTensor tensor);
    const std::set<std::string>& parameters() const noexcept { return parameters_; }
    template <class T>
    std::string add_constant(const std::string& name, std::vector<index_t> dims, const std::vector<T>& values);

    void add_input(ValueInfo input) { graph_.inputs.push_back(std::move(input)); }
    /// Names a value as an output. A value that is an input, an initializer or another output passes an Identity.
    void add_output(const std::string& value, ValueInfo output);
    /// Reserves the name of a value.
    void take_name(const std::string& value);

    /// Whether an operator of ONNX Runtime's domain was written.
    bool uses_microsoft_domain() const noexcept { return uses_microsoft_domain_; }
    Graph& graph() noexcept { return graph_; }

private:
    static std::string unique(std::set<std::string>& taken, const std::string& name);

    std::int64_t opset_;
    OpenExtents open_;
    NeededOpset needed_;
    Graph graph_;
    std::set<std::string> node_names_, value_names_, made_, parameters_;
    std::map<std::string, std::string> renamed_;  // values that became outputs
    bool uses_microsoft_domain_ = false;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// ---------------------------------------------------------------------------------------------------------------------

#include <span>
#include <utility>

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

template <class T>
std::string GraphWriter::add_constant(const std::string& name, std::vector<index_t> dims,
                                      const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span<const T>(values));
    return add_initializer(
        {.name = name, .dtype = dtype_of<T>, .dims = std::move(dims), .data = {bytes.begin(), bytes.end()}});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <algorithm>
#    include <cstddef>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void GraphWriter::need(std::int64_t opset, const std::string& reason) {
    if (opset > needed_.opset) needed_ = {opset, reason};
}

INTQ_INLINE std::string GraphWriter::unique(std::set<std::string>& taken, const std::string& name) {
    std::string result = name;
    for (int suffix = 2; !taken.insert(result).second; ++suffix) result = name + "_" + std::to_string(suffix);
    return result;
}

INTQ_INLINE std::vector<std::string> GraphWriter::add_node_of(const std::string& name, const std::string& op_type,
                                                              std::vector<std::string> inputs, std::size_t outputs,
                                                              std::vector<Attribute> attributes) {
    Node node{.op_type = op_type,
              .name = name,
              .domain = {},
              .inputs = std::move(inputs),
              .outputs = {},
              .attributes = std::move(attributes),
              .position = graph_.nodes.size()};
    for (std::size_t i = 0; i < outputs; ++i) {
        node.outputs.push_back(unique(value_names_, name + "_output" + (outputs == 1 ? "" : "_" + std::to_string(i))));
        made_.insert(node.outputs.back());
    }
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().outputs;
}

INTQ_INLINE std::string GraphWriter::add_node(const std::string& name, const std::string& op_type,
                                              std::vector<std::string> inputs, std::vector<Attribute> attributes,
                                              const std::string& domain) {
    const std::string output = add_node_of(name, op_type, std::move(inputs), 1, std::move(attributes)).front();
    graph_.nodes.back().domain = domain;
    uses_microsoft_domain_ = uses_microsoft_domain_ || domain == microsoft_domain;
    return output;
}

INTQ_INLINE std::string GraphWriter::add_initializer(FileTensor tensor) {
    tensor.name = unique(value_names_, tensor.name);
    graph_.initializers.push_back(std::move(tensor));
    return graph_.initializers.back().name;
}

INTQ_INLINE std::string GraphWriter::add_parameter(FileTensor tensor) {
    std::string name = add_initializer(std::move(tensor));
    parameters_.insert(name);
    return name;
}

INTQ_INLINE void GraphWriter::take_name(const std::string& value) {
    if (!value_names_.insert(value).second)
        throw Error("the name " + in_quotes(value) + " was given to two inputs or outputs");
}

INTQ_INLINE void GraphWriter::add_output(const std::string& value, ValueInfo output) {
    if (made_.erase(value) == 0) {
        const auto renamed = renamed_.find(value);
        Node copy{.op_type = "Identity",
                  .name = node_name(output.name + "_identity"),
                  .domain = {},
                  .inputs = {renamed != renamed_.end() ? renamed->second : value},
                  .outputs = {output.name},
                  .attributes = {},
                  .position = graph_.nodes.size()};
        graph_.nodes.push_back(std::move(copy));
    } else {
        const auto rename = [&](std::vector<std::string>& names) {
            std::replace(names.begin(), names.end(), value, output.name);
        };
        for (Node& node : graph_.nodes) rename(node.inputs), rename(node.outputs);
        renamed_[value] = output.name;
    }
    graph_.outputs.push_back(std::move(output));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_GRAPH_WRITER_HPP
