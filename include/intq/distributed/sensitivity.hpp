// SPDX-License-Identifier: MIT
//
// The sensitivity list, measured by several ranks. Layer: distributed (docs/distributed.md).
#ifndef INTQ_DISTRIBUTED_SENSITIVITY_HPP
#define INTQ_DISTRIBUTED_SENSITIVITY_HPP

#include <vector>

#include "intq/analysis/compare/sensitivity.hpp"
#include "intq/analysis/models/analysed_model.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/distributed/ranks/communicator.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

/// The list of analysis::find_sensitive_operators(), on every rank. Rank r of n measures rows r, r + n, r + 2n, …, and
/// each rank has its own copy of the same model, inputs and baseline. Each rank keeps a journal in its own folder
/// inside `journal`, named after the rank and the number of ranks.
///
/// @throws Error on every rank where one failed, or its list has another length
///
/// Result   the bits of one rank, because each metric is measured by one rank as it would be without others
/// Cost     for m rows and n ranks about m / 2n + 1 forward passes of each rank
std::vector<quantization::SensitiveOperator> find_sensitive_operators(const analysis::AnalysedModel& model,
                                                                      const analysis::CallInputs& inputs,
                                                                      const nn::Value& baseline_output,
                                                                      Communicator& communicator,
                                                                      analysis::SensitivityOptions options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(distributed)

#    include <cstddef>
#    include <cstring>
#    include <span>
#    include <string>

#    include "intq/distributed/internal/model_state.hpp"
#    include "intq/io/error.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<quantization::SensitiveOperator> find_sensitive_operators(
    const analysis::AnalysedModel& model, const analysis::CallInputs& inputs, const nn::Value& baseline_output,
    Communicator& communicator, analysis::SensitivityOptions options) {
    const auto rank = static_cast<std::size_t>(communicator.rank()),
               size = static_cast<std::size_t>(communicator.size());
    if (!options.journal.empty()) options.journal /= "rank_" + std::to_string(rank) + "_of_" + std::to_string(size);
    options.measures = [=](std::size_t row) { return row % size == rank; };
    options.join = [&](std::span<double> metrics) {
        const Blocks all = communicator.gather(std::as_bytes(metrics));
        for (const auto& block : all)
            if (block.size() != metrics.size_bytes())
                throw Error("find_sensitive_operators: the models of the ranks have other numbers of operators");
        for (std::size_t row = 0; row < metrics.size(); ++row)
            std::memcpy(&metrics[row], all[row % size].data() + row * sizeof(double), sizeof(double));
    };
    std::vector<quantization::SensitiveOperator> list;
    communicator.together([&] {
        communicator.check_equal("find_sensitive_operators: the metric or the output that is measured",
                                 options.metric + ", " + options.output);
        if (const nn::ModulePtr module = model.module())
            communicator.check_equal("find_sensitive_operators: the model", fingerprint(*module));
        communicator.check_equal("find_sensitive_operators: the case",
                                 analysis::fingerprint_of(inputs.in_order(model.input_names())));
        list = analysis::find_sensitive_operators(model, inputs, baseline_output, options);
    });
    return list;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

#endif  // INTQ_DEFINES(distributed)
#endif  // INTQ_DISTRIBUTED_SENSITIVITY_HPP
