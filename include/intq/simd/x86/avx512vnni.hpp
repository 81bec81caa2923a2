// SPDX-License-Identifier: MIT
//
// The AVX-512 VNNI backend: the lanes of avx512bw, tiles of vpdpbusd and vpdpwssd. Layer: simd
// (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_X86_AVX512VNNI_HPP
#define INTQ_SIMD_X86_AVX512VNNI_HPP

#if defined(__AVX512VNNI__) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__x86_64__)

#    include "intq/simd/x86/avx512bw.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

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

/// Rows in groups of four unsigned bytes: int8 in offset binary, codes that are never negative as they are. A whole
/// block is 64 channels.
/// @tparam Code  int8, or uint8 for the latter
template <class Code> struct VnniByteRows {
    using element = Code;
    static constexpr int vectors = 4;
    static constexpr index_t run = 4;
    static constexpr int kept_weights = 12;

    static INTQ_ALWAYS_INLINE std::int32_t zero_point(std::int32_t code) noexcept {
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(code + offset) * 0x01010101u);
    }
    template <int Vectors, int Count>
    static INTQ_ALWAYS_INLINE void interleave(const Code* const* rows, index_t channels, __m512i* to) noexcept {
        if constexpr (Vectors == 1) {
            to[0] = transpose<Count>(rows, channels);
        } else {
            const __mmask64 mask = ~std::uint64_t{0} >> (64 - channels);
            unpack<Count>(
                [&](int r) INTQ_ALWAYS_INLINE_LAMBDA {
                    // A load with a mask is two instructions to the machine.
                    if (channels >= 64) return unsigned_bytes(_mm512_loadu_si512(rows[r]));
                    return unsigned_bytes(_mm512_maskz_loadu_epi8(mask, rows[r]));
                },
                to);
        }
    }
    static constexpr bool takes_pairs = true;
    template <int Vectors, int Count>
    static INTQ_ALWAYS_INLINE void interleave(const PixelPair<Code>* rows, index_t channels, __m512i* to) noexcept {
        const auto mask = static_cast<__mmask32>(~std::uint32_t{0} >> (32 - channels));
        const auto half = [&](const Code* from) INTQ_ALWAYS_INLINE_LAMBDA {
            return channels >= 32 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))
                                  : _mm256_maskz_loadu_epi8(mask, from);
        };
        unpack<Count>(
            [&](int r) INTQ_ALWAYS_INLINE_LAMBDA {
                const __m512i low = _mm512_castsi256_si512(half(rows[r].low));
                return unsigned_bytes(_mm512_inserti64x4(low, half(rows[r].high), 1));
            },
            to);
    }

private:
    static constexpr std::int32_t offset = std::is_signed_v<Code> ? 128 : 0;

    static INTQ_ALWAYS_INLINE __m512i unsigned_bytes(__m512i codes) noexcept {
        if constexpr (offset == 0) return codes;
#    if defined(__GNUC__) && !defined(__clang__)
        // From memory: g++ 12 has no register for it, and makes it anew by shuffles, of which a line is full.
        static constexpr std::int32_t top_bits = -0x7f7f7f80;
        __m512i flipped;
        asm("vpxord %2%{1to16%}, %1, %0" : "=v"(flipped) : "v"(codes), "m"(top_bits));
        return flipped;
#    else
        return _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
#    endif
    }
    /// Bytes of two rows, then pairs of two pairs of rows, within each part of 128 bits.
    template <int Count, class Row> static INTQ_ALWAYS_INLINE void unpack(Row&& row, __m512i* to) noexcept {
        const __m512i a = row(0), b = Count > 1 ? row(1) : a;
        const __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
        __m512i cd_low = ab_low, cd_high = ab_high;
        if constexpr (Count > 2) {
            const __m512i c = row(2), d = Count > 3 ? row(3) : c;
            cd_low = _mm512_unpacklo_epi8(c, d);
            cd_high = _mm512_unpackhi_epi8(c, d);
        }
        to[0] = _mm512_unpacklo_epi16(ab_low, cd_low);
        to[1] = _mm512_unpackhi_epi16(ab_low, cd_low);
        to[2] = _mm512_unpacklo_epi16(ab_high, cd_high);
        to[3] = _mm512_unpackhi_epi16(ab_high, cd_high);
    }
    /// Sixteen channels of each row in one part: four of every row are brought together, then transposed.
    template <int Count>
    static INTQ_ALWAYS_INLINE __m512i transpose(const Code* const* rows, index_t channels) noexcept {
        const auto mask = static_cast<__mmask16>((1u << static_cast<unsigned>(channels)) - 1u);
        const auto row = [&](int r) INTQ_ALWAYS_INLINE_LAMBDA { return _mm_maskz_loadu_epi8(mask, rows[r]); };
        __m512i x = _mm512_castsi128_si512(row(0));
        if constexpr (Count > 1) x = _mm512_inserti32x4(x, row(1), 1);
        if constexpr (Count > 2) x = _mm512_inserti32x4(x, row(2), 2);
        if constexpr (Count > 3) x = _mm512_inserti32x4(x, row(3), 3);
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        const __m512i bytes = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
        x = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(order, x), bytes);
        return unsigned_bytes(x);
    }
};

}  // namespace detail

template <> struct DotsOf<avx512vnni> {
    using int8_dot = detail::VnniByteDot;
    using int16_dot = detail::VnniPairDot;
    using depthwise_int8 = GroupDepthwiseTile<detail::VnniByteDot, detail::VnniByteRows<std::int8_t>>;
    using depthwise_uint8 = GroupDepthwiseTile<detail::VnniByteDot, detail::VnniByteRows<std::uint8_t>>;
    using depthwise_int16 = GroupDepthwiseTile<detail::VnniPairDot, detail::Avx512PairRows<std::int16_t>>;
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // AVX-512 F, BW, DQ, VL, VNNI

#endif  // INTQ_SIMD_X86_AVX512VNNI_HPP
