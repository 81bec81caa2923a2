// SPDX-License-Identifier: MIT
//
// interpolate of codes as a function on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_RESIZE_HPP
#define INTQ_KERNELS_VIEWS_RESIZE_HPP

#include "intq/core/executor.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/views/code_view.hpp"
#include "intq/kernels/window/resize.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// @return ok; shape_mismatch of input or output: the table was made for other extents
template <CodeImage X, CodeImage Out>
requires SameCodes<X, Out>
constexpr Status check_interpolate(const X& x, const ResizeTable& table, const Out& out) noexcept {
    constexpr OpKind op = OpKind::interpolate;
    const Shape in{x.extent(0), x.extent(1), table.in.height, table.in.width};
    const Shape expected{x.extent(0), x.extent(1), static_cast<index_t>(table.rows.size()),
                         static_cast<index_t>(table.columns.size())};
    if (const Status status = detail::check_extents(in, x.shape(), op, Field::input); !status) return status;
    return detail::check_extents(expected, out.shape(), op, Field::output);
}

/// Images of another size, nearest or bilinear. Scale and zero point stay.
///
///     out[n][c][i][j] = x at the tapped cell, or the weighted mean of four, by arith::bilinear()
///
/// @param x      int8 or int16 codes, channels_last
/// @param table  made by make_resize_table() for the extents of x and out
/// @param out    typed as x; must not overlap it
/// @pre   check_interpolate()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch beyond the table
/// Cost     O(outputs)
/// Source   docs/arithmetic.md section 4; PyTorch interpolate, in integers
template <class Backend = simd::default_backend, CodeImage X, CodeImage Out>
requires SameCodes<X, Out> && CodeOutput<Out>
void interpolate(const X& x, const ResizeTable& table, const Out& out,
                 const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_interpolate(x, table, out).ok());
    interpolate_codes<Backend, typename X::value_type>({.table = &table,
                                                        .x = x.data(),
                                                        .y = out.data(),
                                                        .batch = x.extent(0),
                                                        .channels = x.extent(1),
                                                        .executor = &executor});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_RESIZE_HPP
