// SPDX-License-Identifier: MIT
//
// QuantizedModel: a converted model as a module. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_CONVERT_QUANTIZED_MODEL_HPP
#define INTQ_QUANTIZATION_CONVERT_QUANTIZED_MODEL_HPP

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "intq/core/shape.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A converted model that takes and returns real values, whether it runs as one program, or as programs and host steps
/// in turns.
///
/// It is a leaf, so it may be in a slot of a float model, whose trace has one node for it. It computes on the executor
/// of the thread that calls it. It has the properties of the model that was converted, and neither parameters nor
/// buffers: save the state of the prepared model, and convert that again. It has no gradient.
///
///     const auto quantized = convert_fx(*prepared, table);
///     float_model->replace_child("backbone", quantized);
///
/// The tools accept it directly: QuantAnalysis, ModelProfiler, the numeric suites and export_to_onnx().
///
/// Any number of threads may call one object, if the custom modules of a hybrid model allow it. Copies and clones share
/// the programs.
///
/// Memory   the programs, and the steps that they were made of
class QuantizedModel : public nn::Cloneable<QuantizedModel> {
public:
    /// A program where it can be one, else a HybridModel.
    ///
    /// @param table      kernels of the target that the model was converted for
    /// @param max_batch  samples that one run of a program holds; a call may have any number
    /// @throws Error as lower() does
    QuantizedModel(const QuantizedGraph& quantized, const kernels::KernelTable& table, index_t max_batch = 1);
    /// From only a program, without the steps that it was made from.
    explicit QuantizedModel(const LoweredModel& lowered);
    explicit QuantizedModel(const HybridModel& hybrid);

    std::string type_name() const override { return "QuantizedModel"; }
    bool is_leaf() const override { return true; }
    std::vector<std::string> input_names() const override { return input_names_; }
    int output_count() const override { return static_cast<int>(outputs_); }
    /// One tensor, or a tuple where the model has several outputs.
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

    /// The steps that it was made from; null if it was made from only a LoweredModel.
    const std::shared_ptr<const QuantizedGraph>& quantized() const noexcept { return quantized_; }
    /// The form that runs; null if it is the other one.
    const LoweredModel* lowered() const noexcept { return std::get_if<LoweredModel>(runs_.get()); }
    const HybridModel* hybrid() const noexcept { return std::get_if<HybridModel>(runs_.get()); }

private:
    using Runs = std::variant<LoweredModel, HybridModel>;

    void take_names(const QuantizedGraph& quantized);

    std::shared_ptr<const Runs> runs_;
    std::shared_ptr<const QuantizedGraph> quantized_;
    std::vector<std::string> input_names_;
    std::size_t outputs_ = 1;
};

/// convert_fx() to a module, like the documents' convert_fx.
///
/// @param table  kernels of the target that the model was prepared for
std::shared_ptr<QuantizedModel> convert_fx(PreparedModel& prepared, const kernels::KernelTable& table,
                                           const ConvertCustomConfig& config = {}, index_t max_batch = 1);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <algorithm>

#    include "intq/io/error.hpp"
#    include "intq/quantization/convert/convert_custom.hpp"
#    include "intq/quantization/convert/exact_simulation.hpp"
#    include "intq/tensor/current_executor.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QuantizedModel::QuantizedModel(const QuantizedGraph& quantized, const kernels::KernelTable& table,
                                           index_t max_batch) {
    const bool on_host = std::any_of(quantized.nodes.begin(), quantized.nodes.end(),
                                     [&](const QuantizedNode& node) { return runs_on_host(quantized, node); });
    runs_ = on_host ? std::make_shared<const Runs>(HybridModel(quantized, table, max_batch))
                    : std::make_shared<const Runs>(lower(quantized, table, max_batch));
    quantized_ = on_host ? std::shared_ptr<const QuantizedGraph>(runs_, &hybrid()->quantized())
                         : std::make_shared<const QuantizedGraph>(quantized);
    take_names(quantized);
}

INTQ_INLINE QuantizedModel::QuantizedModel(const HybridModel& hybrid) : runs_(std::make_shared<const Runs>(hybrid)) {
    quantized_ = std::shared_ptr<const QuantizedGraph>(runs_, &this->hybrid()->quantized());
    take_names(hybrid.quantized());
}

INTQ_INLINE QuantizedModel::QuantizedModel(const LoweredModel& lowered)
    : runs_(std::make_shared<const Runs>(lowered)),
      outputs_(lowered.tail() != nullptr ? 1 : lowered.program().program().outputs.size()) {
    const std::size_t inputs = lowered.program().program().inputs.size();
    for (std::size_t i = 0; i < inputs; ++i) input_names_.push_back(inputs == 1 ? "x" : "x_" + std::to_string(i));
    eval();
}

INTQ_INLINE void QuantizedModel::take_names(const QuantizedGraph& quantized) {
    for (const int input : quantized.inputs) input_names_.push_back(quantized.tensor(input).name);
    outputs_ = quantized.outputs.size();
    for (const auto& property : quantized.properties) set_property(property.name, property.value);
    eval();
}

INTQ_INLINE nn::Value QuantizedModel::forward(nn::Arguments arguments) {
    if (arguments.size() != input_names_.size())
        throw Error("QuantizedModel: the model takes " + std::to_string(input_names_.size()) + " inputs, given " +
                    std::to_string(arguments.size()));
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < arguments.size(); ++i) inputs.push_back(arguments.tensor(i).contiguous());
    const std::vector<Tensor> outputs =
        std::visit([&](const auto& model) { return model.run(inputs, current_executor()); }, *runs_);
    if (outputs.size() == 1) return outputs[0];
    return nn::Value::Tuple(outputs.begin(), outputs.end());
}

INTQ_INLINE std::shared_ptr<QuantizedModel> convert_fx(PreparedModel& prepared, const kernels::KernelTable& table,
                                                       const ConvertCustomConfig& config, index_t max_batch) {
    return std::make_shared<QuantizedModel>(convert_fx(prepared, config), table, max_batch);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_QUANTIZED_MODEL_HPP
