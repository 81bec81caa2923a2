// SPDX-License-Identifier: MIT
//
// The operators on codes: QLinearConv and QLinearMatMul, and ONNX Runtime's QGemm, QLinearAdd, QLinearMul,
// QLinearAveragePool, QLinearGlobalAveragePool, QLinearConcat, QLinearSoftmax, QLinearSigmoid and QLinearLeakyRelu.
// Layer: interop.
//
// Source   https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#ifndef INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_OPERATOR_FORM_HPP
#define INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_OPERATOR_FORM_HPP

#include "intq/core/abi.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {
struct QuantizedNode;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

class QuantizedExporter;

/// Writes a step as an operator on codes, where one computes the same as the step: int8 in, int8 out, for a target that
/// requantizes as ONNX Runtime does, and no clamp inside the range of the codes. A step that moves codes is written as
/// the operator itself.
///
/// @return false where the step must be between DequantizeLinear and QuantizeLinear
bool write_operator_form(QuantizedExporter& exporter, const quantization::QuantizedNode& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_quantized_onnx)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <iterator>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/rounding.hpp"
#    include "intq/arith/target.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/graph/operator_rows.hpp"
#    include "intq/interop/onnx/export/internal/elementwise.hpp"
#    include "intq/interop/onnx/export/internal/node_export.hpp"
#    include "intq/interop/onnx/export/internal/pool.hpp"
#    include "intq/interop/onnx/export/internal/rows.hpp"
#    include "intq/interop/onnx/export/internal/weighted.hpp"
#    include "intq/interop/quantized_onnx/internal/quantized_exporter.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/pool.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/move.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/pool.hpp"
#    include "intq/quantization/operators/quantized_graph.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

using quantization::QuantizedNode;

/// Whether a clamp cuts no code off: its bounds are the dtype's.
INTQ_INLINE bool cuts_nothing(Activation activation, const OwnedQParams& grid) {
    const std::int64_t zero = grid.zero_points.empty() ? 0 : grid.zero_points[0];
    if (activation == Activation::none) return true;
    if (zero > grid.quant_min) return false;
    if (activation == Activation::relu) return true;
    const double six = arith::round_half_up(6.0 / static_cast<double>(grid.scale()));
    return static_cast<double>(zero) + six >= static_cast<double>(grid.quant_max);
}

class OperatorForm {
public:
    OperatorForm(QuantizedExporter& exporter, const QuantizedNode& node)
        : exporter_(exporter), node_(node), graph_(exporter.quantized()) {}

    bool write() {
        const bool all_codes = std::all_of(node_.inputs.begin(), node_.inputs.end(),
                                           [&](int input) { return is_int8(input) && exporter_.has_codes(input); });
        if (!all_codes || node_.inputs.empty() || !is_int8(node_.output)) return false;
        if (moves_codes()) return write_moved();
        if (graph_.target.requantize != arith::RequantizeRule::float_scale) return false;
        if (const auto* step = node_.as<quantization::WeightedStep>()) return write_weighted(*step);
        if (const auto* step = node_.as<quantization::AddStep>()) return write_add(*step);
        if (node_.as<quantization::AvgPoolStep>() != nullptr) return write_average();
        if (const auto* step = node_.as<quantization::CatStep>()) return write_cat(*step);
        switch (node_.step->kind()) {
            case OpKind::mul:
                return write_binary();
            case OpKind::softmax:
                return write_softmax();
            case OpKind::lookup_table:
                return write_table();
            default:
                return false;
        }
    }

private:
    bool is_int8(int tensor) const {
        const quantization::QuantizedTensor& known = graph_.tensor(tensor);
        return known.dtype == DType::int8 && !known.qparams.is_per_channel();
    }

    bool moves_codes() const {
        const auto* const step = node_.as<quantization::FloatBackedStep>();
        return step != nullptr && graph::moves_codes(graph::numbers_of(operator_of_call(step->call()))) &&
               graph_.output(node_).qparams == graph_.input(node_, 0).qparams;
    }

