// SPDX-License-Identifier: MIT
//
// The AVX-512 VNNI backend: the lanes of avx512bw, tiles of vpdpbusd and vpdpwssd. Layer: simd
// (DESIGN sections 5, 11).
#ifndef INTQ_SIMD_AVX512VNNI_HPP
#define INTQ_SIMD_AVX512VNNI_HPP

#if defined(__AVX512VNNI__) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__x86_64__)

#    include "intq/simd/avx512bw.hpp"

namespace intq::inline INTQ_ABI::simd {

template <> struct LanesOf<avx512vnni> { using type = avx512_lanes; };

namespace detail {

// g++ 12 keeps two copies of each sum of these intrinsics and spills in the K loop; one instruction of inline
// assembly ties input and output. It may go when g++ allocates the intrinsic without a spill.
#    if defined(__GNUC__) && !defined(__clang__)
#        define INTQ_DETAIL_VNNI_(instruction, acc, x, w) asm(instruction " %2, %1, %0" : "+v"(acc) : "v"(x), "v"(w))
#    endif

/// Four products a lane and step, uint8 · int8; the sum wraps and does not saturate.
struct VnniByteDot : Avx512Dot<std::uint8_t, std::int8_t> {
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
#    ifdef INTQ_DETAIL_VNNI_
        INTQ_DETAIL_VNNI_("vpdpbusd", acc, x, w);
        return acc;
#    else
        return _mm512_dpbusd_epi32(acc, x, w);
#    endif
    }
};

/// Two products a lane and step, int16 · int16; the sum wraps.
struct VnniPairDot : Avx512Dot<std::int16_t, std::int16_t> {
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
#    ifdef INTQ_DETAIL_VNNI_
        INTQ_DETAIL_VNNI_("vpdpwssd", acc, x, w);
        return acc;
#    else
        return _mm512_dpwssd_epi32(acc, x, w);
#    endif
    }
};

#    undef INTQ_DETAIL_VNNI_

}  // namespace detail

template <> struct Tile<avx512vnni, std::int8_t, std::int8_t, std::int32_t> : GroupTile<detail::VnniByteDot> {};
template <> struct Tile<avx512vnni, std::int16_t, std::int8_t, std::int32_t> : GroupTile<detail::VnniPairDot> {};
template <> struct Tile<avx512vnni, std::int16_t, std::int16_t, std::int32_t> : GroupTile<detail::VnniPairDot> {};
template <> struct Tile<avx512vnni, std::int8_t, std::int8_t, std::int64_t> : WideGroupTile<detail::VnniPairDot, 1> {};
template <> struct Tile<avx512vnni, std::int8_t, std::int16_t, std::int64_t> : WideGroupTile<detail::VnniPairDot, 2> {};
template <> struct Tile<avx512vnni, std::int16_t, std::int8_t, std::int64_t> : WideGroupTile<detail::VnniPairDot, 1> {};
template <>
struct Tile<avx512vnni, std::int16_t, std::int16_t, std::int64_t> : WideGroupTile<detail::VnniPairDot, 2> {};

}  // namespace intq::inline INTQ_ABI::simd

#endif  // AVX-512 F, BW, DQ, VL, VNNI

#endif  // INTQ_SIMD_AVX512VNNI_HPP
