// SPDX-License-Identifier: MIT
//
// Planted fault: a header that brings iostream and locale to the embeddable half.
#ifndef INTQ_ARITH_PLANTED_HPP
#define INTQ_ARITH_PLANTED_HPP

#include <iterator>

#endif  // INTQ_ARITH_PLANTED_HPP
