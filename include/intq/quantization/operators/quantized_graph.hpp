// SPDX-License-Identifier: MIT
//
// QuantizedGraph: a converted model as a list of steps, the source of the reference graph and the program. Layer:
// quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_OPERATORS_QUANTIZED_GRAPH_HPP
#define INTQ_QUANTIZATION_OPERATORS_QUANTIZED_GRAPH_HPP

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "intq/arith/requantize.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

class Lowering;
class ReferenceBuilder;
struct QuantizedNode;

/// A value. float32 holds real numbers; int8 and int16 codes; int32 an accumulator with a scale per channel.
struct QuantizedTensor {
    std::string name;  // of the graph node that computes it; of an input as the model names it
    DType dtype = DType::float32;
    OwnedQParams qparams{};  // not read for float32
    Shape shape{};           // its first extent is the batch of the run that recorded it
    bool is_ids = false;     // int32: integers of an input, or indices, no accumulator
};

/// Real numbers between which results are kept; none means no bound.
struct RealBounds {
    std::optional<double> low{}, high{};

    bool any() const noexcept { return low.has_value() || high.has_value(); }
};

/// The computation of a node: a class per operator, in quantization/operators/. Inputs and output are the node's.
class Step {
public:
    virtual ~Step() = default;
    /// The operator for tables and the constraint table; none for float and constants.
    virtual OpKind kind() const noexcept = 0;
    /// Adds the step's instructions to a program and sets the tensor that is the node's output.
    virtual void lower(Lowering& lowering, const QuantizedNode& node) const = 0;
    /// Adds the float operator of the step to the reference graph.
    virtual void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const = 0;
    /// The qparams of the step's accumulator, if that may be its output.
    ///
    /// @param output  the shape of the output
    virtual INTQ_INLINE std::optional<OwnedQParams> accumulator_qparams(const QuantizedTensor& input,
                                                                        const Shape& output) const;
    /// The codes between which a step keeps its input, if it does only that on one grid; none for other steps.
    virtual INTQ_INLINE std::optional<arith::OutputCodes> bounds_on(const OwnedQParams& grid,
                                                                    const arith::PolicyRecord& target) const;
    /// The same step with a clamp on its output. Throws for an operator that takes no clamp.
    virtual INTQ_INLINE std::shared_ptr<const Step> with_activation(Activation) const;
};
using StepPtr = std::shared_ptr<const Step>;

/// An argument of an operator in float: the node's input number `input`, an extent of that, a constant, a list, or the
/// number of samples of a run.
struct FloatArgument {
    int input = -1;
    nn::Value constant{};
    std::vector<FloatArgument> list{};
    bool is_list = false;
    int extent_axis = -1;     // of the input, if the argument is one of its extents
    bool is_samples = false;  // the constant is that of the recorded run
};

/// The call of a float operator: a module's method or a function, on real values.
struct FloatCall {
    nn::ModulePtr module{};
    nn::HookRange traced_hooks{};  // of the module, that are separate steps
    std::string method = "forward";
    const nn::Function* function = nullptr;
    std::vector<FloatArgument> arguments{};
};

namespace detail {

/// Throws the Error that names the node.
[[noreturn]] void throw_other_step(const std::string& node, const std::string& type);

}  // namespace detail

/// One operator between tensors.
struct QuantizedNode {
    std::string name;    // of the graph node
    std::string module;  // qualified name of the module; "" for a function
    std::string type;    // "ConvReLU2d"
    std::vector<int> inputs{};
    int output = 0;
    StepPtr step{};

    /// The name by which a user knows it: its module's, or the graph node's.
    const std::string& layer() const noexcept { return module.empty() ? name : module; }
    /// The step as the class of its operator; null if it is another.
    template <class StepType> const StepType* as() const noexcept { return dynamic_cast<const StepType*>(step.get()); }
    /// The same; throws the Error that names the node.
    template <class StepType> const StepType& step_as() const {
        if (const auto* typed = as<StepType>()) return *typed;
        detail::throw_other_step(name, type);
    }
};

/// A converted model for one target, in an order in which it can run.
struct QuantizedGraph {
    arith::PolicyRecord target{};
    std::vector<QuantizedTensor> tensors{};
    std::vector<QuantizedNode> nodes{};
    std::vector<int> inputs{};   // tensors, float32
    std::vector<int> outputs{};  // tensors, float32, in the order of the model; items of tuples one after the other
    /// The tensor that each node of the prepared graph became; an operator and its quantizer share one.
    std::map<std::string, int> values{};
    std::vector<nn::Named<nn::Value>> properties{};  // of the prepared model

    const QuantizedTensor& tensor(int index) const { return tensors.at(static_cast<std::size_t>(index)); }
    const QuantizedTensor& input(const QuantizedNode& node, std::size_t i) const { return tensor(node.inputs.at(i)); }
    const QuantizedTensor& output(const QuantizedNode& node) const { return tensor(node.output); }
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include "intq/io/error.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::optional<OwnedQParams> Step::accumulator_qparams(const QuantizedTensor&, const Shape&) const {
    return std::nullopt;
}

INTQ_INLINE std::optional<arith::OutputCodes> Step::bounds_on(const OwnedQParams&, const arith::PolicyRecord&) const {
    return std::nullopt;
}

INTQ_INLINE std::shared_ptr<const Step> Step::with_activation(Activation) const {
    throw Error(std::string(name_of(kind())) + " takes no activation");
}

namespace detail {

INTQ_INLINE void throw_other_step(const std::string& node, const std::string& type) {
    throw Error(node + " (" + type + ")", "its step is another than was asked for");
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_QUANTIZED_GRAPH_HPP
