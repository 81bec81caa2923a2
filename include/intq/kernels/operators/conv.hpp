// SPDX-License-Identifier: MIT
//
// conv2d and linear as operators of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_CONV_HPP
#define INTQ_KERNELS_OPERATORS_CONV_HPP

#include "intq/arith/codes.hpp"
#include "intq/arith/make_requantize.hpp"
#include "intq/kernels/operators/operator.hpp"
#include "intq/kernels/packing/describe_packed.hpp"
#include "intq/kernels/packing/input_form.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Parameters of a convolution or linear instruction: x (, sumin).
struct ConvParams {
    PackedConv2d packed{};
    ConvGeometry geometry{};  // its batch is set by each run
};
template <> inline constexpr ParamKind param_kind<ConvParams> = ParamKind::conv;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

inline bool has_tap_bias(const PackedConv2d& packed) noexcept {
    return needs_tap_bias(packed, tile_offset(packed, packed.input_zero_point));
}

}  // namespace detail

/// The element type of a packed layer's weights.
inline ParamType stored_type(const PackedConv2d& packed) noexcept {
    const DType dtype = detail::stored_weight(packed);
    return dtype == DType::float32 ? ParamType::float32 : dtype == DType::int16 ? ParamType::int16 : ParamType::int8;
}

inline void describe_params(simd::Packing& packing, auto& fields) {
    fields("columns", packing.columns);
    fields("depth", packing.depth);
    fields("staging", packing.staging);
    fields("step", packing.step);
    fields("splits", packing.splits);
}
inline void describe_params(simd::DepthwisePacking& packing, auto& fields) {
    fields("columns", packing.columns);
    fields("step", packing.step);
    fields("run", packing.run);
    fields("depth", packing.depth);
    fields("staging", packing.staging);
}
inline void describe_memory(PackedConv2d& packed, auto& fields) {
    const auto by_outputs = [&](index_t rows) { return rows * packed.padded_outputs(); };
    fields.memory(
        "weights", packed.weights, stored_type(packed),
        [&] {
            return packed.is_depthwise ? by_outputs(packed.depthwise_weights())
                                       : packed.groups * packed.group_weights();
        },
        Field::weight);
    fields.memory(
        "bias", packed.bias, packed.accumulator_bits == 64 ? ParamType::int64 : ParamType::int32,
        [&] { return by_outputs(1); }, Field::bias);
    fields.memory("words", packed.words, ParamType::int32,
                  [&] { return by_outputs(arith::words_of(packed.requantize)); });
    fields.memory("sumin_words", packed.sumin_words, ParamType::int32,
                  [&] { return packed.has_sumin ? by_outputs(arith::sumin_words_of(packed.requantize)) : 0; });
    fields.memory("tap_bias", packed.tap_bias, ParamType::int32,
                  [&] { return detail::has_tap_bias(packed) ? by_outputs(packed.taps()) : 0; });
    fields.memory("padding_row", packed.padding_row,
                  packed.input_dtype == DType::int16 ? ParamType::int16 : ParamType::int8,
                  [&] { return detail::padding_row_size(packed); });
}
inline void describe_params(PackedConv2d& packed, auto& fields) {
    fields("op", packed.op);
    fields("window", packed.window);
    fields("in_channels", packed.in_channels);
    fields("out_channels", packed.out_channels);
    fields("groups", packed.groups);
    fields("input_dtype", packed.input_dtype);
    fields("weight_dtype", packed.weight_dtype);
    fields("output_dtype", packed.output_dtype);
    fields("accumulator_bits", packed.accumulator_bits);
    fields("requantize", packed.requantize);
    fields("has_sumin", packed.has_sumin);
    fields("is_depthwise", packed.is_depthwise);
    fields("scaled_is_small", packed.scaled_is_small);
    fields("merges_row", packed.merges_row);
    fields("packing", packed.packing);
    fields("depthwise", packed.depthwise);
    fields("group_stride", packed.group_stride);
    fields("input_zero_point", packed.input_zero_point);
    fields("codes", packed.codes);

    if (!fields.status().ok() || !fields.expect(detail::is_described(*fields.context().packing, packed), Field::weight))
        return;
    const arith::RequantizeRule rule = packed.requantize;
    if (!fields.expect(rule == detail::requantize_rule(fields.context().policy(), packed.op, packed.output_dtype),
                       Field::scale))
        return;
    describe_memory(packed, fields);
    fields.expect((packed.tap_bias != nullptr) == detail::has_tap_bias(packed), Field::bias);
    fields.expect_memory([&] { return detail::holds_words(packed); }, Field::scale);
    fields.expect_memory([&] { return detail::has_zero_padding(packed); }, Field::weight);
    fields.expect_memory([&] { return detail::has_zero_point_row(packed); }, Field::padding);
    fields.expect_memory([&] { return packed.scaled_is_small == detail::is_scaled_small(packed); }, Field::scale);
}
/// All of a convolution's, for a visitor that names only pointers.
inline void describe_memory(ConvParams& step, auto& fields) { describe_memory(step.packed, fields); }
inline void describe_params(ConvParams& step, auto& fields) {
    fields("packed", step.packed);
    ConvGeometry& geometry = step.geometry;
    fields("geometry.batch", geometry.batch);
    fields("geometry.in", geometry.in);
    fields("geometry.out", geometry.out);
    fields("geometry.cut", geometry.cut);
    const Window2d& window = step.packed.window;
    if (fields.status().ok() && fields.expect(geometry.cut == 0, Field::geometry) &&
        fields.expect(detail::check_geometry_extents(window, geometry.in)))
        fields.expect(is_geometry_of(window, geometry), Field::geometry);
}

