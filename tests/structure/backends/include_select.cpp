// SPDX-License-Identifier: MIT
//
// Compiled over headers with a planted fault.
#include "intq/simd/base/cpu.hpp"
#include "intq/simd/select.hpp"
