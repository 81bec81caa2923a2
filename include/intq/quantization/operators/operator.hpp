// SPDX-License-Identifier: MIT
//
// The row of an operator for quantization: the quantizers that it needs, and the step that it becomes. One row per
// operator, in quantization/operators/; their list is operator_table.hpp. Layer: quantization
// (docs/design.md section 10).
#ifndef INTQ_QUANTIZATION_OPERATORS_OPERATOR_HPP
#define INTQ_QUANTIZATION_OPERATORS_OPERATOR_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/shape.hpp"
#include "intq/graph/node.hpp"
#include "intq/io/error.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/grid_choice.hpp"
#include "intq/quantization/modules/qat_mode.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {
class Weighted;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

class FakeQuantize;

enum class Role : std::uint8_t {
    boundary,      // placeholder, get_attr: real values
    output,        // of the model
    quant_stub,    // real values -> codes
    dequant_stub,  // codes -> real values
    item,          // one output of an operator that returns a tuple
    weighted,      // a weight quantizer, and a quantizer on its output unless that is the accumulator
    own_output,    // a quantizer on its output
    cat,           // own_output in horizon mode; in torch mode the quantizer of its first input serves all
    shares_input,  // the scale of its input stays; in torch mode the input's quantizer is called behind it, too
    gives_ids,     // int32 indices, which no quantizer rounds, and which moves and outputs of the model alone read
    copies_into,   // the codes of its first input, of which some are those of another: QuantizedOperator::source
    float_only     // no integer form
};

/// The effect on the output of a positive factor on each channel of an operator's input.
enum class ChannelFactors : std::uint8_t {
    lost,       // something else
    anywhere,   // the same factors on its output, whichever axis counts the channels
    of_planes,  // so for the planes of (N, C, H, W)
    flattened   // so for them, and the last axis of the output counts the elements of channel after channel
};

/// The inputs for making a step: a node of a prepared graph, and the known facts about its values.
struct StepRequest {
    const graph::Node& node;
    const nn::Module* module;                    // null for a function
    std::vector<const QuantizedTensor*> inputs;  // in the order of the arguments
    Shape output_shape;
    const arith::PolicyRecord& target;
    FloatCall call;                    // the operator in float
    std::vector<nn::Value> constants;  // its arguments; none if they are values of the graph
    std::string where;                 // "convert: %conv (Conv2d)"

    Error error(const std::string& sentence) const { return Error(where, sentence); }
    /// The constant arguments as a float function reads them.
    nn::Arguments arguments() const { return nn::Arguments(constants); }
    int integer(std::size_t argument, int otherwise) const {
        return static_cast<int>(arguments().integer(argument, otherwise));
    }
    /// An axis of the first input, counted from the front.
    int axis(int given) const;
    /// The same; none for one that is counted from the back of an unknown rank.
    std::optional<int> known_axis(int given) const;
};

