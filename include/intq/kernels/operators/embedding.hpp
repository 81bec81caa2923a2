// SPDX-License-Identifier: MIT
//
// embedding as an operator of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_EMBEDDING_HPP
#define INTQ_KERNELS_OPERATORS_EMBEDDING_HPP

#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

template <> inline constexpr ParamKind param_kind<EmbeddingParams> = ParamKind::embedding;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_memory(EmbeddingParams& table, auto& fields) {
    fields.memory("codes", table.codes, table.dtype == DType::int8 ? ParamType::int8 : ParamType::int16, table.size());
}
inline void describe_params(EmbeddingParams& table, auto& fields) {
    fields("dtype", table.dtype);
    fields("rows", table.rows);
    fields("width", table.width);
    fields("step", table.step);
    constexpr std::int64_t most_rows = INT32_MAX, most_elements = std::int64_t{1} << 40;
    const bool is_code = table.dtype == DType::int8 || table.dtype == DType::int16;
    if (!fields.expect(is_code && table.rows > 0 && table.rows <= most_rows && table.width > 0 &&
                           table.width <= most_elements / table.rows && table.step >= -most_rows &&
                           table.step <= most_rows && table.distance() <= most_elements / table.rows,
                       Field::storage))
        return;
    describe_memory(table, fields);
}

namespace operators {

/// Ids (N, T), each of which has a row, to codes (N, T, width) by rows.
inline Status check_embedding(const OperatorCall& call) noexcept {
    const ArenaTensor &x = call.x(), &y = call.y();
    const auto& table = call.params_as<EmbeddingParams>();
    if (x.dtype != DType::int32) return detail::wrong_dtype(call.op, Field::input, x.dtype, DType::int32);
    if (y.dtype != table.dtype) return detail::wrong_dtype(call.op, Field::output, y.dtype, table.dtype);
    if (!detail::has_any(call.table.embedding, [&](const EmbeddingRow& row) { return row.dtype == y.dtype; }))
        return detail::no_kernel(call.op, y.dtype);
    if (x.shape.rank != 2) return detail::wrong_shape(call.op, Field::input, x.shape.rank, 2);
    if (y.shape.rank != 3) return detail::wrong_shape(call.op, Field::output, y.shape.rank, 3);
    if (y.layout != Layout::row_major) return corrupt(call.op, Field::output, static_cast<std::int64_t>(y.layout), 0);
    if (y.shape[1] != x.shape[1]) return detail::wrong_shape(call.op, Field::output, y.shape[1], x.shape[1]);
    if (y.shape[2] != table.width) return detail::wrong_shape(call.op, Field::output, y.shape[2], table.width);
    if (!x.has_stated_bounds || x.qparams.quant_min() < 0 || x.qparams.quant_max() >= table.rows)
        return corrupt(call.op, Field::quant_range, x.qparams.quant_max(), table.rows - 1);
    return {};
}

inline void run_embedding(const OperatorCall& call) INTQ_NOEXCEPT {
    const DType dtype = call.y().dtype;
    const auto& row = detail::find_row(call.table.embedding, [&](const EmbeddingRow& r) { return r.dtype == dtype; });
    row.run({&call.params_as<EmbeddingParams>(), static_cast<const std::int32_t*>(call.x_data()), call.y_data(),
             call.x_size(), call.executor});
}

inline bool has_embedding_kernel(const KernelTable& table, const OperatorTypes& types) noexcept {
    return types.input == DType::int32 &&
           detail::has_any(table.embedding, [&](const EmbeddingRow& row) { return row.dtype == types.output; });
}

inline constexpr ProgramOperator embedding_operator{.op = OpKind::embedding,
                                                    .writes_rows = true,
                                                    .check = &check_embedding,
                                                    .run = &run_embedding,
                                                    .has_kernel = &has_embedding_kernel,
                                                    .params = param_struct<EmbeddingParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_EMBEDDING_HPP
