// SPDX-License-Identifier: MIT
//
// The causes that make a quantized layer worse than it need be. Layer: analysis (docs/debugging.md).
#ifndef INTQ_ANALYSIS_CAUSES_CAUSE_HPP
#define INTQ_ANALYSIS_CAUSES_CAUSE_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "intq/core/shape.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// Why a quantizer loses accuracy.
enum class Cause : std::uint8_t {
    outlier_channel,             // one channel is much larger than the others, which share its scale
    dead_channel,                // a large channel has the same value everywhere
    tiny_batch_norm_variance,    // a batch norm divides a channel by almost 0
    wrong_axis,                  // a weight has its scales along another axis than its output channels
    scale_too_small,             // a fixed scale does not reach the ends of the data
    scale_on_cliff,              // the method that chose the scale cut off values that matter
    saturating_layer,            // the layer behind is flat over most of the range
    shared_scale,                // values of different sizes share one scale
    per_tensor_depthwise,        // a depthwise weight has one scale for all channels
    per_tensor_weight,           // so has another weight, whose channels differ
    range_of_one_sign,           // the range begins far from 0, and half of the codes or more are never used
    calibration_does_not_cover,  // the calibration saw a smaller range than this case
    too_few_codes                // none of the others: the operator needs more bits
};

/// The words of the enumerator, with spaces: "outlier channel".
std::string name_of(Cause cause);

/// A cause that was found, and its operator.
struct CauseFinding {
    std::string mod_name, op_type;  // as in compare_per_layer_out.txt
    Cause cause = Cause::too_few_codes;
    bool is_weight = false;           // in the quantizer of the weight, else of the output
    std::vector<index_t> channels{};  // the channels concerned
    std::string reason;               // the numbers that show it, as a sentence
};

/// {"mod_name": …, "op_type": …, "cause": …, "is_weight": …, "channels": […], "reason": …}
std::string to_json(const CauseFinding& finding);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_causes)

#    include "intq/io/json_text.hpp"
#    include "intq/numeric_suite/loggers/results.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string name_of(Cause cause) {
    switch (cause) {
        case Cause::outlier_channel:
            return "outlier channel";
        case Cause::dead_channel:
            return "dead channel";
        case Cause::tiny_batch_norm_variance:
            return "tiny batch norm variance";
        case Cause::wrong_axis:
            return "wrong axis";
        case Cause::scale_too_small:
            return "scale too small";
        case Cause::scale_on_cliff:
            return "scale on a cliff";
        case Cause::saturating_layer:
            return "saturating layer";
        case Cause::shared_scale:
            return "shared scale";
        case Cause::per_tensor_depthwise:
            return "per tensor depthwise";
        case Cause::per_tensor_weight:
            return "per tensor weight";
        case Cause::range_of_one_sign:
            return "range of one sign";
        case Cause::calibration_does_not_cover:
            return "calibration does not cover";
        case Cause::too_few_codes:
            break;
    }
    return "too few codes";
}

INTQ_INLINE std::string to_json(const CauseFinding& finding) {
    return io::JsonObject()
        .add_text("mod_name", finding.mod_name)
        .add_text("op_type", finding.op_type)
        .add_text("cause", name_of(finding.cause))
        .add("is_weight", finding.is_weight ? "true" : "false")
        .add("channels", io::write_json_list(finding.channels, [](index_t channel) { return std::to_string(channel); }))
        .add_text("reason", finding.reason)
        .str();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_causes)
#endif  // INTQ_ANALYSIS_CAUSES_CAUSE_HPP
