// SPDX-License-Identifier: MIT
//
// Bounds of output codes from an engine or a file. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_CODE_BOUNDS_HPP
#define INTQ_KERNELS_STREAMING_CODE_BOUNDS_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// A clamp of output codes, which need not contain the zero point.
struct CodeBounds {
    std::int32_t lowest = INT8_MIN;
    std::int32_t highest = INT8_MAX;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_CODE_BOUNDS_HPP
