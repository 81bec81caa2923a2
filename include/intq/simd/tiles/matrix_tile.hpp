// SPDX-License-Identifier: MIT
//
// The register tile of ISAs that multiply small matrices of bytes: declarations. Layer: simd.
//
// Its rows are interleaved eight bytes at a time, which the skeleton does once for all panels
// (kernels/conv/interleaved_gemm.hpp).
#ifndef INTQ_SIMD_TILES_MATRIX_TILE_HPP
#define INTQ_SIMD_TILES_MATRIX_TILE_HPP

#include <cstdint>

#include "intq/core/dtype.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Rows and columns of a whole tile, and the products of a group.
inline constexpr index_t matrix_rows = 8, matrix_columns = 12, matrix_depth = 8;

/// A panel and a tile of rows.
///
///     sums[r][c] = bias[c] + sum over groups of sum_{k < 8} x[group][r][k] · w[group][c][k]
///
/// x has eight rows in every group, w and sums the columns of the panel.
struct MatrixSums {
    const std::int8_t* x;
    const std::int8_t* w;
    std::int64_t groups;
    const std::int32_t* bias;  // spread by spread_columns()
    std::int32_t* sums;
};

/// Specialised in the file of a backend whose int8_packing has Staging::interleaved, with
///
///     template <int Pairs, int Vectors> static void add(const MatrixSums&);
///         the sums of the first 2·Pairs rows, Pairs <= 4, by a panel of 4·Vectors columns, Vectors <= 3
///     static void add_in_pairs(const MatrixSums&, i32 (&sums)[24]);
///         of a whole tile, in registers and not in memory: sums[6·(r / 2) + c / 2] has [r mod 2][c mod 2]
///     template <int Vectors> static void spread_columns(const int32_t* from, int32_t* to);
///         to[c / 2][r][c mod 2] = from[c] for r < 2: what is added to, or multiplied with, a pair of its rows
///     static void interleave(const int8_t* const* rows, index_t bytes, int8_t* to);
///         to[i / 8][r][i mod 8] = rows[r][i] for the eight rows and i < bytes, a multiple of 8
template <class Backend> struct MatrixTile;

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_MATRIX_TILE_HPP
