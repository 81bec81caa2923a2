// SPDX-License-Identifier: MIT
//
// argmax of codes as a function on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_ARGMAX_HPP
#define INTQ_KERNELS_VIEWS_ARGMAX_HPP

#include <cstdint>
#include <span>

#include "intq/core/executor.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/status.hpp"
#include "intq/kernels/streaming/embedding.hpp"
#include "intq/kernels/views/code_view.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// @return ok; value_out_of_range of axis, and of input: nothing along the axis, or 2^31 codes and more; shape_mismatch
///         of output
template <CodeView X> constexpr Status check_argmax(const X& x, int axis, std::span<std::int32_t> out) noexcept {
    constexpr OpKind op = OpKind::argmax;
    if (const Status status = detail::check_axis<X>(axis, op); !status) return status;
    const detail::AxisRun run = detail::axis_run(x, axis);
    if (run.count < 1 || run.count > INT32_MAX)
        return {StatusCode::value_out_of_range, op, Field::input, run.count, run.count < 1 ? 1 : INT32_MAX};
    const auto given = static_cast<index_t>(out.size());
    if (given != run.outer * run.inner)
        return {StatusCode::shape_mismatch, op, Field::output, given, run.outer * run.inner};
    return {};
}

/// The index of the largest code along an axis, of equal codes the lowest one.
///
///     out[…, …] = min { k : x[…, k, …] = max_j x[…, j, …] }
///
/// @tparam Backend  an instruction set of simd/base/tags.hpp
/// @param x     int8 or int16 codes, row_major or channels_last
/// @param axis  a logical index: 1 is the channels
/// @param out   the elements of x without the axis, in the order of its memory; must not overlap x
/// @pre   check_argmax()
///
/// Result   exact; the same on every backend and executor
/// Memory   no scratch
/// Cost     O(n): one pass
/// Source   docs/arithmetic.md section 4
template <class Backend = simd::default_backend, CodeView X>
void argmax(const X& x, int axis, std::span<std::int32_t> out, const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_argmax(x, axis, out).ok());
    const detail::AxisRun run = detail::axis_run(x, axis);
    argmax_codes<Backend, typename X::value_type>({x.data(), out.data(), run.outer, {run.count, run.inner}, &executor});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_ARGMAX_HPP
