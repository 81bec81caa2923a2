// SPDX-License-Identifier: MIT
//
// The rows of abnormal_layer_advisor.txt. Layer: analysis (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_CAUSES_LAYER_ADVICE_HPP
#define INTQ_ANALYSIS_CAUSES_LAYER_ADVICE_HPP

#include <span>
#include <string>
#include <vector>

#include "intq/analysis/compare/compare_layers.hpp"
#include "intq/analysis/models/analysed_model.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

struct LayerAdvice {
    std::string mod_name, op_type;
    std::string abnormal_info;  // what is unusual
    std::string advice;         // what to do
};

/// Unusual properties in a comparison: an input of one sign, values that int8 or int16 hold badly, a range that the
/// scale does not cover, a layer before a DeQuantStub without an output of high precision, NaN or infinity, a cosine
/// below 0.99.
///
/// @param operators  of the analysed model
std::vector<LayerAdvice> advise_layers(std::span<const LayerComparison> layers,
                                       const std::vector<AnalysedOperator>& operators);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_causes)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>

#    include "intq/analysis/compare/file_table.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/quantization/check/check_qat_model.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr double least_cosine = 0.99;

class LayerAdvisor {
public:
    LayerAdvisor(const LayerComparison& layer, bool ends_in_dequant, std::vector<LayerAdvice>& advice)
        : layer_(layer), ends_in_dequant_(ends_in_dequant), advice_(advice) {}

    void run() {
        if (!all_finite()) {
            say("inf/nan output", "check whether the float model produces it, too, and which input causes it");
            return;
        }
        check_sign();
        check_magnitude();
        check_scale();
        if (ends_in_dequant_ && layer_.qparams && !layer_.pair.is_inner)
            say("output before a DeQuantStub is " + quantization::quantized_name(layer_.qparams->dtype),
                "give the layer an output of high precision: a qconfig without output quantizer");
        if (layer_.has_metrics() && layer_.metrics.cosine() < least_cosine)
            say("Cosine " + seven_decimals(layer_.metrics.cosine()) + " is below 0.99",
                "look at its range and at its sensitivity; int16 if it is sensitive");
    }

private:
    void say(std::string info, std::string advice) {
        advice_.push_back({layer_.mod_name, layer_.analy_op_type, std::move(info), std::move(advice)});
    }

    bool all_finite() const {
        for (const double value :
             {(layer_.base.min)(), (layer_.base.max)(), (layer_.analy.min)(), (layer_.analy.max)()})
            if (!std::isfinite(value)) return false;
        return true;
    }

    double magnitude() const { return (std::max)((std::abs)((layer_.base.min)()), (std::abs)((layer_.base.max)())); }

    void check_sign() {
        const bool is_input = layer_.analy_op_type == "QuantStub";
        const bool is_one_sided = (layer_.base.min)() >= 0.0 || (layer_.base.max)() <= 0.0;
        if (is_input && is_one_sided && magnitude() > 0.0)
            say("input is all of one sign: " + seven_decimals((layer_.base.min)()) + " to " +
                    seven_decimals((layer_.base.max)()),
                "normalise the input around 0, so that the codes of both signs are used");
    }

    void check_magnitude() {
        if (magnitude() > 32768.0)
            say("magnitude " + seven_decimals(magnitude()) + " exceeds 32768",
                "int16 is too coarse, too; change the structure of the model so that values stay small");
        else if (magnitude() > 128.0 && layer_.qparams && layer_.qparams->dtype == DType::int8)
            say("magnitude " + seven_decimals(magnitude()) + " exceeds 128 in int8", "give the operator int16");
    }

    // Values up to one step outside are rounded to the last code, as values inside are.
    void check_scale() {
        if (!layer_.qparams || layer_.qparams->scales.size() != 1 || layer_.pair.is_inner) return;
        const OwnedQParams& grid = *layer_.qparams;
        const double scale = static_cast<double>(grid.scales[0]);
        const double zero = grid.zero_points.empty() ? 0.0 : static_cast<double>(grid.zero_points[0]);
        const double lowest = (static_cast<double>(grid.quant_min) - zero) * scale;
        const double highest = (static_cast<double>(grid.quant_max) - zero) * scale;
        if ((layer_.base.min)() < lowest - scale || (layer_.base.max)() > highest + scale)
            say("values from " + seven_decimals((layer_.base.min)()) + " to " + seven_decimals((layer_.base.max)()) +
                    ", codes from " + seven_decimals(lowest) + " to " + seven_decimals(highest),
                "the scale does not cover the data; calibrate on more data, or with another range method");
    }

    const LayerComparison& layer_;
    bool ends_in_dequant_;
    std::vector<LayerAdvice>& advice_;
};

INTQ_INLINE bool ends_in_dequant(const std::vector<AnalysedOperator>& operators, std::size_t index) {
    if (!operators[index].has_weight || operators[index].op_type.find("ReLU") != std::string::npos) return false;
    bool any = false;
    for (const AnalysedOperator& op : operators) {
        if (std::find(op.inputs.begin(), op.inputs.end(), index) == op.inputs.end()) continue;
        if (op.op_type != "DeQuantStub") return false;
        any = true;
    }
    return any;
}

}  // namespace detail

INTQ_INLINE std::vector<LayerAdvice> advise_layers(std::span<const LayerComparison> layers,
                                                   const std::vector<AnalysedOperator>& operators) {
    std::vector<LayerAdvice> advice;
    for (const LayerComparison& layer : layers)
        detail::LayerAdvisor(layer, detail::ends_in_dequant(operators, layer.pair.analysis), advice).run();
    return advice;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_causes)
#endif  // INTQ_ANALYSIS_CAUSES_LAYER_ADVICE_HPP
