// SPDX-License-Identifier: MIT
//
// A model's quantization as a recipe that can be changed and run again, and one such change. Layer: analysis
// (docs/debugging.md).
#ifndef INTQ_ANALYSIS_CAUSES_REPAIR_HPP
#define INTQ_ANALYSIS_CAUSES_REPAIR_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// Everything that decides how a float model is quantized by calibration: the steps of its author's program, as data.
///
///     QuantizationRecipe recipe{net, get_default_qconfig_mapping(policy), policy, batches_of(images, 32)};
///     const auto prepared = recipe.make();
struct QuantizationRecipe {
    nn::ModulePtr float_model{};  // is not changed
    quantization::QConfigMapping mapping{};
    arith::PolicyRecord target{};
    quantization::BatchSource calibration{};
    quantization::PrepareOptions options{};
    bool equalizes = false;  // fuse_fx() and improve::equalize() before prepare
    /// Steps after calibration, in this order: fixed scales, AdaRound, bias correction.
    std::vector<std::function<void(quantization::PreparedModel&, const quantization::BatchSource&)>> afterwards{};

    /// The model prepared and calibrated, from the beginning: a copy of float_model.
    std::shared_ptr<quantization::PreparedModel> make() const;
};

enum class RepairKind : std::uint8_t {
    qconfig,      // another qconfig for one operator
    equalize,     // improve::equalize() before prepare
    calibrate,    // calibration on other data, with other observers
    set_qparams,  // a fixed scale
    adaround,     // improve::adaround() of one layer
    correct_bias  // improve::correct_bias()
};

/// "qconfig", "equalize", "calibrate", "set_qparams", "adaround", "correct_bias".
const char* name_of(RepairKind kind);

/// A change that can be applied as it is.
struct Repair {
    RepairKind kind = RepairKind::qconfig;
    std::string mod_name;  // the operator that it changes; empty for the whole model
    std::string line;      // in C++, with the names of docs/debugging.md: mapping, prepared, batches, float_model
    std::function<void(QuantizationRecipe&)> change{};

    /// @throws Error for a repair without a change
    void apply(QuantizationRecipe& recipe) const;
};

/// {"kind": …, "mod_name": …, "line": …}
std::string to_json(const Repair& repair);

/// An operator with int16 codes behind it.
Repair int16_output(const std::string& mod_name);
/// An operator with the default qconfig: int8, one scale for each channel of its weight.
Repair default_qconfig_of(const std::string& mod_name);
/// An operator whose int8 codes have a zero point, for targets that support it.
Repair affine_output(const std::string& mod_name);
/// An operator whose scale covers the ends of its data, whatever method it had.
Repair min_max_output(const std::string& mod_name);
/// A scale for the output quantizer of this name ("activation_post_process_3").
Repair given_scale(const std::string& mod_name, const std::string& quantizer, float scale);
/// Scales for the weight of a layer, one per channel.
Repair given_weight_scales(const std::string& mod_name, const std::vector<float>& scales);
/// Equalization of the float model before it is prepared.
Repair equalized();
/// Calibration on this case too, with range ends that no average forgets.
///
/// @param inputs  a tensor for each input of the model
Repair calibrated_on(const std::vector<Tensor>& inputs);
/// AdaRound of one layer.
Repair rounded_by_learning(const std::string& mod_name);
/// Bias correction of the whole model.
Repair corrected_bias();

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_causes)

#    include <cstddef>
#    include <utility>

#    include "intq/arith/quantize.hpp"
#    include "intq/improve/adaround.hpp"
#    include "intq/improve/bias_correction.hpp"
#    include "intq/improve/equalization.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/json_text.hpp"
#    include "intq/numeric_suite/loggers/results.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fuse/fuse_fx.hpp"
#    include "intq/quantization/qconfig/qconfig_factories.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::shared_ptr<quantization::PreparedModel> QuantizationRecipe::make() const {
    if (float_model == nullptr) throw Error("QuantizationRecipe: the float model is null");
    nn::ModulePtr model = float_model;
    if (equalizes) {
        const auto fused = quantization::fuse_fx(*float_model, {target.fused_add});
        improve::equalize(*fused);
        model = fused;
    }
    const auto prepared = quantization::prepare_calibration_fx(*model, mapping, target, options);
    quantization::calibrate(*prepared, calibration);
    for (const auto& step : afterwards) step(*prepared, calibration);
    return prepared;
}

INTQ_INLINE void Repair::apply(QuantizationRecipe& recipe) const {
    if (!change) throw Error("Repair: it has no function `change`");
    change(recipe);
}

INTQ_INLINE const char* name_of(RepairKind kind) {
    static constexpr const char* names[] = {"qconfig",     "equalize", "calibrate",
                                            "set_qparams", "adaround", "correct_bias"};
    return names[static_cast<std::size_t>(kind)];
}

INTQ_INLINE std::string to_json(const Repair& repair) {
    return io::JsonObject()
        .add_text("kind", name_of(repair.kind))
        .add_text("mod_name", repair.mod_name)
        .add_text("line", repair.line)
        .str();
}

