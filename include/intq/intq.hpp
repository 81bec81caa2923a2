// SPDX-License-Identifier: MIT
//
// All of intq, for a hosted program: the embeddable half and every header of the hosted rooms.
#ifndef INTQ_INTQ_HPP
#define INTQ_INTQ_HPP

// Xlib's macros of these names are put aside until the end of this file (docs/kernels_in_your_engine.md).
#pragma push_macro("Bool")
#pragma push_macro("None")
#pragma push_macro("Status")
#undef Bool
#undef None
#undef Status

// g++ warns of a name in a template when it makes the function, if a program had a global variable of that name before.
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wshadow"
#endif

// The half without a heap: arithmetic, kernels, programs in an arena.
#include "intq/embedded.hpp"
// Files and text: arrays, tables, errors. The basis of all other doors.
#include "intq/io.hpp"
// Tensors that own their memory, and their parts.
#include "intq/tensor.hpp"
// Programs: a lowered model with its memory, ready to run.
#include "intq/program.hpp"
// Float models: modules in named slots, layers, and functions that a graph can name.
#include "intq/nn.hpp"
// Models as graphs: traced, printed, edited and run node by node, as FX does.
#include "intq/graph.hpp"
// The workflow: fuse, prepare, calibrate or train, convert, lower (docs/workflow.md).
#include "intq/quantization.hpp"
// Training: gradients of a graph, losses, optimizers, epochs (docs/training.md).
#include "intq/training.hpp"
// Methods that improve a quantized model without training (docs/improve.md).
#include "intq/improve.hpp"
// Two models side by side, by PyTorch's names (docs/workflow.md section 5).
#include "intq/numeric_suite.hpp"
// Which layer lost the accuracy, why, and what to change (docs/debugging.md).
#include "intq/analysis.hpp"
// ONNX files, read and written (docs/onnx.md).
#include "intq/onnx.hpp"
// TFLite files, read (docs/from_tflite.md).
#include "intq/tflite.hpp"
// A program as a file or as C++ source, for a board (docs/to_a_microcontroller.md).
#include "intq/deploy.hpp"
// Several ranks: threads or processes that calibrate and train together (docs/distributed.md).
#include "intq/distributed.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic pop
#endif

#pragma pop_macro("Status")
#pragma pop_macro("None")
#pragma pop_macro("Bool")

#endif  // INTQ_INTQ_HPP
