// SPDX-License-Identifier: MIT
//
// Compatibility: which behaviour applies where PyTorch and Horizon differ. Layer: quantization (docs/workflow.md).
#ifndef INTQ_QUANTIZATION_OBSERVERS_COMPATIBILITY_HPP
#define INTQ_QUANTIZATION_OBSERVERS_COMPATIBILITY_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

enum class Compatibility : std::uint8_t { horizon, torch };

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_OBSERVERS_COMPATIBILITY_HPP
