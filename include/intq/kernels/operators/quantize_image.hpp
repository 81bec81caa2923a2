// SPDX-License-Identifier: MIT
//
// Pixels of 8 bits to codes by a table for each channel, as an operator of a program. Layer: kernels
// (docs/arithmetic.md section 1).
#ifndef INTQ_KERNELS_OPERATORS_QUANTIZE_IMAGE_HPP
#define INTQ_KERNELS_OPERATORS_QUANTIZE_IMAGE_HPP

#include <cstdint>

#include "intq/kernels/operators/quantize.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Values of a pixel: the entries of one table.
inline constexpr index_t pixel_values = 256;

/// Parameters of quantize_image: the code of every value of a pixel.
struct QuantizeImageParams {
    const void* codes = nullptr;  // [tables][pixel_values]
    index_t tables = 0;           // one for each channel, or one for all
    DType dtype = DType::none;    // of the codes: int8 or int16
};
template <> inline constexpr ParamKind param_kind<QuantizeImageParams> = ParamKind::quantize_image;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_memory(QuantizeImageParams& image, auto& fields) {
    fields.memory("codes", image.codes, image.dtype == DType::int8 ? ParamType::int8 : ParamType::int16,
                  [&] { return image.tables * pixel_values; });
}
inline void describe_params(QuantizeImageParams& image, auto& fields) {
    fields("dtype", image.dtype);
    fields("tables", image.tables);
    const bool is_int8 = image.dtype == DType::int8;
    const bool fits = image.tables > 0 && image.tables <= largest_extent;
    if (!fields.expect((is_int8 || image.dtype == DType::int16) && fits, Field::storage)) return;
    describe_memory(image, fields);
}

namespace operators {

inline Status check_quantize_image(const OperatorCall& call) noexcept {
    if (const Status status = detail::check_same_shape(call, 0, Field::input); !status) return status;
    const auto& image = call.params_as<QuantizeImageParams>();
    const ArenaTensor &x = call.x(), &y = call.y();
    if (x.dtype != DType::uint8) return detail::wrong_dtype(call.op, Field::input, x.dtype, DType::uint8);
    if (y.dtype != image.dtype) return detail::wrong_dtype(call.op, Field::output, y.dtype, image.dtype);
    if (y.shape.rank < 2) return detail::wrong_shape(call.op, Field::output, y.shape.rank, 2);
    if (image.tables != 1 && image.tables != y.shape[1])
        return corrupt(call.op, Field::storage, image.tables, y.shape[1]);
    if (const Status status = check_axis_of(y, call.op); !status) return status;
    return check_quantize_params(y.qparams, y.dtype, y.shape, call.table.policy().quantize, call.op);
}

/// Pixels of one task of the executor.
inline constexpr index_t image_chunk = 4096;

/// y[n, p, c] = codes[c][x[n, p, c]], where x is as the caller wrote it: planes, or channels last.
template <class Code> void quantize_pixels(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& image = call.params_as<QuantizeImageParams>();
    const bool has_planes = call.x().layout == Layout::row_major;
    const index_t channels = call.y().shape[1], plane = call.y().elements_per_image() / channels;
    const index_t pixels = call.band != nullptr ? call.y_height() * call.y().shape[3] : plane;
    const index_t pixel_step = has_planes ? 1 : channels, channel_step = has_planes ? plane : 1;
    const index_t table_step = image.tables == 1 ? 0 : pixel_values;
    const index_t chunks = (pixels - 1) / image_chunk + 1;
    (*call.executor)(call.batch * chunks, [&](index_t task) {
        const index_t first = task % chunks * image_chunk, start = task / chunks * channels * pixels;
        const index_t count = pixels - first < image_chunk ? pixels - first : image_chunk;
        for (index_t c = 0; c < channels; ++c) {
            const auto* const codes = static_cast<const Code*>(image.codes) + c * table_step;
            const auto* const x = static_cast<const std::uint8_t*>(call.given_or_x_data()) + start +
                                  first * pixel_step + c * channel_step;
            auto* const y = static_cast<Code*>(call.y_data()) + start + first * channels + c;
            for (index_t p = 0; p < count; ++p) y[p * channels] = codes[x[p * pixel_step]];
        }
    });
}

inline void run_quantize_image(const OperatorCall& call) INTQ_NOEXCEPT {
    if (call.y().dtype == DType::int8) return quantize_pixels<std::int8_t>(call);
    quantize_pixels<std::int16_t>(call);
}

inline constexpr ProgramOperator quantize_image_operator{.op = OpKind::quantize_image,
                                                         .reads_nchw = true,
                                                         .reads_given = true,
                                                         .check = &check_quantize_image,
                                                         .run = &run_quantize_image,
                                                         .has_kernel = &detail::needs_no_kernel,
                                                         .runs_by_rows = &detail::always_by_rows,
                                                         .params = param_struct<QuantizeImageParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_QUANTIZE_IMAGE_HPP