    /// The operator on codes for a step whose operator is in float.
    std::string word_on_codes() const {
        const std::string name = operator_of_call(node_.step_as<quantization::FloatBackedStep>().call());
        const graph::OperatorRow* const row = graph::find_operator_row(name);
        if (row == nullptr || row->onnx_on_codes.empty())
            throw Error(describe_step(node_), "no ONNX operator on codes is known of " + name);
        return std::string(graph::first_word(row->onnx_on_codes));
    }

    bool write_moved() {
        const WrittenCall written = write_call(exporter_.call_on_codes(node_), exporter_.writer());
        if (node_.step->kind() == OpKind::max_pool2d) exporter_.writer().need(12, "int8 codes of " + written.name);
        exporter_.set_codes(node_, written.name, written.values.at(0), exporter_.grid(node_.inputs[0]));
        return true;
    }

    /// Takes the name of the node and writes the grid of its output.
    void begin() {
        name_ = exporter_.writer().node_name(name_of_step(node_));
        grid_ = exporter_.add_output_grid(node_, name_);
    }
    std::vector<std::string> operand(std::size_t i) const {
        const int input = node_.inputs.at(i);
        return {exporter_.codes(input), exporter_.grid(input).scale, exporter_.grid(input).zero_point};
    }
    static void append(std::vector<std::string>& inputs, std::vector<std::string> more) {
        inputs.insert(inputs.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    }
    bool finish(const std::string& op_type, std::vector<std::string> inputs, std::vector<Attribute> attributes,
                const char* domain = microsoft_domain) {
        exporter_.set_codes(
            node_, name_, exporter_.writer().add_node(name_, op_type, std::move(inputs), std::move(attributes), domain),
            grid_);
        return true;
    }

    bool write_weighted(const quantization::WeightedStep& step) {
        if (step.sumin || step.spread || step.weight.dtype() != DType::int8) return false;
        if (!cuts_nothing(step.activation, graph_.output(node_).qparams)) return false;
        const LayerCodes layer = layer_codes(graph_, node_, step);
        if (layer.bias.defined() && layer.bias_codes.empty()) return false;
        if (const auto* conv = dynamic_cast<const nn::Conv2d*>(step.layer.get()))
            return write_conv(layer, conv->options().window, conv->options().groups, false);
        if (const auto* conv = dynamic_cast<const nn::Conv1d*>(step.layer.get()))
            return write_conv(layer, conv->window(), conv->options().groups, true);
        if (dynamic_cast<const nn::Linear*>(step.layer.get()) == nullptr) return false;
        const bool has_bias = !layer.bias_codes.empty();
        if (has_bias && graph_.input(node_, 0).shape.rank != 2) return false;  // QGemm only multiplies matrices
        return has_bias ? write_gemm(layer) : write_matmul(layer);
    }

    /// The codes of the weight with their scale and zero point; the axis, which counts the channels, is left out.
    std::vector<std::string> weight(const LayerCodes& layer, bool exchanges) {
        OwnedQParams grid = *layer.grid;
        const Tensor real = exchanges ? exports::exchanged(layer.weight) : layer.weight;
        if (exchanges && grid.is_per_channel()) grid.axis = 1;
        const std::string codes =
            exporter_.writer().add_parameter(to_file_tensor(name_ + "_weight", quantize(real, grid, {})));
        const GridNames names = add_grid(exporter_.writer(), name_ + "_weight", grid);
        return {codes, names.scale, names.zero_point};
    }

    std::string bias(const LayerCodes& layer) {
        const auto count = static_cast<index_t>(layer.bias_codes.size());
        return exporter_.writer().add_parameter(
            to_file_tensor(name_ + "_bias", Tensor::from(Shape(count), layer.bias_codes)));
    }

    bool write_conv(const LayerCodes& layer, const Window2d& window, index_t groups, bool is_line) {
        begin();
        std::vector<std::string> inputs = operand(0);
        append(inputs, weight(layer, false));
        append(inputs, {grid_.scale, grid_.zero_point});
        if (!layer.bias_codes.empty()) inputs.push_back(bias(layer));
        std::vector<Attribute> attributes = exports::window_attributes(window, is_line);
        attributes.insert(attributes.begin() + 1, integer_attribute("group", groups));
        return finish("QLinearConv", std::move(inputs), std::move(attributes), "");
    }

    bool write_matmul(const LayerCodes& layer) {
        begin();
        std::vector<std::string> inputs = operand(0);
        append(inputs, weight(layer, true));
        append(inputs, {grid_.scale, grid_.zero_point});
        return finish("QLinearMatMul", std::move(inputs), {}, "");
    }

    bool write_gemm(const LayerCodes& layer) {
        begin();
        std::vector<std::string> inputs = operand(0);
        append(inputs, weight(layer, false));
        inputs.push_back(bias(layer));
        append(inputs, {grid_.scale, grid_.zero_point});
        return finish("QGemm", std::move(inputs), {integer_attribute("transB", 1)});
    }

    bool write_add(const quantization::AddStep& step) {
        if (step.kind() != OpKind::add || !cuts_nothing(step.activation(), graph_.output(node_).qparams)) return false;
        return write_binary();
    }

    bool write_binary() {
        if (node_.inputs.size() != 2) return false;
        begin();
        std::vector<std::string> inputs = operand(0);
        append(inputs, operand(1));
        append(inputs, {grid_.scale, grid_.zero_point});
        return finish(word_on_codes(), std::move(inputs), {});
    }

    bool write_average() {
        const nn::Module* const module = node_.step_as<quantization::FloatBackedStep>().call().module.get();
        if (const auto* pool = dynamic_cast<const nn::AvgPool2d*>(module);
            pool != nullptr && graph_.input(node_, 0).shape.rank == 4 && pool->window().dilation == Size2d{1, 1}) {
            // ONNX Runtime's operator divides by the whole window also where it reaches beyond padding that counts.
            if (!(node_.step_as<quantization::AvgPoolStep>().written() == Padding2d{})) return false;
            const ExportedCall call = exporter_.call_on_codes(node_);
            begin();
            NodeExport row(call, exporter_.writer());
            std::vector<Attribute> attributes =
                exports::average_attributes(row, pool->window(), pool->divisor(), pool->ceil_mode());
            attributes.insert(attributes.begin() + 1, integer_attribute("channels_last", 0));
            return finish_with_output(std::move(attributes));
        }
        const auto* global = dynamic_cast<const nn::AdaptiveAvgPool2d*>(module);
        if (global == nullptr || !(global->output() == Size2d{1, 1})) return false;
        begin();
        return finish_with_output({integer_attribute("channels_last", 0)});
    }

    /// An operator of one input, followed by the output's grid.
    bool finish_with_output(std::vector<Attribute> attributes) {
        std::vector<std::string> inputs = operand(0);
        append(inputs, {grid_.scale, grid_.zero_point});
        return finish(word_on_codes(), std::move(inputs), std::move(attributes));
    }

    bool write_cat(const quantization::CatStep& step) {
        begin();
        std::vector<std::string> inputs{grid_.scale, grid_.zero_point};
        for (std::size_t i = 0; i < node_.inputs.size(); ++i) append(inputs, operand(i));
        return finish(word_on_codes(), std::move(inputs), {integer_attribute("axis", step.axis())});
    }

    bool write_softmax() {
        const ExportedCall call = exporter_.call_on_codes(node_);
        const std::int64_t axis = exports::softmax_axis(NodeExport(call, exporter_.writer()));
        begin();
        exporter_.writer().need(13, "QLinearSoftmax of " + name_);
        return finish_with_output({integer_attribute("axis", axis), integer_attribute("opset", 13)});
    }

    bool write_table() {
        const ExportedCall call = exporter_.call_on_codes(node_);
        const exports::UnaryCall unary = exports::unary_call(NodeExport(call, exporter_.writer()));
        if (unary.function == TableFunction::sigmoid) {
            begin();
            return finish_with_output({});
        }
        if (unary.function != TableFunction::leaky_relu) return false;
        begin();
        return finish_with_output({number_attribute("alpha", static_cast<float>(unary.parameter))});
    }

    QuantizedExporter& exporter_;
    const QuantizedNode& node_;
    const quantization::QuantizedGraph& graph_;
    std::string name_;
    GridNames grid_;
};

}  // namespace detail

INTQ_INLINE bool write_operator_form(QuantizedExporter& exporter, const quantization::QuantizedNode& node) {
    return detail::OperatorForm(exporter, node).write();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_quantized_onnx)
#endif  // INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_OPERATOR_FORM_HPP
