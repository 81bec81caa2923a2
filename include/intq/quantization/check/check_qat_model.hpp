// SPDX-License-Identifier: MIT
//
// check_qat_model: properties of a prepared model that its author probably does not want. Layer: quantization
// (docs/workflow.md section 6).
#ifndef INTQ_QUANTIZATION_CHECK_CHECK_QAT_MODEL_HPP
#define INTQ_QUANTIZATION_CHECK_CHECK_QAT_MODEL_HPP

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A module of a model; a function has the name of its node.
struct CheckedModule {
    std::string name;
    std::string type;
};

/// How often a model calls one of its modules: 0 if it is unused, above 1 if it is shared.
struct ModuleCalls {
    std::string name;
    std::size_t count = 0;
};

/// The quantizer of an operator's output.
struct OutputQConfig {
    std::string name, type;
    std::vector<std::string> input_dtypes;  // "qint8", "qint16", "qint32" (an accumulator), "float32"
    std::string dtype;
    std::string ch_axis;   // -1 per tensor; "qconfig = None" without a quantizer
    std::string observer;  // "" without one
};

/// The quantizer of a layer's weight.
struct WeightQConfig {
    std::string name, type;
    std::string dtype;
    int ch_axis = -1;
    std::string observer;
};

struct UnusualQConfig {
    std::string name, type;
    std::string message;
};

/// The findings of check_qat_model().
struct ModelCheck {
    std::vector<std::vector<CheckedModule>> fusable;  // groups that could be fused; "(shared)" behind a shared module
    std::vector<ModuleCalls> calls;
    std::vector<OutputQConfig> outputs;
    std::vector<WeightQConfig> weights;
    std::vector<UnusualQConfig> unusual;
};

/// Checks the structure and the quantizers of a model from prepare_calibration(_fx) or prepare_qat(_fx). It reports
/// operators that could be fused and were not, how often each module is called, the quantizers of outputs and weights,
/// and configurations that are seldom meant. These are: no activation quantizer, a fixed scale, a weight that is not
/// int8, mixed types, a layer before a DeQuantStub without output of high precision, a depthwise convolution per
/// tensor, channels that are dead or far above the others, a relu in front of an add, and a batch norm that is frozen
/// in training because no layer takes it.
///
/// The model is not changed. Each finding may be intended; the reader decides.
///
/// @param example_inputs  optional; a copy of the model is run on them, so anything that a run refuses is refused here
/// @throws Error for a model without quantizers, and for one that cannot be traced
ModelCheck inspect_qat_model(nn::Module& model, std::span<const Tensor> example_inputs = {});

/// The same; prints the result on standard output.
///
/// @param save_results  also writes it to `model_check_result.txt`
/// @param out_dir       the folder of that file, made if missing; empty: the current one
ModelCheck check_qat_model(nn::Module& model, std::span<const Tensor> example_inputs = {}, bool save_results = false,
                           const std::filesystem::path& out_dir = {});

/// The five parts as Horizon's tool prints them.
std::string to_string(const ModelCheck& check);

/// "qint8" for int8: Horizon's name for a type of codes; float32 keeps its name.
std::string quantized_name(DType dtype);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_check)

#    include <algorithm>
#    include <cstdio>
#    include <map>
#    include <memory>
#    include <utility>

#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/graph/tracer.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"
#    include "intq/io/text_table.hpp"
#    include "intq/nn/layers/fusion.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/quantization/check/internal/unfused.hpp"
#    include "intq/quantization/check/internal/unusual.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string quantized_name(DType dtype) {
    return dtype == DType::float32 ? name_of(dtype) : std::string("q") + name_of(dtype);
}

namespace detail {

class ModelChecker {
public:
    ModelChecker(graph::GraphModule& model, bool fused_add) : model_(model), edges_(model), fused_add_(fused_add) {}

    ModelCheck run() {
        count_calls();
        for (const UnfusedGroup& group : find_unfused(model_, fused_add_)) add_group(group);
        for (const graph::Node* node : model_.graph().nodes())
            if (edges_.is_operator(*node)) add_operator(*node);
        return std::move(check_);
    }

private:
    void count_calls() {
        for (const graph::Node* node : model_.graph().nodes())
            if (const nn::Module* module = graph::module_of(*node, model_)) ++counts_[module];
        std::vector<const nn::Module*> seen;
        collect_leaves(model_, "", seen);
    }

