// SPDX-License-Identifier: MIT
//
// A differential fuzzer of kernels: random shapes, windows and parameters, for every target; every backend that the
// machine executes must refuse what scalar refuses and else give its bytes, between pages without access.
//
//     kernels_fuzz <seconds> <file of kept cases>
//     kernels_fuzz <operator> <seed>                 one case again
//
// Cases are drawn from a seed, which is printed with a fault: the file keeps those that showed one. They run first.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "intq/kernels/operators/operator_table.hpp"
#include "kernels/conv_problem.hpp"
#include "kernels/tables/tables.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::KernelTable;
using Bytes = std::vector<unsigned char>;
/// None where the parameters are refused, or the table has no row.
using Outcome = std::optional<Bytes>;

struct Fault {
    std::string what;
};

/// Random bytes beside a page without access, at one end or the other.
class Given {
public:
    Given(Draw& draw, index_t size) : buffer_(static_cast<std::size_t>(size), side(draw)) {
        for (index_t i = 0; i < size; ++i) bytes()[i] = static_cast<unsigned char>(draw.bits());
    }
    template <class T> T* as() { return buffer_.as<T>(); }
    unsigned char* bytes() { return buffer_.as<unsigned char>(); }
    static GuardedBuffer::Against side(Draw& draw) {
        return draw.one_in(2) ? GuardedBuffer::Against::end : GuardedBuffer::Against::begin;
    }

private:
    GuardedBuffer buffer_;
};

/// An output: what was written, and that nothing was written around it.
class Taken {
public:
    Taken(Draw& draw, index_t size) : buffer_(static_cast<std::size_t>(size), Given::side(draw)) {}
    template <class T> T* as() { return buffer_.as<T>(); }
    Bytes bytes() {
        if (!buffer_.is_intact()) throw Fault{"wrote around its output"};
        return {as<unsigned char>(), as<unsigned char>() + buffer_.size()};
    }

private:
    GuardedBuffer buffer_;
};

float draw_scale(Draw& draw) {
    const int exponent = static_cast<int>(draw.one_in(12) ? draw.between(-126, 100) : draw.between(-12, 4));
    return std::ldexp(draw.real(0.5f, 1.0f), exponent);
}
/// Near another one mostly, so that results are not all at the ends.
float draw_scale_near(Draw& draw, float scale) {
    return draw.one_in(8) ? draw_scale(draw) : scale * draw.real(0.2f, 5.0f);
}

struct Drawn {
    DType dtype;
    index_t element;
    bool has_zero_points;

    Drawn(Draw& draw, const KernelTable& table)
        : dtype(draw.one_in(3) ? DType::int16 : DType::int8),
          element(size_of(dtype)),
          has_zero_points(table.policy().zero_points) {}
    arith::CodesOf codes(Draw& draw, float scale) const {
        const auto zero_point = draw_code(draw, lowest_code(dtype), highest_code(dtype));
        return {scale, has_zero_points ? static_cast<std::int32_t>(zero_point) : 0, dtype};
    }
    arith::OutputCodes clamp(Draw& draw, const arith::CodesOf& out) const {
        if (!draw.one_in(4))
            return arith::make_output_codes(lowest_code(dtype), highest_code(dtype), out.zero_point, out.scale,
                                            static_cast<Activation>(draw.between(0, 2)));
        const std::int64_t low = draw.between(lowest_code(dtype), highest_code(dtype));
        return {out.zero_point, static_cast<std::int32_t>(low),
                static_cast<std::int32_t>(draw.between(low, highest_code(dtype)))};
    }
};

index_t draw_size(Draw& draw) { return draw.one_in(6) ? draw.between(0, 40000) : draw.between(0, 300); }

template <class Row, class Matches> const Row* find(std::span<const Row> rows, Matches&& matches) {
    for (const Row& row : rows)
        if (matches(row)) return &row;
    return nullptr;
}

// --- the operators -----------------------------------------------------------------------------------------------------

