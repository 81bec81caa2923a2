// SPDX-License-Identifier: MIT
//
// The GEMM skeleton: convolution, linear and matmul, int8, int16 and float, on a backend's register tile.
// Layer: kernels (DESIGN section 5).
//
// Implicit GEMM: a row is an output pixel, a column an output channel; for each tap of the window a row of
// activations is a pointer, looked up in the geometry. Nothing is copied or padded.
#ifndef INTQ_KERNELS_GEMM_HPP
#define INTQ_KERNELS_GEMM_HPP

#include "intq/core/executor.hpp"
#include "intq/kernels/epilogue.hpp"
#include "intq/kernels/geometry.hpp"
#include "intq/simd/generic_tile.hpp"

namespace intq::inline INTQ_ABI::kernels {

/// One run of a packed layer, as a function pointer takes it.
struct ConvCall {
    const PackedConv2d* packed = nullptr;
    const ConvGeometry* geometry = nullptr;
    const void* x = nullptr;      // channels last, of the layer's input type; staged for gemm
    const void* sumin = nullptr;  // as y in shape, of the layer's input type
    void* y = nullptr;
    const Executor* executor = nullptr;
};

namespace detail {

/// Bytes of activations that a block of rows should keep inside the L2 cache.
inline constexpr index_t row_block_bytes = 256 * 1024;

/// Sums of each type in lanes: memory, and acc + x·w.
template <class L, class Acc> struct LaneSum;
template <class L> struct LaneSum<L, std::int32_t> {
    using I32 = typename L::i32;
    static INTQ_ALWAYS_INLINE I32 load(const std::int32_t* from) noexcept { return L::load(from); }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, I32 acc) noexcept { L::store(to, acc, L::width()); }
    static INTQ_ALWAYS_INLINE I32 multiply_add(I32 acc, I32 x, I32 w) noexcept { return L::add(acc, L::mul(x, w)); }
};
template <class L> struct LaneSum<L, std::int64_t> {
    using I32 = typename L::i32;
    using I64 = typename L::i64;
    static INTQ_ALWAYS_INLINE I64 load(const std::int64_t* from) noexcept { return L::load_i64(from); }
    static INTQ_ALWAYS_INLINE void store(std::int64_t* to, I64 acc) noexcept { L::store_i64(to, acc, L::width()); }
    static INTQ_ALWAYS_INLINE I64 multiply_add(I64 acc, I32 x, I32 w) noexcept {
        return L::add(acc, L::mul_wide(x, w));
    }
};
template <class L> struct LaneSum<L, float> {
    using F32 = typename L::f32;
    static INTQ_ALWAYS_INLINE F32 load(const float* from) noexcept { return L::load(from); }
    static INTQ_ALWAYS_INLINE void store(float* to, F32 acc) noexcept { L::store(to, acc, L::width()); }
    static INTQ_ALWAYS_INLINE F32 multiply_add(F32 acc, F32 x, F32 w) noexcept { return L::add(acc, L::mul(x, w)); }
};

/// Where the rows of a block of output pixels start, tap by tap.
template <class X, int Rows> class RowPointers {
public:
    INTQ_ALWAYS_INLINE RowPointers(const PackedConv2d& packed, const ConvGeometry& geometry, const X* x, index_t group,
                                   index_t first_row) noexcept
        : channels_(packed.in_channels), padding_(static_cast<const X*>(packed.padding_row)) {
        const index_t pixels = geometry.out_pixels();
        const X* const origin = x + group * packed.group_inputs();
        for (int r = 0; r < Rows; ++r) {
            const index_t row = first_row + r, image = row / pixels, pixel = row % pixels;
            image_[r] = origin + image * geometry.in_pixels() * channels_;
            if (geometry.offsets == nullptr) {
                image_[r] += pixel * channels_;
                offsets_[r] = nullptr;
            } else {
                offsets_[r] = geometry.offsets + pixel * geometry.taps;
            }
        }
    }
    INTQ_ALWAYS_INLINE void at(index_t tap, const X** pointers) const noexcept {
        for (int r = 0; r < Rows; ++r) {
            if (offsets_[0] == nullptr) {
                pointers[r] = image_[r];
            } else {
                const std::int32_t offset = offsets_[r][tap];
                pointers[r] = offset < 0 ? padding_ : image_[r] + offset * channels_;
            }
        }
    }

private:
    index_t channels_;
    const X* padding_;
    const X* image_[Rows];
    const std::int32_t* offsets_[Rows];
};

}  // namespace detail

