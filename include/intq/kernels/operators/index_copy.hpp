// SPDX-License-Identifier: MIT
//
// index_copy as an operator of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_INDEX_COPY_HPP
#define INTQ_KERNELS_OPERATORS_INDEX_COPY_HPP

#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

template <> inline constexpr ParamKind param_kind<IndexCopyParams> = ParamKind::index_copy;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_params(IndexCopyParams& rows, auto& fields) {
    fields("outer", rows.outer);
    fields("rows", rows.rows);
    fields("inner", rows.inner);
    fields("count", rows.count);
    // The check compares their products with the tensors.
    constexpr std::int64_t most_rows = INT32_MAX, most_elements = std::int64_t{1} << 40;
    const bool are_extents = rows.outer > 0 && rows.rows > 0 && rows.inner > 0 && rows.count > 0;
    fields.expect(are_extents && rows.rows <= most_rows && rows.count <= most_rows &&
                      rows.outer <= most_elements / rows.inner &&
                      rows.outer * rows.inner <= most_elements / (rows.rows > rows.count ? rows.rows : rows.count),
                  Field::storage);
}

namespace operators {

/// The axis of the operands, in the order of memory, along which the extents are those of the parameters; -1 for none.
inline int axis_of_rows(const IndexCopyParams& rows, const ArenaTensor& x) noexcept {
    const auto extent_at = [&](int place) {  // the extents in the order of memory, behind the samples
        if (x.layout == Layout::row_major || x.shape.rank < 3) return x.shape[place];
        return place == x.shape.rank - 1 ? x.shape[1] : x.shape[place + 1];
    };
    const auto product = [&](int first, int last) {
        index_t result = 1;
        for (int place = first; place < last; ++place) result *= extent_at(place);
        return result;
    };
    for (int place = 1; place < x.shape.rank; ++place)
        if (product(1, place) == rows.outer && extent_at(place) == rows.rows &&
            product(place + 1, x.shape.rank) == rows.inner)
            return place;
    return -1;
}

/// Codes, the rows that replace some of them, and int32 indices (N, count), each of which has a row.
inline Status check_index_copy(const OperatorCall& call) noexcept {
    const ArenaTensor &x = call.x(), &source = call.x(1), &index = call.x(2), &y = call.y();
    const auto& rows = call.params_as<IndexCopyParams>();
    if (source.dtype != x.dtype) return detail::wrong_dtype(call.op, Field::second_input, source.dtype, x.dtype);
    if (y.dtype != x.dtype) return detail::wrong_dtype(call.op, Field::output, y.dtype, x.dtype);
    if (index.dtype != DType::int32) return detail::wrong_dtype(call.op, Field::input, index.dtype, DType::int32);
    if (!detail::has_dtype<&KernelTable::index_copy>(call.table, {x.dtype, DType::none, y.dtype}))
        return detail::no_kernel(call.op, x.dtype);
    if (source.layout != x.layout || y.layout != x.layout)
        return corrupt(call.op, Field::output, static_cast<std::int64_t>(y.layout),
                       static_cast<std::int64_t>(x.layout));
    if (x.shape != y.shape) return detail::wrong_shape(call.op, Field::output, y.shape.size(), x.shape.size());
    if (axis_of_rows(rows, x) < 0) return detail::wrong_shape(call.op, Field::input, x.elements_per_image(), rows.rows);
    const index_t taken = rows.outer * rows.count * rows.inner;
    if (source.elements_per_image() != taken)
        return detail::wrong_shape(call.op, Field::second_input, source.elements_per_image(), taken);
    if (index.shape.rank != 2 || index.shape[1] != rows.count)
        return detail::wrong_shape(call.op, Field::input, index.elements_per_image(), rows.count);
    if (!index.has_stated_bounds || index.qparams.quant_min() < 0 || index.qparams.quant_max() >= rows.rows)
        return corrupt(call.op, Field::quant_range, index.qparams.quant_max(), rows.rows - 1);
    return {};
}

inline void run_index_copy(const OperatorCall& call) INTQ_NOEXCEPT {
    const DType dtype = call.y().dtype;
    const auto& row = detail::find_row(call.table.index_copy, [&](const IndexCopyRow& r) { return r.dtype == dtype; });
    row.run({.params = &call.params_as<IndexCopyParams>(),
             .x = call.x_data(0),
             .source = call.x_data(1),
             .index = static_cast<const std::int32_t*>(call.x_data(2)),
             .y = call.y_data(),
             .batch = call.batch,
             .executor = call.executor});
}

// Its parameters describe memory, so it reads and writes tensors of any order.
inline constexpr ProgramOperator index_copy_operator{.op = OpKind::index_copy,
                                                     .operands = 3,
                                                     .runs_in_place = &detail::always_in_place,
                                                     .in_place_of_first = true,
                                                     .reads_nchw = true,
                                                     .writes_rows = true,
                                                     .check = &check_index_copy,
                                                     .run = &run_index_copy,
                                                     .has_kernel = &detail::has_dtype<&KernelTable::index_copy>,
                                                     .params = param_struct<IndexCopyParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_INDEX_COPY_HPP
