// SPDX-License-Identifier: MIT
//
// Random bits that follow from a position, and the generator of the program, which manual_seed() sets. Layer: tensor.
#ifndef INTQ_TENSOR_RANDOM_HPP
#define INTQ_TENSOR_RANDOM_HPP

#include <atomic>
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

/// Restarts the generator of the program: initial values of nn layers follow from this seed and from the order in which
/// the layers are made. Without a call the seed is 0.
///
/// Several threads may call it and make layers at once. The numbers of each layer then depend on the order of the
/// threads.
void manual_seed(std::uint64_t seed) noexcept;

/// The seed of a new stream of random_bits(), the next one of that generator.
std::uint64_t next_random_stream() noexcept;

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(tensor)

namespace tensor_detail {

/// The state is one number, so that a thread never sees half of it.
inline std::atomic<std::uint64_t>& random_state() noexcept {
    static std::atomic<std::uint64_t> state{random_bits(0, 0)};
    return state;
}

}  // namespace tensor_detail

INTQ_INLINE void manual_seed(std::uint64_t seed) noexcept { tensor_detail::random_state() = random_bits(seed, 0); }

INTQ_INLINE std::uint64_t next_random_stream() noexcept {
    return random_bits(tensor_detail::random_state().fetch_add(1), 0);
}

#endif  // INTQ_DEFINES(tensor)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_TENSOR_RANDOM_HPP
