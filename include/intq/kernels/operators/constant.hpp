// SPDX-License-Identifier: MIT
//
// The model's own codes, the same for each image, as an operator of a program without operands. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_CONSTANT_HPP
#define INTQ_KERNELS_OPERATORS_CONSTANT_HPP

#include <cstring>

#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Parameters of a constant: the codes of one image, in the order of the output.
struct ConstantParams {
    const void* codes = nullptr;
    index_t size = 0;  // elements
    DType dtype = DType::none;
};
template <> inline constexpr ParamKind param_kind<ConstantParams> = ParamKind::constant;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_memory(ConstantParams& constant, auto& fields) {
    fields.memory("codes", constant.codes, constant.dtype == DType::int8 ? ParamType::int8 : ParamType::int16,
                  constant.size);
}
inline void describe_params(ConstantParams& constant, auto& fields) {
    fields("dtype", constant.dtype);
    fields("size", constant.size);
    const bool is_int8 = constant.dtype == DType::int8;
    if (!fields.expect((is_int8 || constant.dtype == DType::int16) && constant.size > 0, Field::storage)) return;
    describe_memory(constant, fields);
}

namespace operators {

inline Status check_constant(const OperatorCall& call) noexcept {
    const auto& constant = call.params_as<ConstantParams>();
    const ArenaTensor& y = call.y();
    if (y.dtype != constant.dtype) return detail::wrong_dtype(call.op, Field::output, y.dtype, constant.dtype);
    const index_t expected = y.elements_per_image();
    return constant.size == expected ? Status{} : corrupt(call.op, Field::storage, constant.size, expected);
}

inline void run_constant(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& constant = call.params_as<ConstantParams>();
    const index_t bytes = constant.size * size_of(constant.dtype);
    for (index_t image = 0; image < call.batch; ++image)
        std::memcpy(static_cast<std::byte*>(call.y_data()) + image * bytes, constant.codes,
                    static_cast<std::size_t>(bytes));
}

inline constexpr ProgramOperator constant_operator{.op = OpKind::constant,
                                                   .operands = 0,
                                                   .writes_rows = true,
                                                   .codes = CodesFollow::ends,
                                                   .check = &check_constant,
                                                   .run = &run_constant,
                                                   .has_kernel = &detail::needs_no_kernel,
                                                   .params = param_struct<ConstantParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_CONSTANT_HPP
