// SPDX-License-Identifier: MIT
//
// The product of two matrices of activation codes, on the register tiles of convolutions. Layer: kernels
// (docs/gemm.md).
//
// Both operands are copied first, whatever their places: the first by rows, the second packed as weights are. The
// copies take inner·(rows + columns) steps, and the product inner·rows·columns. Zero points stay out of the products:
//
//     sum_k (a - za)·(b - zb) = sum_k a·b - za·sum_k b + inner·za·zb  - zb·sum_k a
//
// The second and third terms are a column's, where its sums begin; the last is a row's.
#ifndef INTQ_KERNELS_MATMUL_MATMUL_HPP
#define INTQ_KERNELS_MATMUL_MATMUL_HPP

#include <array>
#include <cstring>
#include <type_traits>

#include "intq/arith/lanes.hpp"
#include "intq/arith/target.hpp"
#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/matmul/matmul_call.hpp"
#include "intq/kernels/packing/weight_places.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/elementwise.hpp"
#include "intq/simd/tiles/generic_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// The parts of a matmul that know no target: copies of one matrix of each operand, and tiles of sums.
template <class Backend, class Code> class MatmulParts {
public:
    using Sum = std::conditional_t<std::is_same_v<Code, std::int16_t>, std::int64_t, std::int32_t>;
    using Tile = typename simd::Tile<Backend, std::int16_t, std::int16_t, Sum>::shared;
    using L = simd::lanes<Backend>;
    static constexpr index_t columns = Tile::columns;
    static constexpr simd::Packing packing = matmul_packing(packing_rules_of<Backend>(nullptr), dtype_of<Code>);

    /// Rows of the highest tile.
    static constexpr index_t most_rows = [] {
        index_t most = 1;
        for (int v = Tile::narrowest; v <= Tile::vectors; ++v)
            if (Tile::max_rows(v) > most) most = Tile::max_rows(v);
        return most;
    }();

    MatmulParts(const MatmulCall& call, BufferCursor cursor) INTQ_NOEXCEPT
        : shape_(*call.shape),
          scratch_(place_matmul(shape_, packing, dtype_of<Code>, cursor)),
          zero_point_{call.params->zero_point[0], call.params->zero_point[1]},
          depth_(round_up(shape_.inner, Tile::depth)) {}

    index_t panels() const noexcept { return quotient_up(shape_.columns, columns); }

    /// Copies a row of a matrix of the first operand.
    void copy_row(const Code* x, index_t matrix, index_t row) const noexcept {
        std::int16_t* to = scratch_.rows + row * depth_;
        std::int16_t* const end = to + depth_;
        std::int64_t sum = 0;
        for_each_run(shape_.places[0], (matrix * shape_.rows + row) * shape_.inner, shape_.inner,
                     [&](index_t from, index_t step, index_t count) {
                         for (index_t k = 0; k < count; ++k) {
                             const Code code = x[from + k * step];
                             sum += code;
                             *to++ = code;
                         }
                     });
        for (; to < end; ++to) *to = 0;
        row_terms()[row] = static_cast<Sum>(-zero_point_[1] * sum);
    }

    /// Packs a panel of columns of a matrix of the second operand.
    void pack_panel(const Code* x, index_t matrix, index_t panel) const noexcept {
        const index_t first = panel * columns, width = width_of(panel), plane = width * Tile::depth;
        const index_t group = plane * Tile::planes;
        std::int16_t* const to = panel_at(panel);
        std::memset(to, 0, static_cast<std::size_t>(width * depth_ * Tile::planes) * sizeof *to);
        Sum* const terms = column_terms() + first;
        for (index_t j = 0; j < width; ++j) terms[j] = 0;
        for (index_t j = 0; j < count_of(panel); ++j) {
            index_t k = 0;
            std::int64_t sum = 0;
            for_each_run(shape_.places[1], (matrix * shape_.columns + first + j) * shape_.inner, shape_.inner,
                         [&](index_t from, index_t step, index_t count) {
                             for (index_t i = 0; i < count; ++i, ++k) {
                                 const std::int32_t code = x[from + i * step];
                                 sum += code;
                                 std::int16_t* const at =
                                     to + k / Tile::depth * group + j * Tile::depth + k % Tile::depth;
                                 if constexpr (Tile::planes == 1) {
                                     *at = static_cast<std::int16_t>(code);
                                 } else {
                                     at[0] = static_cast<std::int16_t>(low_plane(code));
                                     at[plane] = static_cast<std::int16_t>(high_plane(code));
                                 }
                             }
                         });
            terms[j] = static_cast<Sum>(zero_point_[0] * (shape_.inner * zero_point_[1] - sum));
        }
    }

    /// Calls store(row, column, sums, count) for each row of a panel among `rows` rows from `first` on: `count` sums,
    /// readable to the end of a vector.
    template <class Store>
    void sum_panel(index_t panel, index_t first, index_t rows, const Store& store) const noexcept {
        alignas(buffer_alignment) Sum sums[array_size(most_rows * columns)];
        const index_t width = width_of(panel), count = count_of(panel);
        const int vectors = static_cast<int>(width / L::width());
        for (const index_t end = first + rows; first < end;) {
            const index_t most = Tile::max_rows(vectors), taken = end - first >= most ? most : 1;
            simd::unroll<Tile::vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                if constexpr (v + 1 >= Tile::narrowest)
                    if (vectors == v + 1)
                        taken == 1 ? sum_rows<1, v + 1>(panel, first, sums)
                                   : sum_rows<Tile::max_rows(v + 1), v + 1>(panel, first, sums);
            });
            for (index_t r = 0; r < taken; ++r) store(first + r, panel * columns, sums + r * width, count);
            first += taken;
        }
    }

    Sum row_term(index_t row) const noexcept { return row_terms()[row]; }