/// sub where `subtract`; the output may be an operand's place.
Outcome run_sum(const KernelTable& table, Draw draw, bool subtract) {
    const Drawn d(draw, table);
    const float scale = draw_scale(draw);
    const arith::CodesOf x = d.codes(draw, scale), y = d.codes(draw, draw_scale_near(draw, scale)),
                         out = d.codes(draw, draw_scale_near(draw, scale));
    const arith::OutputCodes clamp = d.clamp(draw, out);
    const auto* const row = find(table.add, [&](const kernels::AddRow& r) { return r.dtype == d.dtype; });
    const auto params = (subtract ? arith::make_sub : arith::make_add)(table.policy(), x, y, out, clamp);
    if (row == nullptr || !params) return {};
    if (!arith::check_add_params(table.policy(), *params, d.dtype, OpKind::add).ok())
        throw Fault{"made parameters that the check of a program refuses"};
    const index_t size = draw_size(draw);
    Given a(draw, size * d.element), b(draw, size * d.element);
    Taken z(draw, size * d.element);
    row->run({&*params, a.bytes(), b.bytes(), z.as<std::byte>(), size, &serial});
    return z.bytes();
}
Outcome run_add(const KernelTable& table, Draw draw) { return run_sum(table, draw, false); }
Outcome run_sub(const KernelTable& table, Draw draw) { return run_sum(table, draw, true); }

Outcome run_mul(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const float s_x = draw_scale(draw), s_y = draw_scale_near(draw, 1.0f);
    const arith::CodesOf x = d.codes(draw, s_x), y = d.codes(draw, s_y),
                         out = d.codes(draw, draw_scale_near(draw, s_x * s_y * 100));
    const auto* const row = find(table.mul, [&](const kernels::MulRow& r) { return r.dtype == d.dtype; });
    const auto params = arith::make_mul(table.policy(), x, y, out, d.clamp(draw, out));
    if (row == nullptr || !params) return {};
    if (!arith::check_mul_params(table.policy(), *params, d.dtype).ok())
        throw Fault{"made parameters that the check of a program refuses"};
    const index_t size = draw_size(draw);
    Given a(draw, size * d.element), b(draw, size * d.element);
    Taken z(draw, size * d.element);
    row->run({&*params, a.bytes(), b.bytes(), z.as<std::byte>(), size, &serial});
    return z.bytes();
}

Outcome run_requantize(const KernelTable& table, Draw draw) {
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
        throw Fault{"made parameters that the check of a program refuses"};
    const index_t rows = draw.between(1, 5), columns = draw.between(1, draw.one_in(4) ? 3000 : 100);
    const index_t x_gap = draw.between(0, 3);
    Given a(draw, (rows * (columns + x_gap) - x_gap) * from.element);
    Taken z(draw, rows * columns * to.element);
    row->run({&*params, a.bytes(), z.as<std::byte>(), rows, columns, columns + x_gap, columns, &serial});
    return z.bytes();
}

Outcome run_clamp(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.clamp, [&](const kernels::ClampRow& r) { return r.dtype == d.dtype; });
    if (row == nullptr) return {};
    const index_t size = draw_size(draw);
    const arith::OutputCodes clamp = d.clamp(draw, d.codes(draw, draw_scale(draw)));
    Given a(draw, size * d.element);
    Taken z(draw, size * d.element);
    row->run({clamp, a.bytes(), z.as<std::byte>(), size, &serial});
    return z.bytes();
}

Outcome run_pool(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const OpKind op = draw.one_in(2) ? OpKind::max_pool2d : OpKind::avg_pool2d;
    Window2d window{{draw.between(1, 4), draw.between(1, 4)}, {draw.between(1, 3), draw.between(1, 3)}, {}, {}};
    if (draw.one_in(4)) window.dilation = {draw.between(1, 4), draw.between(1, 4)};
    if (draw.one_in(2)) {
        const index_t y = window.dilation.height * (window.kernel.height - 1),
                      x = window.dilation.width * (window.kernel.width - 1);
        window.padding = {draw.between(0, y), draw.between(0, x), draw.between(0, y), draw.between(0, x)};
    }
    const Size2d in{draw.between(1, 9), draw.between(1, 9)};
    const arith::CodesOf x = d.codes(draw, draw_scale(draw));
    const arith::CodesOf y = draw.one_in(2) ? x : d.codes(draw, draw_scale_near(draw, x.scale));
    const index_t cells = window.kernel.height * window.kernel.width;
    const bool has_padding = !(window.padding == Padding2d{});
    const bool of_values =
        d.dtype == DType::int8 && table.policy().has_average(arith::AverageRule::sum_of_values) && draw.one_in(3);
    const auto make = of_values ? arith::make_average_of_values : arith::make_average;
    const auto average = !has_padding && draw.one_in(4)
                             ? arith::make_mean(table.policy(), x, y, d.clamp(draw, y), cells)
                             : make(table.policy(), x, y, d.clamp(draw, y), cells,
                                    static_cast<PoolDivisor>(draw.between(0, 1)), has_padding);
    const arith::AverageParams params = average.ok() ? *average : arith::AverageParams{};
    const auto* const row = find(table.pool, [&](const kernels::PoolRow& r) {
        return r.op == op && r.dtype == d.dtype && (op == OpKind::max_pool2d || r.rule == params.rule);
    });
    if (row == nullptr || !kernels::check_pool(window, in, op).ok() || (op == OpKind::avg_pool2d && !average))
        return {};
    const Size2d out = output_size(window, in);
    const index_t batch = draw.between(1, 2), channels = draw.between(1, draw.one_in(3) ? 300 : 20);
    Given a(draw, batch * in.height * in.width * channels * d.element);
    Taken z(draw, batch * out.height * out.width * channels * d.element);
    row->run({&window, &params, a.bytes(), z.as<std::byte>(), batch, channels, in, out, &serial});
    return z.bytes();
}

