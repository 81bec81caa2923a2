// SPDX-License-Identifier: MIT
//
// embedding of codes as a function on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_EMBEDDING_HPP
#define INTQ_KERNELS_VIEWS_EMBEDDING_HPP

#include <cstdint>
#include <type_traits>

#include "intq/core/executor.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/status.hpp"
#include "intq/core/tensor_view.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/embedding.hpp"
#include "intq/kernels/views/code_view.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Rows of codes.
template <class View>
concept CodeTable = CodeView<View> && View::rank == 2;

/// @return ok; shape_mismatch of output, with the first extents that differ from (ids, width of the table);
///         value_out_of_range of storage: a table without rows; value_out_of_range of input: the first id without a row
template <CodeView Table, CodeView Out>
requires SameCodes<Table, Out> && CodeTable<Table>
constexpr Status check_embedding(const TensorView<const std::int32_t, 1>& ids, const Table& table,
                                 const Out& out) noexcept {
    constexpr OpKind op = OpKind::embedding;
    if (const Status status =
            detail::check_extents(Shape{ids.extent(0), table.extent(1)}, out.shape(), op, Field::output);
        !status)
        return status;
    if (table.extent(0) < 1) return {StatusCode::value_out_of_range, op, Field::storage, table.extent(0), 1};
    for (index_t i = 0; i < ids.extent(0); ++i)
        if (ids(i) < 0 || ids(i) >= table.extent(0))
            return {StatusCode::value_out_of_range, op, Field::input, ids(i), table.extent(0) - 1};
    return {};
}

/// Rows of a table of codes, by their numbers.
///
///     out[i][d] = table[ids[i]][d]
///
/// @param ids    (n), row_major, each in [0, rows)
/// @param table  (rows, width) int8 or int16 codes
/// @param out    (n, width), typed as the table; must not overlap it
/// @pre   check_embedding()
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(outputs); bound by memory
template <CodeView Table, CodeView Out>
requires SameCodes<Table, Out> && CodeTable<Table> && CodeOutput<Out>
void embedding(const TensorView<const std::int32_t, 1>& ids, const Table& table, const Out& out,
               const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_embedding(ids, table, out).ok());
    const EmbeddingParams params{table.data(), table.extent(0), table.extent(1), dtype_of<typename Table::value_type>};
    embed_codes<typename Table::value_type>({&params, ids.data(), out.data(), ids.extent(0), &executor});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_EMBEDDING_HPP
