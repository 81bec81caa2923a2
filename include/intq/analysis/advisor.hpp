// SPDX-License-Identifier: MIT
//
// The advisor: which quantizer loses most, why, and what to change, with what the change brings. Layer: analysis
// (docs/debugging.md).
#ifndef INTQ_ANALYSIS_ADVISOR_HPP
#define INTQ_ANALYSIS_ADVISOR_HPP

#include <cstddef>
#include <string>
#include <vector>

#include "intq/analysis/call_inputs.hpp"
#include "intq/analysis/cause.hpp"
#include "intq/analysis/repair.hpp"
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

/// Looks for causes in the quantizers that lose most when they alone are on, and tries each change that helps against
/// them on the bad case.
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

/// A paragraph for each advice: operator, cause and reason, the line, and what it brings.
std::string to_string(const AdvisorReport& report);
/// {"loss": …, "advice": [{"finding": …, "repair": …, "loss_before": …, "loss_after": …, "gain": …}, …]}
std::string to_json(const AdvisorReport& report);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_ANALYSIS_ADVISOR_HPP
