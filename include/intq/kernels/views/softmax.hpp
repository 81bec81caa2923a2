// SPDX-License-Identifier: MIT
//
// softmax of codes as a function on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_SOFTMAX_HPP
#define INTQ_KERNELS_VIEWS_SOFTMAX_HPP

#include <cstdint>
#include <type_traits>

#include "intq/arith/softmax.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/executor.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/softmax.hpp"
#include "intq/kernels/views/code_view.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// The tables of softmax() for int8 codes of a scale. The zero point has no part in it.
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @return the tables; what arith::make_softmax_tables() refuses
///
/// Memory   1,536 bytes
template <class TargetType>
requires arith::Target<TargetType>
inline Result<arith::SoftmaxTables> make_softmax(const arith::CodesOf& in) noexcept {
    return arith::make_softmax_tables(in);
}

/// @return ok; value_out_of_range of axis, and of input for more than arith::softmax_most_terms along it;
///         shape_mismatch of output, with the first extents that differ; corrupt of storage: no softmax's tables
template <class TargetType, CodeView X, CodeView Out>
requires arith::Target<TargetType> && SameOrder<X, Out>
constexpr Status check_softmax(const X& x, const arith::SoftmaxTables& tables, int axis, const Out& out) noexcept {
    constexpr OpKind op = OpKind::softmax;
    if (const Status status = detail::check_axis<X>(axis, op); !status) return status;
    if (x.extent(axis) > arith::softmax_most_terms)
        return {StatusCode::value_out_of_range, op, Field::input, x.extent(axis), arith::softmax_most_terms};
    if (!arith::are_softmax_tables(tables)) return {StatusCode::corrupt, op, Field::storage, 0, 0};
    return detail::check_extents(x.shape(), out.shape(), op, Field::output);
}

/// Probabilities along an axis, as int16 codes of 2^-15. requantize() brings them to another scale or type.
///
///     out[i] = exp(s·x[i]) / sum_k exp(s·x[k])
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param x       int8 codes, row_major or channels_last
/// @param tables  made by make_softmax() for the same target
/// @param axis    a logical index: 1 is the channels
/// @param out     int16 codes of scale 2^-15 and zero point 0; shaped and ordered as x
/// @pre   check_softmax()
///
/// Result   exact by the formula of arith/softmax.hpp, and within 1.5 codes of the real value; the same bytes on every
///          backend and executor
/// Memory   no scratch
/// Cost     O(n)
/// Source   docs/arithmetic.md section 4
template <class TargetType, CodeView X, CodeOutput Out>
requires arith::Target<TargetType> && SameOrder<X, Out>
void softmax(const X& x, const arith::SoftmaxTables& tables, int axis, const Out& out,
             const Executor& executor = serial) INTQ_NOEXCEPT {
    static_assert(
        std::is_same_v<typename X::value_type, std::int8_t> && std::is_same_v<typename Out::value_type, std::int16_t>,
        "softmax: x must be int8 codes and out int16 codes; requantize() gives other types");
    INTQ_ASSERT(check_softmax<TargetType>(x, tables, axis, out).ok());
    const detail::AxisRun run = detail::axis_run(x, axis);
    if (run.count == 0) return;
    softmax_codes({.tables = &tables,
                   .x = x.data(),
                   .y = out.data(),
                   .rows = run.outer,
                   .count = run.count,
                   .inner = run.inner,
                   .executor = &executor});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_SOFTMAX_HPP
