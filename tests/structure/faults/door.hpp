// SPDX-License-Identifier: MIT
//
// Planted fault: a door declares something.
#ifndef INTQ_IO_HPP
#define INTQ_IO_HPP

#include "intq/io/error.hpp"

int declared_in_a_door();

#endif  // INTQ_IO_HPP
