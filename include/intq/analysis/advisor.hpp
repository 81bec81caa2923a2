// SPDX-License-Identifier: MIT
//
// The advisor: which quantizer loses most, why, and what to change, with the gain of the change. Layer: analysis
// (docs/debugging.md).
#ifndef INTQ_ANALYSIS_ADVISOR_HPP
#define INTQ_ANALYSIS_ADVISOR_HPP

#include <cstddef>
#include <string>
#include <vector>

#include "intq/analysis/causes/cause.hpp"
#include "intq/analysis/causes/repair.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/core/abi.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// A cause, and a change against it that was tried on the bad case.
struct Advice {
    CauseFinding finding{};
    Repair repair{};
    double loss_before = 0.0, loss_after = 0.0;  // of the whole model, see AdvisorReport
    /// The part of the loss that the change takes away; below 0 where it makes the model worse.
    double gain() const noexcept { return loss_before > 0.0 ? (loss_before - loss_after) / loss_before : 0.0; }
};

struct AdvisorReport {
    /// |y - y0| / |y0| over all outputs, y0 being the float model's: the noise of the quantized model on the bad case.
    double loss = 0.0;
    std::vector<Advice> advice{};  // the best first; of nearly equal ones the one that costs no time at run time
};

struct AdvisorOptions {
    std::size_t most_operators = 3;  // the quantizers that lose most and are looked at
    double least_gain = 0.05;        // advice that brings less is left out
};

/// Looks for causes in the quantizers that lose most when only they are on, and tries each change that may help on the
/// bad case.
///
///     const AdvisorReport report = advise(recipe, bad_case);
///     std::cout << to_string(report);
///     report.advice.front().repair.apply(recipe);
///     const auto mended = recipe.make();
///
/// @throws Error for a recipe without model or data, and as prepare and calibrate do
///
/// Cost     as find_sensitive_operators(), and a calibration for each change that is tried
AdvisorReport advise(const QuantizationRecipe& recipe, const CallInputs& bad_case, const AdvisorOptions& options = {});

/// A paragraph for each advice: operator, cause and reason, the line, and its gain.
std::string to_string(const AdvisorReport& report);
/// {"loss": …, "advice": [{"finding": …, "repair": …, "loss_before": …, "loss_after": …, "gain": …}, …]}
std::string to_json(const AdvisorReport& report);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis)

#    include <algorithm>
#    include <cmath>
#    include <memory>
#    include <utility>

#    include "intq/analysis/causes/find_causes.hpp"
#    include "intq/analysis/compare/output_metric.hpp"
#    include "intq/analysis/compare/sensitivity.hpp"
#    include "intq/analysis/models/analysed_model.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/json_text.hpp"
#    include "intq/io/sort_stably.hpp"
#    include "intq/nn/model/value.hpp"
#    include "intq/numeric_suite/loggers/results.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE double relative_noise(const nn::Value& baseline, const nn::Value& analysis) {
    const auto x = named_outputs(baseline), y = named_outputs(analysis);
    double signal = 0.0, noise = 0.0;
    for (std::size_t k = 0; k < x.size(); ++k) {
        const auto p = x[k].value.flat<float>(), q = y.at(k).value.flat<float>();
        for (std::size_t i = 0; i < p.size(); ++i) {
            const double value = static_cast<double>(p[i]), error = static_cast<double>(q[i]) - value;
            signal += value * value;
            noise += error * error;
        }
    }
    if (!std::isfinite(signal) || !std::isfinite(noise))
        throw Error("advise: the output of a model holds NaN or infinity on this case");
    return signal > 0.0 ? std::sqrt(noise / signal) : std::sqrt(noise);
}

/// Names of all quantizers of a model.
INTQ_INLINE std::string name_of_quantizer(nn::Module& model, const quantization::FakeQuantize* quantizer) {
    for (const auto& module : model.named_modules())
        if (module.value == quantizer) return module.name;
    return {};
}