namespace operators {

/// Whether a table has a convolution of these types.
inline bool has_conv(const KernelTable& table, const OperatorTypes& types, bool has_sumin, bool is_depthwise) noexcept {
    return detail::has_any(table.conv, [&](const ConvRow& row) {
        return row.input == types.input && row.weight == types.weight && row.output == types.output &&
               row.has_sumin == has_sumin && row.is_depthwise == is_depthwise;
    });
}
inline bool has_conv2d(const KernelTable& table, const OperatorTypes& types) noexcept {
    return has_conv(table, types, false, false) && has_conv(table, types, false, true);
}
inline bool has_linear(const KernelTable& table, const OperatorTypes& types) noexcept {
    return has_conv(table, types, false, false);
}

inline ConvGeometry geometry_of(const OperatorCall& call) noexcept {
    const ConvParams& step = call.params_as<ConvParams>();
    ConvGeometry geometry = step.geometry;
    geometry.batch = call.batch;
    if (call.band == nullptr) return geometry;
    geometry.in.height = call.x_height();
    geometry.out.height = call.y_height();
    geometry.cut = detail::cut_padding(step.packed.window, call.band->rows.first);
    return geometry;
}

inline bool conv_runs_by_rows(const OperatorCall& call) noexcept {
    return detail::sees_rows(call.params_as<ConvParams>().packed.window);
}
/// Of depthwise layers whose kernels let two lines share their columns.
inline index_t rows_of_conv_together(const OperatorCall& call) noexcept {
    const auto& [packed, geometry] = call.params_as<ConvParams>();
    if (packed.is_paired_depthwise() && packed.input_dtype == DType::int8)
        return detail::PairedLineLayout(packed.window, geometry).served;
    if (packed.stages_depthwise_windows()) return detail::DepthwiseWindowLayout(packed.window, geometry).served;
    return 1;
}
/// The operand of a fused add has the rows of the output.
inline RowRange rows_of_conv(const OperatorCall& call, index_t operand, RowRange rows) noexcept {
    if (operand > 0) return rows;
    return detail::rows_of_windows(call.params_as<ConvParams>().packed.window, call.x().shape[2], rows);
}

inline index_t conv_workspace_size(const OperatorCall& call) noexcept {
    return conv2d_workspace_size(call.params_as<ConvParams>().packed, geometry_of(call));
}

inline Status check_conv(const OperatorCall& call) noexcept {
    const PackedConv2d& packed = call.params_as<ConvParams>().packed;
    const ConvGeometry geometry = geometry_of(call);
    const ArenaTensor &x = call.x(), &y = call.y();
    const index_t operands = packed.has_sumin ? 2 : 1;
    if (call.operand_count() != operands) return corrupt(call.op, Field::sumin, call.operand_count(), operands);
    if (find_conv(call.table, packed) == nullptr) return detail::no_kernel(call.op, packed.input_dtype);
    if (x.dtype != packed.input_dtype) return detail::wrong_dtype(call.op, Field::input, x.dtype, packed.input_dtype);
    if (y.dtype != packed.output_dtype)
        return detail::wrong_dtype(call.op, Field::output, y.dtype, packed.output_dtype);
    const arith::PolicyRecord& policy = call.table.policy();
    if (const Status status = arith::check_zero_point(policy, packed.input_zero_point, x.dtype, call.op); !status)
        return status;
    if (y.dtype != DType::int32)
        if (const Status status = arith::check_output_codes(policy, packed.codes, y.dtype, call.op); !status)
            return status;
    const ImageOf in = image_of(x), out = image_of(y);
    if (in.channels != packed.in_channels || in.size != geometry.in)
        return detail::wrong_shape(call.op, Field::input, in.channels, packed.in_channels);
    if (out.channels != packed.out_channels || out.size != geometry.out)
        return detail::wrong_shape(call.op, Field::output, out.channels, packed.out_channels);
    if (!packed.has_sumin) return {};
    const DType sumin = call.x(1).dtype;
    if (sumin != packed.input_dtype) return detail::wrong_dtype(call.op, Field::sumin, sumin, packed.input_dtype);
    if (const Status status = detail::check_same_shape(call, 1, Field::sumin); !status) return status;
    return arith::check_zero_point(policy, packed.codes.sumin_zero_point, sumin, call.op);
}

inline std::int64_t lowest_code_of_conv(const OperatorCall& call) noexcept {
    return call.params_as<ConvParams>().packed.codes.lowest;
}
inline bool conv_needs_nonnegative(const OperatorCall& call) noexcept {
    return needs_nonnegative_input(call.table.packing, call.params_as<ConvParams>().packed);
}

inline void run_conv(const OperatorCall& call) INTQ_NOEXCEPT {
    const PackedConv2d& packed = call.params_as<ConvParams>().packed;
    const ConvGeometry& given = call.params_as<ConvParams>().geometry;
    const bool is_given = call.band == nullptr && given.batch == call.batch;
    ConvGeometry of_run{};
    if (!is_given) of_run = geometry_of(call);
    const ConvGeometry& geometry = is_given ? given : of_run;
    INTQ_ASSERT(call.table.runs() && "the table describes the kernels of another machine");
    const void* const x = call.table.stage(packed, geometry, call.x_data(), call.workspace, *call.executor);
    const ConvRow* const row = find_conv(call.table, packed);
    INTQ_ASSERT(row != nullptr);
    row->run({&packed, &geometry, x, packed.has_sumin ? call.x_data(1) : nullptr, call.y_data(), call.executor,
              call.workspace.data});
}

inline constexpr ProgramOperator conv2d_operator{.op = OpKind::conv2d,
                                                 .takes_more = true,
                                                 .codes = CodesFollow::weighted_sum,
                                                 .channels = ChannelsFollow::weighted,
                                                 .check = &check_conv,
                                                 .run = &run_conv,
                                                 .lowest_code = &lowest_code_of_conv,
                                                 .needs_nonnegative = &conv_needs_nonnegative,
                                                 .has_kernel = &has_conv2d,
                                                 .workspace_size = &conv_workspace_size,
                                                 .runs_by_rows = &conv_runs_by_rows,
                                                 .rows_of_operand = &rows_of_conv,
                                                 .rows_together = &rows_of_conv_together,
                                                 .params = param_struct<ConvParams>};
inline constexpr ProgramOperator linear_operator{.op = OpKind::linear,
                                                 .takes_more = true,
                                                 .takes_rows = true,
                                                 .codes = CodesFollow::weighted_sum,
                                                 .channels = ChannelsFollow::weighted,
                                                 .check = &check_conv,
                                                 .run = &run_conv,
                                                 .lowest_code = &lowest_code_of_conv,
                                                 .needs_nonnegative = &conv_needs_nonnegative,
                                                 .has_kernel = &has_linear,
                                                 .workspace_size = &conv_workspace_size,
                                                 .params = param_struct<ConvParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_CONV_HPP
