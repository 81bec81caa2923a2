// SPDX-License-Identifier: MIT
//
// The embeddable half: core to runtime. All that a board needs; no heap, no exceptions, no RTTI.
#ifndef INTQ_EMBEDDED_HPP
#define INTQ_EMBEDDED_HPP

#include "intq/kernels/conv/conv2d.hpp"
#include "intq/kernels/streaming/check_finite.hpp"
#include "intq/kernels/streaming/fake_quantize.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/observers/min_max.hpp"
#include "intq/observers/moving_average.hpp"
#include "intq/runtime/execute.hpp"
#include "intq/runtime/memory_plan.hpp"

#endif  // INTQ_EMBEDDED_HPP