/// An average over a whole image, in parts of some rows: the codes of the pool over all of them.
Outcome run_pool_sums(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const Size2d in{draw.between(1, 9), draw.between(1, draw.one_in(8) ? 300 : 9)};
    const Window2d window{in, {1, 1}, {}, {1, 1}};
    const arith::CodesOf x = d.codes(draw, draw_scale(draw));
    const arith::CodesOf y = draw.one_in(2) ? x : d.codes(draw, draw_scale_near(draw, x.scale));
    const index_t cells = in.height * in.width;
    const auto average = draw.one_in(3) ? arith::make_mean(table.policy(), x, y, d.clamp(draw, y), cells)
                                        : arith::make_average(table.policy(), x, y, d.clamp(draw, y), cells,
                                                              static_cast<PoolDivisor>(draw.between(0, 1)), false);
    if (!average) return {};
    const auto* const row = find(
        table.pool_sums, [&](const kernels::PoolSumRow& r) { return r.dtype == d.dtype && r.rule == average->rule; });
    const auto* const whole = find(table.pool, [&](const kernels::PoolRow& r) {
        return r.op == OpKind::avg_pool2d && r.dtype == d.dtype && r.rule == average->rule;
    });
    if (row == nullptr || whole == nullptr) return {};
    const index_t channels = draw.between(1, draw.one_in(3) ? 300 : 20), line = in.width * channels * d.element;
    Given a(draw, in.height * line);
    Taken z(draw, channels * d.element), expected(draw, channels * d.element);
    whole->run({&window, &*average, a.bytes(), expected.as<std::byte>(), 1, channels, in, {1, 1}, &serial});
    std::vector<std::int32_t> sums(static_cast<std::size_t>(channels));
    for (index_t first = 0, rows = 0; first < in.height; first += rows) {
        rows = draw.between(1, in.height - first);
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
    if (z.bytes() != expected.bytes()) throw Fault{"gives other averages by parts"};
    return z.bytes();
}

Outcome run_interpolate(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const bool of_values = table.policy().computes_as_onnx() && d.dtype == DType::int8 && draw.one_in(3);
    const auto* const row = find(table.interpolate, [&](const kernels::InterpolateRow& r) {
        return r.dtype == d.dtype && r.of_values == of_values;
    });
    const Size2d in{draw.between(1, 9), draw.between(1, 9)}, out{draw.between(1, 20), draw.between(1, 20)};
    std::vector<arith::ResizeTap> taps(static_cast<std::size_t>(kernels::resize_table_size(out)));
    const arith::CodesOf x = d.codes(draw, draw_scale(draw)), y = d.codes(draw, draw_scale_near(draw, x.scale));
    const auto made =
        of_values ? kernels::make_resize_table_of_values(
                        table.policy(), draw.one_in(2) ? arith::Resize::half_pixel : arith::Resize::align_corners, in,
                        out, taps, {}, x, y, d.clamp(draw, y))
                  : kernels::make_resize_table(static_cast<arith::Resize>(draw.between(0, 4)), in, out, taps);
    if (row == nullptr || !made) return {};
    kernels::ResizeTable resize = *made;
    if (resize.blend == arith::Blend::of_256ths && draw.one_in(2)) {
        resize.blend = arith::Blend::of_1024ths;
        for (arith::ResizeTap& tap : taps) tap.weight = static_cast<std::int32_t>(draw.between(0, 1023));
    }
    const index_t batch = draw.between(1, 2), channels = draw.between(1, 70);
    Given a(draw, batch * in.height * in.width * channels * d.element);
    Taken z(draw, batch * out.height * out.width * channels * d.element);
    row->run({&resize, a.bytes(), z.as<std::byte>(), batch, channels, &serial});
    return z.bytes();
}

/// Words that a check of programs accepts as blocks: any steps, anywhere among any knots.
std::vector<std::int16_t> draw_blocks(Draw& draw) {
    const index_t knots = draw.between(129, 700);
    std::vector<std::int16_t> words(arith::table_blocks + 2 * static_cast<std::size_t>(knots));
    for (std::int16_t& word : words) word = static_cast<std::int16_t>(draw.between(INT16_MIN, INT16_MAX));
    for (std::size_t b = 0; b < arith::table_blocks; ++b) {
        const index_t step = draw.between(0, 7);
        words[b] = static_cast<std::int16_t>(8 * draw.between(0, knots - (index_t{128} >> step) - 1) + step);
    }
    return words;
}

Outcome run_blocks(const KernelTable& table, Draw draw) {
    const auto* const row =
        find(table.look_up, [](const kernels::LookUpRow& r) { return r.size == arith::least_block_table_size; });
    if (row == nullptr) return {};
    const std::vector<std::int16_t> words = draw_blocks(draw);
    const index_t size = draw_size(draw);
    Given a(draw, size * size_of(DType::int16));
    Taken z(draw, size * size_of(DType::int16));
    row->run({words.data(), a.bytes(), z.as<std::byte>(), size, &serial, {}});
    return z.bytes();
}

Outcome run_look_up(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    if (d.dtype == DType::int16 && draw.one_in(3)) return run_blocks(table, draw);
    const bool is_curve = d.dtype == DType::int16 && draw.one_in(2);
    const auto size_of_table = d.dtype == DType::int8 ? arith::int8_table_size
                               : is_curve             ? arith::tflite_curve_size
                                                      : arith::int16_table_size;
    const auto* const row =
        find(table.look_up, [&](const kernels::LookUpRow& r) { return r.dtype == d.dtype && r.size == size_of_table; });
    if (row == nullptr) return {};
    arith::TfliteCurve curve;
    if (is_curve) {
        curve.shift = static_cast<std::int32_t>(draw.between(0, 31));
        curve.multiplier = static_cast<std::int32_t>(draw.between(1, curve.shift == 0 ? 65535 : 32767));
        curve.is_tanh = draw.one_in(2);
    }
    Given entries(draw, static_cast<index_t>(size_of_table) * d.element);
    const index_t size = draw_size(draw);
    Given a(draw, size * d.element);
    Taken z(draw, size * d.element);
    row->run({entries.bytes(), a.bytes(), z.as<std::byte>(), size, &serial, curve});
    return z.bytes();
}

Outcome run_softmax(const KernelTable& table, Draw draw) {
    const auto& row = table.softmax[static_cast<std::size_t>(draw.between(0, 1 << 20)) % table.softmax.size()];
    const float scale = draw_scale(draw);
    const auto tables = row.rule == arith::SoftmaxRule::fixed_point
                            ? arith::make_fixed_point_softmax_tables(table.policy(), {scale, 0, DType::int8})
                            : arith::make_softmax_tables({scale, 0, DType::int8});
    const auto wide = arith::make_wide_softmax_multiplier({scale, 0, DType::int16});
    std::uint32_t entries[arith::int16_softmax_entries];
    const arith::CodesOf out{draw_scale(draw), 0, DType::int16};
    const auto words = arith::make_int16_softmax_words(table.policy(), out);
    const arith::OutputCodes codes{0, INT16_MIN, INT16_MAX};
    if (!tables || !wide || !words || !arith::make_int16_softmax_tables({scale, 0, DType::int16}, entries).ok())
        return {};
    const index_t rows = draw.between(1, 4), count = draw.between(1, draw.one_in(5) ? 2000 : 40),
                  inner = draw.between(1, 9), size = rows * count * inner;
    Given a(draw, size * size_of(row.input));
    Taken z(draw, size * size_of(row.output));
    row.run({&*tables, *wide, a.bytes(), z.as<std::byte>(), rows, count, inner, &serial, entries, &*words, &codes});
    return z.bytes();
}

Outcome run_log_softmax(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const bool is_fixed_point =
        d.dtype == DType::int8 && draw.one_in(2) && table.policy().softmax == arith::SoftmaxRule::fixed_point;
    const auto rule = is_fixed_point ? arith::SoftmaxRule::fixed_point : arith::SoftmaxRule::requantized;
    const auto* const row =
        find(table.log_softmax, [&](const kernels::LogSoftmaxRow& r) { return r.rule == rule && r.dtype == d.dtype; });
    std::uint32_t entries[arith::log_softmax_entries(DType::int16)];
    const arith::CodesOf x = d.codes(draw, draw_scale(draw)), y = d.codes(draw, draw_scale(draw));
    const auto step = arith::make_log_softmax_step(x);
    const auto words = arith::make_log_softmax_words(table.policy(), y);
    if (row == nullptr || !step || !words || !arith::make_log_softmax_tables(x, entries).ok()) return {};
    if (is_fixed_point && !arith::make_fixed_point_log_softmax_table(table.policy(), x, entries).ok()) return {};
    const arith::OutputCodes codes = d.clamp(draw, y);
    const index_t rows = draw.between(1, 4), count = draw.between(1, draw.one_in(5) ? 2000 : 40),
                  inner = draw.between(1, 9), size = rows * count * inner;
    Given a(draw, size * d.element);
    Taken z(draw, size * d.element);
    row->run({.x = a.bytes(),
              .y = z.as<std::byte>(),
              .rows = rows,
              .count = count,
              .inner = inner,
              .executor = &serial,
              .entries = entries,
              .words = &*words,
              .codes = &codes,
              .step = *step});
    return z.bytes();
}

Outcome run_matmul(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.matmul, [&](const kernels::MatmulRow& r) { return r.dtype == d.dtype; });
    const index_t rows = draw.between(1, 20), columns = draw.between(1, 70),
                  inner = draw.between(1, draw.one_in(5) ? 300 : 20), matrices = draw.between(1, 3);
    const arith::CodesOf x = d.codes(draw, draw_scale(draw)), y = d.codes(draw, draw_scale(draw)),
                         z = d.codes(draw, draw_scale(draw));
    const auto params = arith::make_matmul(table.policy(), x, y, z, d.clamp(draw, z), inner);
    if (row == nullptr || !params) return {};
    kernels::MatmulShape shape{rows, columns, inner, {}};
    shape.places[0] = {3, {matrices, rows, inner}, {rows * inner, inner, 1}, 0};
    shape.places[1] = {3, {matrices, columns, inner}, {columns * inner, 1, columns}, 0};
    const index_t image[2] = {matrices * rows * inner, matrices * columns * inner};
    Given a(draw, image[0] * d.element), b(draw, image[1] * d.element);
    Taken to(draw, matrices * rows * columns * d.element);
    GuardedBuffer scratch(static_cast<std::size_t>(kernels::matmul_workspace_size(shape, table.packing, d.dtype)));
    row->run({.params = &*params,
              .shape = &shape,
              .x = {a.bytes(), b.bytes()},
              .image = {image[0], image[1]},
              .y = to.as<std::byte>(),
              .batch = 1,
              .workspace = scratch.as<std::byte>(),
              .executor = &serial});
    return to.bytes();
}

