// SPDX-License-Identifier: MIT
//
// Oracle: all operators of docs/arithmetic.md that it covers, in one include.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_LAYERS_HPP
#define INTQ_TESTS_REFERENCE_LAYERS_HPP

#include "elementwise.hpp"
#include "pool.hpp"
#include "weighted.hpp"

#endif  // INTQ_TESTS_REFERENCE_LAYERS_HPP