    // The modules below a leaf are the leaf's own affair.
    void collect_leaves(const nn::Module& module, const std::string& name, std::vector<const nn::Module*>& seen) {
        if (std::find(seen.begin(), seen.end(), &module) != seen.end()) return;
        seen.push_back(&module);
        const bool is_called = counts_.count(&module) != 0;
        const bool is_left_by_fusion = dynamic_cast<const nn::Identity*>(&module) != nullptr && !is_called;
        if (dynamic_cast<const Quantizer*>(&module) != nullptr || is_left_by_fusion) return;
        if (is_called || (module.is_leaf() && !name.empty())) {
            check_.calls.push_back({name, is_called ? counts_.at(&module) : 0});
            return;
        }
        for (const auto& child : module.children()) collect_leaves(*child.value, nn::join_path(name, child.name), seen);
    }

    std::size_t calls_of(const graph::Node& node) const {
        const nn::Module* module = graph::module_of(node, model_);
        return module == nullptr ? 1 : counts_.at(module);
    }

    std::string name_of_node(const graph::Node& node) const {
        return node.op() == graph::Op::call_module ? node.target() : node.name();
    }

    void add_group(const UnfusedGroup& group) {
        std::vector<CheckedModule> modules;
        for (const graph::Node* node : group)
            modules.push_back(
                {name_of_node(*node) + (calls_of(*node) > 1 ? "(shared)" : ""), graph::type_of(*node, model_)});
        check_.fusable.push_back(std::move(modules));
    }

    // "skip[add]" for a method, "relu(1)" for the second call.
    std::string name_of_call(const graph::Node& node) {
        std::string name = name_of_node(node);
        if (node.op() != graph::Op::call_module) return name;
        if (node.method() != "forward") name += "[" + node.method() + "]";
        const std::size_t call = repeated_[name]++;
        return call == 0 ? name : name + "(" + std::to_string(call) + ")";
    }

    void add_operator(const graph::Node& node) {
        const std::string name = name_of_call(node), type = graph::type_of(node, model_);
        OutputQConfig row{name, type, {}, quantized_name(edges_.dtype_behind(node)), "qconfig = None", ""};
        for (const graph::Node* input : node.operands())
            row.input_dtypes.push_back(quantized_name(edges_.dtype_of(*input)));
        if (const Quantizer* quantizer = edges_.output_quantizer(node)) {
            const FakeQuantize* const own = observing_quantizer(quantizer);
            row.ch_axis = std::to_string(own == nullptr ? -1 : own->channel_axis());
            row.observer = own == nullptr ? "" : own->observer().type_name();
        }
        check_.outputs.push_back(std::move(row));
        if (const auto* layer = dynamic_cast<const PreparedWeight*>(graph::module_of(node, model_))) {
            const FakeQuantize& weight = layer->weight_fake_quant();
            check_.weights.push_back(
                {name, type, quantized_name(weight.dtype()), weight.channel_axis(), weight.observer().type_name()});
        }
        for (std::string& message : unusual_of(node, edges_))
            check_.unusual.push_back({name, type, std::move(message)});
    }

    graph::GraphModule& model_;
    PreparedEdges edges_;
    bool fused_add_;
    ModelCheck check_;
    std::map<const nn::Module*, std::size_t> counts_;
    std::map<std::string, std::size_t> repeated_;
};

/// The graph of a prepared model, whose modules it shares.
INTQ_INLINE std::shared_ptr<graph::GraphModule> prepared_graph(nn::Module& model) {
    const auto modules = model.named_modules();
    const bool is_prepared = std::any_of(modules.begin(), modules.end(), [](const auto& module) {
        return dynamic_cast<const Quantizer*>(module.value) != nullptr;
    });
    if (!is_prepared)
        throw Error(
            "check_qat_model: the model has no quantizers; check what prepare_calibration(_fx) or "
            "prepare_qat(_fx) made");
    if (auto* traced = dynamic_cast<graph::GraphModule*>(&model)) return std::make_shared<graph::GraphModule>(*traced);
    return graph::symbolic_trace(model);
}

INTQ_INLINE void run_example(const nn::Module& model, std::span<const Tensor> example_inputs) {
    const nn::ModulePtr copy = nn::clone(model);
    copy->eval();
    set_fake_quantize(*copy, FakeQuantState::float_);
    const std::vector<nn::Value> values(example_inputs.begin(), example_inputs.end());
    try {
        copy->dispatch("forward", values);
    } catch (const Error& error) {
        throw Error("check_qat_model: example_inputs", error.what());
    }
}

}  // namespace detail

