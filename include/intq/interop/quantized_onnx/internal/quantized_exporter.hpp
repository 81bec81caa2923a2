// SPDX-License-Identifier: MIT
//
// QuantizedExporter: writes the steps of a converted model as nodes of an ONNX model. Layer: interop.
#ifndef INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_QUANTIZED_EXPORTER_HPP
#define INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_QUANTIZED_EXPORTER_HPP

#include <map>
#include <string>
#include <vector>

#include "intq/interop/onnx/export/export_options.hpp"
#include "intq/interop/onnx/export/internal/finish_model.hpp"
#include "intq/interop/onnx/export/internal/graph_writer.hpp"
#include "intq/interop/onnx/export/internal/grid.hpp"
#include "intq/interop/onnx/export/internal/node_export.hpp"
#include "intq/interop/onnx/export/internal/rows.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {
class ConstantStep;
class WeightedStep;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

class QuantizedExporter;

/// Writes a step as an operator on codes.
///
/// @return false where no such operator exists: the step stays in float between DequantizeLinear and QuantizeLinear
using WriteOnCodes = bool (*)(QuantizedExporter& exporter, const quantization::QuantizedNode& node);

/// Writes the steps of a converted model.
class QuantizedExporter {
public:
    /// @param write_on_codes  asked for each step first; null: all operators stay in float
    QuantizedExporter(const quantization::QuantizedGraph& quantized, const ExportOptions& options,
                      WriteOnCodes write_on_codes = nullptr);

    void write(GraphWriter& writer, Model& model);

    const quantization::QuantizedGraph& quantized() const noexcept { return quantized_; }
    GraphWriter& writer() noexcept { return *writer_; }
    /// The value of the file that holds a tensor's codes, and the initializers of its grid.
    const std::string& codes(int tensor) const { return codes_.at(tensor); }
    const GridNames& grid(int tensor) const { return grids_.at(tensor); }
    bool has_codes(int tensor) const { return codes_.count(tensor) != 0; }
    /// The value that holds a tensor's real numbers; its codes are dequantized once for all readers.
    const std::string& real(int tensor);

    /// The call of a step on real numbers, with the values of its inputs.
    ExportedCall call_of(const quantization::QuantizedNode& node);
    /// The same on the codes of its inputs, for a step that moves them.
    ExportedCall call_on_codes(const quantization::QuantizedNode& node);
    /// The grid of a node's output, which the initializers are named after.
    GridNames add_output_grid(const quantization::QuantizedNode& node, const std::string& name);
    void set_codes(const quantization::QuantizedNode& node, const std::string& name, const std::string& value,
                   const GridNames& grid);

private:
    void write_node(const quantization::QuantizedNode& node);
    void write_quantize(const quantization::QuantizedNode& node);
    ExportArgument argument_of(const quantization::QuantizedNode& node, const quantization::FloatArgument& argument,
                               bool on_codes);
    ExportedCall call_without_arguments(const quantization::QuantizedNode& node);
    ExportedCall call_of(const quantization::QuantizedNode& node, const quantization::FloatCall& call, bool on_codes);
    ExportedCall layer_call(const quantization::QuantizedNode& node, const quantization::WeightedStep& step);
    void add_metadata(Model& model) const;

    const quantization::QuantizedGraph& quantized_;
    const ExportOptions& options_;
    WriteOnCodes write_on_codes_;
    std::vector<std::string> inputs_, outputs_;
    GraphWriter* writer_ = nullptr;
    std::map<int, std::string> real_, codes_, names_;
    std::map<int, GridNames> grids_;
    std::map<int, const quantization::ConstantStep*> constants_;
    int next_constant_ = 0;
};

/// The name of a step's node in the file: its module's name, or the graph node's.
const std::string& name_of_step(const quantization::QuantizedNode& node);
/// The operator of a call, as graph/operator_rows.hpp names it.
std::string operator_of_call(const quantization::FloatCall& call);
/// How messages name a node.
std::string describe_step(const quantization::QuantizedNode& node);

/// Weight and bias of a step in the form of its float layer.
LayerCodes layer_codes(const quantization::QuantizedGraph& quantized, const quantization::QuantizedNode& node,
                       const quantization::WeightedStep& step);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_quantized_onnx)

#    include <algorithm>
#    include <array>
#    include <cstddef>
#    include <cstdint>
#    include <cstdio>
#    include <limits>
#    include <memory>
#    include <string_view>
#    include <utility>

