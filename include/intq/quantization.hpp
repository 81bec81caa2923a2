// SPDX-License-Identifier: MIT
//
// The workflow: fuse, prepare, calibrate or train, convert, lower (docs/workflow.md).
#ifndef INTQ_QUANTIZATION_HPP
#define INTQ_QUANTIZATION_HPP

// Which operator gets which qconfig.
#include "intq/quantization/qconfig/own_qconfig.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"
#include "intq/quantization/qconfig/qconfig_presets.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"

// Stubs and fusing.
#include "intq/quantization/fuse/fuse_fx.hpp"
#include "intq/quantization/fuse/fusion_table.hpp"
#include "intq/quantization/modules/stubs.hpp"

// The operators of a model that a target takes, before any data.
#include "intq/quantization/check/check_qat_model.hpp"
#include "intq/quantization/check/lost_operands.hpp"
#include "intq/quantization/prepare/lowering_report.hpp"
#include "intq/quantization/prepare/refusal.hpp"

// Prepare: quantizers on the edges of a graph.
#include "intq/quantization/prepare/optimize_graph.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_layer.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"
#include "intq/quantization/prepare/set_march.hpp"
#include "intq/quantization/prepare/transformer_mapping.hpp"

// Calibrate.
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/calibration_file.hpp"
#include "intq/quantization/prepare/calibration_report.hpp"

// Convert and lower.
#include "intq/quantization/convert/convert_custom.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/explain.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantize_model.hpp"
#include "intq/quantization/convert/quantized_model.hpp"
#include "intq/quantization/convert/quantized_module.hpp"

// Without a graph: fuse, prepare and convert put other modules into the slots of a model.
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/eager/prepare_default_target.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/eager/qconfig_dict.hpp"

// Dynamic quantization: int8 weights; inputs are quantized as they arrive, or never.
#include "intq/quantization/dynamic/dynamic_matrix.hpp"
#include "intq/quantization/dynamic/dynamic_modules.hpp"
#include "intq/quantization/dynamic/quantize_dynamic.hpp"
#include "intq/quantization/dynamic/weight_only.hpp"

// Observers.
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/observers/named_table.hpp"
#include "intq/quantization/observers/observer.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/observers/range_methods.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "intq/quantization/observers/share_observer.hpp"
#include "intq/quantization/observers/statistics_observers.hpp"

// Fake-quantizers.
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/fake_quantize/grid_choice.hpp"
#include "intq/quantization/fake_quantize/lsq_fake_quantize.hpp"
#include "intq/quantization/fake_quantize/pact_fake_quantize.hpp"
#include "intq/quantization/fake_quantize/quantizer.hpp"
#include "intq/quantization/fake_quantize/quantizer_config.hpp"

// Prepared layers, folded batch norms, custom modules.
#include "intq/quantization/modules/batch_norm_conv.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/modules/custom_modules.hpp"
#include "intq/quantization/modules/fold_batch_norm.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/modules/qat_mode.hpp"
#include "intq/quantization/modules/quantizer_of.hpp"
#include "intq/quantization/modules/replace_modules.hpp"
#include "intq/quantization/modules/weight_codes.hpp"

// The rows of operators for quantization, and a converted model as a list of steps.
#include "intq/quantization/operators/argmax.hpp"
#include "intq/quantization/operators/causal_fill.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/custom.hpp"
#include "intq/quantization/operators/elementwise.hpp"
#include "intq/quantization/operators/embedding.hpp"
#include "intq/quantization/operators/extreme.hpp"
#include "intq/quantization/operators/float_step.hpp"
#include "intq/quantization/operators/image_input.hpp"
#include "intq/quantization/operators/index_copy.hpp"
#include "intq/quantization/operators/layer_norm.hpp"
#include "intq/quantization/operators/mask.hpp"
#include "intq/quantization/operators/matmul.hpp"
#include "intq/quantization/operators/move.hpp"
#include "intq/quantization/operators/moved_view.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/operator_table.hpp"
#include "intq/quantization/operators/pool.hpp"
#include "intq/quantization/operators/quantize.hpp"
#include "intq/quantization/operators/quantize_instructions.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/operators/resize.hpp"
#include "intq/quantization/operators/softmax.hpp"
#include "intq/quantization/operators/unary.hpp"

#endif  // INTQ_QUANTIZATION_HPP