Outcome run_embedding(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.embedding, [&](const kernels::EmbeddingRow& r) { return r.dtype == d.dtype; });
    const index_t rows = draw.between(1, 40), width = draw.between(1, 70), count = draw.between(0, 30);
    if (row == nullptr) return {};
    std::vector<std::int32_t> ids;
    for (index_t i = 0; i < count; ++i)
        ids.push_back(
            static_cast<std::int32_t>(draw.one_in(9) ? draw.between(INT32_MIN, INT32_MAX) : draw.between(0, rows - 1)));
    Given codes(draw, rows * width * d.element);
    Taken to(draw, count * width * d.element);
    const kernels::EmbeddingParams params{codes.bytes(), rows, width, d.dtype};
    row->run({&params, ids.data(), to.as<std::byte>(), count, &serial});
    return to.bytes();
}

Outcome run_argmax(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.argmax, [&](const kernels::ArgMaxRow& r) { return r.dtype == d.dtype; });
    if (row == nullptr) return {};
    const index_t rows = draw.between(1, 4), count = draw.between(1, draw.one_in(5) ? 2000 : 70),
                  inner = draw.one_in(2) ? 1 : draw.between(1, 70);
    Given x(draw, rows * count * inner * d.element);
    Taken y(draw, rows * inner * index_t{sizeof(std::int32_t)});
    row->run({.x = x.bytes(),
              .y = y.as<std::int32_t>(),
              .rows = rows,
              .params = {.count = count, .inner = inner},
              .executor = &serial});
    return y.bytes();
}