#    include "intq/arith/conv.hpp"
#    include "intq/arith/ieee.hpp"
#    include "intq/core/status.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/custom.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/quantize.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

using quantization::QuantizedGraph;
using quantization::QuantizedNode;
using quantization::QuantizedTensor;

INTQ_INLINE const std::string& name_of_step(const QuantizedNode& node) {
    return node.module.empty() ? node.name : node.module;
}

INTQ_INLINE std::string operator_of_call(const quantization::FloatCall& call) {
    if (call.module != nullptr)
        return graph::operator_of(graph::Op::call_module, call.module->type_name(), call.method);
    const std::string name(call.function->name);
    const std::string op = graph::operator_of(graph::Op::call_function, name, "");
    return op == name ? graph::operator_of(graph::Op::call_method, name, "") : op;
}

INTQ_INLINE std::string describe_step(const QuantizedNode& node) {
    return "export_to_onnx: %" + node.name + " (" + node.type + ")";
}

namespace detail {

/// QuantizeLinear clamps to the ends of the dtype.
INTQ_INLINE void check_whole_range(const QuantizedTensor& tensor) {
    const OwnedQParams& grid = tensor.qparams;
    if (grid.quant_min == lowest_code(grid.dtype) && grid.quant_max == highest_code(grid.dtype)) return;
    throw Error("export_to_onnx: %" + tensor.name,
                "its codes lie between " + std::to_string(grid.quant_min) + " and " + std::to_string(grid.quant_max) +
                    ", and QuantizeLinear clamps to the whole range of " + name_of(grid.dtype));
}

/// The bias in codes of the accumulator; empty where one does not fit int32.
INTQ_INLINE std::vector<std::int32_t> bias_codes_of(const QuantizedGraph& quantized, const QuantizedNode& node,
                                                    const quantization::WeightedStep& step) {
    if (!step.bias_codes.empty()) return step.bias_codes;
    if (!step.bias.defined()) return {};
    const auto values = step.bias.flat<float>();
    const float s_in = quantized.input(node, 0).qparams.scale();
    const std::vector<float>& scales = step.weight_qparams.scales;
    const arith::PolicyRecord policy = quantized.target.for_weights(step.weight_qparams.dtype);
    std::vector<std::int32_t> codes;
    for (std::size_t c = 0; c < values.size(); ++c) {
        const Result<std::int64_t> code = arith::quantize_bias(policy, static_cast<double>(values[c]), s_in,
                                                               scales[step.weight_qparams.is_per_channel() ? c : 0]);
        throw_if_failed(code.status(), describe_step(node));
        if (code.value() < (std::numeric_limits<std::int32_t>::min)() ||
            code.value() > (std::numeric_limits<std::int32_t>::max)())
            return {};
        codes.push_back(static_cast<std::int32_t>(code.value()));
    }
    return codes;
}

}  // namespace detail

INTQ_INLINE LayerCodes layer_codes(const QuantizedGraph& quantized, const QuantizedNode& node,
                                   const quantization::WeightedStep& step) {
    const auto& layer = dynamic_cast<const nn::Weighted&>(*step.layer);
    LayerCodes result;
    result.weight = layer.weight();
    result.bias = step.bias;
    result.grid = step.weight_qparams;
    if (step.weight_qparams.is_per_channel()) {
        // A transposed layer counts the channels of a group on another axis than its step.
        result.grid->axis = layer.weight_channel_axis();
        result.grid->scales.resize(static_cast<std::size_t>(layer.weight().extent(result.grid->axis)));
    }
    result.bias_codes = detail::bias_codes_of(quantized, node, step);
    const float s_in = quantized.input(node, 0).qparams.scale();
    if (step.weight_qparams.is_per_channel())
        result.bias_scales = quantization::accumulator_scales(s_in, step.weight_qparams, step.weight.extent(0));
    else
        result.bias_scales = {arith::fmul(s_in, step.weight_qparams.scale())};
    return result;
}

INTQ_INLINE QuantizedExporter::QuantizedExporter(const QuantizedGraph& quantized, const ExportOptions& options,
                                                 WriteOnCodes write_on_codes)
    : quantized_(quantized), options_(options), write_on_codes_(write_on_codes) {
    for (const int input : quantized.inputs) inputs_.push_back(quantized.tensor(input).name);
    for (std::size_t i = 0; i < quantized.outputs.size(); ++i)
        outputs_.push_back(quantized.outputs.size() == 1 ? "output" : "output_" + std::to_string(i));
    inputs_ = port_names("input", options.input_names, inputs_);
    outputs_ = port_names("output", options.output_names, outputs_);
    std::vector<std::string> ports = inputs_;
    ports.insert(ports.end(), outputs_.begin(), outputs_.end());
    check_training_mode(options, false);  // a converted model is in evaluation
    check_export_options(options, ports);
}

