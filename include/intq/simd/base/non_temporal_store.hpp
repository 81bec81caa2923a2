// SPDX-License-Identifier: MIT
//
// Non-temporal stores, which go past the caches. Layer: simd.
#ifndef INTQ_SIMD_BASE_NON_TEMPORAL_STORE_HPP
#define INTQ_SIMD_BASE_NON_TEMPORAL_STORE_HPP

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#    include <emmintrin.h>
#endif

#include "intq/core/dtype.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

#if defined(__SSE2__)
inline constexpr bool has_non_temporal_store = true;

/// to[i] = from[i] for `bytes` bytes; whole lines of memory are written without being read into the caches first.
/// Other threads see them after store_fence().
inline void store_non_temporal(void* to, const void* from, index_t bytes) noexcept {
    if (bytes == 0) return;  // both may be null
    constexpr index_t line = 64, step = 16;
    auto* out = static_cast<char*>(to);
    const auto* in = static_cast<const char*>(from);
    const index_t before = static_cast<index_t>(-reinterpret_cast<std::uintptr_t>(to) % line);
    const index_t head = before < bytes ? before : bytes;
    std::memcpy(out, in, static_cast<std::size_t>(head));
    index_t i = head;
    for (; i + line <= bytes; i += line)
        for (index_t at = i; at < i + line; at += step)
            _mm_stream_si128(reinterpret_cast<__m128i*>(out + at),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + at)));
    std::memcpy(out + i, in + i, static_cast<std::size_t>(bytes - i));
}

inline void store_fence() noexcept { _mm_sfence(); }
#else
inline constexpr bool has_non_temporal_store = false;

// Never called, but templates name them where the constant above keeps the call out.
inline void store_non_temporal(void* to, const void* from, index_t bytes) noexcept {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
inline void store_fence() noexcept {}
#endif

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_BASE_NON_TEMPORAL_STORE_HPP