Outcome run_index_copy(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.index_copy, [&](const kernels::IndexCopyRow& r) { return r.dtype == d.dtype; });
    const index_t batch = draw.between(1, 3);
    const kernels::IndexCopyParams rows{.outer = draw.between(1, 5),
                                        .rows = draw.between(1, 20),
                                        .inner = draw.between(1, 40),
                                        .count = draw.between(1, 5)};
    if (row == nullptr) return {};
    std::vector<std::int32_t> index;
    for (index_t i = 0; i < batch * rows.count; ++i)
        index.push_back(static_cast<std::int32_t>(draw.one_in(9) ? draw.between(INT32_MIN, INT32_MAX)
                                                                 : draw.between(0, rows.rows - 1)));
    const index_t planes = batch * rows.outer * rows.inner * d.element;
    Given x(draw, planes * rows.rows), source(draw, planes * rows.count);
    Taken to(draw, planes * rows.rows);
    row->run({&rows, x.bytes(), source.bytes(), index.data(), to.as<std::byte>(), batch, &serial});
    return to.bytes();
}

Outcome run_layer_norm(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.layer_norm, [&](const kernels::LayerNormRow& r) { return r.input == d.dtype; });
    const index_t samples = draw.between(1, 4), pixels = draw.one_in(2) ? 1 : draw.between(1, 9),
                  groups = draw.between(1, 4), count = draw.between(1, draw.one_in(5) ? 2000 : 40),
                  channels = groups * count, size = samples * pixels * channels;
    const arith::CodesOf x = d.codes(draw, draw_scale(draw)), y = d.codes(draw, draw_scale(draw));
    const auto norm = arith::make_layer_norm(table.policy(), x, y, d.clamp(draw, y), pixels * count,
                                             static_cast<double>(draw.real(0.0f, 0.01f)),
                                             {static_cast<int>(draw.between(-10, 10))}, !draw.one_in(4));
    if (row == nullptr || !norm) return {};
    std::vector<std::int32_t> weight, bias;
    for (index_t i = 0; i < channels; ++i) {
        weight.push_back(static_cast<std::int32_t>(draw.between(-(1 << 30), 1 << 30)));
        bias.push_back(static_cast<std::int32_t>(draw.between(-(1 << 29), 1 << 29)));
    }
    Given a(draw, size * d.element);
    Taken z(draw, size * d.element);
    row->run({.params = &*norm,
              .weight = weight.data(),
              .bias = bias.data(),
              .x = a.bytes(),
              .y = z.as<std::byte>(),
              .samples = samples,
              .pixels = pixels,
              .groups = groups,
              .count = count,
              .executor = &serial});
    return z.bytes();
}

