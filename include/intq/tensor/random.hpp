// SPDX-License-Identifier: MIT
//
// Random bits that follow from a position: a generator without a state to keep. Layer: tensor.
#ifndef INTQ_TENSOR_RANDOM_HPP
#define INTQ_TENSOR_RANDOM_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

/// Element `position` of the stream of a seed, the same on every machine.
///
/// Source   Steele, Lea, Flood 2014: SplitMix64
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t position) noexcept {
    std::uint64_t z = seed + 0x9e3779b97f4a7c15u * (position + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_TENSOR_RANDOM_HPP