INTQ_INLINE void QuantizedExporter::write(GraphWriter& writer, Model& model) {
    writer_ = &writer;
    writer.leave_open(open_extents_of(options_, inputs_));
    real_.clear(), codes_.clear(), names_.clear(), grids_.clear(), constants_.clear();
    next_constant_ = 0;
    for (const std::vector<std::string>* names : {&inputs_, &outputs_})
        for (const std::string& name : *names) writer.take_name(name);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const int tensor = quantized_.inputs[i];
        const quantization::QuantizedTensor& x = quantized_.tensor(tensor);
        writer.add_input(port_info({inputs_[i], x.shape, x.is_ids ? DType::int64 : DType::float32}, options_));
        real_[tensor] = inputs_[i];
    }
    for (const QuantizedNode& node : quantized_.nodes) write_node(node);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const int tensor = quantized_.outputs[i];
        const quantization::QuantizedTensor& y = quantized_.tensor(tensor);
        writer.add_output(real(tensor),
                          port_info({outputs_[i], y.shape, y.is_ids ? DType::int64 : DType::float32}, options_));
    }
    add_metadata(model);
}

INTQ_INLINE const std::string& QuantizedExporter::real(int tensor) {
    const auto known = real_.find(tensor);
    if (known != real_.end()) return known->second;
    if (const auto constant = constants_.find(tensor); constant != constants_.end())
        // Written where it is first read, under the name that the import uses for it.
        return real_[tensor] = writer_->add_parameter(
                   to_file_tensor("constant_" + std::to_string(next_constant_++), constant->second->value()));
    const std::string name = writer_->node_name(names_.at(tensor) + "_dequantize");
    return real_[tensor] =
               add_dequantize(*writer_, name, codes(tensor), quantized_.tensor(tensor).qparams, grid(tensor));
}

INTQ_INLINE GridNames QuantizedExporter::add_output_grid(const QuantizedNode& node, const std::string& name) {
    detail::check_whole_range(quantized_.output(node));
    return add_grid(*writer_, name, quantized_.output(node).qparams);
}

INTQ_INLINE void QuantizedExporter::set_codes(const QuantizedNode& node, const std::string& name,
                                              const std::string& value, const GridNames& grid) {
    codes_[node.output] = value;
    names_[node.output] = name;
    grids_[node.output] = grid;
}

INTQ_INLINE ExportArgument QuantizedExporter::argument_of(const QuantizedNode& node,
                                                          const quantization::FloatArgument& argument, bool on_codes) {
    ExportArgument result;
    if (argument.input >= 0) {
        const int tensor = node.inputs.at(static_cast<std::size_t>(argument.input));
        result.shape = quantized_.tensor(tensor).shape;
        if (argument.extent_axis >= 0) {
            result.constant = result.shape[argument.extent_axis];
            result.follows_shape = true;
            result.follows_samples = argument.extent_axis == 0;
            if (argument.input == 0) result.copied_axis = argument.extent_axis;
        } else {
            result.values = {on_codes ? codes(tensor) : real(tensor)};
        }
    } else if (argument.is_list) {
        result.is_list = true;
        for (const quantization::FloatArgument& item : argument.list)
            result.list.push_back(argument_of(node, item, on_codes));
    } else {
        result.constant = argument.constant;
        result.follows_shape = result.follows_samples = argument.is_samples;
        if (argument.is_samples) result.extent_of = real(quantized_.inputs.at(0));
    }
    return result;
}

INTQ_INLINE ExportedCall QuantizedExporter::call_without_arguments(const QuantizedNode& node) {
    ExportedCall result;
    result.where = describe_step(node);
    result.name = name_of_step(node);
    result.output = quantized_.output(node).shape;
    return result;
}

INTQ_INLINE ExportedCall QuantizedExporter::call_of(const QuantizedNode& node, const quantization::FloatCall& call,
                                                    bool on_codes) {
    ExportedCall result = call_without_arguments(node);
    result.op = operator_of_call(call);
    set_module(result, call.module.get());
    for (const quantization::FloatArgument& argument : call.arguments)
        result.arguments.push_back(argument_of(node, argument, on_codes));
    return result;
}

