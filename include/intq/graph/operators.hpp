// SPDX-License-Identifier: MIT
//
// One name for each operator, however a model spells it: what patterns and prepare speak. Layer: graph.
#ifndef INTQ_GRAPH_OPERATORS_HPP
#define INTQ_GRAPH_OPERATORS_HPP

#include <map>
#include <string>
#include <string_view>

#include "intq/graph/node.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// A spelling of an operator: a type of module (and its method), a function or a method.
struct OperatorSpelling {
    Op op;
    std::string_view key;
    std::string_view method;  // of a module
    std::string_view name;
};

/// One row a spelling; the functions of nn/float_operators/unary.hpp have theirs from that table.
inline constexpr OperatorSpelling operator_spellings[] = {
    {Op::call_module, "Conv2d", "forward", "conv2d"},
    {Op::call_module, "Conv1d", "forward", "conv1d"},
    {Op::call_module, "Conv3d", "forward", "conv3d"},
    {Op::call_module, "ConvTranspose1d", "forward", "conv_transpose1d"},
    {Op::call_module, "ConvTranspose2d", "forward", "conv_transpose2d"},
    {Op::call_module, "ConvTranspose3d", "forward", "conv_transpose3d"},
    {Op::call_module, "Linear", "forward", "linear"},
    {Op::call_module, "BatchNorm1d", "forward", "batch_norm1d"},
    {Op::call_module, "BatchNorm2d", "forward", "batch_norm2d"},
    {Op::call_module, "BatchNorm3d", "forward", "batch_norm3d"},
    {Op::call_module, "LayerNorm", "forward", "layer_norm"},
    {Op::call_module, "Embedding", "forward", "embedding"},
    {Op::call_module, "LSTM", "forward", "lstm"},
    {Op::call_module, "ReLU", "forward", "relu"},
    {Op::call_module, "ReLU6", "forward", "relu6"},
    {Op::call_module, "Softmax", "forward", "softmax"},
    {Op::call_module, "MaxPool2d", "forward", "max_pool2d"},
    {Op::call_module, "AvgPool2d", "forward", "avg_pool2d"},
    {Op::call_module, "AdaptiveAvgPool2d", "forward", "adaptive_avg_pool2d"},
    {Op::call_module, "MaxPool1d", "forward", "max_pool2d"},  // of images of one row
    {Op::call_module, "AvgPool1d", "forward", "avg_pool2d"},
    {Op::call_module, "AdaptiveAvgPool1d", "forward", "adaptive_avg_pool2d"},
    {Op::call_module, "Upsample", "forward", "interpolate"},
    {Op::call_module, "Flatten", "forward", "flatten"},
    {Op::call_module, "Identity", "forward", "identity"},
    {Op::call_module, "Dropout", "forward", "dropout"},
    {Op::call_module, "FloatFunctional", "add", "add"},
    {Op::call_module, "FloatFunctional", "add_scalar", "add"},
    {Op::call_module, "FloatFunctional", "add_relu", "add_relu"},
    {Op::call_module, "FloatFunctional", "sub", "sub"},
    {Op::call_module, "FloatFunctional", "mul", "mul"},
    {Op::call_module, "FloatFunctional", "mul_scalar", "mul"},
    {Op::call_module, "FloatFunctional", "matmul", "matmul"},
    {Op::call_module, "FloatFunctional", "cat", "cat"},
    {Op::call_module, "FloatFunctional", "sum", "sum"},
    {Op::call_module, "FloatFunctional", "mean", "mean"},
    {Op::call_module, "QuantStub", "forward", "quant_stub"},
    {Op::call_module, "DeQuantStub", "forward", "dequant_stub"},
    {Op::call_function, "add", "", "add"},
    {Op::call_function, "sub", "", "sub"},
    {Op::call_function, "mul", "", "mul"},
    {Op::call_function, "floordiv", "", "floordiv"},
    {Op::call_function, "matmul", "", "matmul"},
    {Op::call_function, "linear", "", "functional_linear"},  // the weight is an argument
    {Op::call_function, "cat", "", "cat"},
    {Op::call_function, "relu", "", "relu"},
    {Op::call_function, "relu6", "", "relu6"},
    {Op::call_function, "clamp", "", "clamp"},
    {Op::call_function, "softmax", "", "softmax"},
    {Op::call_function, "sum", "", "sum"},
    {Op::call_function, "mean", "", "mean"},
    {Op::call_function, "flatten", "", "flatten"},
    {Op::call_function, "reshape", "", "reshape"},
    {Op::call_function, "permute", "", "permute"},
    {Op::call_function, "transpose", "", "transpose"},
    {Op::call_function, "slice", "", "slice"},
    {Op::call_function, "getitem", "", "getitem"},
    {Op::call_function, "split", "", "split"},
    {Op::call_function, "chunk", "", "chunk"},
    {Op::call_function, "pad", "", "pad"},
    {Op::call_function, "interpolate", "", "interpolate"},
    {Op::call_function, "embedding", "", "functional_embedding"},  // the table is an argument
    {Op::call_method, "add", "", "add"},
    {Op::call_method, "sub", "", "sub"},
    {Op::call_method, "mul", "", "mul"},
    {Op::call_method, "matmul", "", "matmul"},
    {Op::call_method, "size", "", "size"},
    {Op::call_method, "relu", "", "relu"},
    {Op::call_method, "relu6", "", "relu6"},
    {Op::call_method, "clamp", "", "clamp"},
    {Op::call_method, "softmax", "", "softmax"},
    {Op::call_method, "sum", "", "sum"},
    {Op::call_method, "mean", "", "mean"},
    {Op::call_method, "flatten", "", "flatten"},
    {Op::call_method, "reshape", "", "reshape"},
    {Op::call_method, "view", "", "reshape"},
    {Op::call_method, "permute", "", "permute"},
    {Op::call_method, "transpose", "", "transpose"},
    {Op::call_method, "split", "", "split"},
    {Op::call_method, "chunk", "", "chunk"},
};

