// SPDX-License-Identifier: MIT
//
// Which layer lost the accuracy, why, and what to change (docs/debugging.md).
#ifndef INTQ_ANALYSIS_HPP
#define INTQ_ANALYSIS_HPP

// The layer that lost it.
#include "intq/analysis/compare/compare_layers.hpp"
#include "intq/analysis/compare/output_metric.hpp"
#include "intq/analysis/compare/sensitivity.hpp"
#include "intq/analysis/quant_analysis.hpp"

// Why, and what to change.
#include "intq/analysis/advisor.hpp"
#include "intq/analysis/causes/cause.hpp"
#include "intq/analysis/causes/error_split.hpp"
#include "intq/analysis/causes/find_causes.hpp"
#include "intq/analysis/causes/layer_advice.hpp"
#include "intq/analysis/causes/repair.hpp"

// The values of a model, operator by operator.
#include "intq/analysis/compare/op_running_info.hpp"
#include "intq/analysis/compare/tensor_statistics.hpp"
#include "intq/analysis/compare/value_histogram.hpp"
#include "intq/analysis/model_profiler.hpp"

// A report for a browser.
#include "intq/analysis/model_report.hpp"

// The models that these tools analyse, and their inputs.
#include "intq/analysis/compare/file_table.hpp"
#include "intq/analysis/models/analysed_model.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/analysis/models/model_source.hpp"
#include "intq/analysis/models/saved_activations.hpp"

#endif  // INTQ_ANALYSIS_HPP