private:
    index_t width_of(index_t panel) const noexcept {
        return smaller(columns, round_up(shape_.columns - panel * columns, packing.step));
    }
    index_t count_of(index_t panel) const noexcept { return smaller(columns, shape_.columns - panel * columns); }
    std::int16_t* panel_at(index_t panel) const noexcept {
        return scratch_.panels + panel * columns * depth_ * Tile::planes;
    }
    Sum* row_terms() const noexcept { return reinterpret_cast<Sum*>(scratch_.row_terms); }
    Sum* column_terms() const noexcept { return reinterpret_cast<Sum*>(scratch_.column_terms); }

    template <int Rows, int Vectors>
    INTQ_NEVER_INLINE void sum_rows(index_t panel, index_t first, Sum* sums) const noexcept {
        constexpr index_t step = Vectors * L::width() * Tile::depth * Tile::planes;
        const std::int16_t* x[array_size(Rows)];
        INTQ_UNROLL
        for (int r = 0; r < Rows; ++r) x[r] = scratch_.rows + (first + r) * depth_;
        const std::int16_t* w = panel_at(panel);
        typename Tile::template Registers<Rows, Vectors> registers;
        registers.start(column_terms() + panel * columns);
        for (index_t k = 0; k < depth_; k += Tile::depth, w += step) registers.step(x, k, w);
        INTQ_UNROLL
        for (int r = 0; r < Rows; ++r) {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v)
                LaneSum<L, Sum>::store(sums + (r * Vectors + v) * L::width(), registers.drain(r, v));
        }
    }

    const MatmulShape& shape_;
    MatmulScratch scratch_;
    std::int64_t zero_point_[2];
    index_t depth_;  // of a row: inner, rounded up to whole groups
};

/// Rows that one task sums by a panel.
inline constexpr index_t matmul_task_rows = 96;

}  // namespace detail