INTQ_INLINE ExportedCall QuantizedExporter::layer_call(const QuantizedNode& node,
                                                       const quantization::WeightedStep& step) {
    ExportedCall result = call_without_arguments(node);
    set_module(result, step.layer.get());
    result.layer = layer_codes(quantized_, node, step);
    for (const int input : node.inputs) {
        ExportArgument argument;
        argument.values = {real(input)};
        argument.shape = quantized_.tensor(input).shape;
        result.arguments.push_back(std::move(argument));
    }
    return result;
}

INTQ_INLINE ExportedCall QuantizedExporter::call_of(const QuantizedNode& node) {
    if (const auto* step = node.as<quantization::WeightedStep>()) return layer_call(node, *step);
    if (const auto* step = node.as<quantization::FloatStep>()) return call_of(node, step->call(), false);
    if (const auto* step = node.as<quantization::FloatBackedStep>()) {
        ExportedCall call = call_of(node, step->call(), false);
        if (const auto* add = node.as<quantization::AddStep>()) call.activation = add->activation();
        return call;
    }
    throw Error(describe_step(node), "it has no ONNX operator, because it computes on codes by a rule of its own");
}

INTQ_INLINE ExportedCall QuantizedExporter::call_on_codes(const QuantizedNode& node) {
    return call_of(node, node.step_as<quantization::FloatBackedStep>().call(), true);
}

INTQ_INLINE void QuantizedExporter::write_quantize(const QuantizedNode& node) {
    const std::string value = real(node.inputs[0]);
    const std::string name = writer_->node_name(name_of_step(node));
    const GridNames grid = add_output_grid(node, name);
    set_codes(node, name, add_quantize(*writer_, name, value, quantized_.output(node).qparams, grid), grid);
}

INTQ_INLINE void QuantizedExporter::write_node(const QuantizedNode& node) {
    const QuantizedTensor& output = quantized_.output(node);
    if (node.as<quantization::QuantizeStep>() != nullptr || node.as<quantization::RequantizeStep>() != nullptr)
        return write_quantize(node);
    if (node.as<quantization::DequantizeStep>() != nullptr) {
        real_[node.output] = real(node.inputs[0]);
        return;
    }
    if (const auto* constant = node.as<quantization::ConstantStep>()) {
        constants_[node.output] = constant;
        return;
    }
    if (write_on_codes_ != nullptr && write_on_codes_(*this, node)) return;
    const WrittenCall written = write_call(call_of(node), *writer_);
    if (written.values.size() != 1) throw Error(describe_step(node), "an operator with several outputs is not written");
    // An accumulator is a real number in the file: the output of the operator in float.
    if (output.dtype == DType::float32 || output.dtype == DType::int32) {
        real_[node.output] = written.values[0];
        return;
    }
    const GridNames grid = add_output_grid(node, written.name);
    const std::string name = writer_->node_name(written.name + "_quantize");
    set_codes(node, written.name, add_quantize(*writer_, name, written.values[0], output.qparams, grid), grid);
}

INTQ_INLINE void QuantizedExporter::add_metadata(Model& model) const {
    const std::string_view name = quantized_.target.name;
    constexpr std::array<std::string_view, 3> marches{"bernoulli2", "bayes", "meta"};
    const bool is_march = std::find(marches.begin(), marches.end(), name) != marches.end();
    model.metadata.push_back({"intq.target", is_march ? "bpu" : std::string(name)});
    if (is_march) model.metadata.push_back({"intq.march", std::string(name)});
    std::string scales;
    for (const auto& [tensor, value] : names_) {
        const OwnedQParams& grid = quantized_.tensor(tensor).qparams;
        scales += (scales.empty() ? "" : "\n") + value + " " + name_of(grid.dtype);
        for (std::size_t c = 0; c < grid.scales.size(); ++c) {
            std::array<char, 48> text{};
            std::snprintf(text.data(), text.size(), " %.9g:%d", static_cast<double>(grid.scales[c]),
                          grid.zero_points.empty() ? 0 : static_cast<int>(grid.zero_points[c]));
            scales += text.data();
        }
    }
    model.metadata.push_back({"intq.scales", scales});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_quantized_onnx)
#endif  // INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_QUANTIZED_EXPORTER_HPP
