// SPDX-License-Identifier: MIT
//
// The tiles of the WebAssembly backend: pairs of int16 products. Layer: simd (docs/design.md section 5).
#ifndef INTQ_SIMD_WASM_WASM_TILES_HPP
#define INTQ_SIMD_WASM_WASM_TILES_HPP

#if defined(__wasm_simd128__)

#    include <wasm_simd128.h>

#    include <cstdint>

#    include "intq/simd/tiles/dot_tiles.hpp"
#    include "intq/simd/tiles/generic_tile.hpp"
#    include "intq/simd/wasm/wasm.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

/// Two products a lane and step, of int16 pairs. Only (-2^15)² + (-2^15)² wraps, in int32 as the tile's sum may.
///
/// The largest tile, of 3 rows by 16 columns, takes 31 instructions for 96 products, 0.323 a product: 4 loads of
/// weights, 3 of activations, and 12 products and sums.
struct WasmPairDot {
    using activation = std::int16_t;
    using weight = std::int16_t;
    using lanes = wasm_lanes;
    using Vector = v128_t;
    static constexpr int vectors = 4;
    static constexpr int max_rows(int panel_vectors) noexcept { return 12 / panel_vectors; }

    static INTQ_ALWAYS_INLINE Vector load(const void* from) noexcept { return wasm_lanes::raw(from); }
    static INTQ_ALWAYS_INLINE Vector broadcast(std::int32_t pair) noexcept { return wasm_i32x4_splat(pair); }
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
        return wasm_i32x4_add(acc, wasm_i32x4_dot_i16x8(x, w));
    }
};

/// The same with weights of bytes: the load that widens them is one instruction too.
struct WasmByteDot : WasmPairDot {
    using weight = std::int8_t;

    static INTQ_ALWAYS_INLINE Vector load(const std::int8_t* from) noexcept { return wasm_i16x8_load8x8(from); }
    static INTQ_ALWAYS_INLINE Vector load(const std::int32_t* from) noexcept { return wasm_lanes::raw(from); }
};

/// Rows of int8 or int16 in pairs of int16. A whole block is 8 channels, and interleaving leaves them in order.
template <class X> struct WasmPairRows {
    using element = X;
    static constexpr int vectors = 2;
    static constexpr index_t run = 4;
    static constexpr int kept_weights = 0;

    static INTQ_ALWAYS_INLINE std::int32_t zero_point(std::int32_t code) noexcept {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(code) & 0xffffu) * 0x00010001u);
    }
    template <int Vectors, int Count>
    static INTQ_ALWAYS_INLINE void interleave(const X* const* rows, index_t channels, v128_t* to) noexcept {
        const v128_t a = row(rows[0], channels), b = Count == 2 ? row(rows[Count - 1], channels) : a;
        to[0] = wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        if constexpr (Vectors == 2) to[1] = wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    }

private:
    static INTQ_ALWAYS_INLINE v128_t row(const std::int8_t* from, index_t channels) noexcept {
        return channels == 8 ? wasm_i16x8_load8x8(from) : wasm_i16x8_extend_low_i8x16(wasm_lanes::part(from, channels));
    }
    static INTQ_ALWAYS_INLINE v128_t row(const std::int16_t* from, index_t channels) noexcept {
        return channels == 8 ? wasm_lanes::raw(from) : wasm_lanes::part(from, 2 * channels);
    }
};

}  // namespace detail

template <> struct DotsOf<wasm> {
    using int8_dot = detail::WasmByteDot;
    using int16_dot = detail::WasmPairDot;
    using depthwise_int8 = GroupDepthwiseTile<detail::WasmPairDot, detail::WasmPairRows<std::int8_t>>;
    using depthwise_int16 = GroupDepthwiseTile<detail::WasmPairDot, detail::WasmPairRows<std::int16_t>>;
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __wasm_simd128__

#endif  // INTQ_SIMD_WASM_WASM_TILES_HPP