Outcome run_quantize(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.quantize, [&](const kernels::QuantizeRow& r) { return r.output == d.dtype; });
    const index_t channels = draw.between(1, 40), pixels = draw.between(1, 60), images = draw.between(1, 2);
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
    return z.bytes();
}

Outcome run_dequantize(const KernelTable& table, Draw draw) {
    const DType types[] = {DType::int8, DType::int16, DType::int32};
    const DType dtype = types[draw.between(0, 2)];
    const auto* const row = find(table.dequantize, [&](const kernels::DequantizeRow& r) { return r.input == dtype; });
    const index_t channels = draw.between(1, 40), rows = draw.between(1, 60);
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
    return z.bytes();
}

Outcome run_move(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.move, [&](const kernels::MoveRow& r) { return r.dtype == d.dtype; });
    kernels::MoveParams move;
    move.rank = static_cast<int>(draw.between(1, 4));
    const index_t in = draw.between(1, 400);
    for (int axis = 0; axis < move.rank; ++axis) {
        move.extents[axis] = draw.between(1, 9);
        move.steps[axis] = draw.one_in(3) ? 1 : draw.between(-20, 20);
    }
    move.offset = draw.between(0, in - 1);
    const index_t out = kernels::moved_size(move);
    if (row == nullptr || !kernels::check_move(move, in, out, OpKind::slice).ok()) return {};
    const index_t batch = draw.between(1, 3);
    Given a(draw, batch * in * d.element);
    Taken z(draw, batch * out * d.element);
    row->run({&move, a.bytes(), z.as<std::byte>(), batch, in, &serial});
    return z.bytes();
}

