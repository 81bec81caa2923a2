// SPDX-License-Identifier: MIT
//
// TFLite files, read (docs/from_tflite.md).
#ifndef INTQ_TFLITE_HPP
#define INTQ_TFLITE_HPP

// A model of codes, as a program.
#include "intq/interop/tflite/import.hpp"

// The limits of a small file.
#include "intq/interop/tflite/read/limits.hpp"

// A model of real numbers, as a graph of modules.
#include "intq/interop/tflite/float_model.hpp"

#endif  // INTQ_TFLITE_HPP
