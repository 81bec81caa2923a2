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
#include "intq/core/opaque.hpp"
#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/stage.hpp"
#include "intq/kernels/matmul/matmul_call.hpp"
#include "intq/kernels/packing/weight_places.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/elementwise.hpp"
#include "intq/simd/tiles/generic_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// The tile that multiplies codes of a type: of bytes where matmul_packing() keeps them, else of int16.
template <class Backend, class Code> constexpr auto matmul_tile() noexcept {
    constexpr DType dtype = dtype_of<Code>;
    constexpr simd::Staging staging = matmul_packing(packing_rules_of<Backend>(nullptr), dtype).staging;
    if constexpr (std::is_same_v<Code, std::int16_t>)
        return std::type_identity<typename simd::Tile<Backend, std::int16_t, std::int16_t, std::int64_t>::shared>{};
    else if constexpr (staging == simd::Staging::offset_binary)
        return std::type_identity<typename simd::Tile<Backend, std::int8_t, std::int8_t, std::int32_t>::shared>{};
    else
        return std::type_identity<typename simd::Tile<Backend, std::int16_t, std::int16_t, std::int32_t>::shared>{};
}

/// The parts of a matmul that know no target: copies of one matrix of each operand, and tiles of sums.
template <class Backend, class Code> class MatmulParts {
public:
    using Sum = std::conditional_t<std::is_same_v<Code, std::int16_t>, std::int64_t, std::int32_t>;
    using Tile = typename decltype(matmul_tile<Backend, Code>())::type;
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
          zero_point_{call.params->zero_point[0] + row_offset, call.params->zero_point[1]},
          depth_(round_up(shape_.inner, Tile::depth)) {}

    index_t panels() const noexcept { return quotient_up(shape_.columns, columns); }

    /// Copies a row of a matrix of the first operand.
    void copy_row(const Code* x, index_t matrix, index_t row) const noexcept {
        Row* to = row_at(row);
        Row* const end = to + depth_;
        std::int64_t sum = 0;
        for_each_run(shape_.places[0], (matrix * shape_.rows + row) * shape_.inner, shape_.inner,
                     [&](index_t from, index_t step, index_t count) {
                         copy_codes(x + from, step, count, to);
                         if (zero_point_[1] != 0)
                             for (index_t k = 0; k < count; ++k) sum += to[k];
                         to += count;
                     });
        for (; to < end; ++to) *to = 0;
        row_terms()[row] = static_cast<Sum>(-zero_point_[1] * sum);
    }

    /// Packs a panel of columns of a matrix of the second operand.
    void pack_panel(const Code* x, index_t matrix, index_t panel) const noexcept {
        const index_t width = width_of(panel);
        std::memset(panel_at(panel), 0, static_cast<std::size_t>(width * depth_ * Tile::planes) * sizeof(Weight));
        pack_columns(x, matrix, panel);
        set_terms(panel);
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
            with_vectors(vectors, [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                taken == 1 ? sum_rows<1, v>(panel, row_at(first), Tile::depth, sums)
                           : sum_rows<Tile::max_rows(v), v>(panel, row_at(first), Tile::depth, sums);
            });
            for (index_t r = 0; r < taken; ++r) store(first + r, panel * columns, sums + r * width, count);
            first += taken;
        }
    }

    Sum row_term(index_t row) const noexcept { return row_terms()[row]; }