Outcome run_pad(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.pad, [&](const kernels::PadRow& r) { return r.dtype == d.dtype; });
    const kernels::PadParams pad{{draw.between(-3, 4), draw.between(-3, 4), draw.between(-3, 4), draw.between(-3, 4)},
                                 {draw.between(1, 3), draw.between(1, 3)},
                                 static_cast<std::int32_t>(draw.between(lowest_code(d.dtype), highest_code(d.dtype)))};
    const Size2d in{draw.between(1, 9), draw.between(1, 9)};
    if (row == nullptr || !kernels::check_pad(pad, in, OpKind::pad).ok()) return {};
    const Size2d out = kernels::padded_size(pad, in);
    const index_t batch = draw.between(1, 2), channels = draw.between(1, 70);
    Given a(draw, batch * in.height * in.width * channels * d.element);
    Taken z(draw, batch * out.height * out.width * channels * d.element);
    row->run({&pad, a.bytes(), z.as<std::byte>(), batch, channels, in, &serial});
    return z.bytes();
}

ConvShape draw_conv_shape(Draw& draw) {
    ConvShape shape{};
    shape.batch = draw.between(1, 2);
    const index_t groups = draw.one_in(3) ? draw.between(2, 40) : 1;
    const bool is_depthwise = groups > 1 && draw.one_in(2);
    shape.groups = groups;
    shape.channels = groups * (is_depthwise ? 1 : draw.between(1, groups > 1 ? 9 : 70));
    shape.outputs = groups * (is_depthwise ? 1 : draw.between(1, groups > 1 ? 9 : 70));
    const index_t extent = draw.one_in(4) ? 20 : 9;
    shape.height = draw.between(1, extent), shape.width = draw.between(1, extent);
    if (!draw.one_in(3))
        shape.window = {{draw.between(1, 4), draw.between(1, 4)},
                        {draw.between(1, 3), draw.between(1, 3)},
                        {draw.between(0, 3), draw.between(0, 3), draw.between(0, 3), draw.between(0, 3)},
                        {draw.between(1, 3), draw.between(1, 3)}};
    return shape;
}

Outcome run_conv(const KernelTable& table, Draw draw) {
    // A row of the scalar table, by number: every backend of a target has the same ones.
    const kernels::ConvRow& row = table.conv[static_cast<std::size_t>(draw.between(0, 1 << 20)) % table.conv.size()];
    ConvShape shape = draw_conv_shape(draw);
    const ConvKey drawn{row.input,
                        row.weight,
                        row.output,
                        row.has_sumin,
                        row.accumulator_bits,
                        static_cast<Numbers>(draw.between(0, static_cast<int>(Numbers::count_) - 1)),
                        static_cast<BiasKind>(draw.between(0, static_cast<int>(BiasKind::count_) - 1)),
                        row.output == DType::int32 ? Activation::none : static_cast<Activation>(draw.between(0, 2)),
                        table.policy().zero_points && row.input == DType::int8 && draw.one_in(2)};
    const Size2d in{shape.height, shape.width};
    if (output_size(shape.window, in).height < 1 || output_size(shape.window, in).width < 1) return {};
    const ConvKey key = with_given(drawn, table.policy(), draw.bits() >> 1);
    const ConvProblem problem = draw_conv(shape, key, draw.bits());
    const LibraryLayer layer(problem, table.policy());
    const index_t bytes = kernels::packed_conv2d_size(table.packing, layer.spec());
    GuardedBuffer storage(static_cast<std::size_t>(round_up(bytes, buffer_alignment)));
    const auto packed = kernels::pack_conv2d(table.packing, layer.spec(), {storage.as<std::byte>(), bytes});
    if (!packed) return {};
    const auto geometry = kernels::make_conv2d_geometry(shape.window, shape.batch, in);
    if (!geometry) return {};
    const kernels::ConvRow* const found = find_conv(table, *packed);
    if (found == nullptr) return {};
    const index_t scratch = kernels::conv2d_workspace_size(*packed, *geometry);
    GuardedBuffer workspace(static_cast<std::size_t>(round_up(scratch, buffer_alignment)));
    const Bytes x = channels_last_bytes(problem.x, row.input);
    const Bytes e = row.has_sumin ? channels_last_bytes(problem.e, row.input) : Bytes{};
    InputBytes x_bytes(x), e_bytes(e);
    Taken z(draw, shape.batch * shape.outputs * geometry->out_pixels() * size_of(row.output));
    const void* const staged =
        table.stage(*packed, *geometry, x_bytes.data(), {workspace.as<std::byte>(), scratch}, serial);
    found->run({&*packed, &*geometry, staged, row.has_sumin ? e_bytes.data() : nullptr, z.as<std::byte>(), &serial,
                workspace.as<std::byte>()});
    if (!storage.is_intact() || !workspace.is_intact()) throw Fault{"wrote around its storage or workspace"};
    return z.bytes();
}

// --- the search --------------------------------------------------------------------------------------------------------

