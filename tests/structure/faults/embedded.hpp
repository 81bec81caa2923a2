// SPDX-License-Identifier: MIT
//
// Planted fault: the collection of the embeddable half holds a hosted header.
#ifndef INTQ_EMBEDDED_HPP
#define INTQ_EMBEDDED_HPP

#include "intq/io/error.hpp"

#endif  // INTQ_EMBEDDED_HPP
