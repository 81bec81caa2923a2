// SPDX-License-Identifier: MIT
//
// Cases of what moves codes or finds them: embedding, argmax, index_copy, move, pad.
#ifndef INTQ_TESTS_FUZZ_CASES_MOVE_HPP
#define INTQ_TESTS_FUZZ_CASES_MOVE_HPP

#include "fuzz/cases/drawn.hpp"

namespace intq::test::fuzz {

inline Outcome run_embedding(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.embedding, [&](const kernels::EmbeddingRow& r) { return r.dtype == d.dtype; });
    const index_t rows = draw.extent(1, 40), width = draw.extent(1, 70), count = draw.extent(0, 30);
    if (row == nullptr) return {};
    std::vector<std::int32_t> ids;
    for (index_t i = 0; i < count; ++i)
        ids.push_back(
            static_cast<std::int32_t>(draw.one_in(9) ? draw.extent(INT32_MIN, INT32_MAX) : draw.extent(0, rows - 1)));
    Given codes(draw, rows * width * d.element);
    Taken to(draw, count * width * d.element);
    const kernels::EmbeddingParams params{codes.bytes(), rows, width, d.dtype};
    row->run({&params, ids.data(), to.as<std::byte>(), count, &serial});
    return to.outcome();
}

inline Outcome run_argmax(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.argmax, [&](const kernels::ArgMaxRow& r) { return r.dtype == d.dtype; });
    if (row == nullptr) return {};
    const index_t rows = draw.extent(1, 4), count = draw.extent(1, draw.one_in(5) ? 2000 : 70),
                  inner = draw.one_in(2) ? 1 : draw.extent(1, 70);
    Given x(draw, rows * count * inner * d.element);
    Taken y(draw, rows * inner * index_t{sizeof(std::int32_t)});
    row->run({.x = x.bytes(),
              .y = y.as<std::int32_t>(),
              .rows = rows,
              .params = {.count = count, .inner = inner},
              .executor = &serial});
    return y.outcome();
}

inline Outcome run_index_copy(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.index_copy, [&](const kernels::IndexCopyRow& r) { return r.dtype == d.dtype; });
    const index_t batch = draw.extent(1, 3);
    const kernels::IndexCopyParams rows{.outer = draw.extent(1, 5),
                                        .rows = draw.extent(1, 20),
                                        .inner = draw.extent(1, 40),
                                        .count = draw.extent(1, 5)};
    if (row == nullptr) return {};
    std::vector<std::int32_t> index;
    for (index_t i = 0; i < batch * rows.count; ++i)
        index.push_back(static_cast<std::int32_t>(draw.one_in(9) ? draw.extent(INT32_MIN, INT32_MAX)
                                                                 : draw.extent(0, rows.rows - 1)));
    const index_t planes = batch * rows.outer * rows.inner * d.element;
    Given x(draw, planes * rows.rows), source(draw, planes * rows.count);
    Taken to(draw, planes * rows.rows);
    row->run({&rows, x.bytes(), source.bytes(), index.data(), to.as<std::byte>(), batch, &serial});
    return to.outcome();
}

inline Outcome run_move(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.move, [&](const kernels::MoveRow& r) { return r.dtype == d.dtype; });
    kernels::MoveParams move;
    move.rank = static_cast<int>(draw.between(1, 4));
    const index_t in = draw.extent(1, 400);
    for (int axis = 0; axis < move.rank; ++axis) {
        move.extents[axis] = draw.extent(1, 9);
        move.steps[axis] = draw.one_in(3) ? 1 : draw.extent(-20, 20);
    }
    move.offset = draw.extent(0, in - 1);
    const index_t out = kernels::moved_size(move);
    if (row == nullptr || !kernels::check_move(move, in, out, OpKind::slice).ok()) return {};
    const index_t batch = draw.extent(1, 3);
    Given a(draw, batch * in * d.element);
    Taken z(draw, batch * out * d.element);
    row->run({&move, a.bytes(), z.as<std::byte>(), batch, in, &serial});
    return z.outcome();
}

inline Outcome run_pad(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.pad, [&](const kernels::PadRow& r) { return r.dtype == d.dtype; });
    const kernels::PadParams pad{{draw.extent(-3, 4), draw.extent(-3, 4), draw.extent(-3, 4), draw.extent(-3, 4)},
                                 {draw.extent(1, 3), draw.extent(1, 3)},
                                 static_cast<std::int32_t>(draw.between(lowest_code(d.dtype), highest_code(d.dtype)))};
    const Size2d in{draw.extent(1, 9), draw.extent(1, 9)};
    if (row == nullptr || !kernels::check_pad(pad, in, OpKind::pad).ok()) return {};
    const Size2d out = kernels::padded_size(pad, in);
    const index_t batch = draw.extent(1, 2), channels = draw.extent(1, 70);
    Given a(draw, batch * in.height * in.width * channels * d.element);
    Taken z(draw, batch * out.height * out.width * channels * d.element);
    row->run({&pad, a.bytes(), z.as<std::byte>(), batch, channels, in, &serial});
    return z.outcome();
}

}  // namespace intq::test::fuzz

#endif  // INTQ_TESTS_FUZZ_CASES_MOVE_HPP
