// SPDX-License-Identifier: MIT
//
// Shape and places of a matmul's operands, its scratch, one run as a function pointer takes it, and its row.
// Layer: kernels.
#ifndef INTQ_KERNELS_MATMUL_MATMUL_CALL_HPP
#define INTQ_KERNELS_MATMUL_MATMUL_CALL_HPP

#include "intq/arith/matmul.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/workspace.hpp"
#include "intq/kernels/packing/packing_rules.hpp"
#include "intq/kernels/streaming/move_call.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The matrices of one image. An operand's codes may lie anywhere in its image, in any order, and more than one matrix
/// may have the same: nothing is moved beforehand.
///
///     y[m][i][j] = requantize(sum_k a[m][i][k]·b[m][j][k])
///
/// `m` counts the matrices. places[0] are the codes of a in the order [m][i][k], places[1] those of b in the order
/// [m][j][k], so that a product of two plain matrices has the second one's axes exchanged.
struct MatmulShape {
    index_t rows = 1;     // i
    index_t columns = 1;  // j
    index_t inner = 1;    // k
    MoveParams places[2]{};
};

/// One run of a matmul.
struct MatmulCall {
    const arith::MatmulParams* params = nullptr;
    const MatmulShape* shape = nullptr;
    const void* x[2] = {};
    index_t image[2] = {};  // elements of an operand's image
    void* y = nullptr;
    index_t batch = 0;  // images
    std::byte* workspace = nullptr;
    const Executor* executor = nullptr;
};
struct MatmulRow {
    DType dtype;
    void (*run)(const MatmulCall&);
};

/// Where a run keeps one matrix of each operand in the form that a tile reads.
struct MatmulScratch {
    std::byte* rows = nullptr;          // of a: each rounded up to whole groups
    std::byte* panels = nullptr;        // of b: packed as weights of linear layers are
    std::byte* row_terms = nullptr;     // what the zero point of b adds to a row
    std::byte* column_terms = nullptr;  // what that of a adds to a column: where its sums begin
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Matrices of an image.
/// @pre check_matmul_shape()
constexpr index_t matmul_count(const MatmulShape& shape) noexcept {
    return quotient(moved_size(shape.places[0]), shape.rows * shape.inner);
}

/// Whether the sizes of a shape's matrices, and of their scratch, are numbers.
///
/// @return ok; corrupt of kernel: an extent below 1, or matrices beyond PTRDIFF_MAX/64 elements
constexpr Status check_matmul_extents(const MatmulShape& shape) noexcept {
    constexpr OpKind op = OpKind::matmul;
    constexpr index_t most = PTRDIFF_MAX / 64, rounding = 64;
    for (const index_t extent : {shape.rows, shape.columns, shape.inner})
        if (extent < 1 || extent > most - rounding) return {StatusCode::corrupt, op, Field::kernel, extent, most};
    for (const index_t extent : {shape.rows, shape.columns})
        if (extent + rounding > most / (shape.inner + rounding))
            return {StatusCode::corrupt, op, Field::kernel, extent, most / (shape.inner + rounding)};
    return {};
}

/// Checks a shape that may say anything.
///
/// @param image  elements of an image of each operand
/// @param out    elements of an image of the output
/// @return ok; the errors of check_matmul_extents(); corrupt of output: another number of elements; the errors of
///         check_move() for the places of an operand
constexpr Status check_matmul_shape(const MatmulShape& shape, const index_t (&image)[2], index_t out) noexcept {
    constexpr OpKind op = OpKind::matmul;
    if (const Status status = check_matmul_extents(shape); !status) return status;
    if (shape.columns > out / shape.rows) return {StatusCode::corrupt, op, Field::output, shape.columns, out};
    const index_t matrix = shape.rows * shape.columns, count = out / matrix;
    if (count < 1 || count * matrix != out) return {StatusCode::corrupt, op, Field::output, matrix, out};
    const index_t sizes[2] = {shape.rows * shape.inner, shape.columns * shape.inner};
    for (int operand = 0; operand < 2; ++operand) {
        if (count > PTRDIFF_MAX / sizes[operand]) return {StatusCode::corrupt, op, Field::output, count, out};
        if (const Status status = check_move(shape.places[operand], image[operand], count * sizes[operand], op);
            !status)
            return status;
    }
    return {};
}

/// The order in which a matmul packs its second operand. int8 codes stay bytes where the backend's tiles multiply an
/// unsigned byte by a signed one; elsewhere tiles of int16 take them.
constexpr simd::Packing matmul_packing(const PackingRules& rules, DType dtype) noexcept {
    if (dtype == DType::int16) return rules.wide_packing;
    return rules.int8_packing.staging == simd::Staging::offset_binary ? rules.int8_packing : rules.int16_packing;
}

/// Sizes or, with a buffer, places the scratch of a run.
inline MatmulScratch place_matmul(const MatmulShape& shape, const simd::Packing& packing, DType dtype,
                                  BufferCursor& cursor) INTQ_NOEXCEPT {
    const index_t depth = round_up(shape.inner, packing.depth), columns = round_up(shape.columns, packing.step);
    const index_t planes = packing.splits && dtype == DType::int16 ? 2 : 1;
    const index_t sum = arith::matmul_sum_bits(dtype) / 8;
    const index_t element = packing.staging == simd::Staging::offset_binary ? 1 : 2;
    MatmulScratch scratch;
    scratch.rows = cursor.take<std::byte>(shape.rows * depth * element);
    scratch.panels = cursor.take<std::byte>(columns * depth * planes * element);
    scratch.row_terms = cursor.take<std::byte>(shape.rows * sum);
    scratch.column_terms = cursor.take<std::byte>(columns * sum);
    return scratch;
}

/// Bytes of scratch of a run.
inline index_t matmul_workspace_size(const MatmulShape& shape, const PackingRules& rules, DType dtype) INTQ_NOEXCEPT {
    BufferCursor cursor;
    place_matmul(shape, matmul_packing(rules, dtype), dtype, cursor);
    return cursor.used();
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_MATMUL_MATMUL_CALL_HPP
