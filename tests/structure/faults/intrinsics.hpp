// SPDX-License-Identifier: MIT
//
// Planted fault: intrinsics outside simd/.
#ifndef INTQ_KERNELS_STREAMING_PLANTED_HPP
#define INTQ_KERNELS_STREAMING_PLANTED_HPP

#include <immintrin.h>

#endif  // INTQ_KERNELS_STREAMING_PLANTED_HPP
