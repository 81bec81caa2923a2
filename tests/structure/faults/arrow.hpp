// SPDX-License-Identifier: MIT
//
// Planted fault: core includes a layer that stands below it.
#ifndef INTQ_CORE_PLANTED_HPP
#define INTQ_CORE_PLANTED_HPP

#include "intq/simd/base/tags.hpp"

#endif  // INTQ_CORE_PLANTED_HPP
