// SPDX-License-Identifier: MIT
//
// Planted fault: an inner room includes a file that stands above all inner rooms.
#ifndef INTQ_SIMD_BASE_PLANTED_HPP
#define INTQ_SIMD_BASE_PLANTED_HPP

#include "intq/simd/select.hpp"

#endif  // INTQ_SIMD_BASE_PLANTED_HPP
