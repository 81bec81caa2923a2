// SPDX-License-Identifier: MIT
//
// QuantizedGraph: a converted model as a typed list of steps: what the reference graph and the program are made of.
// Layer: quantization (WORKFLOW section 4).
#ifndef INTQ_QUANTIZATION_QUANTIZED_GRAPH_HPP
#define INTQ_QUANTIZATION_QUANTIZED_GRAPH_HPP

#include <variant>

#include "intq/arith/target.hpp"
#include "intq/core/op_params.hpp"
#include "intq/nn/module.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// A value. float32 holds real numbers; int8 and int16 codes; int32 an accumulator with a scale per channel.
struct QuantizedTensor {
    std::string name;  // of the graph node that gives it
    DType dtype = DType::float32;
    nn::OwnedQParams qparams{};  // not read for float32
    Shape shape{};               // its first extent is the batch of the run that recorded it
};

// --- the operators; inputs and output are those of the QuantizedNode ------------------------------------------------

/// Real values -> codes.
struct QuantizeStep {};
/// Codes -> real values.
struct DequantizeStep {};
/// Codes -> codes of another scale or type.
struct RequantizeStep {};

/// conv2d or linear: x, and the operand of a fused add.
struct WeightedStep {
    OpKind kind = OpKind::conv2d;
    Window2d window{};
    index_t groups = 1;
    nn::Tensor weight{};              // codes, row_major: (O, C/groups, KH, KW) or (O, I)
    nn::OwnedQParams weight_qparams;  // scales raised by ARITHMETIC section 3, step 0
    nn::Tensor bias{};                // real numbers, (O), or undefined
    bool sumin = false;
    Activation activation = Activation::none;
};

struct AddStep {
    Activation activation = Activation::none;
};
/// relu, relu6 on codes; the scale stays.
struct ClampStep {
    Activation activation = Activation::relu;
};
struct MaxPoolStep {
    Window2d window{};
};
struct AvgPoolStep {
    Window2d window{};
    PoolDivisor divisor = PoolDivisor::kernel_cells;
};
struct CatStep {
    int axis = 1;
};
/// Axes start_axis to end_axis become one; neither is negative.
struct FlattenStep {
    int start_axis = 1;
    int end_axis = 1;
};

/// An argument of an operator in float: the node's input number `input`, a constant, or a list.
struct FloatArgument {
    int input = -1;
    nn::Value constant{};
    std::vector<FloatArgument> list{};
    bool is_list = false;
};

/// An operator that stays in float: a module's method or a function, on real values.
struct FloatStep {
    nn::ModulePtr module{};
    std::string method = "forward";
    const nn::Function* function = nullptr;
    std::vector<FloatArgument> arguments{};
};

/// A parameter or buffer that the graph reads.
struct ConstantStep {
    nn::Tensor value{};
};

using Step = std::variant<QuantizeStep, DequantizeStep, RequantizeStep, WeightedStep, AddStep, ClampStep, MaxPoolStep,
                          AvgPoolStep, CatStep, FlattenStep, FloatStep, ConstantStep>;

/// One operator between tensors.
struct QuantizedNode {
    std::string name;    // of the graph node
    std::string module;  // qualified name of the module; "" for a function
    std::string type;    // "ConvReLU2d"
    std::vector<int> inputs{};
    int output = 0;
    Step step{};
};

/// A converted model for one target, in an order in which it can run.
struct QuantizedGraph {
    arith::PolicyRecord target{};
    std::vector<QuantizedTensor> tensors{};
    std::vector<QuantizedNode> nodes{};
    std::vector<int> inputs{};   // tensors, float32
    std::vector<int> outputs{};  // tensors, float32

    const QuantizedTensor& tensor(int index) const { return tensors.at(static_cast<std::size_t>(index)); }
    const QuantizedTensor& input(const QuantizedNode& node, std::size_t i) const { return tensor(node.inputs.at(i)); }
    const QuantizedTensor& output(const QuantizedNode& node) const { return tensor(node.output); }
};

/// The operator of a step for tables and the constraint table; none for float and constants.
inline OpKind kind_of(const Step& step) {
    return std::visit(
        [](const auto& s) {
            using T = std::decay_t<decltype(s)>;
            if constexpr (std::is_same_v<T, WeightedStep>)
                return s.kind;
            else if constexpr (std::is_same_v<T, QuantizeStep>)
                return OpKind::quantize;
            else if constexpr (std::is_same_v<T, DequantizeStep>)
                return OpKind::dequantize;
            else if constexpr (std::is_same_v<T, RequantizeStep>)
                return OpKind::requantize;
            else if constexpr (std::is_same_v<T, AddStep>)
                return OpKind::add;
            else if constexpr (std::is_same_v<T, ClampStep>)
                return OpKind::relu;
            else if constexpr (std::is_same_v<T, MaxPoolStep>)
                return OpKind::max_pool2d;
            else if constexpr (std::is_same_v<T, AvgPoolStep>)
                return OpKind::avg_pool2d;
            else if constexpr (std::is_same_v<T, CatStep>)
                return OpKind::cat;
            else if constexpr (std::is_same_v<T, FlattenStep>)
                return OpKind::flatten;
            else
                return OpKind::none;
        },
        step);
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_QUANTIZED_GRAPH_HPP
