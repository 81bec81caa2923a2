// SPDX-License-Identifier: MIT
//
// All backends as tags, unguarded, with the constants that packing needs. Layer: simd (docs/design.md sections 5, 11).
//
// Packing is plain C++ over these constants: any host can pack weights, and ask their size, for any backend.
// A tag inherits the tag that it falls back to; the code of a backend is one file, guarded by the compiler's macros.
#ifndef INTQ_SIMD_BASE_TAGS_HPP
#define INTQ_SIMD_BASE_TAGS_HPP

#include <cstdint>

#include "intq/core/dtype.hpp"
#include "intq/simd/base/backends.hpp"

namespace intq::simd {
inline namespace INTQ_CORE_ABI {

/// How a tile wants its activations: as they are; int8 with the top bit flipped (code + 128, unsigned); int8
/// widened to int16; the same for the pixels of one tile only, all taps of a window in one row, with padding as the
/// zero point; bytes as they are, all taps of a window in one row, column by column; the same row by row, the rows of a
/// tile interleaved; int8 widened to int16, beside weights that a load widens. The skeleton stages a tensor once,
/// paired and interleaved a few tiles, and windows a line at most; the K loop never converts. Weights of groups (depth
/// > 1) and of widened activations are stored as wide as the staged ones; others, paired ones, those of windows and
/// those that a load widens as they are.
enum class Staging : std::uint8_t { as_is, offset_binary, widened, paired, windows, interleaved, widened_beside_bytes };

/// Whether codes of int8 are staged as int16, pixel by pixel.
INTQ_ALWAYS_INLINE constexpr bool widens(Staging staging) noexcept {
    return staging == Staging::widened || staging == Staging::widened_beside_bytes;
}

/// Pixels of the highest tile whose activations are paired: bounds what is staged of them.
inline constexpr index_t paired_rows = 3;

/// What a paired tile keeps of two channels: the words as ShortRounding of lanes takes them, or as HighProduct, which
/// has no power; and the bias.
struct PairedChannels {
    std::int32_t multipliers[2], powers[2], biases[2];
};

/// Order of packed weights: panels of `columns` output channels; inside a panel groups of `depth` consecutive
/// input channels, all columns of a group together. The last panel has as many columns as are left, rounded up to
/// `step`.
///
///     packed[panel][k / depth][column][k % depth]
///
/// Numbers of 16 bits, because each layer of a generated model has them in flash.
struct Packing {
    std::int16_t columns = 4;
    std::int16_t depth = 1;
    Staging staging = Staging::as_is;
    std::int16_t step = columns;
    bool splits = false;  // weights of int16 are two planes of bytes, w = 256·high + low: [group][plane][column][k]
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const Packing&, const Packing&) = default;
};

/// Order of packed depthwise operands, in which lanes are channels: blocks of `columns` channels, then, where at most
/// half a block is left, blocks of `step`. A block of several vectors deals its channels to them in
/// runs, the order that interleaving within parts of a register leaves.
///
///     vector (i / run) mod vectors, lane i / (run·vectors) · run + i mod run   of channel i,   vectors = columns /
///     step weights[block][column of the window][group of rows][vector][lane][row of the group]
///
/// Without columns there is no DepthwiseTile: channels are in natural order, and taps are summed one by one.
struct DepthwisePacking {
    std::int16_t columns = 0;
    std::int16_t step = 1;
    std::int16_t run = 1;
    std::int16_t depth = 1;            // rows of the window whose taps are summed together
    Staging staging = Staging::as_is;  // how the tile converts its input: nothing is staged
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const DepthwisePacking&, const DepthwisePacking&) = default;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::simd

namespace intq::simd {
inline namespace INTQ_ABI {

/// The packing of 64-bit sums for int8 activations: a tile of int16 pairs has them widened.
constexpr Packing widened_for_int8(Packing wide) noexcept {
    if (wide.depth > 1) wide.staging = Staging::widened;
    return wide;
}

/// The packing of a layer whose input codes are never negative: each is the unsigned byte that a tile multiplies.
template <class AnyPacking> constexpr AnyPacking without_conversion(AnyPacking packing) noexcept {
    if (packing.staging == Staging::offset_binary) packing.staging = Staging::as_is;
    return packing;
}

/// Plain C++; every other backend equals it.
struct scalar {
    static constexpr const char* name = "scalar";
    static constexpr Packing int8_packing{4, 1, Staging::as_is};
    static constexpr Packing int16_packing{4, 1, Staging::as_is};
    /// Sums of 64 bits, and float.
    static constexpr Packing wide_packing{4, 1, Staging::as_is};
    static constexpr Packing float_packing{4, 1, Staging::as_is};
    /// int8 · int8 and int16 activations, in sums of 32 bits; float.
    static constexpr DepthwisePacking depthwise_int8_packing{};
    static constexpr DepthwisePacking depthwise_int16_packing{};
    static constexpr DepthwisePacking depthwise_float_packing{};
};

/// Pairs of int16 products in general registers (smlad): Cortex-M4, M7, M33.
struct dsp : scalar {
    static constexpr const char* name = "dsp";
    static constexpr Packing int8_packing{2, 4, Staging::paired, 1};
    static constexpr Packing int16x8_packing = int8_packing;
    static constexpr DepthwisePacking depthwise_int8_packing{1, 1, 1, 1, Staging::paired};
    static constexpr DepthwisePacking depthwise_int16x8_packing = depthwise_int8_packing;
};

/// Sums of sixteen products of int8, or of eight of int16 by int8, in a general register (vmladava): Cortex-M55, M85.
struct helium : scalar {
    static constexpr const char* name = "helium";
    static constexpr Packing int8_packing{2, 16, Staging::windows, 4};
    static constexpr Packing int16x8_packing{2, 8, Staging::windows, 4};
    static constexpr DepthwisePacking depthwise_int8_packing{1, 1, 1, 1, Staging::windows};
    static constexpr DepthwisePacking depthwise_int16x8_packing{8, 8, 1, 1, Staging::windows};
};

/// Products of int16 by a lane (smlal), 4 columns a vector: AArch64.
struct neon : scalar {
    static constexpr const char* name = "neon";
    static constexpr Packing int8_packing{16, 1, Staging::widened, 4};
    static constexpr Packing int16_packing{16, 1, Staging::as_is, 4};
    static constexpr Packing wide_packing{8, 1, Staging::as_is, 4};
    static constexpr Packing float_packing{16, 1, Staging::as_is, 4};
    static constexpr DepthwisePacking depthwise_int8_packing{16, 16, 4, 1, Staging::widened};
    static constexpr DepthwisePacking depthwise_int16_packing{8, 4, 4, 1, Staging::as_is};
    static constexpr DepthwisePacking depthwise_float_packing{8, 4, 4, 1, Staging::as_is};
};

/// Quadruples of int8 products by a lane (sdot), 4 columns a vector.
struct dotprod : neon {
    static constexpr const char* name = "dotprod";
    static constexpr Packing int8_packing{16, 4, Staging::as_is, 4};
    static constexpr DepthwisePacking depthwise_int8_packing{16, 16, 4, 4, Staging::as_is};
};

/// Products of two rows by two columns, of eight bytes each (smmla).
struct i8mm : dotprod {
    static constexpr const char* name = "i8mm";
    static constexpr Packing int8_packing{12, 8, Staging::interleaved, 4};
};

/// Products of int16 by a scalar (vwmacc), 16 columns in registers of 128 bits: RISC-V.
struct rvv128 : scalar {
    static constexpr const char* name = "rvv128";
    static constexpr Packing int8_packing{16, 1, Staging::as_is};
    static constexpr Packing int16_packing{16, 1, Staging::as_is};
    static constexpr Packing wide_packing{16, 1, Staging::as_is};
    static constexpr Packing float_packing{16, 1, Staging::as_is};
    static constexpr DepthwisePacking depthwise_int8_packing{16, 16, 16, 1, Staging::widened};
    static constexpr DepthwisePacking depthwise_int16_packing{16, 16, 16, 1, Staging::as_is};
    static constexpr DepthwisePacking depthwise_float_packing{16, 16, 16, 1, Staging::as_is};
};

/// The same in fewer registers of 256 and of 512 bits: what is packed for one of the three is packed for all.
struct rvv256 : rvv128 {
    static constexpr const char* name = "rvv256";
};
struct rvv512 : rvv256 {
    static constexpr const char* name = "rvv512";
};

/// Pairs of int16 products (pmaddwd), 4 columns a vector.
struct sse41 : scalar {
    static constexpr const char* name = "sse41";
    static constexpr Packing int8_packing{8, 2, Staging::widened, 4};
    static constexpr Packing int16_packing{8, 2, Staging::as_is, 4};
    static constexpr Packing wide_packing{8, 2, Staging::as_is, 4, true};
    static constexpr Packing float_packing{8, 1, Staging::as_is, 4};
    static constexpr DepthwisePacking depthwise_int8_packing{8, 4, 4, 2, Staging::widened};
    static constexpr DepthwisePacking depthwise_int16_packing{8, 4, 4, 2, Staging::as_is};
};

/// Pairs of int16 products (i32x4.dot_i16x8_s), 4 columns a vector: WebAssembly.
struct wasm : scalar {
    static constexpr const char* name = "wasm";
    static constexpr Packing int8_packing{16, 2, Staging::widened_beside_bytes, 4};
    static constexpr Packing int16_packing{16, 2, Staging::as_is, 4};
    static constexpr Packing wide_packing{8, 2, Staging::as_is, 4, true};
    static constexpr Packing float_packing{8, 1, Staging::as_is, 4};
    static constexpr DepthwisePacking depthwise_int8_packing{8, 4, 4, 2, Staging::widened};
    static constexpr DepthwisePacking depthwise_int16_packing{8, 4, 4, 2, Staging::as_is};
    static constexpr DepthwisePacking depthwise_float_packing{8, 4, 4, 1, Staging::as_is};
};

/// Pairs of int16 products (vpmaddwd), 8 columns a vector.
struct avx2 : scalar {
    static constexpr const char* name = "avx2";
    static constexpr Packing int8_packing{16, 2, Staging::widened, 8};
    static constexpr Packing int16_packing{16, 2, Staging::as_is, 8};
    static constexpr Packing wide_packing{16, 2, Staging::as_is, 8, true};
    static constexpr Packing float_packing{16, 1, Staging::as_is, 8};
    static constexpr DepthwisePacking depthwise_int8_packing{16, 8, 8, 2, Staging::widened};
    static constexpr DepthwisePacking depthwise_int16_packing{16, 8, 8, 2, Staging::as_is};
    static constexpr DepthwisePacking depthwise_float_packing{8, 8, 8, 1, Staging::as_is};
};

/// Quadruples of uint8 × int8 products (vpdpbusd) and pairs of int16 products (vpdpwssd), 8 columns a vector.
struct avxvnni : avx2 {
    static constexpr const char* name = "avxvnni";
    static constexpr Packing int8_packing{24, 4, Staging::offset_binary, 8};
};

/// Pairs of int16 products (vpmaddwd), 16 columns a vector.
struct avx512bw : scalar {
    static constexpr const char* name = "avx512bw";
    static constexpr Packing int8_packing{64, 2, Staging::widened, 16};
    static constexpr Packing int16_packing{64, 2, Staging::as_is, 16};
    static constexpr Packing wide_packing{32, 2, Staging::as_is, 16, true};
    static constexpr Packing float_packing{64, 1, Staging::as_is, 16};
    static constexpr DepthwisePacking depthwise_int8_packing{32, 16, 16, 2, Staging::widened};
    static constexpr DepthwisePacking depthwise_int16_packing{32, 16, 16, 2, Staging::as_is};
    static constexpr DepthwisePacking depthwise_float_packing{32, 16, 16, 1, Staging::as_is};
};

/// Quadruples of uint8 × int8 products (vpdpbusd) and pairs of int16 products (vpdpwssd).
struct avx512vnni : avx512bw {
    static constexpr const char* name = "avx512vnni";
    static constexpr Packing int8_packing{64, 4, Staging::offset_binary, 16};
    static constexpr DepthwisePacking depthwise_int8_packing{64, 16, 4, 4, Staging::offset_binary};
};

/// The architecture that xsimd finds in the compiler's flags; its name is known to simd/portable/xsimd.hpp only.
struct best_arch;

/// Portable batches of the xsimd library for one of its architectures. A panel is a whole number of vectors of 4, 8
/// and 16 lanes alike, because packing does not know the architecture.
template <class Arch = best_arch> struct xsimd : scalar {
    static constexpr const char* name = "xsimd";
    static constexpr Packing int8_packing{16, 1, Staging::as_is};
    static constexpr Packing int16_packing{16, 1, Staging::as_is};
    static constexpr Packing wide_packing{16, 1, Staging::as_is};
    static constexpr Packing float_packing{16, 1, Staging::as_is};
};

template <class... Backend> struct BackendList {};

namespace detail {

template <class Nothing, class... Backend> struct ListOf { using type = BackendList<Backend...>; };

}  // namespace detail

/// The rows of simd/base/backends.hpp, best first. simd/select.hpp keeps those that a unit can use.
#define INTQ_DETAIL_TYPE(tag, type, ...) , type
using AllBackends = typename detail::ListOf<void INTQ_BACKENDS(INTQ_DETAIL_TYPE)>::type;
#undef INTQ_DETAIL_TYPE

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_BASE_TAGS_HPP
