// SPDX-License-Identifier: MIT
//
// Cases of pools and of interpolation.
#ifndef INTQ_TESTS_FUZZ_CASES_WINDOW_HPP
#define INTQ_TESTS_FUZZ_CASES_WINDOW_HPP

#include "fuzz/cases/drawn.hpp"

namespace intq::test::fuzz {

inline Outcome run_pool(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const OpKind op = draw.one_in(2) ? OpKind::max_pool2d : OpKind::avg_pool2d;
    Window2d window{{draw.extent(1, 4), draw.extent(1, 4)}, {draw.extent(1, 3), draw.extent(1, 3)}, {}, {}};
    if (draw.one_in(4)) window.dilation = {draw.extent(1, 4), draw.extent(1, 4)};
    if (draw.one_in(2)) {
        const index_t y = window.dilation.height * (window.kernel.height - 1),
                      x = window.dilation.width * (window.kernel.width - 1);
        window.padding = {draw.extent(0, y), draw.extent(0, x), draw.extent(0, y), draw.extent(0, x)};
    }
    const Size2d in{draw.extent(1, 9), draw.extent(1, 9)};
    const arith::CodesOf x = d.codes(draw, draw_scale(draw));
    const arith::CodesOf y = draw.one_in(2) ? x : d.codes(draw, draw_scale_near(draw, x.scale));
    const index_t cells = window.kernel.height * window.kernel.width;
    const bool has_padding = !(window.padding == Padding2d{});
    const bool of_values =
        d.dtype == DType::int8 && table.policy().has_average(arith::AverageRule::sum_of_values) && draw.one_in(3);
    const auto make = of_values ? arith::make_average_of_values : arith::make_average;
    const bool is_mean = !has_padding && draw.one_in(4);
    const arith::OutputCodes clamp = d.clamp(draw, y);
    const auto divisor = static_cast<PoolDivisor>(draw.between(0, 1));
    const auto average = is_mean ? arith::make_mean(table.policy(), x, y, clamp, cells)
                                 : make(table.policy(), x, y, clamp, cells, divisor, has_padding);
    const arith::AverageParams params = average.ok() ? *average : arith::AverageParams{};
    const auto* const row = find(table.pool, [&](const kernels::PoolRow& r) {
        return r.op == op && r.dtype == d.dtype && (op == OpKind::max_pool2d || r.rule == params.rule);
    });
    if (row == nullptr || !kernels::check_pool(window, in, op).ok() || (op == OpKind::avg_pool2d && !average))
        return {};
    const Size2d out = output_size(window, in);
    const index_t batch = draw.extent(1, 2), channels = draw.extent(1, draw.one_in(3) ? 300 : 20);
    Given a(draw, batch * in.height * in.width * channels * d.element);
    Taken z(draw, batch * out.height * out.width * channels * d.element);
    row->run({&window, &params, a.bytes(), z.as<std::byte>(), batch, channels, in, out, &serial});
    return z.outcome();
}

/// An average over a whole image, in parts of some rows: the codes of the pool over all of them.
inline Outcome run_pool_sums(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const Size2d in{draw.extent(1, 9), draw.extent(1, draw.one_in(8) ? 300 : 9)};
    const Window2d window{in, {1, 1}, {}, {1, 1}};
    const arith::CodesOf x = d.codes(draw, draw_scale(draw));
    const arith::CodesOf y = draw.one_in(2) ? x : d.codes(draw, draw_scale_near(draw, x.scale));
    const index_t cells = in.height * in.width;
    const bool is_mean = draw.one_in(3);
    const arith::OutputCodes clamp = d.clamp(draw, y);
    const auto divisor = static_cast<PoolDivisor>(draw.between(0, 1));
    const auto average = is_mean ? arith::make_mean(table.policy(), x, y, clamp, cells)
                                 : arith::make_average(table.policy(), x, y, clamp, cells, divisor, false);
    if (!average) return {};
    const auto* const row = find(
        table.pool_sums, [&](const kernels::PoolSumRow& r) { return r.dtype == d.dtype && r.rule == average->rule; });
    const auto* const whole = find(table.pool, [&](const kernels::PoolRow& r) {
        return r.op == OpKind::avg_pool2d && r.dtype == d.dtype && r.rule == average->rule;
    });
    if (row == nullptr || whole == nullptr) return {};
    const index_t channels = draw.extent(1, draw.one_in(3) ? 300 : 20), line = in.width * channels * d.element;
    Given a(draw, in.height * line);
    Taken z(draw, channels * d.element), expected(draw, channels * d.element);
    whole->run({&window, &*average, a.bytes(), expected.as<std::byte>(), 1, channels, in, {1, 1}, &serial});
    std::vector<std::int32_t> sums(static_cast<std::size_t>(channels));
    for (index_t first = 0, rows = 0; first < in.height; first += rows) {
        rows = draw.extent(1, in.height - first);
        row->run({&window,
                  &*average,
                  a.bytes() + first * line,
                  z.as<std::byte>(),
                  1,
                  channels,
                  {rows, in.width},
                  {1, 1},
                  &serial},
                 {sums.data(), first == 0, first + rows == in.height});
    }
    if (z.bytes() != expected.bytes()) return Fault{"gives other averages by parts"};
    return z.outcome();
}

inline Outcome run_interpolate(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const bool of_values = table.policy().computes_as_onnx() && d.dtype == DType::int8 && draw.one_in(3);
    const auto* const row = find(table.interpolate, [&](const kernels::InterpolateRow& r) {
        return r.dtype == d.dtype && r.of_values == of_values;
    });
    const Size2d in{draw.extent(1, 9), draw.extent(1, 9)}, out{draw.extent(1, 20), draw.extent(1, 20)};
    std::vector<arith::ResizeTap> taps(static_cast<std::size_t>(kernels::resize_table_size(out)));
    const arith::CodesOf x = d.codes(draw, draw_scale(draw)), y = d.codes(draw, draw_scale_near(draw, x.scale));
    const auto rule = static_cast<arith::Resize>(draw.between(0, 4));
    const auto rule_of_values = draw.one_in(2) ? arith::Resize::half_pixel : arith::Resize::align_corners;
    const auto made = of_values ? kernels::make_resize_table_of_values(table.policy(), rule_of_values, in, out, taps,
                                                                       {}, x, y, d.clamp(draw, y))
                                : kernels::make_resize_table(rule, in, out, taps);
    if (row == nullptr || !made) return {};
    kernels::ResizeTable resize = *made;
    if (resize.blend == arith::Blend::of_256ths && draw.one_in(2)) {
        resize.blend = arith::Blend::of_1024ths;
        for (arith::ResizeTap& tap : taps) tap.weight = static_cast<std::int32_t>(draw.between(0, 1023));
    }
    const index_t batch = draw.extent(1, 2), channels = draw.extent(1, 70);
    Given a(draw, batch * in.height * in.width * channels * d.element);
    Taken z(draw, batch * out.height * out.width * channels * d.element);
    row->run({&resize, a.bytes(), z.as<std::byte>(), batch, channels, &serial});
    return z.outcome();
}

}  // namespace intq::test::fuzz

#endif  // INTQ_TESTS_FUZZ_CASES_WINDOW_HPP
