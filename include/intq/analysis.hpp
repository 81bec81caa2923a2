// SPDX-License-Identifier: MIT
//
// Which layer lost the accuracy, why, and what to change (docs/debugging.md).
#ifndef INTQ_ANALYSIS_HPP
#define INTQ_ANALYSIS_HPP

// The layer that lost it.
#include "intq/analysis/compare_layers.hpp"
#include "intq/analysis/output_metric.hpp"
#include "intq/analysis/quant_analysis.hpp"
#include "intq/analysis/sensitivity.hpp"

// Why, and what to change.
#include "intq/analysis/advisor.hpp"
#include "intq/analysis/cause.hpp"
#include "intq/analysis/error_split.hpp"
#include "intq/analysis/find_causes.hpp"
#include "intq/analysis/layer_advice.hpp"
#include "intq/analysis/repair.hpp"

// What the values of a model are, operator by operator.
#include "intq/analysis/model_profiler.hpp"
#include "intq/analysis/op_running_info.hpp"
#include "intq/analysis/tensor_statistics.hpp"
#include "intq/analysis/value_histogram.hpp"

// A report for a browser.
#include "intq/analysis/model_report.hpp"

// The models that these tools look at, and what they are called with.
#include "intq/analysis/analysed_model.hpp"
#include "intq/analysis/call_inputs.hpp"
#include "intq/analysis/file_table.hpp"
#include "intq/analysis/model_source.hpp"
#include "intq/analysis/saved_activations.hpp"

#endif  // INTQ_ANALYSIS_HPP