struct Operator {
    const char* name;
    Outcome (*run)(const KernelTable&, Draw);
};
constexpr Operator operators[] = {
    {"conv", &run_conv},
    {"add", &run_add},
    {"sub", &run_sub},
    {"mul", &run_mul},
    {"requantize", &run_requantize},
    {"clamp", &run_clamp},
    {"pool", &run_pool},
    {"pool_sums", &run_pool_sums},
    {"interpolate", &run_interpolate},
    {"look_up", &run_look_up},
    {"softmax", &run_softmax},
    {"log_softmax", &run_log_softmax},
    {"layer_norm", &run_layer_norm},
    {"matmul", &run_matmul},
    {"embedding", &run_embedding},
    {"index_copy", &run_index_copy},
    {"argmax", &run_argmax},
    {"quantize", &run_quantize},
    {"dequantize", &run_dequantize},
    {"move", &run_move},
    {"pad", &run_pad},
};

struct Counts {
    std::int64_t cases = 0, refused = 0;
    int faults = 0;
};

void run_case(const Operator& op, std::uint64_t seed, const std::vector<BackendTables>& backends, Counts& counts) {
    const std::size_t target = static_cast<std::size_t>(seed % scalar_tables().tables.size());
    const auto report = [&](const KernelTable& table, const std::string& what) {
        std::cout << op.name << " " << seed << " on " << table.policy().name << "/" << table.backend << ": " << what
                  << "\n";
        ++counts.faults;
    };
    std::optional<Outcome> expected;
    for (const BackendTables& backend : backends) {  // scalar first
        const KernelTable& table = *backend.tables[target];
        try {
            const Outcome result = op.run(table, Draw(seed));
            if (!expected) {
                expected = result;
                continue;
            }
            if (result.has_value() != expected->has_value()) report(table, "scalar and it disagree on a refusal");
            if (result && *expected && *result != **expected) report(table, "gives other bytes than scalar");
        } catch (const Fault& fault) {
            report(table, fault.what);
        }
    }
    ++counts.cases;
    counts.refused += expected && !*expected;
}

const Operator* find_operator(const std::string& name) {
    for (const Operator& op : operators)
        if (name == op.name) return &op;
    return nullptr;
}

std::vector<BackendTables> scalar_first() {
    std::vector<BackendTables> backends{scalar_tables()};
    for (const BackendTables& backend : usable_backend_tables())
        if (std::string_view(backend.name) != "scalar") backends.push_back(backend);
    return backends;
}

/// Lines of an operator and a seed; # begins a comment. Faults of the file count as one.
void run_kept(const char* path, const std::vector<BackendTables>& backends, Counts& counts) {
    std::ifstream file(path);
    int lines = 0;
    for (std::string name; file >> name;) {
        std::uint64_t seed = 0;
        if (name[0] == '#') {
            std::getline(file, name);
            continue;
        }
        const Operator* const op = find_operator(name);
        if (op == nullptr || !(file >> seed)) {
            std::cout << path << ": no case: " << name << "\n";
            ++counts.faults;
            return;
        }
        run_case(*op, seed, backends, counts);
        ++lines;
    }
    std::cout << lines << " kept cases\n";
    counts.faults += lines == 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: kernels_fuzz <seconds> <file of kept cases> | kernels_fuzz <operator> <seed>\n";
        return 2;
    }
    const std::vector<BackendTables> backends = scalar_first();
    std::cout << "backends:";
    for (const BackendTables& backend : backends) std::cout << " " << backend.name;
    std::cout << "\n";
    Counts counts;
    if (const Operator* const op = find_operator(argv[1])) {
        run_case(*op, std::strtoull(argv[2], nullptr, 10), backends, counts);
    } else {
        run_kept(argv[2], backends, counts);
        using Clock = std::chrono::steady_clock;
        const auto end = Clock::now() + std::chrono::seconds(std::atoi(argv[1]));
        // Another sequence each time, whose seeds are printed with what they find.
        Draw seeds(static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
        std::map<std::string, std::int64_t> ran;
        while (Clock::now() < end && counts.faults < 10)
            for (const Operator& op : operators) {
                const std::int64_t refused = counts.refused;
                run_case(op, seeds.bits() >> 16, backends, counts);
                ran[op.name] += counts.refused == refused;
            }
        for (const auto& [name, count] : ran) std::cout << name << " " << count << "  ";
        std::cout << "\n";
    }
    std::cout << counts.cases << " cases, " << counts.refused << " of them refused, " << counts.faults << " faults\n";
    return counts.faults == 0 ? 0 : 1;
}
