// SPDX-License-Identifier: MIT
//
// The depthwise tiles of RISC-V vectors: a row of the window a step, in products of int16. Layer: simd
// (docs/design.md section 5).
#ifndef INTQ_SIMD_RISCV_RVV_DEPTHWISE_HPP
#define INTQ_SIMD_RISCV_RVV_DEPTHWISE_HPP

#include "intq/simd/riscv/rvv_registers.hpp"

#ifdef INTQ_DETAIL_RVV_

#    include "intq/simd/riscv/rvv_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

/// @tparam X       int8 or int16, in memory
/// @tparam Weight  int8 or int16, as stored
template <class X, class Weight> struct RvvDepthwiseTile {
    using element = X;
    using weight = Weight;
    using L = rvv_lanes;
    static constexpr int vectors = 1;
    static constexpr index_t depth = 1, columns = 16, run = 16;
    /// Three pixels in flight, a column and the padding leave too few registers of 128 bits for nine weights, and for
    /// the three rows of a column.
    static constexpr int kept_weights = __riscv_v_fixed_vlen == 128 ? 0 : 9;
    static constexpr bool unrolls_pixels = __riscv_v_fixed_vlen != 128;

    template <int Vectors> struct Column {
        template <int Count> INTQ_ALWAYS_INLINE void load(const X* const* rows, index_t channels) noexcept {
            static_assert(Count == 1 && Vectors == 1);
            if (channels >= L::width())
                group = rvv_halves(rows[0]);
            else
                group = rvv_lanes::part16(rows[0], channels);
        }
        INTQ_ALWAYS_INLINE void fill(std::int32_t zero_point) noexcept {
            group = INTQ_DETAIL_RVV_OF_(__riscv_vmv_v_x_i16, 16)(static_cast<std::int16_t>(zero_point), L::vl);
        }
        RvvHalves group;
    };

    template <int Vectors> struct Weights {
        INTQ_ALWAYS_INLINE void load(const Weight* from) noexcept { group = rvv_halves(from); }
        RvvHalves group;
    };

    template <int Vectors> struct Sums {
        INTQ_ALWAYS_INLINE void start(const std::int32_t* bias) noexcept { acc = L::load(bias).v; }
        INTQ_ALWAYS_INLINE void add(const Column<Vectors>& x, const Weights<Vectors>& w) noexcept {
            acc = __riscv_vwmacc(acc, x.group, w.group, L::vl);
        }
        INTQ_ALWAYS_INLINE L::i32 drain(int) const noexcept { return {acc}; }

        RvvWords acc;
    };
};

}  // namespace detail

template <>
struct DepthwiseTile<INTQ_DETAIL_RVV_, std::int8_t, std::int8_t, std::int32_t>
    : detail::RvvDepthwiseTile<std::int8_t, std::int16_t> {};
template <class Weight>
struct DepthwiseTile<INTQ_DETAIL_RVV_, std::int16_t, Weight, std::int32_t>
    : detail::RvvDepthwiseTile<std::int16_t, Weight> {};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_DETAIL_RVV_

#endif  // INTQ_SIMD_RISCV_RVV_DEPTHWISE_HPP
