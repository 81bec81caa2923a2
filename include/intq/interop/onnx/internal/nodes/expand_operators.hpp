// SPDX-License-Identifier: MIT
//
// Operators on codes written as the operator in float between DequantizeLinear and QuantizeLinear: QLinearConv,
// QLinearMatMul, ConvInteger, MatMulInteger, ONNX Runtime's com.microsoft operators, and those that move codes. Layer:
// interop.
//
// Thus the import knows one form of quantized models. Both mean the same by ONNX's definition of the operators.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_EXPAND_OPERATORS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_EXPAND_OPERATORS_HPP

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Whether a model has nodes that expand_operators() changes.
bool has_operators_on_codes(const Model& model);

/// The same model without operators on codes. The float operator that a node becomes keeps its name and its position.
/// Other nodes stay as they are.
///
/// @throws Error naming the node: an operator on codes that lacks inputs, whose bias has no constant scale, or whose
///         form has another meaning
Model expand_operators(const Model& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <iterator>
#    include <map>
#    include <set>
#    include <span>
#    include <string>
#    include <string_view>
#    include <utility>
#    include <variant>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/graph/operator_rows.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The names of a grid, with the axis of its channels, and the type of its codes where no zero point tells it.
struct GridInputs {
    std::string scale, zero_point;
    std::int64_t axis = 1;
    std::int64_t output_dtype = 0;
};

/// A constant as far as it is known before the import: a type of none or a size of -1 is not known.
struct ConstantInfo {
    DType dtype = DType::none;
    index_t size = -1;
};

class OperatorExpansion {
public:
    explicit OperatorExpansion(const Model& model) : from_(model), result_(model) {
        result_.graph.nodes.clear();
        for (const FileTensor& tensor : model.graph.initializers)
            constants_[tensor.name] = {tensor.dtype, tensor.size()};
    }

    Model run() {
        for (const Node& node : from_.graph.nodes) {
            try {
                add(node);
            } catch (const Error& error) {
                throw Error(describe_node(node, from_.graph.nodes.size()), error.what());
            }
        }
        return std::move(result_);
    }

private:
    /// An operator on codes.
    struct Row {
        const char* op_type;
        void (OperatorExpansion::*expand)(const Node&);
    };
    /// Whether ONNX lets an operator read codes and return codes of the same grid. A clip is judged by itself.
    static bool keeps_grid(const std::string& op_type) {
        using graph::Numbers;
        return std::any_of(std::begin(graph::operator_rows), std::end(graph::operator_rows), [&](const auto& row) {
            return graph::may_keep_grid(row.numbers) && row.numbers != Numbers::bounded &&
                   graph::has_word(row.onnx, op_type);
        });
    }

    void add(const Node& node) {
        static constexpr Row rows[] = {
            {"QLinearConv", &OperatorExpansion::expand_conv},
            {"QLinearMatMul", &OperatorExpansion::expand_matmul},
            {"ConvInteger", &OperatorExpansion::expand_integer},
            {"MatMulInteger", &OperatorExpansion::expand_integer},
            {"QGemm", &OperatorExpansion::expand_gemm},
            {"QLinearAdd", &OperatorExpansion::expand_binary},
            {"QLinearMul", &OperatorExpansion::expand_binary},
            {"QLinearAveragePool", &OperatorExpansion::expand_unary},
            {"QLinearGlobalAveragePool", &OperatorExpansion::expand_unary},
            {"QLinearSoftmax", &OperatorExpansion::expand_unary},
            {"QLinearSigmoid", &OperatorExpansion::expand_unary},
            {"QLinearLeakyRelu", &OperatorExpansion::expand_unary},
            {"QLinearConcat", &OperatorExpansion::expand_concat},
        };
        const bool is_standard = node.domain.empty() || node.domain == "ai.onnx";
        const bool is_known = is_standard || node.domain == microsoft_domain;
        for (const Row& row : rows)
            if (is_known && node.op_type == row.op_type) return (this->*row.expand)(node);
        note_constant(node);
        if (is_known && (node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear"))
            return keep_grid(node);
        const bool reads_codes = is_standard && !node.inputs.empty() && grids_.count(node.inputs[0]) != 0;
        if (reads_codes && keeps_grid(node.op_type)) return expand_moved(node);
        if (reads_codes && node.op_type == "Clip" && !node.outputs.empty())
            grids_[node.outputs[0]] = GridInputs(grids_.at(node.inputs[0]));
        result_.graph.nodes.push_back(node);
    }

    /// A node of constants makes a constant, which the import computes.
    void note_constant(const Node& node) {
        const auto is_constant = [&](const std::string& name) { return name.empty() || constants_.count(name) != 0; };
        if (node.outputs.empty() || !std::all_of(node.inputs.begin(), node.inputs.end(), is_constant)) return;
        ConstantInfo info;
        static constexpr std::string_view keeping[] = {"Identity", "Cast",      "Reshape",
                                                       "Squeeze",  "Unsqueeze", "Flatten"};
        if (!node.inputs.empty() &&
            std::find(std::begin(keeping), std::end(keeping), node.op_type) != std::end(keeping))
            info = constants_[node.inputs[0]];
        if (node.op_type == "Cast") info.dtype = code_type(integer_of(node, "to", 0));
        for (const Attribute& attribute : node.attributes)
            if (const auto* tensor = std::get_if<FileTensor>(&attribute.value); tensor && node.op_type == "Constant")
                info = {tensor->dtype, tensor->size()};
        for (const std::string& name : node.outputs) constants_[name] = info;
    }

    /// Codes that a QuantizeLinear makes have its grid. ONNX Runtime's two mean the same.
    void keep_grid(const Node& node) {
        Node copy = node;
        copy.domain.clear();
        if (node.op_type == "QuantizeLinear" && !node.outputs.empty() && constants_.count(node.outputs[0]) == 0)
            grids_[node.outputs[0]] = {input(node, 1), optional_input(node, 2), axis_of(node),
                                       integer_of(node, "output_dtype", 0)};
        result_.graph.nodes.push_back(std::move(copy));
    }

    // --- parts ------------------------------------------------------------------------------------------------------

    /// The types of codes by TensorProto.DataType; none for others.
    static DType code_type(std::int64_t code) {
        return code == 2 ? DType::uint8 : code == 3 ? DType::int8 : code == 5 ? DType::int16 : DType::none;
    }
    static const std::string& input(const Node& node, std::size_t i) {
        if (i >= node.inputs.size() || node.inputs[i].empty())
            throw Error("input " + std::to_string(i + 1) + " is missing");
        return node.inputs[i];
    }
    static std::string optional_input(const Node& node, std::size_t i) {
        return i < node.inputs.size() ? node.inputs[i] : std::string();
    }
    static std::int64_t axis_of(const Node& node) {
        for (const Attribute& attribute : node.attributes)
            if (const auto* axis = std::get_if<std::int64_t>(&attribute.value); axis && attribute.name == "axis")
                return *axis;
        return 1;
    }
    static std::int64_t integer_of(const Node& node, std::string_view name, std::int64_t otherwise) {
        for (const Attribute& attribute : node.attributes)
            if (const auto* value = std::get_if<std::int64_t>(&attribute.value); value && attribute.name == name)
                return *value;
        return otherwise;
    }
    static std::vector<Attribute> without(const Node& node, const std::set<std::string_view>& names) {
        std::vector<Attribute> kept;
        for (const Attribute& attribute : node.attributes)
            if (names.count(attribute.name) == 0) kept.push_back(attribute);
        return kept;
    }

    /// A name for a value that replaces another one.
    std::string fresh(const std::string& name) { return name + " (" + std::to_string(++next_) + ", real)"; }

    std::string dequantize(const Node& node, const std::string& codes, const GridInputs& grid) {
        Node made{.op_type = "DequantizeLinear",
                  .name = {},
                  .domain = {},
                  .inputs = {codes, grid.scale},
                  .outputs = {fresh(codes)},
                  .attributes = {{"axis", grid.axis}},
                  .position = node.position};
        if (!grid.zero_point.empty()) made.inputs.push_back(grid.zero_point);
        result_.graph.nodes.push_back(std::move(made));
        return result_.graph.nodes.back().outputs[0];
    }

    /// Inputs i to i + 2 of a node: codes, scale, zero point.
    std::string dequantized(const Node& node, std::size_t i, std::int64_t axis = 1) {
        return dequantize(node, input(node, i), {input(node, i + 1), optional_input(node, i + 2), axis});
    }

    /// The operator in float, with the node's name, and a QuantizeLinear behind its output, or each piece of a split.
    void operate(const Node& node, const std::string& op_type, std::vector<std::string> inputs,
                 std::vector<Attribute> attributes, const GridInputs& output) {
        if (node.outputs.empty()) throw Error("it has no output");
        const bool gives_codes = !output.scale.empty();
        Node made{.op_type = op_type,
                  .name = node.name,
                  .domain = {},
                  .inputs = std::move(inputs),
                  .outputs = node.outputs,
                  .attributes = std::move(attributes),
                  .position = node.position};
        if (op_type != "Split") made.outputs.resize(1);  // the indices of a MaxPool are no codes
        for (std::string& name : made.outputs)
            if (gives_codes && !name.empty()) name = fresh(name);
        const std::vector<std::string> real = made.outputs;
        result_.graph.nodes.push_back(std::move(made));
        for (std::size_t i = 0; gives_codes && i < real.size(); ++i)
            if (!real[i].empty()) quantize(node, i, real[i], output);
    }

    /// Output `i` of a node, as codes of a real value.
    void quantize(const Node& node, std::size_t i, const std::string& real, const GridInputs& output) {
        const std::string number = i == 0 ? std::string() : "_" + std::to_string(i);
        Node made{.op_type = "QuantizeLinear",
                  .name = node.name.empty() ? std::string() : node.name + "_quantize" + number,
                  .domain = {},
                  .inputs = {real, output.scale},
                  .outputs = {node.outputs[i]},
                  .attributes = {{"axis", output.axis}},
                  .position = node.position};
        if (!output.zero_point.empty()) made.inputs.push_back(output.zero_point);
        if (output.output_dtype != 0) made.attributes.push_back({"output_dtype", output.output_dtype});
        result_.graph.nodes.push_back(std::move(made));
        grids_[node.outputs[i]] = output;
    }

    /// The scale of an accumulator's bias, s_in · s_w of each channel, and other products of scales.
    std::string product(const Node& node, const std::string& a, const std::string& b) {
        result_.graph.nodes.push_back({.op_type = "Mul",
                                       .name = {},
                                       .domain = {},
                                       .inputs = {a, b},
                                       .outputs = {fresh("scale")},
                                       .attributes = {},
                                       .position = node.position});
        return result_.graph.nodes.back().outputs[0];
    }

    std::string add_constant(const std::vector<float>& values, std::vector<index_t> dims) {
        const auto bytes = std::as_bytes(std::span<const float>(values));
        result_.graph.initializers.push_back({.name = fresh("scale"),
                                              .dtype = DType::float32,
                                              .dims = std::move(dims),
                                              .data = {bytes.begin(), bytes.end()}});
        return result_.graph.initializers.back().name;
    }

    // --- operators --------------------------------------------------------------------------------------------------

    void expand_conv(const Node& node) {
        std::vector<std::string> inputs{dequantized(node, 0), dequantized(node, 3, 0)};
        if (const std::string bias = optional_input(node, 8); !bias.empty())
            inputs.push_back(dequantize(node, bias, {product(node, input(node, 1), input(node, 4)), "", 0}));
        operate(node, "Conv", std::move(inputs), node.attributes, {input(node, 6), optional_input(node, 7), 1});
    }

    void expand_matmul(const Node& node) {
        operate(node, "MatMul", {dequantized(node, 0), dequantized(node, 3)}, node.attributes,
                {input(node, 6), optional_input(node, 7), 1});
    }

    /// The sum of products of codes, each minus its zero point: real numbers of scale 1.
    void expand_integer(const Node& node) {
        const bool is_conv = node.op_type == "ConvInteger";
        const std::string one = add_constant({1.0f}, {});
        const std::string w_zero = optional_input(node, 3);
        const auto zeros = constants_.find(w_zero);
        std::string w_scale = one;
        if (zeros != constants_.end() && zeros->second.size > 1)
            w_scale = add_constant(std::vector<float>(static_cast<std::size_t>(zeros->second.size), 1.0f),
                                   {zeros->second.size});
        std::vector<std::string> inputs{dequantize(node, input(node, 0), {one, optional_input(node, 2), 1}),
                                        dequantize(node, input(node, 1), {w_scale, w_zero, is_conv ? 0 : 1})};
        operate(node, is_conv ? "Conv" : "MatMul", std::move(inputs), node.attributes, {});
    }

    /// y = alpha·s_a·s_b·(a·b + c): alpha belongs to the scale of b, and so to the bias's.
    void expand_gemm(const Node& node) {
        const std::int64_t channel_axis = integer_of(node, "transB", 0) != 0 ? 0 : 1;
        std::string w_scale = input(node, 4);
        for (const Attribute& attribute : node.attributes)
            if (const auto* alpha = std::get_if<float>(&attribute.value); alpha && attribute.name == "alpha") {
                if (!(*alpha > 0.0f))
                    throw Error("alpha is " + std::to_string(*alpha) +
                                ", expected a positive number, because it becomes part of a scale");
                if (*alpha != 1.0f) w_scale = product(node, add_constant({*alpha}, {}), w_scale);
            }
        std::vector<std::string> inputs{
            dequantized(node, 0), dequantize(node, input(node, 3), {w_scale, optional_input(node, 5), channel_axis})};
        if (const std::string bias = optional_input(node, 6); !bias.empty())
            inputs.push_back(dequantize(node, bias, {product(node, input(node, 1), w_scale), "", -1}));
        operate(node, "Gemm", std::move(inputs), without(node, {"alpha"}),
                {optional_input(node, 7), optional_input(node, 8), 1});
    }

    void expand_binary(const Node& node) {
        operate(node, node.op_type == "QLinearAdd" ? "Add" : "Mul", {dequantized(node, 0), dequantized(node, 3)},
                node.attributes, {input(node, 6), optional_input(node, 7), 1});
    }

    void expand_unary(const Node& node) {
        if (integer_of(node, "channels_last", 0) != 0)
            throw Error("channels_last is not supported, because ONNX's own operators count channels on axis 1");
        // An average keeps its name: its codes are the codes of a sum of real numbers.
        const std::string op_type = node.op_type == "QLinearAveragePool"
                                        ? node.op_type
                                        : node.op_type.substr(std::string_view("QLinear").size());
        if (op_type == "Softmax" && (integer_of(node, "opset", 13) < 13) != (from_.opset < 13))
            throw Error("its softmax has the meaning of opset " + std::to_string(integer_of(node, "opset", 13)) +
                        ", the model is of opset " + std::to_string(from_.opset));
        operate(node, op_type, {dequantized(node, 0)}, without(node, {"channels_last", "opset"}),
                {input(node, 3), optional_input(node, 4), 1});
    }

    void expand_concat(const Node& node) {
        if (node.inputs.size() < 5 || node.inputs.size() % 3 != 2)
            throw Error("it has " + std::to_string(node.inputs.size()) +
                        " inputs, expected two for the output and three for each part");
        std::vector<std::string> parts;
        for (std::size_t i = 2; i < node.inputs.size(); i += 3) parts.push_back(dequantized(node, i));
        operate(node, "Concat", std::move(parts), node.attributes, {input(node, 0), node.inputs[1], 1});
    }

    /// The codes stay on their grid.
    void expand_moved(const Node& node) {
        const GridInputs grid = grids_.at(node.inputs[0]);
        const auto scale = constants_.find(grid.scale);
        if (scale != constants_.end() && scale->second.size > 1)
            throw Error("it moves codes that have a scale for each channel, which is not supported");
        std::vector<std::string> inputs = node.inputs;
        inputs[0] = dequantize(node, node.inputs[0], grid);
        if (node.op_type == "Pad") {
            inputs.resize(std::max<std::size_t>(inputs.size(), 3));
            inputs[2] = dequantize(node, inputs[2].empty() ? code_zero(grid) : inputs[2], grid);
        }
        operate(node, node.op_type, std::move(inputs), node.attributes, grid);
    }

    /// The fill code of a pad of codes without a value: code 0, which is the real 0 only without a zero point.
    std::string code_zero(const GridInputs& grid) {
        const auto zero_point = constants_.find(grid.zero_point);
        const DType given = grid.output_dtype == 0 ? DType::uint8 : code_type(grid.output_dtype);
        const DType dtype = zero_point == constants_.end() ? given : zero_point->second.dtype;
        if (dtype == DType::none) throw Error("it has no value to fill with, and the type of the codes is not known");
        result_.graph.initializers.push_back(
            {.name = fresh("fill"),
             .dtype = dtype,
             .dims = {},
             .data = std::vector<std::byte>(static_cast<std::size_t>(size_of(dtype)))});
        return result_.graph.initializers.back().name;
    }

    const Model& from_;
    Model result_;
    std::map<std::string, ConstantInfo> constants_;
    std::map<std::string, GridInputs> grids_;
    std::size_t next_ = 0;
};

}  // namespace detail

INTQ_INLINE bool has_operators_on_codes(const Model& model) {
    const auto& nodes = model.graph.nodes;
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
        return node.domain == microsoft_domain || node.op_type == "QuantizeLinear" ||
               node.op_type.starts_with("QLinear") || node.op_type.ends_with("Integer");
    });
}

INTQ_INLINE Model expand_operators(const Model& model) { return detail::OperatorExpansion(model).run(); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_EXPAND_OPERATORS_HPP
