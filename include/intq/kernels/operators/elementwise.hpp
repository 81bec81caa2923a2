// SPDX-License-Identifier: MIT
//
// add, sub, mul, relu, requantize and cat as operators of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_ELEMENTWISE_HPP
#define INTQ_KERNELS_OPERATORS_ELEMENTWISE_HPP

#include "intq/arith/codes.hpp"
#include "intq/arith/elementwise.hpp"
#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

template <> inline constexpr ParamKind param_kind<arith::AddParams> = ParamKind::add;
template <> inline constexpr ParamKind param_kind<arith::MulParams> = ParamKind::mul;
template <> inline constexpr ParamKind param_kind<arith::OutputCodes> = ParamKind::clamp;
template <> inline constexpr ParamKind param_kind<RequantizeParams> = ParamKind::requantize;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_params(arith::AddParams& add, auto& fields) {
    fields("zero_point", add.zero_point);
    fields("coefficient", add.coefficient);
    fields("factor", add.factor);
    fields("input", add.input);
    fields("output", add.output);
    fields("codes", add.codes);
}
inline void describe_params(arith::MulParams& mul, auto& fields) {
    fields("zero_point", mul.zero_point);
    fields("words", mul.words);
    fields("codes", mul.codes);
}
inline void describe_params(RequantizeParams& requantize, auto& fields) {
    fields("is_identity", requantize.is_identity);
    fields("zero_point", requantize.zero_point);
    fields("words", requantize.words);
    fields("codes", requantize.codes);
}

