// SPDX-License-Identifier: MIT
//
// A backend of RISC-V RVV 1.0 at a fixed length: lanes and an int8 tile, as docs/scalable_vectors.md decides.
// INTQ_FAULT=1 spoils one lane; INTQ_FAULT=2 takes the length from the compiler.
//
//   <program> <packed file>
#if !defined(__riscv_v_fixed_vlen)
#    error "compile with -march=rv64gcv_zvl<128, 256 or 512>b -mrvv-vector-bits=zvl"
#endif

#include <riscv_vector.h>

#include "structure/scalable/run.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

namespace detail {

/// A vector with a size: a member and an array element like any other.
using RvvWords = vint32m1_t __attribute__((riscv_rvv_vector_bits(__riscv_v_fixed_vlen)));

// Sixteen columns are one operand of four registers, of two or of one. A local variable needs no size.
#if __riscv_v_fixed_vlen == 128
using RvvBytes16 = vint8m1_t;
using RvvHalves16 = vint16m2_t;
using RvvWords16 = vint32m4_t;
#    define INTQ_DETAIL_RVV_LOAD_BYTES_ __riscv_vle8_v_i8m1
#    define INTQ_DETAIL_RVV_LOAD_WORDS_ __riscv_vle32_v_i32m4
#elif __riscv_v_fixed_vlen == 256
using RvvBytes16 = vint8mf2_t;
using RvvHalves16 = vint16m1_t;
using RvvWords16 = vint32m2_t;
#    define INTQ_DETAIL_RVV_LOAD_BYTES_ __riscv_vle8_v_i8mf2
#    define INTQ_DETAIL_RVV_LOAD_WORDS_ __riscv_vle32_v_i32m2
#elif __riscv_v_fixed_vlen == 512
using RvvBytes16 = vint8mf4_t;
using RvvHalves16 = vint16mf2_t;
using RvvWords16 = vint32m1_t;
#    define INTQ_DETAIL_RVV_LOAD_BYTES_ __riscv_vle8_v_i8mf4
#    define INTQ_DETAIL_RVV_LOAD_WORDS_ __riscv_vle32_v_i32m1
#else
#    error "a panel of 16 columns needs vectors of 128, 256 or 512 bits"
#endif
using RvvSums = RvvWords16 __attribute__((riscv_rvv_vector_bits(512)));

/// One of the registers of an operand.
INTQ_ALWAYS_INLINE RvvWords register_of(RvvWords16 panel, int index) noexcept {
#if __riscv_v_fixed_vlen == 512
    static_cast<void>(index);
    return panel;
#else
    // The index of the intrinsic is a constant; that of the caller is one once its loop is unrolled.
#    if __riscv_v_fixed_vlen == 128
    if (index == 2) return __riscv_vget_i32m1(panel, 2);
    if (index == 3) return __riscv_vget_i32m1(panel, 3);
#    endif
    return index == 0 ? __riscv_vget_i32m1(panel, 0) : __riscv_vget_i32m1(panel, 1);
#endif
}

}  // namespace detail

/// The part of the lanes that the skeleton asks for.
struct rvv_lanes {
    struct i32 {
        detail::RvvWords v;
    };
    static constexpr index_t width() noexcept { return __riscv_v_fixed_vlen / 32; }
    static constexpr std::size_t vl = __riscv_v_fixed_vlen / 32;

    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from) noexcept { return {__riscv_vle32_v_i32m1(from, vl)}; }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x) noexcept { __riscv_vse32_v_i32m1(to, x.v, vl); }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return {__riscv_vadd_vv_i32m1(a.v, b.v, vl)}; }
};

template <> struct LanesOf<test::rvv> { using type = rvv_lanes; };

/// RVV has no dot product: weights are widened to int16 once a step, and each row adds int16 products to its sums,
/// vwmacc with the activation in a scalar register.
template <> struct Tile<test::rvv, std::int8_t, std::int8_t, std::int32_t> {
    using activation = std::int8_t;
    using weight = std::int8_t;
    using L = rvv_lanes;
    using shared = Tile;
    static constexpr index_t columns = test::rvv::int8_packing.columns;
    static constexpr index_t depth = 1;
    static constexpr int vectors = static_cast<int>(columns / L::width());
    static constexpr int narrowest = vectors;
    static constexpr int planes = 1;
    static constexpr int max_rows(int panel_vectors) noexcept { return 24 / panel_vectors; }

    template <int Rows, int Vectors> struct Registers {
        static_assert(Vectors == vectors);

        INTQ_ALWAYS_INLINE void start(const std::int32_t* bias) noexcept {
            const detail::RvvWords16 first = INTQ_DETAIL_RVV_LOAD_WORDS_(bias, columns);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) acc[r] = first;
        }
        INTQ_ALWAYS_INLINE void step(const std::int8_t* const* x, index_t k, const std::int8_t* w) noexcept {
#if INTQ_FAULT == 1
            constexpr std::size_t count = columns - 1;
#else
            constexpr std::size_t count = columns;
#endif
            const detail::RvvBytes16 bytes = INTQ_DETAIL_RVV_LOAD_BYTES_(w, columns);
            const detail::RvvHalves16 panel = __riscv_vsext_vf2(bytes, columns);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) acc[r] = __riscv_vwmacc(acc[r], std::int16_t{x[r][k]}, panel, count);
        }
        /// Never called: a group of depth 1 has no part.
        INTQ_ALWAYS_INLINE void step_part(const std::int8_t* const*, index_t, index_t, const std::int8_t*) noexcept {}
        INTQ_ALWAYS_INLINE L::i32 drain(int row, int vector) const noexcept {
            return {detail::register_of(acc[row], vector)};
        }

        detail::RvvSums acc[Rows];
    };
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

int main(int, char** argv) {
#if INTQ_FAULT == 2
    const intq::index_t bytes = __riscv_v_fixed_vlen / 8;
#else
    intq::index_t bytes = 0;
    asm volatile("csrr %0, vlenb" : "=r"(bytes));
#endif
    return intq::test::check_and_run<intq::test::rvv>(8 * bytes, __riscv_v_fixed_vlen, argv[1]);
}
