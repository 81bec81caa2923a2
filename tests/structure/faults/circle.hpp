// SPDX-License-Identifier: MIT
//
// Planted fault: core includes a folder that includes core.
#ifndef INTQ_CORE_PLANTED_HPP
#define INTQ_CORE_PLANTED_HPP

#include "intq/io/error.hpp"

#endif  // INTQ_CORE_PLANTED_HPP
