// SPDX-License-Identifier: MIT
//
// One call of one module as a separate graph: lets modules prepared one by one be checked and converted like a graph.
// Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_SINGLE_CALL_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_SINGLE_CALL_HPP

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/graph/graph.hpp"
#include "intq/nn/model/container.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/fake_quantize/grid_choice.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// A graph that calls one method of one module, for queries of the operators' rows.
struct SingleCall {
    nn::ModuleDict root;
    graph::Graph graph;
    graph::Node* node = nullptr;

    SingleCall(const nn::ModulePtr& module, const std::string& method);
    const QuantizedOperator& row();
};

/// The quantizer behind a module that has its own grid; null if there is none.
FakeQuantize* output_quantizer(const nn::Module& module);

/// The quantizer behind a module that may keep the grid of its input; null if there is none.
GridChoiceFakeQuantize* grid_choice_of(const nn::Module& module);

/// The parts of a value that are not tensors, as text to compare.
void collect_constants(const nn::Value& value, std::vector<std::string>& out);

/// Whether all tensors carry the grid of codes, as codes or as real values.
bool carry_grids(const std::vector<Tensor>& operands);

/// A prepared graph of one call: quantizers of the operands' grids, the call, and the quantizer behind it.
class SingleCallGraph {
public:
    /// @param layer  prepared; the graph has a clone of it
    /// @throws Error that names no place, for a call without an integer form
    SingleCallGraph(const nn::Module& layer, const std::string& method, nn::Arguments arguments,
                    const std::vector<Tensor>& operands, const arith::PolicyRecord& target);

    /// The graph, with the shapes of its values; to be called once.
    std::shared_ptr<PreparedModel> prepared();
    /// Whether the quantizer behind the call has seen nothing.
    bool lacks_data() const noexcept { return lacks_data_; }
    /// The node of the call; of a relu behind it.
    const std::string& node() const noexcept { return quantized_.back(); }
    const std::string& call_node() const noexcept { return quantized_.front(); }

private:
    graph::Argument argument_of(const nn::Value& value);
    std::shared_ptr<Quantizer> quantizer_behind(const nn::Module& layer, const QuantizedOperator& row);

    const arith::PolicyRecord& target_;
    std::vector<Tensor> zeros_{};  // of the operands' shapes
    nn::ModuleDict root_;
    graph::Graph graph_;
    std::vector<graph::Node*> quantizers_{};
    std::vector<std::string> quantized_{};
    std::size_t next_ = 0;
    bool lacks_data_ = false;
};

/// Throws for a call on codes that convert, lower or a run would refuse; names no place.
void check_call(const nn::Module& layer, const std::string& method, nn::Arguments arguments,
                const std::vector<Tensor>& operands, const arith::PolicyRecord& target);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <utility>

#    include "intq/graph/graph_module.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/unary.hpp"
#    include "intq/quantization/operators/internal/constant_operand.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/quantization/prepare/internal/check_lowering.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE SingleCall::SingleCall(const nn::ModulePtr& module, const std::string& method) {
    root.add_child("layer", module);
    node = &graph.call_module("layer", {graph.placeholder("x")}, method);
}

INTQ_INLINE const QuantizedOperator& SingleCall::row() { return quantized_operator(*node, root); }

INTQ_INLINE FakeQuantize* output_quantizer(const nn::Module& module) {
    return module.has_child("activation_post_process")
               ? dynamic_cast<FakeQuantize*>(module.child("activation_post_process").get())
               : nullptr;
}

INTQ_INLINE GridChoiceFakeQuantize* grid_choice_of(const nn::Module& module) {
    return module.has_child("input_grid") ? dynamic_cast<GridChoiceFakeQuantize*>(module.child("input_grid").get())
                                          : nullptr;
}

INTQ_INLINE void collect_constants(const nn::Value& value, std::vector<std::string>& out) {
    if (value.is_tuple())
        for (const nn::Value& item : value.tuple()) collect_constants(item, out);
    if (value.is_number()) out.push_back(std::to_string(value.number()));
    if (value.is_bool()) out.push_back(value.boolean() ? "true" : "false");
    if (value.is_text()) out.push_back(value.text());
}

INTQ_INLINE bool carry_grids(const std::vector<Tensor>& operands) {
    return !operands.empty() && std::all_of(operands.begin(), operands.end(),
                                            [](const Tensor& operand) { return operand.qparams().has_value(); });
}

INTQ_INLINE std::shared_ptr<FakeQuantize> fixed_quantizer(const OwnedQParams& qparams, arith::QuantScheme scheme,
                                                          const arith::QuantizeRule& rule) {
    FakeQuantizeOptions options;
    options.rule = rule;
    options.observer_options.dtype = qparams.dtype;
    options.observer_options.quant_min = qparams.quant_min;
    options.observer_options.quant_max = qparams.quant_max;
    options.observer_options.scheme = scheme;
    auto quantizer = std::make_shared<FakeQuantize>(options);
    quantizer->adopt(qparams);
    quantizer->enable_observer(false);
    return quantizer;
}

