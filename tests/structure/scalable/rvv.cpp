// SPDX-License-Identifier: MIT
//
// The library's backend of RISC-V vectors, at the length that the flags say. INTQ_FAULT=1 spoils one lane;
// INTQ_FAULT=2 takes the length from the compiler.
//
//   <program> <packed file>
#if !defined(__riscv_v_fixed_vlen)
#    error "compile with -march=rv64gcv_zvl<128, 256 or 512>b -mrvv-vector-bits=zvl"
#endif

#include "intq/simd/select.hpp"
#include "structure/scalable/run.hpp"

#if INTQ_FAULT == 1
namespace intq::test {
struct spoiled : simd::native {};
}  // namespace intq::test

namespace intq::simd {
inline namespace INTQ_ABI {

template <> struct LanesOf<test::spoiled> { using type = rvv_lanes; };
template <>
struct Tile<test::spoiled, std::int8_t, std::int8_t, std::int32_t> : detail::RvvTile<std::int8_t, std::int8_t> {
    using shared = Tile;
    template <int Rows, int Vectors>
    struct Registers : detail::RvvTile<std::int8_t, std::int8_t>::template Registers<Rows, Vectors> {
        INTQ_ALWAYS_INLINE L::i32 drain(int row, int vector) const noexcept {
            static constexpr std::int32_t one_lane[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
            const L::i32 sums = detail::RvvTile<std::int8_t, std::int8_t>::Registers<Rows, Vectors>::drain(row, vector);
            return L::add(sums, L::load(one_lane));
        }
    };
};

}  // namespace INTQ_ABI
}  // namespace intq::simd
using Backend = intq::test::spoiled;
#else
using Backend = intq::simd::native;
#endif

int main(int, char** argv) {
#if INTQ_FAULT == 2
    const intq::Status status = intq::test::check_vector_length(__riscv_v_fixed_vlen, __riscv_v_fixed_vlen);
#else
    const intq::Status status = intq::simd::check_vector_length();
#endif
    return intq::test::check_and_run<Backend>(status, argv[1]);
}
