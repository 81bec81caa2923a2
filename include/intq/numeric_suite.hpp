// SPDX-License-Identifier: MIT
//
// Two models side by side, by PyTorch's names (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_HPP
#define INTQ_NUMERIC_SUITE_HPP

// Metrics of two tensors.
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/numeric_suite/metrics/tensor_comparison.hpp"

// Models of modules.
#include "intq/numeric_suite/eager/compare_outputs.hpp"
#include "intq/numeric_suite/eager/compare_stub.hpp"
#include "intq/numeric_suite/eager/compare_weights.hpp"
#include "intq/numeric_suite/eager/logger.hpp"

// Graphs: weights, loggers, shadows.
#include "intq/numeric_suite/fx/add_loggers.hpp"
#include "intq/numeric_suite/fx/extract_weights.hpp"
#include "intq/numeric_suite/fx/n_shadows.hpp"
#include "intq/numeric_suite/fx/qconfig_multi_mapping.hpp"
#include "intq/numeric_suite/fx/shadow_loggers.hpp"

// Their results.
#include "intq/numeric_suite/fx/n_shadows_comparison.hpp"
#include "intq/numeric_suite/fx/results.hpp"
#include "intq/numeric_suite/loggers/results.hpp"
#include "intq/numeric_suite/loggers/value_metrics.hpp"

// How graphs are matched.
#include "intq/numeric_suite/fx/converted_model.hpp"
#include "intq/numeric_suite/fx/match.hpp"
#include "intq/numeric_suite/fx/node_types.hpp"
#include "intq/numeric_suite/fx/ns_tracer.hpp"
#include "intq/numeric_suite/fx/output_logger.hpp"
#include "intq/numeric_suite/loggers/layer_types.hpp"

#endif  // INTQ_NUMERIC_SUITE_HPP
