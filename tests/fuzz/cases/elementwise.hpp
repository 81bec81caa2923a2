// SPDX-License-Identifier: MIT
//
// Cases of sums, products, requantize, clamp, quantize and dequantize.
#ifndef INTQ_TESTS_FUZZ_CASES_ELEMENTWISE_HPP
#define INTQ_TESTS_FUZZ_CASES_ELEMENTWISE_HPP

#include "fuzz/cases/drawn.hpp"

namespace intq::test::fuzz {

/// sub where `subtract`; the output may be an operand's place.
inline Outcome run_sum(const KernelTable& table, Draw draw, bool subtract) {
    const Drawn d(draw, table);
    const float scale = draw_scale(draw);
    const arith::CodesOf x = d.codes(draw, scale), y = d.codes(draw, draw_scale_near(draw, scale)),
                         out = d.codes(draw, draw_scale_near(draw, scale));
    const arith::OutputCodes clamp = d.clamp(draw, out);
    const auto* const row = find(table.add, [&](const kernels::AddRow& r) { return r.dtype == d.dtype; });
    const auto params = (subtract ? arith::make_sub : arith::make_add)(table.policy(), x, y, out, clamp);
    if (row == nullptr || !params) return {};
    if (!arith::check_add_params(table.policy(), *params, d.dtype, OpKind::add).ok())
        return Fault{"made parameters that the check of a program refuses"};
    const index_t size = draw_size(draw);
    Given a(draw, size * d.element), b(draw, size * d.element);
    Taken z(draw, size * d.element);
    row->run({&*params, a.bytes(), b.bytes(), z.as<std::byte>(), size, &serial});
    return z.outcome();
}
inline Outcome run_add(const KernelTable& table, Draw draw) { return run_sum(table, draw, false); }
inline Outcome run_sub(const KernelTable& table, Draw draw) { return run_sum(table, draw, true); }

inline Outcome run_mul(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const float s_x = draw_scale(draw), s_y = draw_scale_near(draw, 1.0f);
    const arith::CodesOf x = d.codes(draw, s_x), y = d.codes(draw, s_y),
                         out = d.codes(draw, draw_scale_near(draw, s_x * s_y * 100));
    const auto* const row = find(table.mul, [&](const kernels::MulRow& r) { return r.dtype == d.dtype; });
    const auto params = arith::make_mul(table.policy(), x, y, out, d.clamp(draw, out));
    if (row == nullptr || !params) return {};
    if (!arith::check_mul_params(table.policy(), *params, d.dtype).ok())
        return Fault{"made parameters that the check of a program refuses"};
    const index_t size = draw_size(draw);
    Given a(draw, size * d.element), b(draw, size * d.element);
    Taken z(draw, size * d.element);
    row->run({&*params, a.bytes(), b.bytes(), z.as<std::byte>(), size, &serial});
    return z.outcome();
}

inline Outcome run_requantize(const KernelTable& table, Draw draw) {
    const Drawn from(draw, table), to(draw, table);
    const arith::CodesOf x = from.codes(draw, draw_scale(draw));
    const arith::CodesOf y =
        draw.one_in(5) && from.dtype == to.dtype ? x : to.codes(draw, draw_scale_near(draw, x.scale));
    const auto* const row = find(table.requantize, [&](const kernels::RequantizeRow& r) {
        return r.input == from.dtype && r.output == to.dtype;
    });
    const auto params = kernels::make_requantize(table.policy(), x, y, to.clamp(draw, y));
    if (row == nullptr || !params) return {};
    if (!kernels::check_requantize_params(table.policy(), *params, x.dtype, y.dtype, OpKind::requantize).ok())
        return Fault{"made parameters that the check of a program refuses"};
    const index_t rows = draw.extent(1, 5), columns = draw.extent(1, draw.one_in(4) ? 3000 : 100);
    const index_t x_gap = draw.extent(0, 3);
    Given a(draw, (rows * (columns + x_gap) - x_gap) * from.element);
    Taken z(draw, rows * columns * to.element);
    row->run({&*params, a.bytes(), z.as<std::byte>(), rows, columns, columns + x_gap, columns, &serial});
    return z.outcome();
}

inline Outcome run_clamp(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.clamp, [&](const kernels::ClampRow& r) { return r.dtype == d.dtype; });
    if (row == nullptr) return {};
    const index_t size = draw_size(draw);
    const arith::OutputCodes clamp = d.clamp(draw, d.codes(draw, draw_scale(draw)));
    Given a(draw, size * d.element);
    Taken z(draw, size * d.element);
    row->run({clamp, a.bytes(), z.as<std::byte>(), size, &serial});
    return z.outcome();
}

inline Outcome run_quantize(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.quantize, [&](const kernels::QuantizeRow& r) { return r.output == d.dtype; });
    const index_t channels = draw.extent(1, 40), pixels = draw.extent(1, 60), images = draw.extent(1, 2);
    const bool per_channel = draw.one_in(2), is_nchw = draw.one_in(2);
    const arith::CodesOf y = d.codes(draw, draw_scale(draw));
    std::vector<float> scales;
    for (index_t c = 0; c < channels; ++c) scales.push_back(draw_scale_near(draw, y.scale));
    const QParams qparams = per_channel
                                ? QParams::per_channel(scales, {}, 1, lowest_code(d.dtype), highest_code(d.dtype))
                                : QParams::per_tensor(y.scale, y.zero_point, d.dtype);
    const Shape shape(images, channels, pixels, index_t{1});
    const arith::QuantizeRule rule = table.policy().quantize;
    if (row == nullptr || !kernels::check_quantize_params(qparams, d.dtype, shape, rule).ok()) return {};
    Given a(draw, shape.size() * 4);
    if (draw.one_in(2))  // numbers near the codes; else any bits, NaN and infinities among them
        for (index_t i = 0; i < shape.size(); ++i) a.as<float>()[i] = draw.real(-150.0f, 150.0f) * y.scale;
    Taken z(draw, shape.size() * d.element);
    if (is_nchw)
        row->run_nchw(a.as<float>(), images, channels, pixels, pixels, qparams, z.as<std::byte>(), serial);
    else
        row->run(a.as<float>(),
                 per_channel ? ChannelBlocks{images * pixels, channels, 1} : ChannelBlocks{1, 1, shape.size()}, qparams,
                 z.as<std::byte>(), serial);
    return z.outcome();
}

inline Outcome run_dequantize(const KernelTable& table, Draw draw) {
    const DType types[] = {DType::int8, DType::int16, DType::int32};
    const DType dtype = types[draw.extent(0, 2)];
    const auto* const row = find(table.dequantize, [&](const kernels::DequantizeRow& r) { return r.input == dtype; });
    const index_t channels = draw.extent(1, 40), rows = draw.extent(1, 60);
    const bool per_channel = draw.one_in(2);
    std::vector<float> scales;
    for (index_t c = 0; c < channels; ++c) scales.push_back(draw_scale(draw));
    const QParams qparams = per_channel ? QParams::per_channel(scales, {}, 1, lowest_code(dtype), highest_code(dtype))
                                        : QParams::per_tensor(scales[0], 0, dtype);
    if (row == nullptr) return {};
    Given a(draw, rows * channels * size_of(dtype));
    Taken z(draw, rows * channels * 4);
    row->run(a.bytes(), per_channel ? ChannelBlocks{rows, channels, 1} : ChannelBlocks{1, 1, rows * channels}, qparams,
             z.as<float>(), serial);
    return z.outcome();
}

}  // namespace intq::test::fuzz

#endif  // INTQ_TESTS_FUZZ_CASES_ELEMENTWISE_HPP
