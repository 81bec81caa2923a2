// SPDX-License-Identifier: MIT
//
// quantize, dequantize and layout_change as operators of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_QUANTIZE_HPP
#define INTQ_KERNELS_OPERATORS_QUANTIZE_HPP

#include <cstring>

#include "intq/arith/quantize.hpp"
#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace operators {

/// Checks that per-channel qparams that an instruction reads are of the channels.
inline Status check_axis_of(const ArenaTensor& tensor, OpKind op) noexcept {
    const int axis = tensor.channel_axis();
    if (!tensor.qparams.is_per_channel() || (tensor.qparams.axis() == axis && tensor.shape.rank >= 2)) return {};
    return corrupt(op, Field::axis, tensor.qparams.axis(), axis);
}

/// Extents of a tensor for per-channel parameters, in the order of its bytes.
inline ChannelBlocks blocks_of(const ArenaTensor& tensor, index_t size) noexcept {
    if (!tensor.qparams.is_per_channel()) return {1, 1, size};
    const index_t channels = tensor.shape[tensor.channel_axis()];
    return {size / channels, channels, 1};  // channels last, (N, C), or rows
}

inline bool has_quantize(const KernelTable& table, const OperatorTypes& types) noexcept {
    return detail::has_any(table.quantize, [&](const QuantizeRow& row) { return row.output == types.output; });
}
inline bool has_dequantize(const KernelTable& table, const OperatorTypes& types) noexcept {
    return detail::has_any(table.dequantize, [&](const DequantizeRow& row) { return row.input == types.input; });
}

inline Status check_quantize(const OperatorCall& call) noexcept {
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    const DType x = call.x().dtype, y = call.y().dtype;
    if (x != DType::float32) return detail::wrong_dtype(call.op, Field::input, x, DType::float32);
    if (!has_quantize(call.table, {x, DType::none, y})) return detail::no_kernel(call.op, y);
    if (const Status status = check_axis_of(call.y(), call.op); !status) return status;
    return check_quantize_params(call.y().qparams, y, call.y().shape, call.table.policy().quantize, call.op);
}

inline void run_quantize(const OperatorCall& call) INTQ_NOEXCEPT {
    const ArenaTensor& y = call.y();
    const auto& row = detail::find_row(call.table.quantize, [&](const QuantizeRow& r) { return r.output == y.dtype; });
    const auto* const x = static_cast<const float*>(call.given_or_x_data());
    if (call.x().layout == Layout::row_major) {
        const index_t channels = y.shape[1], plane = y.elements_per_image() / channels;
        const index_t pixels = call.band != nullptr ? call.y_height() * y.shape[3] : plane;
        return row.run_nchw(x, call.batch, channels, pixels, plane, y.qparams, call.y_data(), *call.executor);
    }
    row.run(x, blocks_of(y, call.x_size()), y.qparams, call.y_data(), *call.executor);
}

inline Status check_dequantize(const OperatorCall& call) noexcept {
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    const DType x = call.x().dtype, y = call.y().dtype;
    if (y != DType::float32) return detail::wrong_dtype(call.op, Field::output, y, DType::float32);
    if (!has_dequantize(call.table, {x, DType::none, y})) return detail::no_kernel(call.op, x);
    if (const Status status = check_axis_of(call.x(), call.op); !status) return status;
    const ArenaTensor& in = call.x();
    return check_qparams(in.qparams, x, in.qparams.is_per_channel() ? in.shape[in.channel_axis()] : 1, call.op);
}

inline void run_dequantize(const OperatorCall& call) INTQ_NOEXCEPT {
    const ArenaTensor& x = call.x();
    const auto& row =
        detail::find_row(call.table.dequantize, [&](const DequantizeRow& r) { return r.input == x.dtype; });
    row.run(call.x_data(), blocks_of(x, call.x_size()), x.qparams, static_cast<float*>(call.y_data()), *call.executor);
}

/// Another layout, which keeps the shape; or images to vectors, a Flatten.
inline Status check_layout_change(const OperatorCall& call) noexcept {
    const ArenaTensor &x = call.x(), &y = call.y();
    if (x.dtype != y.dtype) return detail::wrong_dtype(call.op, Field::output, y.dtype, x.dtype);
    if (x.shape.rank < 2) return detail::wrong_shape(call.op, Field::input, x.shape.rank, 2);
    if (x.layout != y.layout) return detail::check_same_shape(call, 0, Field::input);
    if (x.layout == Layout::row_major) return corrupt(call.op, Field::input, static_cast<std::int64_t>(x.layout), 0);
    if (y.shape.rank != 2) return detail::wrong_shape(call.op, Field::output, y.shape.rank, 2);
    if (y.shape[1] == x.elements_per_image()) return {};
    return detail::wrong_shape(call.op, Field::output, y.shape[1], x.elements_per_image());
}

/// From channels last to row-major, which a Flatten and rows of features are, or the other way: the caller's planes and
/// rows become channels last.
inline void run_layout_change(const OperatorCall& call) INTQ_NOEXCEPT {
    const ArenaTensor& x = call.x();
    const bool to_rows = x.layout == Layout::channels_last;
    const index_t channels = x.shape[1], pixels = x.elements_per_image() / channels;
    const auto bytes = static_cast<std::size_t>(size_of(x.dtype));
    const auto* from = static_cast<const std::byte*>(call.given_or_x_data());
    auto* to = static_cast<std::byte*>(call.y_data());
    for (index_t image = 0; image < call.batch; ++image)
        for (index_t c = 0; c < channels; ++c)
            for (index_t p = 0; p < pixels; ++p) {
                const index_t planar = (image * channels + c) * pixels + p, last = (image * pixels + p) * channels + c;
                const auto target = static_cast<std::size_t>(to_rows ? planar : last),
                           source = static_cast<std::size_t>(to_rows ? last : planar);
                std::memcpy(to + target * bytes, from + source * bytes, bytes);
            }
}

inline constexpr ProgramOperator quantize_operator{.op = OpKind::quantize,
                                                   .reads_nchw = true,
                                                   .reads_given = true,
                                                   .check = &check_quantize,
                                                   .run = &run_quantize,
                                                   .has_kernel = &has_quantize,
                                                   .runs_by_rows = &detail::always_by_rows};
inline constexpr ProgramOperator dequantize_operator{.op = OpKind::dequantize,
                                                     .takes_rows = true,
                                                     .check = &check_dequantize,
                                                     .run = &run_dequantize,
                                                     .has_kernel = &has_dequantize};
inline constexpr ProgramOperator layout_change_operator{.op = OpKind::layout_change,
                                                        .reads_nchw = true,
                                                        .reads_given = true,
                                                        .writes_rows = true,
                                                        .codes = CodesFollow::ends,
                                                        .channels = ChannelsFollow::flattened,
                                                        .check = &check_layout_change,
                                                        .run = &run_layout_change,
                                                        .has_kernel = &detail::needs_no_kernel};

}  // namespace operators
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_QUANTIZE_HPP