INTQ_INLINE ModelCheck inspect_qat_model(nn::Module& model, std::span<const Tensor> example_inputs) {
    const auto traced = detail::prepared_graph(model);
    if (!example_inputs.empty()) detail::run_example(model, example_inputs);
    const auto* target = model.attribute<arith::PolicyRecord>("prepared_target");
    return detail::ModelChecker(*traced, target == nullptr || target->fused_add).run();
}

INTQ_INLINE ModelCheck check_qat_model(nn::Module& model, std::span<const Tensor> example_inputs, bool save_results,
                                       const std::filesystem::path& out_dir) {
    ModelCheck check = inspect_qat_model(model, example_inputs);
    const std::string text = to_string(check);
    if (save_results) {
        io::make_folder(out_dir);
        io::write_file(out_dir / "model_check_result.txt", text);
    }
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    return check;
}

namespace detail {

INTQ_INLINE std::string list_of(const std::vector<std::string>& dtypes) {
    std::string text;
    for (const std::string& dtype : dtypes) text += (text.empty() ? "" : ", ") + dtype;
    return "[" + text + "]";
}

INTQ_INLINE std::string text_of_groups(const ModelCheck& check) {
    if (check.fusable.empty()) return "All fusable modules are fused in model!\n";
    std::string text = "Fusable modules are listed below:\n";
    for (const auto& group : check.fusable) {
        io::TextTable table({{"name"}, {"type"}});
        for (const CheckedModule& module : group) table.add_row({module.name, module.type});
        text += table.str(io::TableStyle::simple) + "\n";
    }
    return text;
}

INTQ_INLINE std::string text_of_calls(const ModelCheck& check) {
    const bool all_once = std::all_of(check.calls.begin(), check.calls.end(),
                                      [](const ModuleCalls& module) { return module.count == 1; });
    if (all_once) return "All modules in the model run exactly once.\n";
    io::TextTable table({{"name"}, {"called times", io::Align::right}});
    for (const ModuleCalls& module : check.calls) table.add_row({module.name, std::to_string(module.count)});
    return "Each module called times:\n" + table.str(io::TableStyle::simple);
}

}  // namespace detail

INTQ_INLINE std::string to_string(const ModelCheck& check) {
    io::TextTable outputs(
        {{"Module Name"}, {"Module Type"}, {"Input dtype"}, {"out dtype"}, {"ch_axis"}, {"observer"}});
    for (const OutputQConfig& row : check.outputs)
        outputs.add_row({row.name, row.type, detail::list_of(row.input_dtypes), detail::list_of({row.dtype}),
                         row.ch_axis, row.observer});
    io::TextTable weights(
        {{"Module Name"}, {"Module Type"}, {"weight dtype"}, {"ch_axis", io::Align::right}, {"observer"}});
    for (const WeightQConfig& row : check.weights)
        weights.add_row({row.name, row.type, row.dtype, std::to_string(row.ch_axis), row.observer});
    std::string text = detail::text_of_groups(check) + "\n" + detail::text_of_calls(check) +
                       "\nEach layer out qconfig:\n" + outputs.str() + "\nWeight qconfig:\n" + weights.str();
    if (check.unusual.empty()) return text;
    io::TextTable unusual({{"Module Name"}, {"Module Type"}, {"Msg"}});
    for (const UnusualQConfig& row : check.unusual) unusual.add_row({row.name, row.type, row.message});
    return text + "\nPlease check if these OPs qconfigs are expected..\n" + unusual.str();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_check)
#endif  // INTQ_QUANTIZATION_CHECK_CHECK_QAT_MODEL_HPP
