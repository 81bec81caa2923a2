// SPDX-License-Identifier: MIT
//
// From a graph of float modules to an ONNX model. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_EXPORT_GRAPH_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_EXPORT_GRAPH_HPP

#include <span>

#include "intq/graph/graph_module.hpp"
#include "intq/interop/onnx/export/export_options.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Makes an ONNX model of a float one, which stays as it is.
///
/// Nodes are named after the modules. The model is run once on the arguments, in evaluation, so that the shapes of its
/// values are known; they are the shapes of the file, except those that dynamic_axes leaves open.
///
/// @param args  one tensor for each input of the model
/// @throws Error naming the node: an operator without an ONNX operator, arguments that the model does not take, and
///         whatever the options refuse
Model export_graph(const graph::GraphModule& model, std::span<const Tensor> args, const ExportOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <cstddef>
#    include <map>
#    include <memory>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/graph/interpreter.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/interop/onnx/export/internal/finish_model.hpp"
#    include "intq/interop/onnx/export/internal/node_export.hpp"
#    include "intq/interop/onnx/export/internal/rows.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/nn/model/value.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Writes the nodes of a graph whose shapes are known.
class GraphExporter {
public:
    GraphExporter(graph::GraphModule& model, const ExportOptions& options) : model_(model), options_(options) {
        for (const graph::Node* input : model_.graph().placeholders()) inputs_.push_back(input->name());
        const std::size_t count = model_.graph().output_node().operands().size();
        for (std::size_t i = 0; i < count; ++i)
            outputs_.push_back(count == 1 ? "output" : "output_" + std::to_string(i));
        inputs_ = port_names("input", options.input_names, inputs_);
        outputs_ = port_names("output", options.output_names, outputs_);
        std::vector<std::string> ports = inputs_;
        ports.insert(ports.end(), outputs_.begin(), outputs_.end());
        check_export_options(options, ports);
    }

    void write(GraphWriter& writer) {
        writer_ = &writer;
        writer.leave_open(open_extents_of(options_, inputs_));
        values_.clear();
        tensors_.clear();
        for (const std::vector<std::string>* names : {&inputs_, &outputs_})
            for (const std::string& name : *names) writer.take_name(name);
        std::size_t next_input = 0;
        for (const graph::Node* node : model_.graph().nodes()) {
            if (node->op() == graph::Op::placeholder) {
                const std::string& name = inputs_.at(next_input++);
                writer.add_input(port_info({name, node->outputs()[0].shape, node->outputs()[0].dtype}, options_));
                values_[node] = {name};
            } else if (node->op() == graph::Op::output) {
                write_outputs(*node, writer);
            } else if (node->op() != graph::Op::get_attr && !graph::gives_shape(*node)) {
                values_[node] = write_call(call_of(*node), writer).values;
            }
        }
    }

private:
    /// The values of a node. A tensor of the model is written where it is first read, under the name that the import
    /// uses for it.
    const std::vector<std::string>& values_of(const graph::Node& node) {
        if (node.op() != graph::Op::get_attr) return values_.at(&node);
        std::string& name = tensors_[node.target()];
        if (name.empty())
            name = writer_->add_parameter(
                to_file_tensor("constant_" + std::to_string(tensors_.size() - 1), *model_.find_tensor(node.target())));
        return values_[&node] = {name};
    }

    void write_outputs(const graph::Node& node, GraphWriter& writer) {
        const std::vector<graph::Node*> operands = node.operands();
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const std::vector<std::string>& values = values_of(*operands[i]);
            if (values.size() != 1) throw Error("the model's output %" + operands[i]->name(), "it is no tensor");
            writer.add_output(
                values[0],
                port_info({outputs_[i], operands[i]->outputs()[0].shape, operands[i]->outputs()[0].dtype}, options_));
        }
    }

    ExportedCall call_of(const graph::Node& node) {
        ExportedCall call;
        call.where = "%" + node.name() + " (" + graph::type_of(node, model_) + ")";
        call.op = graph::operator_of(node, model_);
        set_module(call, graph::module_of(node, model_));
        call.name = node.op() == graph::Op::call_module ? node.target() : node.name();
        for (const graph::Argument& argument : node.args()) call.arguments.push_back(argument_of(node, argument));
        call.output = node.outputs()[0].shape;
        return call;
    }

    ExportArgument shape_argument(const graph::Node& reader, const graph::Node& shape) {
        ExportArgument result;
        result.constant = graph::shape_value(shape);
        result.follows_shape = true;
        result.follows_samples = graph::reads_samples(shape);
        const auto extent = graph::extent_of(shape);
        if (extent && extent->value == reader.args()[0].node()) result.copied_axis = extent->axis;
        if (extent && extent->axis == 0) result.extent_of = values_of(*extent->value).front();
        return result;
    }

    ExportArgument argument_of(const graph::Node& reader, const graph::Argument& argument) {
        ExportArgument result;
        if (const graph::NodeRef* ref = argument.ref()) {
            if (graph::gives_shape(*ref->node)) {
                result = shape_argument(reader, *ref->node);
            } else {
                result.values = values_of(*ref->node);
                result.shape = ref->node->outputs()[0].shape;
            }
        } else if (const graph::ArgumentList* list = argument.list()) {
            result.is_list = true;
            for (const graph::Argument& item : *list) result.list.push_back(argument_of(reader, item));
        } else {
            result.constant = graph::Interpreter::resolve(argument, {});
        }
        return result;
    }

    graph::GraphModule& model_;
    const ExportOptions& options_;
    std::vector<std::string> inputs_, outputs_;
    std::map<const graph::Node*, std::vector<std::string>> values_;
    std::map<std::string, std::string> tensors_;
    GraphWriter* writer_ = nullptr;
};

}  // namespace detail

INTQ_INLINE Model export_graph(const graph::GraphModule& model, std::span<const Tensor> args,
                               const ExportOptions& options) {
    check_training_mode(options, model.training());
    const auto copy = std::dynamic_pointer_cast<graph::GraphModule>(nn::clone(static_cast<const nn::Module&>(model)));
    copy->eval();
    const std::size_t inputs = copy->graph().placeholders().size();
    if (args.size() != inputs)
        throw Error("export_to_onnx: the model takes " + std::to_string(inputs) + " inputs, given " +
                    std::to_string(args.size()) + " arguments");
    const std::vector<nn::Value> values(args.begin(), args.end());
    graph::propagate_shapes(*copy, values);
    detail::GraphExporter exporter(*copy, options);
    return make_model(options, "graph", [&](GraphWriter& writer, Model&) { exporter.write(writer); });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_EXPORT_GRAPH_HPP
