// SPDX-License-Identifier: MIT
//
// FloatKernels: convolution and linear in float, on one backend. Layer: program (docs/design.md section 13).
#ifndef INTQ_PROGRAM_FLOAT_INTERNAL_FLOAT_KERNELS_HPP
#define INTQ_PROGRAM_FLOAT_INTERNAL_FLOAT_KERNELS_HPP

#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/packing/pack_float.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// Convolution and linear in float on one backend: how their weights are packed, and the functions that run them.
struct FloatKernels {
    const char* backend = "";
    kernels::FloatPacking packing{};
    void (*run)(const kernels::ConvCall& call) INTQ_NOEXCEPT = nullptr;
    /// The same with the bits of every backend and machine: no product is contracted with a sum.
    void (*run_reproducible)(const kernels::ConvCall& call) INTQ_NOEXCEPT = nullptr;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_PROGRAM_FLOAT_INTERNAL_FLOAT_KERNELS_HPP
