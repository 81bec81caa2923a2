// SPDX-License-Identifier: MIT
//
// The product of two matrices of codes as a function on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_MATMUL_HPP
#define INTQ_KERNELS_VIEWS_MATMUL_HPP

#include <type_traits>

#include "intq/arith/matmul.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/workspace.hpp"
#include "intq/kernels/matmul/matmul.hpp"
#include "intq/kernels/packing/packing_rules.hpp"
#include "intq/kernels/views/code_view.hpp"
#include "intq/kernels/views/elementwise.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Views of one rank, at least 2, and one type of codes, of which the last is written by rows.
template <class X, class Y, class Out>
concept MatmulViews = AnyCodeView<X> && AnyCodeView<Y> && CodeOutput<Out> && Out::rank >= 2 && (X::rank == Out::rank) &&
                      (Y::rank == Out::rank) &&
                      std::is_same_v<typename X::value_type, typename Out::value_type>&& std::is_same_v<
                          typename Y::value_type, typename Out::value_type> &&
                      (Out::rank == 2 || std::is_same_v<typename Out::layout_type, row_major>);

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// The places of a view's codes in the order of its axes, the last two exchanged for the second operand. An extent of 1
/// repeats.
///
/// @param matrices  the extents of the output; of the last two the view's are taken
template <class View>
constexpr MoveParams matmul_places(const View& view, const Shape& matrices, bool exchanged) noexcept {
    MoveParams move;
    move.rank = View::rank;
    const auto strides = view.strides();
    for (int axis = 0; axis < View::rank; ++axis) {
        const bool is_matrix = axis >= View::rank - 2;
        const int from = is_matrix && exchanged ? 2 * View::rank - 3 - axis : axis;
        const bool repeats = !is_matrix && view.extent(from) == 1;
        move.extents[axis] = repeats ? matrices[axis] : view.extent(from);
        move.steps[axis] = repeats ? 0 : strides[static_cast<std::size_t>(from)];
    }
    return move;
}

template <class X, class Y> constexpr Shape matmul_output(const X& a, const Y& b) noexcept {
    Shape shape = a.shape();
    for (int axis = 0; axis < X::rank - 2; ++axis)
        if (shape[axis] == 1) shape[axis] = b.extent(axis);
    shape[X::rank - 1] = b.extent(Y::rank - 1);
    return shape;
}

template <class X, class Y> constexpr MatmulShape matmul_shape(const X& a, const Y& b) noexcept {
    const Shape out = matmul_output(a, b);
    return {a.extent(X::rank - 2),
            b.extent(Y::rank - 1),
            a.extent(X::rank - 1),
            {matmul_places(a, out, false), matmul_places(b, out, true)}};
}

}  // namespace detail

/// Parameters of matmul() for a target; see arith::make_matmul().
///
/// @param inner  products of one sum: columns of a, rows of b
/// @return the parameters; the errors of arith::make_matmul()
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::MatmulParams> make_matmul(const arith::CodesOf& a, const arith::CodesOf& b,
                                                  const arith::CodesOf& out, index_t inner) noexcept {
    return arith::make_matmul(TargetType::policy, a, b, out, detail::all_codes(out, Activation::none), inner);
}

/// Bytes of workspace of matmul(): one matrix of each operand.
/// @pre check_matmul()
template <class Backend = simd::default_backend, AnyCodeView X, AnyCodeView Y>
index_t matmul_workspace_size(const X& a, const Y& b) INTQ_NOEXCEPT {
    return matmul_workspace_size(detail::matmul_shape(a, b), packing_rules_of<Backend>(nullptr),
                                 dtype_of<typename X::value_type>);
}

/// @return ok; unsupported of input: a type of codes that the target's table does not have; shape_mismatch of
///         second_input (extents that do not make a product) and output; corrupt of kernel: an extent of 0, matrices
///         beyond PTRDIFF_MAX/64 elements, or 2^40 elements with all repetitions; the errors of
///         arith::check_matmul_params()
template <class TargetType, class X, class Y, class Out>
requires arith::Target<TargetType> && MatmulViews<X, Y, Out>
constexpr Status check_matmul(const X& a, const Y& b, const arith::MatmulParams& params, const Out& out) noexcept {
    constexpr OpKind op = OpKind::matmul;
    constexpr DType dtype = dtype_of<typename Out::value_type>;
    const arith::OperatorUse use{.op = op, .input = dtype, .output = dtype};
    if (const Status status = arith::check_constraints(TargetType::policy.constraints, use); !status) return status;
    constexpr int rows = Out::rank - 2, columns = Out::rank - 1;
    if (a.extent(columns) != b.extent(rows))
        return {StatusCode::shape_mismatch, op, Field::second_input, b.extent(rows), a.extent(columns)};
    for (int axis = 0; axis < rows; ++axis)
        if (a.extent(axis) != b.extent(axis) && a.extent(axis) != 1 && b.extent(axis) != 1)
            return {StatusCode::shape_mismatch, op, Field::second_input, b.extent(axis), a.extent(axis)};
    const Status same = detail::check_extents(detail::matmul_output(a, b), out.shape(), op, Field::output);
    if (!same) return same;
    for (const index_t extent : {out.extent(rows), out.extent(columns)})
        if (extent < 1) return {StatusCode::corrupt, op, Field::kernel, extent, 1};
    if (const Status status = arith::check_matmul_params(TargetType::policy, params, dtype, a.extent(columns)); !status)
        return status;
    const MatmulShape shape = detail::matmul_shape(a, b);
    if (const Status status = check_matmul_extents(shape); !status) return status;
    for (const MoveParams& places : shape.places)
        if (!out.empty() && moved_size(places) == 0) return {StatusCode::corrupt, op, Field::kernel, out.size(), 1};
    return {};
}

/// Products of the matrices in the last two axes; the axes before them are broadcast where an extent is 1.
///
///     out[…, i, j] = requantize(sum_k (a[…, i, k] - zp_a)·(b[…, k, j] - zp_b))
///
/// Operands are read by their strides: for a·bᵀ, give make_permuted(b, …) as b.
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param a, b       int8 or int16 codes, any strides
/// @param params     made by make_matmul() for the same target and inner extent
/// @param out        row_major; must not overlap the others
/// @param workspace  matmul_workspace_size() bytes, aligned to buffer_alignment
/// @pre   check_matmul()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   workspace; a tile of sums on the stack
/// Cost     O(matrices·rows·columns·inner)
/// Source   docs/arithmetic.md section 4
template <class TargetType, class Backend = simd::default_backend, class X, class Y, class Out>
requires arith::Target<TargetType> && MatmulViews<X, Y, Out>
void matmul(const X& a, const Y& b, const arith::MatmulParams& params, const Out& out, Workspace workspace,
            const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_matmul<TargetType>(a, b, params, out).ok());
    INTQ_ASSERT(is_aligned(workspace.data) && workspace.size >= matmul_workspace_size<Backend>(a, b));
    const MatmulShape shape = detail::matmul_shape(a, b);
    detail::matmul_row<TargetType, Backend, typename Out::value_type>()[0].run({.params = &params,
                                                                                .shape = &shape,
                                                                                .x = {a.data(), b.data()},
                                                                                .y = out.data(),
                                                                                .batch = out.empty() ? 0 : 1,
                                                                                .workspace = workspace.data,
                                                                                .executor = &executor});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_MATMUL_HPP
