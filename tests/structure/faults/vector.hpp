// SPDX-License-Identifier: MIT
//
// Planted fault: the heap in the embeddable half.
#ifndef INTQ_ARITH_PLANTED_HPP
#define INTQ_ARITH_PLANTED_HPP

#include <vector>

#endif  // INTQ_ARITH_PLANTED_HPP
