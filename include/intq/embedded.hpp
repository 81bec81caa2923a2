// SPDX-License-Identifier: MIT
//
// The headers for a board: the arithmetic, the kernels on codes with their tables, the observers of minima and maxima,
// and programs in an arena. No heap, no exceptions, no RTTI.
//
// It leaves out headers of core, arith, simd, kernels, observers and runtime that boards seldom use, because every unit
// that includes this file would compile them. They are float convolution (kernels/conv/float_conv2d.hpp), thresholds
// from histograms (observers/histogram.hpp and its kin), learned scales
// (kernels/streaming/learnable_fake_quantize.hpp), the list of all targets (kernels/table/registry.hpp), packing for
// the backend of another machine (kernels/packing), and the query of the CPU's instruction sets (simd/base/cpu.hpp).
// These headers need no heap either.
#ifndef INTQ_EMBEDDED_HPP
#define INTQ_EMBEDDED_HPP

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

// Layers with weights, and operators without them on views of codes.
#include "intq/kernels/conv/conv2d.hpp"
#include "intq/kernels/views/views.hpp"

// Real numbers to codes and back; the multiplier and the shift of a real factor; a batch norm folded into a layer.
#include "intq/arith/norm.hpp"
#include "intq/arith/quantized_multiplier.hpp"
#include "intq/kernels/streaming/check_finite.hpp"
#include "intq/kernels/streaming/fake_quantize.hpp"

// Ranges of data.
#include "intq/observers/min_max.hpp"
#include "intq/observers/moving_average.hpp"

// Programs: from a file or a generated header, checked, run in an arena, tested.
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/runtime/execute.hpp"
#include "intq/runtime/generated.hpp"
#include "intq/runtime/load_program.hpp"
#include "intq/runtime/memory_plan.hpp"
#include "intq/runtime/self_test.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic pop
#endif

#pragma pop_macro("Status")
#pragma pop_macro("None")
#pragma pop_macro("Bool")

#endif  // INTQ_EMBEDDED_HPP
