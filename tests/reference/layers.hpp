// SPDX-License-Identifier: MIT
//
// Oracle: all operators of ARITHMETIC.md that it covers, in one include.
// Layer: tests/reference (DESIGN section 9).
#ifndef INTQ_TESTS_REFERENCE_LAYERS_HPP
#define INTQ_TESTS_REFERENCE_LAYERS_HPP

#include "elementwise.hpp"
#include "pool.hpp"
#include "weighted.hpp"

#endif  // INTQ_TESTS_REFERENCE_LAYERS_HPP