INTQ_INLINE SingleCallGraph::SingleCallGraph(const nn::Module& layer, const std::string& method,
                                             nn::Arguments arguments, const std::vector<Tensor>& operands,
                                             const arith::PolicyRecord& target)
    : target_(target) {
    const nn::ModulePtr own = nn::clone(layer);
    own->set_attribute("prepared_place", {});  // its calls are checked here
    root_.add_child("layer", own);
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const std::string name = "input_" + std::to_string(i);
        const OwnedQParams& grid = *operands[i].qparams();
        const auto scheme = grid.zero_points.empty() ? arith::QuantScheme::symmetric : arith::QuantScheme::affine;
        root_.add_child(name, fixed_quantizer(grid, scheme, target.quantize));
        quantizers_.push_back(&graph_.call_module(name, {graph_.placeholder("x_" + std::to_string(i))}));
        zeros_.push_back(Tensor::zeros(operands[i].shape()));
    }
    graph::ArgumentList list;
    for (const nn::Value& value : arguments.values()) list.push_back(argument_of(value));
    const bool adds_relu = method == "add_relu";
    graph::Node& call = graph_.call_module("layer", std::move(list), adds_relu ? "add" : method);
    graph::Node* last = adds_relu ? &graph_.call_function(nn::relu_function, {call}) : &call;
    quantized_ = {call.name(), last->name()};
    const QuantizedOperator& row = quantized_operator(call, root_);
    const bool has_constant = row.operands == 2 && constant_operand(call).has_value();
    if (operands.size() + (has_constant ? 1 : 0) < static_cast<std::size_t>(row.operands))
        throw Error("a constant operand has no integer form");
    if (row.role == Role::float_only) throw Error("it has no integer form");
    if (const std::shared_ptr<Quantizer> output = quantizer_behind(*own, row)) {
        root_.add_child("output", output);
        last = &graph_.call_module("output", {*last});
    }
    graph_.output(*last);
    root_.eval();
}

INTQ_INLINE std::shared_ptr<Quantizer> SingleCallGraph::quantizer_behind(const nn::Module& layer,
                                                                         const QuantizedOperator& row) {
    if (row.keeps_scale != nullptr && row.keeps_scale(target_)) {
        if (const GridChoiceFakeQuantize* const choice = grid_choice_of(layer);
            choice != nullptr && !choice->is_kept() && choice->has_qparams())
            return fixed_quantizer(choice->qparams(), choice->own().observer().options().scheme, target_.quantize);
        return std::make_shared<FollowingFakeQuantize>(std::static_pointer_cast<Quantizer>(root_.child("input_0")));
    }
    const FakeQuantize* quantizer = output_quantizer(layer);
    if (quantizer == nullptr) return nullptr;
    lacks_data_ = !quantizer->has_qparams();  // the scale is 1 then
    return fixed_quantizer(quantizer->qparams(), quantizer->observer().options().scheme, target_.quantize);
}

INTQ_INLINE graph::Argument SingleCallGraph::argument_of(const nn::Value& value) {
    if (value.is_tensor()) return *quantizers_.at(next_++);
    if (value.is_integer()) return value.integer();
    if (value.is_number()) return value.number();
    if (value.is_bool()) return value.boolean();
    if (value.is_text()) return value.text();
    if (!value.is_tuple()) return {};
    graph::ArgumentList list;
    for (const nn::Value& item : value.tuple()) list.push_back(argument_of(item));
    return list;
}

INTQ_INLINE std::shared_ptr<PreparedModel> SingleCallGraph::prepared() {
    auto model =
        std::make_shared<PreparedModel>(graph::GraphModule(root_, std::move(graph_)), target_, PrepareOptions{});
    for (const std::string& name : quantized_) model->mark_quantized(*model->graph().find(name));
    model->propagate_shapes(zeros_);
    return model;
}

INTQ_INLINE void check_call(const nn::Module& layer, const std::string& method, nn::Arguments arguments,
                            const std::vector<Tensor>& operands, const arith::PolicyRecord& target) {
    SingleCallGraph single(layer, method, arguments, operands, target);
    std::shared_ptr<PreparedModel> model;
    try {
        model = single.prepared();
    } catch (const Error&) {
        return;  // the call itself refuses such arguments
    }
    model->train(layer.training());
    check_lowering(
        *model, target, [&](const graph::Node& node) { return model->is_quantized(node); },
        [](const graph::Node&) { return std::string(); });
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_SINGLE_CALL_HPP
