// SPDX-License-Identifier: MIT
//
// The parts that a backend's file fills in: its lanes and its register tiles. Layer: simd (docs/design.md section 5).
#ifndef INTQ_SIMD_BASE_PRIMITIVES_HPP
#define INTQ_SIMD_BASE_PRIMITIVES_HPP

#include <utility>

#include "intq/arith/lanes.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// The lanes of a backend: `LanesOf<avx2>::type`. Specialised in the backend's file; a backend without a
/// specialisation cannot be used in this unit.
template <class Backend> struct LanesOf;
template <class Backend> using lanes = typename LanesOf<Backend>::type;

// Lanes have all members of arith::scalar_lanes, and may have, where that is faster than one vector at a time:
//
//     CodeQuad(zero_point, quant_min, quant_max).store(int8* to, count, i32 code…)
//         to[i] = clamp(code[i] + zero_point, quant_min, quant_max) for i < count, the codes of one to four vectors in
//         turn
//     CodeQuad(…).store_rows(int8* (&to)[Rows], count, i32 (&code)[4])
//         the same of two or four rows: to[r][i] for i < count, from the vectors r · 4 / Rows and following
//     CodeQuad(…).store_paired_rows(int8* (&to)[4], i32 (&code)[12])
//         of four rows of twelve columns in the order of MatrixTile's pairs, six vectors of two rows each
//     CodeQuad(…).store_runs(to, a, b, c, d, count)
//         the same of vectors in the order of a whole block of DepthwisePacking{4·width(), width(), 4}
//     CodeQuad(…).store_pair(low, high, a, b, c, d, count)
//         of such a block, its first half to low and its second to high, `count` codes each
//     quarters<v>(i32 a, i32 b) -> i32
//         quarter v of a, of b, of a and of b: what store_pair takes as vector v
//     CodeQuad(…).store_rounded(int8* to, f32 a, b, c, d)
//         to[i] = clamp(round_half_even(x) + zero_point, quant_min, quant_max) of four whole vectors in turn; NaN is 0
//     flip_top_bits(const uint8* from, uint8* to, size)
//         to[i] = from[i] ^ 0x80 for i < size
//     store_triples(int8* to, i32 x)
//         to[3·i + c] = byte c of x[i] for c < 3, the lowest first: whole vectors, and 3·width() bytes
//     ByteSums().add(const int8* from),  ByteSums().vector<0 … 3>() -> i32
//         4·width() sums, at first 0, of the codes added up to 256 times; four vectors of them in turn
//     divide_half_away(i32 a, int32 n) -> i32
//         rhaz(a / n), @pre 1 <= n <= 2^24; where a machine divides integers in one instruction
//     hold(f32 a)
//         a, in a register: used more than once, it is not read from memory more than once
//     gather_below(const int32* table, int32 from, const int8* index) -> i32,  largest_packed(packed<int8>) -> int32
//         table[from - index[i]], and the largest of the codes
//     EntrySums().add(const uint64* entries, const int8* index, int16* high),  EntrySums().total() -> uint64
//         high[i] = entries[index[i]] >> 48 for i < 8, and the sum of all entries that were read
//     widen_bytes(const int8_t* from, int16_t* to, size)
//         to[i] = from[i] for i < size
//     NearestMode;  round_in_mode(f32 a) -> i32
//         round_small_to_i32, while a NearestMode lives in this thread, which makes the machine round to the nearest

/// Calls function(integral_constant<int, 0>) … function(integral_constant<int, Count - 1>): every index is a
/// constant, so that registers are never addressed as an array (g++ 12 would keep them in memory).
template <int Count, class Function> INTQ_ALWAYS_INLINE constexpr void unroll(Function&& function) {
    [&]<int... Index>(std::integer_sequence<int, Index...>) INTQ_ALWAYS_INLINE_LAMBDA {
        (function(std::integral_constant<int, Index>{}), ...);
    }
    (std::make_integer_sequence<int, Count>{});
}

/// Lanes of code that runs while a NearestMode<L> lives, and whose floats are known to stay below 2^31 before they are
/// rounded to int32.
template <class L> struct NearestLanes : L {
    static INTQ_ALWAYS_INLINE constexpr typename L::i32 round_to_i32(typename L::f32 a) noexcept {
        if constexpr (requires { L::round_in_mode(a); })
            return L::round_in_mode(a);
        else
            return L::round_small_to_i32(a);
    }
};

namespace detail {

template <class L> struct NearestModeOf {
    struct type {};
};
template <class L>
requires requires { typename L::NearestMode; }
struct NearestModeOf<L> {
    using type = typename L::NearestMode;
};

}  // namespace detail

/// What NearestLanes rely on. To the compiler, the mode is no input of an instruction; but no read or write moves
/// across its change. So what is rounded comes from memory, and goes there, while one NearestMode lives.
template <class L> using NearestMode = typename detail::NearestModeOf<L>::type;

/// Asks for a line of memory that will be written; says nothing to the compiler.
INTQ_ALWAYS_INLINE void prefetch(const void* address) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(address, 1);
#else
    static_cast<void>(address);
#endif
}

/// Asks for a line of memory that will be read from the second cache; says nothing to the compiler. A line that does
/// not exist is no fault.
INTQ_ALWAYS_INLINE void prefetch_for_reading(std::uintptr_t address) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
#else
    static_cast<void>(address);
#endif
}

