// SPDX-License-Identifier: MIT
//
// QuantizedModule: a module that computes on codes, each call by the kernels of a program. Layer: quantization.
#ifndef INTQ_QUANTIZATION_CONVERT_QUANTIZED_MODULE_HPP
#define INTQ_QUANTIZATION_CONVERT_QUANTIZED_MODULE_HPP

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/core/shape.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Takes and returns codes that carry their qparams. A program is made at the first call with new qparams or shapes,
/// and kept. A module that keeps the scale of its input computes real values in float.
///
/// A call changes the object: each thread needs a clone.
class QuantizedModule : public nn::Cloneable<QuantizedModule> {
public:
    /// @param prepared  the module from prepare_calibration(), calibrated; it is not changed
    /// @param name      the module's qualified name, for messages
    QuantizedModule(const nn::Module& prepared, const arith::PolicyRecord& target, const kernels::KernelTable& table,
                    std::string name);

    /// "QuantizedConvReLU2d": PyTorch's name.
    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    INTQ_INLINE nn::Value invoke(std::string_view method, nn::Arguments arguments) override;
    const kernels::KernelTable& table() const noexcept { return *table_; }

    /// The grid of the codes that the last call returned.
    ///
    /// @throws Error before the first call
    const OwnedQParams& output_qparams() const { return last().output; }
    /// The grid of the weight's codes in the program of the last call.
    ///
    /// @throws Error before the first call, and for a module without a weight
    const OwnedQParams& weight_qparams() const;

    bool has_weight() const;
    /// The codes of the weight in the shape of the float layer's, with their grid from the last call. Before any call
    /// the grid is the weight quantizer's, whose scale a call may raise.
    ///
    /// @throws Error for a module without a weight
    Tensor weight_codes() const;
    /// Real numbers; undefined for a module without a weight, and for a layer without a bias.
    Tensor bias() const;
    /// output_qparams(), or before any call the grid of the output's quantizer, if there is one.
    std::optional<OwnedQParams> known_output_qparams() const;

private:
    /// A program for one method and the form of its operands; without a program the codes pass unchanged.
    struct Compiled {
        std::string method;
        std::vector<Shape> shapes;  // with a batch of 1
        std::vector<OwnedQParams> qparams;
        std::vector<std::string> constants;
        std::shared_ptr<program::OwnedProgram> program;
        OwnedQParams output;
        std::optional<OwnedQParams> weight;
    };
    /// Programs are not copied: they hold the memory that they run in.
    struct Programs {
        std::vector<std::shared_ptr<const Compiled>> all{};
        const Compiled* last = nullptr;  // of the last call
        Programs() = default;
        Programs(const Programs&) noexcept {}
        Programs& operator=(const Programs&) noexcept { return *this; }
    };
    const Compiled& compiled(const std::string& method, nn::Arguments arguments, const std::vector<Tensor>& operands);
    Compiled compile(const std::string& method, nn::Arguments arguments, const std::vector<Tensor>& operands) const;
    const Compiled& last() const;

