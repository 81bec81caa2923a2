// SPDX-License-Identifier: MIT
//
// The macro by which a unit of the compiled form holds the kernels of one backend. Layer: program
// (docs/design.md section 13).
#ifndef INTQ_PROGRAM_FLOAT_INTERNAL_UNIT_OF_BACKEND_HPP
#define INTQ_PROGRAM_FLOAT_INTERNAL_UNIT_OF_BACKEND_HPP

#include "intq/kernels/conv/float_conv2d.hpp"
#include "intq/program/float/internal/float_kernels.hpp"
#include "intq/simd/select.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

template <class Backend> constexpr FloatKernels float_kernels_of() noexcept {
    static_assert(simd::is_usable<Backend>, "the flags of this unit lack instructions of its backend");
    return {Backend::name, kernels::float_packing<Backend>(),
            &kernels::run_float_conv2d_unchecked<Backend, kernels::no_sumin>,
            &kernels::run_float_conv2d_unchecked<simd::reproducible<Backend>, kernels::no_sumin>};
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

/// Defines the float kernels of simd::<backend>, whose instructions the unit's flags must allow. Nothing of the unit
/// runs on a CPU that lacks them.
#define INTQ_DEFINE_FLOAT_KERNELS(backend)                                                        \
    namespace intq::program {                                                                     \
    inline namespace INTQ_HOSTED_ABI {                                                            \
    namespace detail {                                                                            \
    FloatKernels float_kernels_##backend() noexcept { return float_kernels_of<simd::backend>(); } \
    }                                                                                             \
    }                                                                                             \
    }

#endif  // INTQ_PROGRAM_FLOAT_INTERNAL_UNIT_OF_BACKEND_HPP
