// SPDX-License-Identifier: MIT
//
// Compatibility: whose behaviour a name follows where PyTorch and Horizon differ. Layer: quantization (WORKFLOW).
#ifndef INTQ_QUANTIZATION_OBSERVERS_COMPATIBILITY_HPP
#define INTQ_QUANTIZATION_OBSERVERS_COMPATIBILITY_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq {
inline namespace INTQ_ABI {
namespace quantization {

enum class Compatibility : std::uint8_t { horizon, torch };

}  // namespace quantization
}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_QUANTIZATION_OBSERVERS_COMPATIBILITY_HPP