/// Whether a load or store of a part is code of its own, so that a loop over whole vectors is worth having.
template <class L> inline constexpr bool has_whole_loops = requires { requires L::has_whole_loops; };

/// a; held in a register where the lanes can.
template <class L> INTQ_ALWAYS_INLINE constexpr typename L::f32 hold(typename L::f32 a) {
    if constexpr (requires { L::hold(a); }) {
        return L::hold(a);
    } else {
        return a;
    }
}

/// acc + x · w of floats, rounded once where the lanes have mul_add, else twice. See simd::reproducible for sums whose
/// bits are promised.
template <class L>
INTQ_ALWAYS_INLINE constexpr typename L::f32 add_product(typename L::f32 acc, typename L::f32 x, typename L::f32 w) {
    if constexpr (requires { L::mul_add(x, w, acc); }) {
        return L::mul_add(x, w, acc);
    } else {
        return L::add(acc, L::mul(x, w));
    }
}

/// Lanes without mul_add: a product is rounded before a sum takes it.
template <class L> struct UncontractedLanes : L { template <class... T> static void mul_add(const T&...) = delete; };

/// A backend whose float sums round each product and each sum. Its packing is the backend's.
template <class Backend> struct uncontracted : Backend {};
template <class Backend> struct LanesOf<uncontracted<Backend>> { using type = UncontractedLanes<lanes<Backend>>; };

namespace detail {

template <class Backend> constexpr auto reproducible_backend() noexcept {
    using L = lanes<Backend>;
    if constexpr (requires(typename L::f32 x) { L::mul_add(x, x, x); }) {
        return uncontracted<Backend>{};
    } else {
        return Backend{};
    }
}

}  // namespace detail

/// The backend of float sums where every machine must compute the same bits: all backends sum in one order, and this
/// one contracts nothing.
template <class Backend> using reproducible = decltype(detail::reproducible_backend<Backend>());

/// The register tile of the GEMM skeleton: `Rows` activations rows by one packed panel of columns.
///
///     acc[r][c] = bias[c] + sum_k x[r][k] · w[k][c]      (wrapping in Acc: the proof is the packer's)
///
/// A specialisation for <Backend, X, W, Acc> has
///
///     using activation = …;  using weight = …;                  // staged element types
///     static constexpr index_t columns, depth;                  // equal to the tag's packing
///     static constexpr int vectors;                             // of a whole panel
///     static constexpr int planes;                              // of weights a group: see Packing::splits
///     static constexpr int narrowest;                           // vectors that the packing's step holds
///     static constexpr int max_rows(int vectors);               // rows whose sums stay in registers
///     using shared = …;                                         // the type that tiles of equal code have in common
///     template <int Rows, int Vectors> struct Registers {
///         void start(const Acc* bias);                          // one value a column, padded
///         void step(const activation* const* x, index_t k, const weight* w);   // depth products a column
///         void step_part(const activation* const* x, index_t k, index_t count, const weight* w);
///                                                               // the same; only count < depth readable in x
///         auto drain(int row, int vector) const;                // lanes [vector·width, …) of one row
///     };
///
/// where drain returns lanes::i32, lanes::i64 or lanes::f32 after Acc, and x[r] + k is the first element of the
/// group in row r. The primary template is portable and built only from the lanes: see generic_tile.hpp.
template <class Backend, class X, class Weight, class Acc> struct Tile;

/// The register tile of the depthwise skeleton: a block of channels in `Vectors` vectors, the rows of one column of
/// the window in groups of `depth`. A column is interleaved once and then added to every pixel whose window has it.
///
///     acc[c] = bias[c] + sum over groups of sum_{r < depth} x[r][c] · w[r][c]      (wrapping: the proof is the
///     packer's)
///
/// A backend whose tag has a DepthwisePacking with columns specialises this for <Backend, X, W, Acc>, with
///
///     using element = …;  using weight = …;                     // in memory as in the layer; as stored
///     static constexpr index_t columns, depth, run;             // equal to the tag's packing
///     static constexpr int vectors;                             // of a whole block; Vectors is this or 1
///     static constexpr int kept_weights;                        // vectors of weights that registers hold all along
///     static constexpr bool unrolls_pixels;                     // optional: code for each pixel in flight of a 3×3
///                                                               // window, where moving sums costs more
///     static void sum_columns_by_one(const ColumnWalk&, ColumnBlock&);    // optional: pixels of a whole block and of
///     a static void sum_columns_by_two(const ColumnWalk&, ColumnBlock&);    // 3×3 window that moves by one, and by
///     two struct ColumnWeights { bool load(const weight* from); };            // optional: what they take as weights;
///                                                               // false where they would not be exact
///     template <int Vectors> struct Column {
///         template <int Count> void load(const element* const* rows, index_t channels);
///                                                               // Count <= depth rows; only `channels` are readable
///         void fill(std::int32_t zero_point);                   // a column of padding
///     };
///     template <int Vectors> struct Weights { void load(const weight* from); };    // of one group
///     template <int Vectors> struct Sums {
///         void start(const Acc* bias);
///         void add(const Column<Vectors>& x, const Weights<Vectors>& w);
///         auto drain(int vector) const;                         // in the order of the packing
///     };
///
/// where a column's rows from Count on may be anything finite: their weights are zero. The floats' is portable: see
/// depthwise_tile.hpp.
template <class Backend, class X, class Weight, class Acc> struct DepthwiseTile;

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_BASE_PRIMITIVES_HPP
