// SPDX-License-Identifier: MIT
//
// argmax as an operator of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_ARGMAX_HPP
#define INTQ_KERNELS_OPERATORS_ARGMAX_HPP

#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

template <> inline constexpr ParamKind param_kind<ArgMaxParams> = ParamKind::argmax;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_params(ArgMaxParams& axis, auto& fields) {
    fields("count", axis.count);
    fields("inner", axis.inner);
    // The check compares their product with the tensors.
    constexpr std::int64_t most_elements = std::int64_t{1} << 40;
    fields.expect(
        axis.count >= 1 && axis.count <= INT32_MAX && axis.inner >= 1 && axis.inner <= most_elements / axis.count,
        Field::axis);
}

namespace operators {

inline bool has_argmax(const KernelTable& table, const OperatorTypes& types) noexcept {
    return types.output == DType::int32 &&
           detail::has_any(table.argmax, [&](const ArgMaxRow& row) { return row.dtype == types.input; });
}

/// Codes to int32 indices: an element for each that the axis has.
inline Status check_argmax(const OperatorCall& call) noexcept {
    const ArenaTensor &x = call.x(), &y = call.y();
    const auto& axis = call.params_as<ArgMaxParams>();
    if (y.dtype != DType::int32) return detail::wrong_dtype(call.op, Field::output, y.dtype, DType::int32);
    if (!has_argmax(call.table, {x.dtype, DType::none, y.dtype})) return detail::no_kernel(call.op, x.dtype);
    const index_t size = x.elements_per_image(), block = axis.count * axis.inner;
    if (size % block != 0) return corrupt(call.op, Field::axis, size, block);
    if (y.elements_per_image() != size / axis.count)
        return detail::wrong_shape(call.op, Field::output, y.elements_per_image(), size / axis.count);
    // Who reads ids trusts the bounds that they have.
    if (y.has_stated_bounds && (y.qparams.quant_min() > 0 || y.qparams.quant_max() < axis.count - 1))
        return corrupt(call.op, Field::quant_range, y.qparams.quant_max(), axis.count - 1);
    return {};
}

inline void run_argmax(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& axis = call.params_as<ArgMaxParams>();
    const DType dtype = call.x().dtype;
    const auto& row = detail::find_row(call.table.argmax, [&](const ArgMaxRow& r) { return r.dtype == dtype; });
    row.run({.x = call.x_data(),
             .y = static_cast<std::int32_t*>(call.y_data()),
             .rows = call.x_size() / (axis.count * axis.inner),
             .params = axis,
             .executor = call.executor});
}

// Its parameters describe memory, so it reads and writes tensors of any order.
inline constexpr ProgramOperator argmax_operator{.op = OpKind::argmax,
                                                 .reads_nchw = true,
                                                 .writes_rows = true,
                                                 .check = &check_argmax,
                                                 .run = &run_argmax,
                                                 .has_kernel = &has_argmax,
                                                 .params = param_struct<ArgMaxParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_ARGMAX_HPP