namespace operators {

/// Two operands of one type that make the output, broadcast where an extent of one is 1; for which the table has a row.
template <auto Rows> Status check_binary(const OperatorCall& call) noexcept {
    const DType x = call.x().dtype, y = call.y().dtype;
    if (!is_broadcast(call.x(0).shape, call.x(1).shape, call.y().shape)) {
        // The message names the first operand that differs from the output.
        if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
        return detail::check_same_shape(call, 1, Field::second_input);
    }
    if (call.x(1).dtype != y) return detail::wrong_dtype(call.op, Field::second_input, call.x(1).dtype, y);
    if (x != y) return detail::wrong_dtype(call.op, Field::input, x, y);
    return detail::has_dtype<Rows>(call.table, {x, DType::none, y}) ? Status{} : detail::no_kernel(call.op, y);
}

/// Runs a row on two operands; shape and batch are the run's.
template <class Call, class Row, class Params>
void run_binary(const OperatorCall& call, const Row& row, const Params& params) INTQ_NOEXCEPT {
    Call one{&params, call.x_data(0), call.x_data(1), call.y_data(), call.y_size(), call.executor};
    const auto of_run = [&](Shape shape) {
        shape[0] = call.batch;
        if (call.band != nullptr && shape[2] > 1) shape[2] = call.y_height();
        return shape;
    };
    const Shape &a = call.x(0).shape, &b = call.x(1).shape, &out = call.y().shape;
    if (a == out && b == out) return row.run(one);
    const PairWalk walk = make_pair_walk(of_run(a), of_run(b), of_run(out), call.y().layout);
    one.walk = &walk;
    row.run(one);
}

// --- add, sub: params is an arith::AddParams; mul: an arith::MulParams -----------------------------------------------

inline Status check_add(const OperatorCall& call) noexcept {
    if (const Status status = check_binary<&KernelTable::add>(call); !status) return status;
    return arith::check_add_params(call.table.policy(), call.params_as<arith::AddParams>(), call.y().dtype, call.op);
}

inline Status check_mul(const OperatorCall& call) noexcept {
    if (const Status status = check_binary<&KernelTable::mul>(call); !status) return status;
    return arith::check_mul_params(call.table.policy(), call.params_as<arith::MulParams>(), call.y().dtype);
}

inline void run_add(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& row = detail::find_row(call.table.add, [&](const AddRow& r) { return r.dtype == call.y().dtype; });
    run_binary<AddCall>(call, row, call.params_as<arith::AddParams>());
}

inline void run_mul(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& row = detail::find_row(call.table.mul, [&](const MulRow& r) { return r.dtype == call.y().dtype; });
    run_binary<MulCall>(call, row, call.params_as<arith::MulParams>());
}

// --- relu: params is an arith::OutputCodes ---------------------------------------------------------------------------

inline Status check_clamp(const OperatorCall& call) noexcept {
    const DType x = call.x().dtype, y = call.y().dtype;
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    if (x != y) return detail::wrong_dtype(call.op, Field::output, y, x);
    if (!detail::has_dtype<&KernelTable::clamp>(call.table, {x, DType::none, y})) return detail::no_kernel(call.op, y);
    return arith::check_output_codes(call.table.policy(), call.params_as<arith::OutputCodes>(), y, call.op);
}

inline void run_clamp(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& row = detail::find_row(call.table.clamp, [&](const ClampRow& r) { return r.dtype == call.y().dtype; });
    row.run({call.params_as<arith::OutputCodes>(), call.x_data(), call.y_data(), call.y_size(), call.executor});
}

// --- requantize: params is one RequantizeParams; cat: one an operand -------------------------------------------------

inline bool has_requantize(const KernelTable& table, const OperatorTypes& types) noexcept {
    return detail::has_any(table.requantize, [&](const RequantizeRow& row) {
        return row.input == types.input && row.output == types.output;
    });
}

/// Types and parameters of operand i.
inline Status check_requantized(const OperatorCall& call, index_t i) noexcept {
    const DType x = call.x(i).dtype, y = call.y().dtype;
    if (!has_requantize(call.table, {x, DType::none, y})) return detail::no_kernel(call.op, x);
    const RequantizeParams& params = (&call.params_as<RequantizeParams>())[i];
    return check_requantize_params(call.table.policy(), params, x, y, call.op);
}

inline Status check_requantize(const OperatorCall& call) noexcept {
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    return check_requantized(call, 0);
}

/// The axis along which operands are joined: the one in which the first differs from the output; 1, the channels, for a
/// single operand. 0, the samples, which no operator joins, where it differs there, in no axis or in several.
inline int cat_axis(const OperatorCall& call) noexcept {
    const Shape &x = call.x(0).shape, &y = call.y().shape;
    if (x.rank != y.rank || y.rank < 2 || x[0] != y[0]) return 0;
    const bool is_alone = call.operand_count() == 1;
    int axis = 1;
    while (axis < y.rank && x[axis] == y[axis]) ++axis;
    if (axis == y.rank) return is_alone ? 1 : 0;
    for (int other = axis + 1; other < y.rank; ++other)
        if (x[other] != y[other]) return 0;
    return is_alone ? 0 : axis;
}

/// How many codes lie together of all steps of an axis, with the axes that lie within it in the order of the tensor.
inline index_t codes_along(const ArenaTensor& tensor, int axis) noexcept {
    const Shape& shape = tensor.shape;
    const bool by_rows = tensor.layout == Layout::row_major;
    index_t codes = shape[axis];
    if (axis == 1 && !by_rows) return codes;
    for (int inner = axis + 1; inner < shape.rank; ++inner) codes *= shape[inner];
    return by_rows ? codes : codes * shape[1];
}

inline Status check_cat(const OperatorCall& call) noexcept {
    const ArenaTensor& y = call.y();
    if (y.shape.rank < 2) return detail::wrong_shape(call.op, Field::output, y.shape.rank, 2);
    const int axis = cat_axis(call);
    if (axis < 1) return detail::wrong_shape(call.op, Field::input, call.x(0).shape.size(), y.shape.size());
    index_t joined = 0;
    for (index_t i = 0; i < call.operand_count(); ++i) {
        const Shape& x = call.x(i).shape;
        const index_t part = x.rank == y.shape.rank ? x[axis] : 0;
        Shape expected = y.shape;
        expected[axis] = part;
        if (!(x == expected)) return detail::wrong_shape(call.op, Field::input, x.size(), expected.size());
        if (const Status status = check_requantized(call, i); !status) return status;
        joined += part;
    }
    return joined == y.shape[axis] ? Status{} : detail::wrong_shape(call.op, Field::channels, joined, y.shape[axis]);
}

/// Operand i as rows of `columns` codes into rows of `stride` codes, from code `at` of each.
inline void requantize_operand(const OperatorCall& call, index_t i, index_t columns, index_t stride,
                               index_t at) INTQ_NOEXCEPT {
    const DType x = call.x(i).dtype, y = call.y().dtype;
    const auto& row =
        detail::find_row(call.table.requantize, [&](const RequantizeRow& r) { return r.input == x && r.output == y; });
    auto* const to = static_cast<std::byte*>(call.y_data()) + at * size_of(y);
    row.run({&call.params_as<RequantizeParams>() + i, call.x_data(i), to, call.x_size(i) / columns, columns, columns,
             stride, call.executor});
}

/// A cat of channels takes the same rows of all operands.
inline bool joins_channels(const OperatorCall& call) noexcept { return cat_axis(call) == 1; }

inline void run_requantize(const OperatorCall& call) INTQ_NOEXCEPT {
    requantize_operand(call, 0, call.x_size(), call.x_size(), 0);
}

inline void run_cat(const OperatorCall& call) INTQ_NOEXCEPT {
    const int axis = cat_axis(call);
    const index_t stride = codes_along(call.y(), axis);
    index_t at = 0;
    for (index_t i = 0; i < call.operand_count(); ++i) {
        const index_t columns = codes_along(call.x(i), axis);
        requantize_operand(call, i, columns, stride, at);
        at += columns;
    }
}

template <class Params> std::int64_t lowest_code_of(const OperatorCall& call) noexcept {
    return call.params_as<Params>().codes.lowest;
}
/// One that copies its codes clamps none.
inline std::int64_t lowest_code_of_requantize(const OperatorCall& call) noexcept {
    const auto& params = call.params_as<RequantizeParams>();
    return params.is_identity ? codes_of_operand : std::int64_t{params.codes.lowest};
}
inline std::int64_t lowest_code_of_clamp(const OperatorCall& call) noexcept {
    return call.params_as<arith::OutputCodes>().lowest;
}

// The sign of a sub is in its params.
constexpr ProgramOperator sum_operator(OpKind op) noexcept {
    return {.op = op,
            .operands = 2,
            .runs_in_place = &detail::always_in_place,
            .takes_rows = true,
            .codes = op == OpKind::sub ? CodesFollow::corners : CodesFollow::ends,
            .channels = ChannelsFollow::each,
            .check = &check_add,
            .run = &run_add,
            .lowest_code = &lowest_code_of<arith::AddParams>,
            .has_kernel = &detail::has_dtype<&KernelTable::add>,
            .runs_by_rows = &detail::always_by_rows,
            .params = param_struct<arith::AddParams>};
}
inline constexpr ProgramOperator add_operator = sum_operator(OpKind::add);
inline constexpr ProgramOperator sub_operator = sum_operator(OpKind::sub);
inline constexpr ProgramOperator mul_operator{.op = OpKind::mul,
                                              .operands = 2,
                                              .runs_in_place = &detail::always_in_place,
                                              .takes_rows = true,
                                              .codes = CodesFollow::corners,
                                              .channels = ChannelsFollow::each,
                                              .check = &check_mul,
                                              .run = &run_mul,
                                              .lowest_code = &lowest_code_of<arith::MulParams>,
                                              .has_kernel = &detail::has_dtype<&KernelTable::mul>,
                                              .runs_by_rows = &detail::always_by_rows,
                                              .params = param_struct<arith::MulParams>};
inline constexpr ProgramOperator relu_operator{.op = OpKind::relu,
                                               .runs_in_place = &detail::always_in_place,
                                               .takes_rows = true,
                                               .codes = CodesFollow::each_code,
                                               .channels = ChannelsFollow::each,
                                               .check = &check_clamp,
                                               .run = &run_clamp,
                                               .lowest_code = &lowest_code_of_clamp,
                                               .has_kernel = &detail::has_dtype<&KernelTable::clamp>,
                                               .runs_by_rows = &detail::always_by_rows,
                                               .params = param_struct<arith::OutputCodes>};
inline constexpr ProgramOperator requantize_operator{.op = OpKind::requantize,
                                                     .takes_rows = true,
                                                     .codes = CodesFollow::each_code,
                                                     .channels = ChannelsFollow::each,
                                                     .check = &check_requantize,
                                                     .run = &run_requantize,
                                                     .lowest_code = &lowest_code_of_requantize,
                                                     .has_kernel = &has_requantize,
                                                     .runs_by_rows = &detail::always_by_rows,
                                                     .params = param_struct<RequantizeParams>};
inline constexpr ProgramOperator cat_operator{.op = OpKind::cat,
                                              .takes_more = true,
                                              .has_params_by_operand = true,
                                              .takes_rows = true,
                                              .codes = CodesFollow::ends,
                                              .channels = ChannelsFollow::joined,
                                              .check = &check_cat,
                                              .run = &run_cat,
                                              .has_kernel = &has_requantize,
                                              .runs_by_rows = &joins_channels,
                                              .params = param_struct<RequantizeParams>};

}  // namespace operators
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_ELEMENTWISE_HPP
