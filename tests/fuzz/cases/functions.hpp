// SPDX-License-Identifier: MIT
//
// Cases of tables, softmax, log_softmax and layer_norm.
#ifndef INTQ_TESTS_FUZZ_CASES_FUNCTIONS_HPP
#define INTQ_TESTS_FUZZ_CASES_FUNCTIONS_HPP

#include "fuzz/cases/drawn.hpp"

namespace intq::test::fuzz {

/// Words that a check of programs accepts as blocks: any steps, anywhere among any knots.
inline std::vector<std::int16_t> draw_blocks(Draw& draw) {
    const index_t knots = draw.extent(129, 700);
    std::vector<std::int16_t> words(arith::table_blocks + 2 * static_cast<std::size_t>(knots));
    for (std::int16_t& word : words) word = static_cast<std::int16_t>(draw.between(INT16_MIN, INT16_MAX));
    for (std::size_t b = 0; b < arith::table_blocks; ++b) {
        const index_t step = draw.extent(0, 7);
        words[b] = static_cast<std::int16_t>(8 * draw.extent(0, knots - (index_t{128} >> step) - 1) + step);
    }
    return words;
}

inline Outcome run_blocks(const KernelTable& table, Draw draw) {
    const auto* const row =
        find(table.look_up, [](const kernels::LookUpRow& r) { return r.size == arith::least_block_table_size; });
    if (row == nullptr) return {};
    const std::vector<std::int16_t> words = draw_blocks(draw);
    const index_t size = draw_size(draw);
    Given a(draw, size * size_of(DType::int16));
    Taken z(draw, size * size_of(DType::int16));
    row->run({words.data(), a.bytes(), z.as<std::byte>(), size, &serial, {}});
    return z.outcome();
}

inline Outcome run_look_up(const KernelTable& table, Draw draw) {
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
    return z.outcome();
}

inline Outcome run_softmax(const KernelTable& table, Draw draw) {
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
    const index_t rows = draw.extent(1, 4), count = draw.extent(1, draw.one_in(5) ? 2000 : 40),
                  inner = draw.extent(1, 9), size = rows * count * inner;
    Given a(draw, size * size_of(row.input));
    Taken z(draw, size * size_of(row.output));
    row.run({&*tables, *wide, a.bytes(), z.as<std::byte>(), rows, count, inner, &serial, entries, &*words, &codes});
    return z.outcome();
}

inline Outcome run_log_softmax(const KernelTable& table, Draw draw) {
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
    const index_t rows = draw.extent(1, 4), count = draw.extent(1, draw.one_in(5) ? 2000 : 40),
                  inner = draw.extent(1, 9), size = rows * count * inner;
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
    return z.outcome();
}

inline Outcome run_layer_norm(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.layer_norm, [&](const kernels::LayerNormRow& r) { return r.input == d.dtype; });
    const index_t samples = draw.extent(1, 4), pixels = draw.one_in(2) ? 1 : draw.extent(1, 9),
                  groups = draw.extent(1, 4), count = draw.extent(1, draw.one_in(5) ? 2000 : 40),
                  channels = groups * count, size = samples * pixels * channels;
    const arith::CodesOf x = d.codes(draw, draw_scale(draw)), y = d.codes(draw, draw_scale(draw));
    const arith::OutputCodes clamp = d.clamp(draw, y);
    const auto epsilon = static_cast<double>(draw.real(0.0f, 0.01f));
    const auto exponent = static_cast<int>(draw.between(-10, 10));
    const auto norm =
        arith::make_layer_norm(table.policy(), x, y, clamp, pixels * count, epsilon, {exponent}, !draw.one_in(4));
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
    return z.outcome();
}

}  // namespace intq::test::fuzz

#endif  // INTQ_TESTS_FUZZ_CASES_FUNCTIONS_HPP