/// An operator of the graph in quantized models.
struct QuantizedOperator {
    std::string_view name;  // of graph/operators.hpp
    Role role = Role::float_only;
    OpKind kind = OpKind::none;  // for the constraint table; none if it is not in the table
    int operands = 1;            // leading arguments that are codes; for a cat they are a list, and ids are none
    /// Null for operators that leave no trace in a converted model.
    StepPtr (*make_step)(const StepRequest&) = nullptr;
    /// Throws for arguments that have no integer form on the target, whatever the shapes, which may be unknown (of
    /// rank 0). prepare asks it; make_step asks it again, with shapes.
    void (*check)(const StepRequest&) = nullptr;
    /// own_output: stays in float if the target's table has no row for its type and only DeQuantStubs and outputs read
    /// it.
    bool may_end_in_float = false;
    /// The window that the constraint table limits.
    Window2d (*window)(const nn::Module&) = nullptr;
    /// The axis over which it normalizes, of a softmax: its input's quantizer needs no room for masks.
    std::optional<int> (*softmax_axis)(const graph::Node&, const nn::Module*) = nullptr;
    /// lookup_table: which function a node computes, for constraint tables that fix the outputs of some.
    TableFunction (*function)(const graph::Node&, const nn::Module*) = nullptr;
    /// The quantizer is behind a relu that is the operator's only reader.
    bool takes_relu = false;
    /// Its outputs are read one by one, by operators of the role item.
    bool gives_tuple = false;
    /// own_output and shares_input: whether this target keeps the input's scale, although the results are not values
    /// of the input. A quantizer that follows the input's rounds them.
    bool (*keeps_scale)(const arith::PolicyRecord&) = nullptr;
    /// keeps_scale: the effect of the operator on the grid that it keeps; none if keeping it costs nothing. It depends
    /// only on the graph: arguments and module, no shapes and no data.
    std::optional<GridUse> (*grid_use)(const StepRequest&) = nullptr;
    /// The bounds between which the operator keeps its input, if it does only that (relu6, clamp, hardtanh). As the
    /// only reader of a producer of codes it bounds those codes, and the producer's quantizer is behind it.
    std::optional<RealBounds> (*clip)(const StepRequest&) = nullptr;
    /// Whether a clip behind it becomes bounds of its codes.
    bool takes_clip = false;
    /// own_output: whether its sum, an int32 accumulator, may be the output if only DeQuantStubs read it. Where the
    /// shape of its input is not known, whether it may for some shape.
    bool (*gives_sum)(const StepRequest&) = nullptr;
    /// own_output: all values that it can write, whatever it reads. Prepare gives its quantizer their grid.
    Tensor (*table)(const nn::Module&) = nullptr;
    /// copies_into: the argument whose codes are copied into those of the first one. Where the first one comes from a
    /// QuantStub, the quantizer of this argument decides the grid of both.
    int source = -1;
    /// The role in torch mode, where PyTorch places observers differently.
    std::optional<Role> torch_role{};
    /// weighted: the layer with a weight quantizer.
    std::shared_ptr<nn::Weighted> (*prepare)(const nn::Weighted&, std::shared_ptr<FakeQuantize> weight,
                                             const arith::PolicyRecord&) = nullptr;
    /// weighted, of a module that is not an nn::Weighted: the layer that computes the same in evaluation and takes the
    /// module's place. The mode says whether it is the same in training, too.
    std::shared_ptr<nn::Weighted> (*as_layer)(const nn::Module&, QATMode) = nullptr;
    /// weighted: it has no integer form. It trains quantized, and a HybridModel computes it in float between its codes.
    bool on_host = false;
    /// In float, and in evaluation; not asked for layers with weights.
    ChannelFactors channel_factors = ChannelFactors::lost;
};

/// For keeps_scale: on every target.
bool keeps_scale_always(const arith::PolicyRecord&);

/// A step whose reference is the float operator of the model.
class FloatBackedStep : public Step {
public:
    explicit FloatBackedStep(FloatCall call);
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
    const FloatCall& call() const noexcept { return call_; }

private:
    FloatCall call_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <utility>

#    include "intq/quantization/operators/reference.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE int StepRequest::axis(int given) const {
    const int rank = inputs.at(0)->shape.rank, result = given < 0 ? given + rank : given;
    if (result < 0 || result >= rank)
        throw error("axis " + std::to_string(given) + " does not exist in rank " + std::to_string(rank));
    return result;
}

INTQ_INLINE std::optional<int> StepRequest::known_axis(int given) const {
    if (inputs.at(0)->shape.rank != 0) return axis(given);
    return given >= 0 ? std::optional(given) : std::nullopt;
}

INTQ_INLINE bool keeps_scale_always(const arith::PolicyRecord&) { return true; }

INTQ_INLINE FloatBackedStep::FloatBackedStep(FloatCall call) : call_(std::move(call)) {}

INTQ_INLINE void FloatBackedStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    graph::Node& value = reference.call(node, call_);
    if (reference.quantized().output(node).dtype == DType::int32)
        reference.set_real(node, value);
    else
        reference.quantize_output(node, value);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_OPERATOR_HPP