    nn::ModulePtr prepared_;
    std::string plain_type_, name_;
    arith::PolicyRecord target_;
    const kernels::KernelTable* table_;
    Programs programs_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <algorithm>
#    include <cstddef>
#    include <utility>

#    include "intq/graph/node.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/value.hpp"
#    include "intq/quantization/convert/convert_fx.hpp"
#    include "intq/quantization/convert/exact_simulation.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/prepare/internal/check_lowering.hpp"
#    include "intq/quantization/prepare/internal/prepared_call.hpp"
#    include "intq/quantization/prepare/internal/single_call.hpp"
#    include "intq/quantization/prepare/prepared_model.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string QuantizedModule::type_name() const { return "Quantized" + plain_type_; }

INTQ_INLINE nn::Value QuantizedModule::forward(nn::Arguments arguments) { return invoke("forward", arguments); }

INTQ_INLINE QuantizedModule::QuantizedModule(const nn::Module& prepared, const arith::PolicyRecord& target,
                                             const kernels::KernelTable& table, std::string name)
    : prepared_(nn::clone(prepared)),
      plain_type_(prepared.type_name()),
      name_(std::move(name)),
      target_(target),
      table_(&table) {
    if (plain_type_.rfind("qat.", 0) == 0) plain_type_ = plain_type_.substr(4);
    prepared_->set_attribute(detail::prepared_place, {});  // its calls are checked here
    const Quantizer* const quantizer = detail::output_quantizer(*prepared_);
    // For a FloatFunctional with methods on the grid of their input, the run says whether it needs its own grid.
    if (quantizer != nullptr && !quantizer->has_qparams() && !prepared_->has_child("input_grid"))
        throw Error("convert: " + name_, "no data was seen by its quantizer; run the prepared model on data first");
    set_fake_quantize(*prepared_, FakeQuantState::validation);
    prepared_->eval();
}

INTQ_INLINE QuantizedModule::Compiled QuantizedModule::compile(const std::string& method, nn::Arguments arguments,
                                                               const std::vector<Tensor>& operands) const {
    detail::SingleCallGraph single(*prepared_, method, arguments, operands, target_);
    if (single.lacks_data()) throw Error("no data was seen by its quantizer; run the prepared model on data first");
    const std::shared_ptr<PreparedModel> model = single.prepared();
    detail::check_lowering(
        *model, target_, [&](const graph::Node& node) { return model->is_quantized(node); },
        [](const graph::Node&) { return std::string(); });
    const QuantizedGraph quantized = convert_fx(*model);
    Compiled result;
    for (const QuantizedNode& node : quantized.nodes)
        if (node.name == single.node() || node.name == single.call_node()) {
            result.program = lower_step(quantized, node, *table_, std::max<index_t>(1, operands[0].extent(0)));
            result.output = quantized.output(node).qparams;
            if (const auto* weighted = node.as<WeightedStep>()) result.weight = weighted->weight_qparams;
        }
    if (result.program == nullptr) throw Error("it has no integer form");
    return result;
}

INTQ_INLINE const QuantizedModule::Compiled& QuantizedModule::compiled(const std::string& method,
                                                                       nn::Arguments arguments,
                                                                       const std::vector<Tensor>& operands) {
    auto wanted = std::make_shared<Compiled>();
    wanted->method = method;
    for (const Tensor& operand : operands) {
        wanted->shapes.push_back(operand.shape());
        if (operand.rank() > 0) wanted->shapes.back()[0] = 1;
        wanted->qparams.push_back(*operand.qparams());
    }
    for (const nn::Value& value : arguments.values()) detail::collect_constants(value, wanted->constants);
    for (const auto& known : programs_.all)
        if (known->method == wanted->method && known->shapes == wanted->shapes && known->qparams == wanted->qparams &&
            known->constants == wanted->constants)
            return *known;
    Compiled made = compile(method, arguments, operands);
    wanted->program = std::move(made.program);
    wanted->output = std::move(made.output);
    wanted->weight = std::move(made.weight);
    programs_.all.push_back(std::move(wanted));
    return *programs_.all.back();
}

INTQ_INLINE const QuantizedModule::Compiled& QuantizedModule::last() const {
    if (programs_.last == nullptr) throw Error(name_ + " (" + type_name() + ")", "it was not called yet");
    return *programs_.last;
}

INTQ_INLINE const OwnedQParams& QuantizedModule::weight_qparams() const {
    if (!last().weight) throw Error(name_ + " (" + type_name() + ")", "it has no weight");
    return *last().weight;
}

INTQ_INLINE bool QuantizedModule::has_weight() const {
    return dynamic_cast<const PreparedWeight*>(prepared_.get()) != nullptr;
}

INTQ_INLINE Tensor QuantizedModule::weight_codes() const {
    const auto* prepared = dynamic_cast<const PreparedWeight*>(prepared_.get());
    if (prepared == nullptr) throw Error(name_ + " (" + type_name() + ")", "it has no weight");
    DeployedWeight deployed = prepared->deployed(prepared->weight_qparams());
    // A transposed convolution counts its channels on a different axis than its program.
    const bool was_called = programs_.last != nullptr && programs_.last->weight;
    if (was_called && programs_.last->weight->scales.size() == deployed.qparams.scales.size())
        deployed.qparams.scales = programs_.last->weight->scales;
    return quantize(deployed.weight, deployed.qparams, target_.quantize);
}

INTQ_INLINE Tensor QuantizedModule::bias() const {
    const auto* prepared = dynamic_cast<const PreparedWeight*>(prepared_.get());
    return prepared == nullptr ? Tensor() : prepared->deployed(prepared->weight_qparams()).bias;
}

INTQ_INLINE std::optional<OwnedQParams> QuantizedModule::known_output_qparams() const {
    if (programs_.last != nullptr) return programs_.last->output;
    const Quantizer* const quantizer = detail::output_quantizer(*prepared_);
    if (quantizer == nullptr || !quantizer->has_qparams()) return std::nullopt;
    return quantizer->qparams();
}

INTQ_INLINE nn::Value QuantizedModule::invoke(std::string_view method, nn::Arguments arguments) {
    std::vector<Tensor> operands;
    for (const nn::Value& value : arguments.values())
        for (const Tensor& operand : nn::tensors_of(value)) operands.push_back(operand);
    const bool takes_codes = std::all_of(operands.begin(), operands.end(), [](const Tensor& operand) {
        return operand.dtype() != DType::float32 && operand.qparams();
    });
    const auto where = [&] { return detail::name_of_call(name_, type_name(), method); };
    if (operands.empty() || !takes_codes) {
        const bool keeps_scale = detail::output_quantizer(*prepared_) == nullptr &&
                                 dynamic_cast<const PreparedWeight*>(prepared_.get()) == nullptr;
        if (keeps_scale && !operands.empty()) return prepared_->dispatch(method, arguments.values());
        throw Error(where(), "it takes codes, given real values: put a QuantStub before it, or give it no qconfig");
    }
    try {
        const Compiled& call = compiled(std::string(method), arguments, operands);
        programs_.last = &call;
        Tensor result = call.program->run(operands)[0];
        result.set_qparams(call.output);
        return result;
    } catch (const Error& error) {
        throw Error(where(), error);
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_QUANTIZED_MODULE_HPP
