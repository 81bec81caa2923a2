// SPDX-License-Identifier: MIT
//
// All of intq, for a hosted program.
#ifndef INTQ_INTQ_HPP
#define INTQ_INTQ_HPP

#include "intq/embedded.hpp"
#include "intq/graph/print.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/io/npy.hpp"
#include "intq/io/progress.hpp"
#include "intq/io/safetensors.hpp"
#include "intq/io/text_table.hpp"
#include "intq/nn/layers.hpp"
#include "intq/nn/npy.hpp"
#include "intq/nn/state_dict.hpp"
#include "intq/nn/thread_pool.hpp"
#include "intq/numeric_suite/metrics.hpp"
#include "intq/quantization/calibration_file.hpp"
#include "intq/quantization/convert.hpp"
#include "intq/quantization/convert_modules.hpp"
#include "intq/quantization/exact_simulation.hpp"
#include "intq/quantization/explain.hpp"
#include "intq/quantization/fuse_modules.hpp"
#include "intq/quantization/hybrid.hpp"
#include "intq/quantization/lower.hpp"
#include "intq/quantization/prepare.hpp"
#include "intq/quantization/prepare_qat.hpp"
#include "intq/quantization/qconfig_presets.hpp"
#include "intq/quantization/qconfig_rules.hpp"
#include "intq/quantization/quantize_dynamic.hpp"
#include "intq/quantization/quantize_model.hpp"
#include "intq/quantization/reference.hpp"
#include "intq/quantization/set_march.hpp"
#include "intq/quantization/stubs.hpp"
#include "intq/quantization/weight_only.hpp"
#include "intq/training/initialize.hpp"
#include "intq/training/trainer.hpp"

#endif  // INTQ_INTQ_HPP