/// The module that a call_module node calls; null for another node.
nn::Module* module_of(const Node& node, nn::Module& root);

/// The name by which a user knows a node: that of its module, or its own.
std::string layer_name(const Node& node);

/// How messages name the place of a node: "%conv (Conv2d)", and "block.conv (%block_conv, Conv2d)" where its module has
/// another name than the node.
std::string place_of(const Node& node, nn::Module& root);

/// Type name of the called module, or the name of the function; "placeholder", "get_attr", "output" for those.
std::string type_of(const Node& node, nn::Module& root);

/// The operator's name by the table; where no row is, type_of(), so that a user's pattern can name a module's type.
std::string operator_of(const Node& node, nn::Module& root);

/// The operator's name of a call: of a module of a type and its method, or of a function of a name.
std::string operator_of(Op op, const std::string& type, std::string_view method);

/// operator_of() for a walk that asks about a node again and again: each name is looked up once.
class OperatorNames {
public:
    /// The root must outlive this.
    explicit OperatorNames(nn::Module& root) : root_(root) {}

    const std::string& of(const Node& node);
    /// Forgets what was looked up. Call it after erasing nodes or replacing a module.
    void forget() noexcept { names_.clear(); }
    nn::Module& root() const noexcept { return root_; }

private:
    nn::Module& root_;
    std::map<const Node*, std::string> names_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include "intq/nn/float_operators/unary.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string layer_name(const Node& node) {
    return node.op() == Op::call_module ? node.target() : node.name();
}

INTQ_INLINE std::string place_of(const Node& node, nn::Module& root) {
    const std::string layer = layer_name(node), type = type_of(node, root);
    return layer == node.name() ? "%" + layer + " (" + type + ")" : layer + " (%" + node.name() + ", " + type + ")";
}

INTQ_INLINE nn::Module* module_of(const Node& node, nn::Module& root) {
    return node.op() == Op::call_module ? &root.find(node.target()) : nullptr;
}

INTQ_INLINE std::string type_of(const Node& node, nn::Module& root) {
    if (const nn::Module* module = module_of(node, root)) return module->type_name();
    return node.function() != nullptr ? node.function()->name : name_of(node.op());
}

INTQ_INLINE std::string operator_of(const Node& node, nn::Module& root) {
    return operator_of(node.op(), type_of(node, root), node.method());
}

INTQ_INLINE std::string operator_of(Op op, const std::string& type, std::string_view method) {
    for (const OperatorSpelling& row : operator_spellings)
        if (row.op == op && row.key == type && (row.op != Op::call_module || row.method == method))
            return std::string(row.name);
    if (op == Op::call_module && method == "forward")
        for (const auto& row : nn::float_operators::unary_rows)
            if (row.module != nullptr && row.module == type) return row.name;
    return type;
}

INTQ_INLINE const std::string& OperatorNames::of(const Node& node) {
    const auto known = names_.find(&node);
    return known != names_.end() ? known->second : names_.emplace(&node, operator_of(node, root_)).first->second;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_OPERATORS_HPP
