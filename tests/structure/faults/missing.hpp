// SPDX-License-Identifier: MIT
//
// Planted fault: a header that does not exist.
#ifndef INTQ_CORE_PLANTED_HPP
#define INTQ_CORE_PLANTED_HPP

#include "intq/core/no_such_header.hpp"

#endif  // INTQ_CORE_PLANTED_HPP