/// The inner part, keyed on operand types alone: sums of a tile of output pixels by one packed panel.
///
///     sums[r][c] = bias[c] + sum over taps and k of x[tap of row r][k] · w[tap][k][c]
///
/// A target has many epilogues but few of these, which hold the unrolled code: so instantiations stay few.
template <class Backend, class X, class W, class Acc> struct GemmTile {
    using Tile = simd::Tile<Backend, X, W, Acc>;
    using Activation = typename Tile::activation;
    using Weight = typename Tile::weight;
    static constexpr int max_rows = Tile::max_rows;
    static constexpr index_t columns = Tile::columns;

    /// Sums of `rows` rows, 1 <= rows <= max_rows; no row is computed twice.
    static void run(const ConvCall& call, index_t group, index_t panel, index_t row, index_t rows, Acc* sums) noexcept {
        if (rows == max_rows) return run_rows<max_rows>(call, group, panel, row, sums);
        constexpr int half = max_rows / 2 > 1 ? max_rows / 2 : 1;
        index_t done = 0;
        for (; rows - done >= half; done += half) run_rows<half>(call, group, panel, row + done, sums + done * columns);
        for (; done < rows; ++done) run_rows<1>(call, group, panel, row + done, sums + done * columns);
    }

private:
    template <int Rows>
    static INTQ_NEVER_INLINE void run_rows(const ConvCall& call, index_t group, index_t panel, index_t row,
                                           Acc* sums) noexcept {
        const PackedConv2d& packed = *call.packed;
        const index_t depth = packed.group_inputs(), whole = depth / Tile::depth * Tile::depth;
        const Weight* w =
            static_cast<const Weight*>(packed.weights) + (group * packed.panels() + panel) * packed.panel_size();
        const detail::RowPointers<Activation, Rows> rows(packed, *call.geometry, static_cast<const Activation*>(call.x),
                                                         group, row);
        typename Tile::template Registers<Rows> registers;
        registers.start(static_cast<const Acc*>(packed.bias) + group * packed.group_stride + panel * columns);
        for (index_t tap = 0; tap < packed.taps(); ++tap) {
            const Activation* x[Rows];
            rows.at(tap, x);
            for (index_t k = 0; k < whole; k += Tile::depth) {
                registers.step(x, k, w);
                w += columns * Tile::depth;
            }
            if (whole < depth) {
                registers.step_part(x, whole, depth - whole, w);
                w += columns * Tile::depth;
            }
        }
        using L = simd::lanes<Backend>;
        simd::unroll<Rows>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA {
            simd::unroll<Tile::vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                detail::LaneSum<L, Acc>::store(sums + r * columns + v * L::width(), registers.template drain<r, v>());
            });
        });
    }
};

/// y = epilogue(sum over taps and channels of x·w) for the types of one registry row.
///
/// @tparam X, W, Acc, Y  public types of input, weight, accumulator and output; float throughout, or integers
/// @tparam E             element type of the fused add, or no_sumin
///
/// Result   exact for integers: sums wrap, and the packer proved that the true sum fits
/// Memory   one tile of sums on the stack
/// Cost     2 · rows · columns · taps · channels operations
template <class Backend, class Policy, class X, class W, class Acc, class Y, class E> struct Gemm {
    using L = simd::lanes<Backend>;
    using Inner = GemmTile<Backend, X, W, Acc>;

    static void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.packing.columns == Inner::columns && packed.packing.depth == Inner::Tile::depth);
        INTQ_ASSERT(packed.has_sumin == !(std::is_same_v<E, no_sumin>));
        const index_t rows = call.geometry->batch * call.geometry->out_pixels();
        const index_t row_bytes =
            packed.taps() * packed.group_inputs() * static_cast<index_t>(sizeof(typename Inner::Activation));
        index_t block = detail::row_block_bytes / (row_bytes > 0 ? row_bytes : 1);
        block = round_up(block < 1 ? 1 : block, Inner::max_rows);
        const index_t blocks = (rows + block - 1) / block;
        (*call.executor)(packed.groups * blocks, [&](index_t task) {
            const index_t first = task % blocks * block;
            run_block(call, task / blocks, first, first + block < rows ? first + block : rows);
        });
    }

private:
    static INTQ_NEVER_INLINE void run_block(const ConvCall& call, index_t group, index_t first,
                                            index_t last) INTQ_NOEXCEPT {
        alignas(buffer_alignment) Acc sums[Inner::max_rows * Inner::columns];
        for (index_t panel = 0; panel < call.packed->panels(); ++panel)
            for (index_t row = first; row < last; row += Inner::max_rows) {
                const index_t rows = last - row < Inner::max_rows ? last - row : Inner::max_rows;
                Inner::run(call, group, panel, row, rows, sums);
                store(call, sums, group, panel, row, rows);
            }
    }

    static void store(const ConvCall& call, const Acc* sums, index_t group, index_t panel, index_t row,
                      index_t rows) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const Epilogue<L, Policy, Y, E> epilogue(packed);
        const index_t first = panel * Inner::columns, stride = packed.out_channels;
        // Output channels of this group from the panel's first on; the rest of the panel is padding.
        const index_t left =
            packed.group_outputs() - first < Inner::columns ? packed.group_outputs() - first : Inner::columns;
        for (index_t lane = 0; lane < left; lane += L::width()) {
            const index_t count = left - lane < L::width() ? left - lane : L::width();
            const auto channels = epilogue.channels(group * packed.group_stride + first + lane);
            for (index_t r = 0; r < rows; ++r) {
                const index_t at = (row + r) * stride + group * packed.group_outputs() + first + lane;
                const E* const e = static_cast<const E*>(call.sumin) + (std::is_same_v<E, no_sumin> ? 0 : at);
                const auto acc = detail::LaneSum<L, Acc>::load(sums + r * Inner::columns + lane);
                epilogue.store(acc, channels, e, static_cast<Y*>(call.y) + at, count);
            }
        }
    }
};

}  // namespace intq::inline INTQ_ABI::kernels

#endif  // INTQ_KERNELS_GEMM_HPP
