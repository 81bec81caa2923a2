// SPDX-License-Identifier: MIT
//
// The constraint table: which operator a target accepts with which types and limits. Layer: arith
// (ARITHMETIC section 5). Make, prepare and check read it; what has no row is refused.
#ifndef INTQ_ARITH_CONSTRAINTS_HPP
#define INTQ_ARITH_CONSTRAINTS_HPP

#include <cstddef>
#include <span>

#include "intq/core/dtype.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/status.hpp"

namespace intq::inline INTQ_ABI::arith {

/// One accepted combination. A limit of 0 is no limit.
struct ConstraintRow {
    OpKind op = OpKind::none;
    DType input = DType::none;
    DType weight = DType::none;  // none for an operator without weights
    DType output = DType::none;
    index_t max_kernel = 0;
    index_t max_stride = 0;
    index_t max_padding = 0;
    index_t max_channels = 0;
};

/// What is asked of a target.
struct OperatorUse {
    OpKind op = OpKind::none;
    DType input = DType::none;
    DType weight = DType::none;
    DType output = DType::none;
    Window2d window{};
    index_t channels = 0;
};

/// @return ok; unsupported with the field that no row has (input, weight or output); value_out_of_range with
///         kernel, stride, padding or channels where a row has the types but a smaller limit
///
/// Cost     O(rows)
constexpr Status check_constraints(std::span<const ConstraintRow> table, const OperatorUse& use) noexcept {
    Status best{StatusCode::unsupported, use.op, Field::none, 0, 0};
    const auto above = [&](index_t given, index_t limit, Field field) {
        if (limit == 0 || given <= limit) return false;
        best = {StatusCode::value_out_of_range, use.op, field, given, limit};
        return true;
    };
    const auto dtype_status = [&](Field field, DType given) {
        return Status{StatusCode::unsupported, use.op, field, static_cast<std::int64_t>(given), 0};
    };
    // The refusal names the first property in the order operator, input, weight, output that no row has.
    int depth = 0;
    for (const ConstraintRow& row : table) {
        if (row.op != use.op) continue;
        if (row.input != use.input) {
            if (depth < 1) best = dtype_status(Field::input, use.input), depth = 1;
            continue;
        }
        if (row.weight != use.weight) {
            if (depth < 2) best = dtype_status(Field::weight, use.weight), depth = 2;
            continue;
        }
        if (row.output != use.output) {
            if (depth < 3) best = dtype_status(Field::output, use.output), depth = 3;
            continue;
        }
        depth = 4;
        const Window2d& w = use.window;
        const bool too_large = above(w.kernel.height, row.max_kernel, Field::kernel) ||
                               above(w.kernel.width, row.max_kernel, Field::kernel) ||
                               above(w.stride.height, row.max_stride, Field::stride) ||
                               above(w.stride.width, row.max_stride, Field::stride) ||
                               above(w.padding.top, row.max_padding, Field::padding) ||
                               above(w.padding.left, row.max_padding, Field::padding) ||
                               above(w.padding.bottom, row.max_padding, Field::padding) ||
                               above(w.padding.right, row.max_padding, Field::padding) ||
                               above(use.channels, row.max_channels, Field::channels);
        if (!too_large) return {};
    }
    return best;
}

}  // namespace intq::inline INTQ_ABI::arith

#endif  // INTQ_ARITH_CONSTRAINTS_HPP
