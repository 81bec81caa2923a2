// SPDX-License-Identifier: MIT
//
// Planted fault: includes a header that collects layers.
#ifndef INTQ_IO_PLANTED_HPP
#define INTQ_IO_PLANTED_HPP

#include "intq/embedded.hpp"

#endif  // INTQ_IO_PLANTED_HPP