namespace detail {

/// The shortest C++ literal with exactly this value.
INTQ_INLINE std::string literal(float number) {
    std::string text = shortest_text(number);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text + "f";
}

INTQ_INLINE Repair qconfig_of(const std::string& mod_name, const std::string& text, quantization::QConfig qconfig) {
    return {RepairKind::qconfig, mod_name, "mapping.set_module_name(\"" + mod_name + "\", " + text + ");",
            [=](QuantizationRecipe& recipe) { recipe.mapping.set_module_name(mod_name, qconfig); }};
}

INTQ_INLINE quantization::FakeQuantize& quantizer_at(quantization::PreparedModel& model, const std::string& name) {
    auto* const quantizer = dynamic_cast<quantization::FakeQuantize*>(&model.find(name));
    if (quantizer == nullptr) throw Error(name, "this is no quantizer with a scale of its own");
    return *quantizer;
}

INTQ_INLINE std::string text_of_quantizer(const std::string& name) {
    return "dynamic_cast<FakeQuantize&>(prepared->find(\"" + name + "\"))";
}

}  // namespace detail

INTQ_INLINE Repair int16_output(const std::string& mod_name) {
    return detail::qconfig_of(mod_name, "get_default_calib_qconfig(DType::int16, DType::int8)",
                              quantization::get_default_calib_qconfig(DType::int16, DType::int8));
}

INTQ_INLINE Repair default_qconfig_of(const std::string& mod_name) {
    return detail::qconfig_of(mod_name, "get_default_calib_qconfig()", quantization::get_default_calib_qconfig());
}

INTQ_INLINE Repair affine_output(const std::string& mod_name) {
    quantization::QConfig qconfig = quantization::get_default_calib_qconfig();
    qconfig.output->options.observer_options.scheme = arith::QuantScheme::affine;
    return detail::qconfig_of(mod_name,
                              "get_default_calib_qconfig({.activation_qkwargs = [](FakeQuantizeOptions& options) { "
                              "options.observer_options.scheme = arith::QuantScheme::affine; }})",
                              std::move(qconfig));
}

INTQ_INLINE Repair min_max_output(const std::string& mod_name) {
    return detail::qconfig_of(mod_name, "get_default_calib_qconfig({.activation_observer = \"min_max\"})",
                              quantization::get_default_calib_qconfig({.activation_observer = "min_max"}));
}

INTQ_INLINE Repair given_scale(const std::string& mod_name, const std::string& quantizer, float scale) {
    return {RepairKind::set_qparams, mod_name,
            detail::text_of_quantizer(quantizer) + ".set_qparams(" + detail::literal(scale) + ");",
            [=](QuantizationRecipe& recipe) {
                recipe.afterwards.push_back([=](quantization::PreparedModel& model, const quantization::BatchSource&) {
                    detail::quantizer_at(model, quantizer).set_qparams(scale);
                });
            }};
}

INTQ_INLINE Repair given_weight_scales(const std::string& mod_name, const std::vector<float>& scales) {
    const std::string quantizer = mod_name + ".weight_fake_quant";
    std::string list;
    for (const float scale : scales) list += (list.empty() ? "" : ", ") + detail::literal(scale);
    return {RepairKind::set_qparams, mod_name,
            detail::text_of_quantizer(quantizer) + ".set_qparams(std::vector<float>{" + list + "});",
            [=](QuantizationRecipe& recipe) {
                recipe.afterwards.push_back([=](quantization::PreparedModel& model, const quantization::BatchSource&) {
                    detail::quantizer_at(model, quantizer).set_qparams(scales);
                });
            }};
}

INTQ_INLINE Repair equalized() {
    return {RepairKind::equalize, "",
            "const auto fused = fuse_fx(*float_model, {target.fused_add}); "
            "improve::equalize(*fused);  // and prepare fused in place of float_model",
            [](QuantizationRecipe& recipe) { recipe.equalizes = true; }};
}

INTQ_INLINE Repair calibrated_on(const std::vector<Tensor>& inputs) {
    return {RepairKind::calibrate, "",
            "mapping.set_global(get_default_calib_qconfig({.activation_observer = \"min_max\"}));  "
            "// and add data such as the bad case to the batches of calibrate()",
            [=](QuantizationRecipe& recipe) {
                recipe.mapping.set_global(quantization::get_default_calib_qconfig({.activation_observer = "min_max"}));
                const quantization::BatchSource before = recipe.calibration;
                recipe.calibration = {before.count + 1, {}, [=](std::size_t i) {
                                          if (i == before.count) return inputs;
                                          std::vector<Tensor> batch;
                                          for (const nn::Value& value : before.values(i))
                                              batch.push_back(value.tensor());
                                          return batch;
                                      }};
            }};
}

INTQ_INLINE Repair rounded_by_learning(const std::string& mod_name) {
    return {RepairKind::adaround, mod_name,
            "improve::adaround(*prepared, batches, {.iterations = 1000, .layers = {\"" + mod_name + "\"}});",
            [=](QuantizationRecipe& recipe) {
                recipe.afterwards.push_back(
                    [=](quantization::PreparedModel& model, const quantization::BatchSource& batches) {
                        improve::adaround(model, batches, {.iterations = 1000, .layers = {mod_name}});
                    });
            }};
}

INTQ_INLINE Repair corrected_bias() {
    return {RepairKind::correct_bias, "", "improve::correct_bias(*prepared, batches);", [](QuantizationRecipe& recipe) {
                recipe.afterwards.push_back(
                    [](quantization::PreparedModel& model, const quantization::BatchSource& batches) {
                        improve::correct_bias(model, batches);
                    });
            }};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_causes)
#endif  // INTQ_ANALYSIS_CAUSES_REPAIR_HPP