/// y[m][i][j] = requantize(sum_k (a[m][i][k] - za)·(b[m][j][k] - zb)), by arith/matmul.hpp
///
/// @tparam Policy    requantize policy
/// @tparam WordSum   the accumulator that the policy's words were made for
/// @pre check_matmul_shape() and arith::check_matmul_params() are ok; workspace of matmul_workspace_size() bytes; y
///      must not overlap x or the workspace
///
/// Result   exact; the same bytes on every backend and executor
/// Cost     O(rows·columns·inner) for each matrix
template <class Backend, class Policy, class Code, class WordSum>
void matmul_codes(const MatmulCall& call) INTQ_NOEXCEPT {
    using Parts = detail::MatmulParts<Backend, Code>;
    using L = typename Parts::L;
    const MatmulShape& shape = *call.shape;
    const Parts parts(call, BufferCursor(call.workspace, PTRDIFF_MAX));
    const index_t matrices = matmul_count(shape), panels = parts.panels();
    const index_t blocks = quotient_up(shape.rows, detail::matmul_task_rows);
    const auto rows_of = [&](index_t block) {
        return detail::smaller(detail::matmul_task_rows, shape.rows - block * detail::matmul_task_rows);
    };
    const auto channel = detail::broadcast_channel<Policy, L>(call.params->words);
    const arith::OutputLanes<L> out(call.params->codes);
    for (index_t image = 0; image < call.batch; ++image) {
        const auto* const a = static_cast<const Code*>(call.x[0]) + image * call.image[0];
        const auto* const b = static_cast<const Code*>(call.x[1]) + image * call.image[1];
        for (index_t matrix = 0; matrix < matrices; ++matrix) {
            Code* const y = static_cast<Code*>(call.y) + (image * matrices + matrix) * shape.rows * shape.columns;
            (*call.executor)(panels + blocks, [&](index_t task) {
                if (task < panels) return parts.pack_panel(b, matrix, task);
                const index_t block = task - panels, first = block * detail::matmul_task_rows;
                for (index_t row = 0; row < rows_of(block); ++row) parts.copy_row(a, matrix, first + row);
            });
            const auto store = [&](index_t row, index_t column, const typename Parts::Sum* sums, index_t count) {
                const auto term = detail::LaneSum<L, typename Parts::Sum>::set(parts.row_term(row));
                detail::store_scaled_run<L>(y + row * shape.columns + column, count, call.params->codes,
                                            [&](index_t i, index_t) INTQ_ALWAYS_INLINE_LAMBDA {
                                                const auto sum = L::add(
                                                    detail::LaneSum<L, typename Parts::Sum>::load(sums + i), term);
                                                if constexpr (sizeof(WordSum) > sizeof(typename Parts::Sum))
                                                    return Policy::template scaled<L>(L::widen(sum), channel, out);
                                                else
                                                    return Policy::template scaled<L>(sum, channel, out);
                                            });
            };
            (*call.executor)(blocks * panels, [&](index_t task) {
                const index_t block = quotient(task, panels), panel = task - block * panels;
                parts.sum_panel(panel, block * detail::matmul_task_rows, rows_of(block), store);
            });
        }
    }
}

namespace detail {

template <class TargetType, class Backend, class Code> constexpr auto matmul_row() noexcept {
    constexpr DType dtype = dtype_of<Code>;
    constexpr arith::OperatorUse use{.op = OpKind::matmul, .input = dtype, .output = dtype};
    if constexpr (arith::check_constraints(TargetType::policy.constraints, use).ok()) {
        using WordSum = std::conditional_t<arith::matmul_accumulator_bits(TargetType::policy, dtype) == 64,
                                           std::int64_t, std::int32_t>;
        using Policy = arith::RequantizePolicy<TargetType, WordSum>;
        return std::array{MatmulRow{dtype, &matmul_codes<Backend, Policy, Code, WordSum>}};
    } else {
        return std::array<MatmulRow, 0>{};
    }
}

template <class TargetType, class Backend>
inline constexpr auto matmul_rows = arith::join_rows(matmul_row<TargetType, Backend, std::int8_t>(),
                                                     matmul_row<TargetType, Backend, std::int16_t>());

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_MATMUL_MATMUL_HPP