private:
    using Row = typename Tile::activation;
    using Weight = typename Tile::weight;
    static constexpr bool has_bytes = sizeof(Row) == 1;
    /// Whether a column's part of a group is a word of more than one code.
    static constexpr bool has_words = Tile::depth > 1 && Tile::depth* index_t{sizeof(Weight)} == 4;
    /// What a copied code of the first operand has more than the code.
    static constexpr std::int32_t row_offset = has_bytes ? 128 : 0;

    index_t width_of(index_t panel) const noexcept {
        return smaller(columns, round_up(shape_.columns - panel * columns, packing.step));
    }
    index_t count_of(index_t panel) const noexcept { return smaller(columns, shape_.columns - panel * columns); }
    Row* row_at(index_t row) const noexcept { return reinterpret_cast<Row*>(scratch_.rows) + row * depth_; }
    Weight* panel_at(index_t panel) const noexcept {
        return reinterpret_cast<Weight*>(scratch_.panels) + panel * columns * depth_ * Tile::planes;
    }
    Sum* row_terms() const noexcept { return reinterpret_cast<Sum*>(scratch_.row_terms); }
    Sum* column_terms() const noexcept { return reinterpret_cast<Sum*>(scratch_.column_terms); }

    /// Calls function(v), where the integral constant v is `vectors`.
    template <class Function> static void with_vectors(int vectors, const Function& function) noexcept {
        simd::unroll<Tile::vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            if constexpr (v + 1 >= Tile::narrowest)
                if (vectors == v + 1) function(std::integral_constant<int, v + 1>{});
        });
    }

    static void copy_codes(const Code* from, index_t step, index_t count, Row* to) noexcept {
        if (step != 1) {
            for (index_t k = 0; k < count; ++k) to[k] = static_cast<Row>(from[k * step] + row_offset);
        } else if constexpr (has_bytes) {
            flip_bytes<L>(reinterpret_cast<const std::uint8_t*>(from), to, count);
        } else if constexpr (sizeof(Code) == 1) {
            widen_bytes<L>(from, to, count);
        } else {
            std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof *to);
        }
    }

    void pack_columns(const Code* x, index_t matrix, index_t panel) const noexcept {
        if constexpr (has_words)
            if (const Code* const first = first_of_lines(x, matrix, panel); first != nullptr)
                return pack_lines(first, panel);
        for (index_t j = 0; j < count_of(panel); ++j) pack_column(x, matrix, panel, j);
    }
    /// Where the codes of a panel's columns are neighbours, and those of a column equally spaced: the first code. Else
    /// null.
    const Code* first_of_lines(const Code* x, index_t matrix, index_t panel) const noexcept {
        const index_t column = matrix * shape_.columns + panel * columns;
        const Code* first = nullptr;
        for (index_t j = 0; j < count_of(panel); ++j) {
            bool is_line = false;
            for_each_run(shape_.places[1], (column + j) * shape_.inner, shape_.inner,
                         [&](index_t from, index_t, index_t count) {
                             if (j == 0) first = x + from;
                             is_line = count == shape_.inner && x + from == first + j;
                         });
            if (!is_line) return nullptr;
        }
        return first;
    }
    /// One column of a panel: whole groups at once where its codes are neighbours, else code by code.
    void pack_column(const Code* x, index_t matrix, index_t panel, index_t j) const noexcept {
        const index_t plane = width_of(panel) * Tile::depth;
        Weight* group = panel_at(panel) + j * Tile::depth;
        index_t in_group = 0;
        for_each_run(shape_.places[1], (matrix * shape_.columns + panel * columns + j) * shape_.inner, shape_.inner,
                     [&](index_t from, index_t step, index_t count) {
                         const Code* code = x + from;
                         if (step == 1 && in_group == 0)
                             for (; count >= Tile::depth; count -= Tile::depth, group += plane * Tile::planes)
                                 for (index_t i = 0; i < Tile::depth; ++i) set_code(group + i, plane, *code++);
                         for (; count > 0; --count, code += step) {
                             set_code(group + in_group, plane, *code);
                             if (++in_group == Tile::depth) in_group = 0, group += plane * Tile::planes;
                         }
                     });
    }
    static INTQ_ALWAYS_INLINE void set_code(Weight* at, index_t plane, Code code) noexcept {
        if constexpr (Tile::planes == 1) {
            *at = static_cast<Weight>(code);
        } else {
            at[0] = static_cast<Weight>(low_plane(code));
            at[plane] = static_cast<Weight>(high_plane(code));
        }
    }
    /// The columns of a panel whose codes of one k are neighbours: a vector of groups at a time.
    void pack_lines(const Code* first, index_t panel) const noexcept {
        const index_t width = width_of(panel), count = count_of(panel),
                      step = shape_.places[1].steps[shape_.places[1].rank - 1];
        std::int32_t* to = reinterpret_cast<std::int32_t*>(panel_at(panel));
        for (index_t k = 0; k < shape_.inner; k += Tile::depth, to += width * Tile::planes)
            for (index_t j = 0; j < count; j += L::width()) {
                const index_t lanes = smaller(L::width(), count - j);
                auto low = L::set(std::int32_t{0}), high = low;
                for (index_t i = 0; i < smaller(Tile::depth, shape_.inner - k); ++i) {
                    const auto code = load_codes<L>(first + (k + i) * step + j, lanes);
                    if constexpr (Tile::planes == 1) {
                        low = L::add(low, in_word(code, i));
                    } else {
                        const auto byte = L::shift_right(L::shift_left(code, L::set(24)), L::set(24));
                        low = L::add(low, in_word(byte, i));
                        high = L::add(high, in_word(L::shift_right(L::sub(code, byte), L::set(8)), i));
                    }
                }
                L::store(to + j, low);
                if constexpr (Tile::planes == 2) L::store(to + width + j, high);
            }
    }
    /// A code as element i of a group of 32 bits.
    static INTQ_ALWAYS_INLINE typename L::i32 in_word(typename L::i32 code, index_t i) noexcept {
        constexpr int bits = 32 / static_cast<int>(Tile::depth);
        const auto element = L::bit_and(code, L::set(std::int32_t{(1 << bits) - 1}));
        return L::shift_left(element, L::set(static_cast<std::int32_t>(i * bits)));
    }
    /// Where the sums of a panel's columns begin. The sum of a column is its product with ones.
    void set_terms(index_t panel) const noexcept {
        static constexpr auto ones = [] {
            std::array<Row, static_cast<std::size_t>(Tile::depth)> all{};
            for (Row& one : all) one = 1;
            return all;
        }();
        Sum* const terms = column_terms() + panel * columns;
        const index_t width = width_of(panel);
        for (index_t j = 0; j < width; ++j) terms[j] = 0;
        if (zero_point_[0] == 0) return;
        alignas(buffer_alignment) Sum sums[array_size(columns)];
        // At -O3, g++ 12 for AArch64 adds up wrong codes if it knows that one group is repeated.
        const index_t advance = opaque(index_t{0});
        with_vectors(static_cast<int>(width / L::width()),
                     [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { sum_rows<1, v>(panel, ones.data(), advance, sums); });
        for (index_t j = 0; j < count_of(panel); ++j)
            terms[j] = static_cast<Sum>(zero_point_[0] * (shape_.inner * zero_point_[1] - sums[j]));
    }

    /// The sums of neighbouring rows by a panel.
    ///
    /// @param advance  elements from a group of a row to the next: 0 repeats one group
    template <int Rows, int Vectors>
    INTQ_NEVER_INLINE void sum_rows(index_t panel, const Row* first, index_t advance, Sum* sums) const noexcept {
        constexpr index_t step = Vectors * L::width() * Tile::depth * Tile::planes;
        const Row* x[array_size(Rows)];
        INTQ_UNROLL
        for (int r = 0; r < Rows; ++r) x[r] = first + r * depth_;
        const Weight* w = panel_at(panel);
        typename Tile::template Registers<Rows, Vectors> registers;
        registers.start(column_terms() + panel * columns);
        for (index_t k = 0, at = 0; k < depth_; k += Tile::depth, at += advance, w += step) registers.step(x, at, w);
        INTQ_UNROLL
        for (int r = 0; r < Rows; ++r) {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v)
                LaneSum<L, Sum>::store(sums + (r * Vectors + v) * L::width(), registers.drain(r, v));
        }
    }

    const MatmulShape& shape_;
    MatmulScratch scratch_;
    std::int64_t zero_point_[2];  // the first one of copied codes
    index_t depth_;               // of a row: inner, rounded up to whole groups
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
    const auto channel = Policy::template set<L>(call.params->words);
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
