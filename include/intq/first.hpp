// SPDX-License-Identifier: MIT
//
// The headers of docs/first_model.md: from a float model to integers, with the least of the library.
#ifndef INTQ_FIRST_HPP
#define INTQ_FIRST_HPP

// Read a float model and its data; print its graph.
#include "intq/graph/print.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/tensor/npy.hpp"

// Say what to quantize; prepare and calibrate it.
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"

// Convert it, and lower it to a program of a target.
#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/litert.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"

// Run the program.
#include "intq/program/owned_program.hpp"

// Export the model.
#include "intq/interop/quantized_onnx/export_to_onnx.hpp"

#endif  // INTQ_FIRST_HPP
