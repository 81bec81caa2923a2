// SPDX-License-Identifier: MIT
//
// The scalar backend: the specification's own lanes. Layer: simd.
#ifndef INTQ_SIMD_PORTABLE_SCALAR_HPP
#define INTQ_SIMD_PORTABLE_SCALAR_HPP

#include "intq/simd/tiles/generic_tile.hpp"

namespace intq {
inline namespace INTQ_ABI {
namespace simd {

template <> struct LanesOf<scalar> { using type = arith::scalar_lanes; };

}  // namespace simd
}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_SIMD_PORTABLE_SCALAR_HPP
