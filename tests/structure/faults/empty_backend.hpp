// SPDX-License-Identifier: MIT
//
// A backend's file whose guard never holds.
#ifndef INTQ_SIMD_X86_SSE41_HPP
#define INTQ_SIMD_X86_SSE41_HPP

#endif  // INTQ_SIMD_X86_SSE41_HPP
