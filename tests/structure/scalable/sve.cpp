// SPDX-License-Identifier: MIT
//
// A backend of Arm SVE at a fixed length: lanes and the instruction of an int8 tile, as docs/scalable_vectors.md
// decides. INTQ_FAULT=1 spoils one lane; INTQ_FAULT=2 asks for the length with svcntb(), which the compiler answers.
//
//   <program> <packed file> [shorten]      shorten: first asks Linux for vectors of the length that this was built for
#if !defined(__ARM_FEATURE_SVE_BITS) || __ARM_FEATURE_SVE_BITS == 0
#    error "compile with -march=…+sve -msve-vector-bits=<128, 256 or 512>"
#endif

#include <arm_sve.h>
#include <sys/prctl.h>

#include "intq/simd/tiles/group_tile.hpp"
#include "structure/scalable/run.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

namespace detail {

/// A vector with a size: a member and an array element like any other.
using SveWords = svint32_t __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));

}  // namespace detail

/// The part of the lanes that the skeleton asks for.
struct sve_lanes {
    struct i32 {
        detail::SveWords v;
    };
    static constexpr index_t width() noexcept { return __ARM_FEATURE_SVE_BITS / 32; }

    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from) noexcept { return {svld1_s32(svptrue_b32(), from)}; }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x) noexcept { svst1_s32(svptrue_b32(), to, x.v); }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return {svadd_s32_x(svptrue_b32(), a.v, b.v)}; }
};

template <> struct LanesOf<test::sve> { using type = sve_lanes; };

namespace detail {

/// Four products of bytes a lane and step; the sum wraps. 24 sums leave registers for the weights and the broadcasts:
/// with 28, clang 19 spills.
struct SveByteDot {
    using activation = std::int8_t;
    using weight = std::int8_t;
    using lanes = sve_lanes;
    using Vector = SveWords;
    static constexpr int vectors = static_cast<int>(test::sve::int8_packing.columns / sve_lanes::width());
    static constexpr int max_rows(int panel_vectors) noexcept { return 24 / panel_vectors; }

    static INTQ_ALWAYS_INLINE Vector load(const void* from) noexcept {
        return svld1_s32(svptrue_b32(), static_cast<const std::int32_t*>(from));
    }
    static INTQ_ALWAYS_INLINE Vector broadcast(std::int32_t group) noexcept {
#if INTQ_FAULT == 1
        return svdup_n_s32_m(svdup_n_s32(group), svptrue_pat_b32(SV_VL1), 0);
#else
        return svdup_n_s32(group);
#endif
    }
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
        return svdot_s32(acc, svreinterpret_s8_s32(x), svreinterpret_s8_s32(w));
    }
};

}  // namespace detail

/// Packing's step is a whole panel, so there is no narrower one.
template <> struct Tile<test::sve, std::int8_t, std::int8_t, std::int32_t> : GroupTile<detail::SveByteDot> {
    using shared = Tile;
    static constexpr int narrowest = vectors;
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

int main(int argc, char** argv) {
    if (argc == 3) prctl(PR_SVE_SET_VL, __ARM_FEATURE_SVE_BITS / 8);
#if INTQ_FAULT == 2
    const auto bytes = static_cast<intq::index_t>(svcntb());
#else
    // svcntb() is a constant to a compiler that was told the length.
    intq::index_t bytes = 0;
    asm volatile("rdvl %0, #1" : "=r"(bytes));
#endif
    return intq::test::check_and_run<intq::test::sve>(
        intq::test::check_vector_length(8 * bytes, __ARM_FEATURE_SVE_BITS), argv[1]);
}
