// SPDX-License-Identifier: MIT
//
// The depthwise tile of the NEON backend: a row of the window a step, in products of int16. Layer: simd
// (docs/design.md section 5).
#ifndef INTQ_SIMD_ARM_NEON_DEPTHWISE_HPP
#define INTQ_SIMD_ARM_NEON_DEPTHWISE_HPP

#if defined(__ARM_NEON) && defined(__AARCH64EL__)

#    include <concepts>

#    include "intq/simd/arm/neon.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

/// Blocks of eight channels: the nine weights of a 3×3 window stay in registers.
///
/// @tparam X       int8 or int16, in memory
/// @tparam Weight  int8 or int16, as stored
template <class X, class Weight> struct NeonDepthwiseTile {
    using element = X;
    using weight = Weight;
    using L = neon_lanes;
    static constexpr int vectors = 2;
    static constexpr index_t depth = 1, columns = 8, run = 4;
    static constexpr int kept_weights = 18;
    static constexpr bool unrolls_pixels = true;

    template <int Vectors> struct Column {
        template <int Count> INTQ_ALWAYS_INLINE void load(const X* const* rows, index_t channels) noexcept {
            static_assert(Count == 1);
            group = Vectors == 2 ? eight(rows[0], channels) : four(rows[0], channels);
        }
        INTQ_ALWAYS_INLINE void fill(std::int32_t zero_point) noexcept {
            group = vdupq_n_s16(static_cast<std::int16_t>(zero_point));
        }
        int16x8_t group;
    };

    template <int Vectors> struct Weights {
        INTQ_ALWAYS_INLINE void load(const Weight* from) noexcept {
            group = Vectors == 2 ? eight(from, 8) : four(from, 4);
        }
        int16x8_t group;
    };

    template <int Vectors> struct Sums {
        INTQ_ALWAYS_INLINE void start(const std::int32_t* bias) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) acc[v] = vld1q_s32(bias + 4 * v);
        }
        INTQ_ALWAYS_INLINE void add(const Column<Vectors>& x, const Weights<Vectors>& w) noexcept {
            acc[0] = vmlal_s16(acc[0], vget_low_s16(x.group), vget_low_s16(w.group));
            if constexpr (Vectors == 2) acc[1] = vmlal_high_s16(acc[1], x.group, w.group);
        }
        INTQ_ALWAYS_INLINE L::i32 drain(int vector) const noexcept { return {acc[vector]}; }

        int32x4_t acc[array_size(Vectors)];
    };

private:
    static INTQ_ALWAYS_INLINE int16x8_t eight(const std::int8_t* from, index_t count) noexcept {
        return vmovl_s8(count >= 8 ? vld1_s8(from) : vcreate_s8(read_bytes(from, count)));
    }
    static INTQ_ALWAYS_INLINE int16x8_t eight(const std::int16_t* from, index_t count) noexcept {
        return count >= 8 ? vld1q_s16(from) : vreinterpretq_s16_u8(L::part(from, 2 * count));
    }
    static INTQ_ALWAYS_INLINE int16x8_t four(const std::int8_t* from, index_t count) noexcept {
        return vmovl_s8(vcreate_s8(count >= 4 ? read<std::uint32_t>(from) : read_bytes(from, count)));
    }
    static INTQ_ALWAYS_INLINE int16x8_t four(const std::int16_t* from, index_t count) noexcept {
        const int16x4_t half = count >= 4 ? vld1_s16(from) : vcreate_s16(read_bytes(from, 2 * count));
        return vcombine_s16(half, half);
    }
};

}  // namespace detail

template <>
struct DepthwiseTile<neon, std::int8_t, std::int8_t, std::int32_t>
    : detail::NeonDepthwiseTile<std::int8_t, std::int16_t> {};
template <std::derived_from<neon> Backend, class Weight>
struct DepthwiseTile<Backend, std::int16_t, Weight, std::int32_t> : detail::NeonDepthwiseTile<std::int16_t, Weight> {};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_NEON_DEPTHWISE_HPP