class Advisor {
public:
    Advisor(const QuantizationRecipe& recipe, const CallInputs& bad_case, const AdvisorOptions& options)
        : recipe_(recipe), inputs_(bad_case), options_(options), prepared_(recipe.make()) {
        const AnalysedModel baseline(recipe.float_model);
        expected_ = baseline.run(inputs_.in_order(baseline.input_names()))->output();
        report_.loss = loss_of(prepared_);
    }

    AdvisorReport run() {
        const auto list = find_sensitive_operators(AnalysedModel(prepared_), inputs_, expected_,
                                                   {.metric = "MSE", .show = io::ShowProgress::never});
        std::vector<std::string> names;
        for (const auto& row : list)
            if (row.sensitive_type != "both" && std::find(names.begin(), names.end(), row.op_name) == names.end())
                names.push_back(row.op_name);
        const std::vector<QuantizerCase> cases = quantizer_cases(recipe_.float_model, prepared_, inputs_, names);
        advise_on_calibration(cases);
        std::size_t looked_at = 0;
        for (const auto& row : list) {
            if (row.sensitive_type == "both" || looked_at == options_.most_operators) continue;
            for (const QuantizerCase& one : cases)
                if (one.mod_name == row.op_name && (one.layer != nullptr) == (row.sensitive_type == "weight"))
                    advise_on(one);
            ++looked_at;
        }
        sort();
        return std::move(report_);
    }

private:
    double loss_of(const std::shared_ptr<quantization::PreparedModel>& model) const {
        const AnalysedModel analysed(model);
        return relative_noise(expected_, analysed.run(inputs_.in_order(analysed.input_names()))->output());
    }

    // Data of another size shows at the model's first quantizer, and at most of those after it.
    void advise_on_calibration(const std::vector<QuantizerCase>& cases) {
        std::size_t outputs = 0;
        std::vector<CauseFinding> found;
        for (const QuantizerCase& one : cases) {
            if (one.layer != nullptr) continue;
            ++outputs;
            for (CauseFinding& finding : find_causes(one))
                if (finding.cause == Cause::calibration_does_not_cover) found.push_back(std::move(finding));
            if (found.empty()) return;  // the first one covers its data
        }
        if (found.empty() || found.size() < (outputs + 1) / 2) return;
        found.front().reason += "; so it is at " + std::to_string(found.size()) + " of " + std::to_string(outputs) +
                                " quantizers of outputs";
        try_repair(found.front(), calibrated_on(tensors()));
    }

    std::vector<Tensor> tensors() const {
        std::vector<Tensor> result;
        for (const nn::Value& value : inputs_.in_order(AnalysedModel(recipe_.float_model).input_names()))
            result.push_back(value.tensor());
        return result;
    }

    void advise_on(const QuantizerCase& one) {
        for (const CauseFinding& finding : find_causes(one))
            for (const Repair& repair : repairs_against(finding.cause, one)) try_repair(finding, repair);
    }

    float min_max_scale(const QuantizerCase& one) const {
        const OwnedQParams grid = one.quantizer->qparams();
        double largest = 0.0;
        for (const float value : one.values.contiguous().flat<float>())
            largest = (std::max)(largest, (std::abs)(static_cast<double>(value)));
        return static_cast<float>(largest / static_cast<double>(grid.quant_max));
    }

    static std::vector<float> weight_scales(const QuantizerCase& one) {
        std::vector<float> scales;
        for (const ChannelNumbers& channel : channels_of(one.values, one.channel_axis))
            scales.push_back((std::max)(static_cast<float>(channel.magnitude() / 127.0), 1e-8f));
        return scales;
    }

