// SPDX-License-Identifier: MIT
//
// The scalar backend: the specification's own lanes. Layer: simd.
#ifndef INTQ_SIMD_PORTABLE_SCALAR_HPP
#define INTQ_SIMD_PORTABLE_SCALAR_HPP

#include "intq/arith/lanes.hpp"
#include "intq/simd/tiles/generic_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

template <> struct LanesOf<scalar> { using type = arith::scalar_lanes; };

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_PORTABLE_SCALAR_HPP
