// SPDX-License-Identifier: MIT
//
// Planted fault: a header that includes another one, which includes this one where it defines.
#ifndef INTQ_IO_PLANTED_A_HPP
#define INTQ_IO_PLANTED_A_HPP

#include "intq/io/planted_b.hpp"

#endif  // INTQ_IO_PLANTED_A_HPP
