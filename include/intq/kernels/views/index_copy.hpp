// SPDX-License-Identifier: MIT
//
// index_copy of codes as a function on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_INDEX_COPY_HPP
#define INTQ_KERNELS_VIEWS_INDEX_COPY_HPP

#include <cstdint>

#include "intq/core/executor.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/status.hpp"
#include "intq/core/tensor_view.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/embedding.hpp"
#include "intq/kernels/views/code_view.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// @return ok; value_out_of_range of axis; shape_mismatch of output, with the first extents that differ from those of
///         the source besides the axis; value_out_of_range of input: the first index without a row
template <CodeView Source, CodeView Out>
requires SameCodes<Source, Out>
constexpr Status check_index_copy(const TensorView<const std::int32_t, 1>& index, const Source& source, const Out& out,
                                  int axis) noexcept {
    constexpr OpKind op = OpKind::index_copy;
    if (const Status status = detail::check_axis<Out>(axis, op); !status) return status;
    Shape expected = source.shape();
    if (expected.rank > axis && source.extent(axis) != index.extent(0))
        return {StatusCode::shape_mismatch, op, Field::second_input, source.extent(axis), index.extent(0)};
    if (expected.rank > axis) expected[axis] = out.extent(axis);
    if (const Status status = detail::check_extents(expected, out.shape(), op, Field::output); !status) return status;
    for (index_t t = 0; t < index.extent(0); ++t)
        if (index(t) < 0 || index(t) >= out.extent(axis))
            return {StatusCode::value_out_of_range, op, Field::input, index(t), out.extent(axis) - 1};
    return {};
}

/// Replaces rows of codes in their place, by their numbers; all else of `out` stays.
///
///     out[…, index[t], …] = source[…, t, …] at an axis
///
/// @param index   (T), row_major, each in [0, extent of the axis); of equal ones the last counts
/// @param source  as out, but for T along the axis; must not overlap it
/// @pre   check_index_copy()
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(source); bound by memory
template <CodeView Source, CodeView Out>
requires SameCodes<Source, Out> && CodeOutput<Out>
void index_copy(const TensorView<const std::int32_t, 1>& index, const Source& source, const Out& out, int axis,
                const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_index_copy(index, source, out, axis).ok());
    const detail::AxisRun run = detail::axis_run(out, axis);
    const IndexCopyParams params{run.outer, run.count, run.inner, index.extent(0)};
    index_copy_codes<typename Out::value_type>(
        {&params, out.data(), source.data(), index.data(), out.data(), 1, &executor});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_INDEX_COPY_HPP
