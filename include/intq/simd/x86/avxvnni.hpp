// SPDX-License-Identifier: MIT
//
// The AVX-VNNI backend: the lanes of avx2, tiles of vpdpbusd and vpdpwssd in registers of 256 bits. Layer: simd
// (docs/design.md sections 5, 11). CPUs with AVX-512 VNNI and VL have the same instructions, so it runs there too.
#ifndef INTQ_SIMD_X86_AVXVNNI_HPP
#define INTQ_SIMD_X86_AVXVNNI_HPP

#if (defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))) && defined(__AVX2__) && \
    defined(__x86_64__)

#    include "intq/simd/x86/avx2.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

template <> struct LanesOf<avxvnni> { using type = avx2_lanes; };

namespace detail {

// One instruction of inline assembly for g++ 12, as in avx512vnni.hpp; where both encodings exist, either will do.
#    if defined(__AVX512VL__)
#        define INTQ_DETAIL_ENCODING_ ""
#        define INTQ_DETAIL_DPBUSD_ _mm256_dpbusd_epi32
#        define INTQ_DETAIL_DPWSSD_ _mm256_dpwssd_epi32
#    else
#        define INTQ_DETAIL_ENCODING_ "%{vex%} "
#        define INTQ_DETAIL_DPBUSD_ _mm256_dpbusd_avx_epi32
#        define INTQ_DETAIL_DPWSSD_ _mm256_dpwssd_avx_epi32
#    endif

/// Registers and memory of tiles of 4 × 24, 6 × 16 and 12 × 8: 12 sums, the weights of a step and 1 broadcast of 16
/// registers.
template <class Activation, class Weight> struct AvxVnniDot {
    using activation = Activation;
    using weight = Weight;
    using lanes = avx2_lanes;
    using Vector = __m256i;
    static constexpr int vectors = 2;
    static constexpr int max_rows(int panel_vectors) noexcept { return 12 / panel_vectors; }

    static INTQ_ALWAYS_INLINE Vector load(const void* from) noexcept {
        return _mm256_loadu_si256(static_cast<const __m256i*>(from));
    }
    static INTQ_ALWAYS_INLINE Vector broadcast(std::int32_t group) noexcept { return _mm256_set1_epi32(group); }
};

/// Four products a lane and step, uint8 · int8; the sum wraps and does not saturate.
struct AvxVnniByteDot : AvxVnniDot<std::uint8_t, std::int8_t> {
    static constexpr int vectors = 3;  // 7 loads for 12 dots, where two vectors take 8

    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
#    if defined(__GNUC__) && !defined(__clang__)
        asm(INTQ_DETAIL_ENCODING_ "vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(x), "x"(w));
        return acc;
#    else
        return INTQ_DETAIL_DPBUSD_(acc, x, w);
#    endif
    }
};

/// Two products a lane and step, int16 · int16; the sum wraps.
struct AvxVnniPairDot : AvxVnniDot<std::int16_t, std::int16_t> {
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
#    if defined(__GNUC__) && !defined(__clang__)
        asm(INTQ_DETAIL_ENCODING_ "vpdpwssd %2, %1, %0" : "+x"(acc) : "x"(x), "x"(w));
        return acc;
#    else
        return INTQ_DETAIL_DPWSSD_(acc, x, w);
#    endif
    }
};

#    undef INTQ_DETAIL_ENCODING_
#    undef INTQ_DETAIL_DPBUSD_
#    undef INTQ_DETAIL_DPWSSD_

}  // namespace detail

template <> struct DotsOf<avxvnni> {
    using int8_dot = detail::AvxVnniByteDot;
    using int16_dot = detail::AvxVnniPairDot;
    using depthwise_int8 = GroupDepthwiseTile<detail::AvxVnniPairDot, detail::Avx2PairRows<std::int8_t>>;
    using depthwise_int16 = GroupDepthwiseTile<detail::AvxVnniPairDot, detail::Avx2PairRows<std::int16_t>>;
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // AVX-VNNI, or AVX-512 VNNI with VL

#endif  // INTQ_SIMD_X86_AVXVNNI_HPP
