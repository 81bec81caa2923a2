// SPDX-License-Identifier: MIT
//
// No fault: what is internal to a layer is open to its rooms.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_PLANTED_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_PLANTED_HPP

#include "intq/interop/onnx/internal/read/limits.hpp"

#endif  // INTQ_INTEROP_TFLITE_INTERNAL_PLANTED_HPP
