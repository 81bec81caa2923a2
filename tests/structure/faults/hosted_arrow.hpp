// SPDX-License-Identifier: MIT
//
// Planted fault: io includes a layer that stands below it.
#ifndef INTQ_IO_PLANTED_HPP
#define INTQ_IO_PLANTED_HPP

#include "intq/tensor/tensor.hpp"

#endif  // INTQ_IO_PLANTED_HPP