    std::vector<Repair> repairs_against(Cause cause, const QuantizerCase& one) const {
        const std::string& name = one.mod_name;
        const std::string quantizer = name_of_quantizer(*prepared_, one.quantizer);
        switch (cause) {
            case Cause::outlier_channel:
            case Cause::tiny_batch_norm_variance:
                return {equalized(), int16_output(name)};
            case Cause::dead_channel:
            case Cause::shared_scale:
                return {int16_output(name)};
            case Cause::range_of_one_sign:
                if (recipe_.target.zero_points) return {affine_output(name)};
                return {int16_output(name)};
            case Cause::saturating_layer:
                return {int16_output(name)};
            case Cause::scale_too_small:
                if (one.layer != nullptr) return {given_weight_scales(name, weight_scales(one))};
                return {given_scale(name, quantizer, min_max_scale(one)), int16_output(name)};
            case Cause::scale_on_cliff:
                return {min_max_output(name), int16_output(name)};
            case Cause::wrong_axis:
                return {given_weight_scales(name, weight_scales(one))};
            case Cause::per_tensor_depthwise:
            case Cause::per_tensor_weight:
                return {default_qconfig_of(name)};
            case Cause::calibration_does_not_cover:
                return {calibrated_on(tensors())};
            case Cause::too_few_codes:
                break;
        }
        if (one.layer != nullptr) return {rounded_by_learning(name), corrected_bias()};
        return {int16_output(name)};
    }

    void try_repair(const CauseFinding& finding, const Repair& repair) {
        QuantizationRecipe changed = recipe_;
        repair.apply(changed);
        Advice advice{finding, repair, report_.loss, 0.0};
        try {
            advice.loss_after = loss_of(changed.make());
        } catch (const Error&) {
            return;  // the target cannot, or this does not help such a layer
        }
        if (advice.gain() >= options_.least_gain) report_.advice.push_back(std::move(advice));
    }

    void sort() {
        // Wider codes cost time in every run; the other changes cost none.
        const auto worth = [](const Advice& advice) {
            const bool is_wider = advice.repair.line.find("DType::int16") != std::string::npos;
            return advice.gain() - (is_wider ? 0.05 : 0.0);
        };
        io::sort_stably(report_.advice, [&](const Advice& a, const Advice& b) { return worth(a) > worth(b); });
    }

    const QuantizationRecipe& recipe_;
    const CallInputs& inputs_;
    const AdvisorOptions& options_;
    std::shared_ptr<quantization::PreparedModel> prepared_;
    nn::Value expected_;
    AdvisorReport report_;
};

}  // namespace detail

INTQ_INLINE AdvisorReport advise(const QuantizationRecipe& recipe, const CallInputs& bad_case,
                                 const AdvisorOptions& options) {
    return detail::Advisor(recipe, bad_case, options).run();
}

INTQ_INLINE std::string to_string(const AdvisorReport& report) {
    std::string text = "noise of the output: " + detail::in_short(100.0 * report.loss) + " %\n";
    if (report.advice.empty()) text += "no change was found that helps\n";
    std::size_t number = 0;
    for (const Advice& advice : report.advice) {
        const CauseFinding& finding = advice.finding;
        text += "\n" + std::to_string(++number) + ". " + finding.mod_name + " (" + finding.op_type + ", " +
                (finding.is_weight ? "weight" : "output") + "): " + name_of(finding.cause) + "\n   " + finding.reason +
                "\n   " + advice.repair.line + "\n   noise " + detail::in_short(100.0 * advice.loss_before) + " % -> " +
                detail::in_short(100.0 * advice.loss_after) + " %, gain " + detail::in_short(100.0 * advice.gain()) +
                " %\n";
    }
    return text;
}

INTQ_INLINE std::string to_json(const AdvisorReport& report) {
    const auto number = [](double value) { return numeric_suite::to_json(nn::Value(value)); };
    const auto advice_json = [&](const Advice& advice) {
        return io::JsonObject()
            .add("finding", to_json(advice.finding))
            .add("repair", to_json(advice.repair))
            .add("loss_before", number(advice.loss_before))
            .add("loss_after", number(advice.loss_after))
            .add("gain", number(advice.gain()))
            .str();
    };
    return io::JsonObject()
        .add("loss", number(report.loss))
        .add("advice", io::write_json_list(report.advice, advice_json))
        .str();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis)
#endif  // INTQ_ANALYSIS_ADVISOR_HPP
