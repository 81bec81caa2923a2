// SPDX-License-Identifier: MIT
//
// ONNX files, read and written (docs/onnx.md).
#ifndef INTQ_ONNX_HPP
#define INTQ_ONNX_HPP

// A float model, as a graph of modules.
#include "intq/interop/onnx/import.hpp"

// The file as it is, uninterpreted: read and written.
#include "intq/interop/onnx/read/model.hpp"
#include "intq/interop/onnx/read/read.hpp"
#include "intq/interop/onnx/write/write.hpp"

// A quantized model, as a converted one.
#include "intq/interop/quantized_onnx/import_quantized.hpp"

// Any model of the workflow, as a file.
#include "intq/interop/onnx/export/export_options.hpp"
#include "intq/interop/quantized_onnx/export_to_onnx.hpp"

#endif  // INTQ_ONNX_HPP
