// SPDX-License-Identifier: MIT
//
// CalibrationReport: what a calibration found. Layer: quantization (docs/workflow.md sections 1, 4).
#ifndef INTQ_QUANTIZATION_PREPARE_CALIBRATION_REPORT_HPP
#define INTQ_QUANTIZATION_PREPARE_CALIBRATION_REPORT_HPP

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "intq/quantization/check/lost_operands.hpp"
#include "intq/quantization/fake_quantize/grid_choice.hpp"
#include "intq/quantization/observers/statistics_observers.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A quantizer whose range ends on a cliff, leaves out most of its data's range at a loss, or keeps little of it: see
/// observers::find_cliff().
struct CliffWarning {
    std::string quantizer;
    index_t channel = 0;
    RangeChoice choice{};
};

/// A quantizer of activations whose data was all one number: from samples that are constant, or behind a dead layer.
struct ConstantWarning {
    std::string quantizer;
    float value = 0.0f;
};

/// Moving averages over so few batches that more than half of a range is that of the first one.
struct FewBatches {
    std::size_t quantizers = 0;  // of activations
    std::size_t batches = 0;
    float averaging_constant = 0.0f;
    double share = 1.0;  // of the first batch: (1 - c)^(batches - 1)
};

struct CalibrationReport {
    std::size_t done = 0;               // batches since the first
    std::size_t total = 0;              // batches of the source
    std::vector<std::string> unseen{};  // quantizers that saw no data
    std::vector<CliffWarning> cliffs{};
    std::vector<ConstantWarning> constants{};
    std::vector<KeptGrid> kept{};                  // operators whose output keeps the grid of the input at a loss
    std::vector<LostOperand> lost{};               // operands of sums that keep few codes beside a tensor or an input
    std::vector<FewBatches> few_batches{};         // one for each averaging constant
    std::map<std::string, std::string> rounded{};  // quantizers in a graph, and the values that they round
    bool complete() const noexcept { return done == total; }
};

/// One line per finding; empty if all is well.
std::string to_string(const CalibrationReport& report);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <cmath>

#    include "intq/io/describe.hpp"
#    include "intq/observers/grid_histogram.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string to_string(const CalibrationReport& report) {
    std::string text;
    if (!report.complete())
        text += "calibration: " + std::to_string(report.done) + " of " + std::to_string(report.total) +
                " batches are done\n";
    const auto named = [&](const std::string& quantizer) {
        const auto value = report.rounded.find(quantizer);
        return value == report.rounded.end() ? quantizer : quantizer + " (after " + value->second + ")";
    };
    for (const std::string& name : report.unseen) text += named(name) + ": saw no data; its scale is 1\n";
    for (const ConstantWarning& warning : report.constants)
        text += named(warning.quantizer) + ": all data was the number " + shortest_text(warning.value) +
                "; its scale says nothing of other data\n";
    const auto percent_text = [](double part) {
        return part < 0.01 ? shortest_text(static_cast<float>((std::round)(1e4 * part) / 100.0))
                           : std::to_string(std::lround(100.0 * part));
    };
    for (const CliffWarning& warning : report.cliffs) {
        const auto& [range, error, cliff] = warning.choice;
        const auto interval = [](const observers::ValueRange& r) {
            return "[" + std::to_string(r.lowest) + ", " + std::to_string(r.highest) + "]";
        };
        const std::string subject = named(warning.quantizer) + ", channel " + std::to_string(warning.channel) +
                                    ": the range " + interval(range);
        if (cliff.clips_most() || cliff.keeps_little())
            text += subject + " keeps " + percent_text(cliff.kept) +
                    " % of the range of its data, and its squared error is " +
                    (cliff.whole_error > 0.0 ? std::to_string(cliff.error / cliff.whole_error) + " times" : "above") +
                    " that of the whole range\n";
        if (cliff.is_cliff())
            text += subject + " is on a cliff: with half as many values outside it is " + interval(cliff.wider) +
                    ", with twice as many " + interval(cliff.narrower) +
                    ", and the squared error changes by more than a factor of four\n";
    }
    for (const KeptGrid& kept : report.kept) text += to_string(kept) + "\n";
    for (const LostOperand& lost : report.lost) text += to_string(lost) + "\n";
    for (const FewBatches& few : report.few_batches)
        text += "the ranges of " + std::to_string(few.quantizers) + " quantizers are moving averages over " +
                std::to_string(few.batches) + " batches, " + percent_text(few.share) +
                " % of each is that of the first batch; take the observer min_max, or an averaging_constant near " +
                shortest_text((std::round)(100.0 / static_cast<double>(few.batches)) / 100.0) + "\n";
    return text;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_CALIBRATION_REPORT_HPP
