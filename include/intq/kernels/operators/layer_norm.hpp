// SPDX-License-Identifier: MIT
//
// Layer, RMS and group norm as an operator of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_LAYER_NORM_HPP
#define INTQ_KERNELS_OPERATORS_LAYER_NORM_HPP

#include "intq/arith/layer_norm.hpp"
#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Parameters of a layer, RMS or group norm instruction.
struct LayerNormStepParams {
    arith::LayerNormParams norm{};
    index_t count = 1;   // elements of a mean that follow each other
    index_t groups = 1;  // of a pixel's channels, where the mean is over all pixels of an image
    bool over_pixels = false;
    const std::int32_t* weight = nullptr;  // `groups` times `count` codes, as LayerNormCall says
    const std::int32_t* bias = nullptr;
};
template <> inline constexpr ParamKind param_kind<LayerNormStepParams> = ParamKind::layer_norm;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Whether the last `count` elements of a tensor in memory are all of some of its axes.
inline bool are_last_axes(const ArenaTensor& tensor, index_t count) noexcept {
    if (tensor.layout != Layout::row_major) return tensor.shape.rank >= 2 && tensor.shape[1] == count;
    index_t elements = 1;
    for (int axis = tensor.shape.rank - 1; axis >= 1; --axis)
        if ((elements *= tensor.shape[axis]) == count) return true;
    return false;
}

namespace detail {

/// Whether the channels of an image are the groups of a mean over its pixels, of which there are not too many.
inline bool are_groups(const ArenaTensor& tensor, const LayerNormStepParams& step) noexcept {
    if (tensor.shape.rank < 2 || (tensor.shape.rank > 2 && tensor.layout != Layout::channels_last)) return false;
    const index_t channels = step.groups * step.count;
    return tensor.shape[1] == channels &&
           tensor.elements_per_image() / channels <= arith::layer_norm_most_elements / step.count;
}

/// Whether codes of weights, which may come from anywhere, keep the accumulator in its range.
inline bool are_within(const std::int32_t* codes, index_t count, std::int32_t most) noexcept {
    for (index_t i = 0; i < count; ++i)
        if (codes[i] < -most || codes[i] > most) return false;
    return true;
}

}  // namespace detail

inline void describe_memory(LayerNormStepParams& step, auto& fields) {
    fields.memory("weight", step.weight, ParamType::int32, step.groups * step.count, Field::weight);
    fields.memory("bias", step.bias, ParamType::int32, step.groups * step.count, Field::bias);
}
inline void describe_params(LayerNormStepParams& step, auto& fields) {
    fields("norm.is_centered", step.norm.is_centered);
    fields("norm.zero_point", step.norm.zero_point);
    fields("norm.epsilon", step.norm.epsilon);
    fields("norm.words", step.norm.words);
    fields("norm.codes", step.norm.codes);
    fields("count", step.count);
    fields("groups", step.groups);
    fields("over_pixels", step.over_pixels);
    if (!fields.expect(step.count >= 1 && step.count <= arith::layer_norm_most_elements, Field::axis)) return;
    const index_t most_groups = step.over_pixels ? arith::layer_norm_most_elements / step.count : 1;
    if (!fields.expect(step.groups >= 1 && step.groups <= most_groups, Field::groups)) return;
    describe_memory(step, fields);
    const index_t channels = step.groups * step.count;
    fields.expect_memory([&] { return detail::are_within(step.weight, channels, 1 << 30); }, Field::weight);
    fields.expect_memory([&] { return detail::are_within(step.bias, channels, 1 << 29); }, Field::bias);
}

namespace operators {

inline bool has_layer_norm(const KernelTable& table, const OperatorTypes& types) noexcept {
    return detail::has_any(table.layer_norm, [&](const LayerNormRow& row) {
        return row.input == types.input && row.output == types.output;
    });
}

inline Status check_layer_norm(const OperatorCall& call) noexcept {
    const auto& step = call.params_as<LayerNormStepParams>();
    const DType x = call.x().dtype, y = call.y().dtype;
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    if (!has_layer_norm(call.table, {x, DType::none, y})) return detail::no_kernel(call.op, x);
    if (!(step.over_pixels ? detail::are_groups(call.y(), step) : are_last_axes(call.y(), step.count)))
        return corrupt(call.op, Field::axis, step.count, call.y().elements_per_image());
    const index_t elements = step.over_pixels ? call.y().elements_per_image() / step.groups : step.count;
    return arith::check_layer_norm_params(call.table.policy(), step.norm, x, y, elements);
}

inline void run_layer_norm(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& step = call.params_as<LayerNormStepParams>();
    const auto& row = detail::find_row(call.table.layer_norm, [&](const LayerNormRow& r) {
        return r.input == call.x().dtype && r.output == call.y().dtype;
    });
    const index_t pixels = step.over_pixels ? call.y().elements_per_image() / (step.groups * step.count) : 1;
    row.run({.params = &step.norm,
             .weight = step.weight,
             .bias = step.bias,
             .x = call.x_data(),
             .y = call.y_data(),
             .samples = call.y_size() / (pixels * step.groups * step.count),
             .pixels = pixels,
             .groups = step.groups,
             .count = step.count,
             .executor = call.executor});
}

/// A mean over all pixels sees them all.
inline bool layer_norm_runs_by_rows(const OperatorCall& call) noexcept {
    return !call.params_as<LayerNormStepParams>().over_pixels;
}

inline constexpr ProgramOperator layer_norm_operator{.op = OpKind::layer_norm,
                                                     .runs_in_place = &detail::always_in_place,
                                                     .takes_rows = true,
                                                     .check = &check_layer_norm,
                                                     .run = &run_layer_norm,
                                                     .has_kernel = &has_layer_norm,
                                                     .runs_by_rows = &layer_norm_runs_by_rows,
                                                     .params = param_struct<LayerNormStepParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_LAYER_NORM_HPP
