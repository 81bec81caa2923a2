// SPDX-License-Identifier: MIT
//
// move and pad: every row of every backend against the formula, and the check of a move against the addresses that the
// formula has.
#include "intq/kernels/streaming/move.hpp"

#include <array>
#include <limits>
#include <random>
#include <vector>

#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/tensors.hpp"

using namespace intq;
using kernels::MoveParams;
using kernels::PadParams;

namespace {

/// Addresses of all elements of an output image, by the formula.
std::vector<long double> addresses(const MoveParams& move) {
    std::vector<long double> all{static_cast<long double>(move.offset)};
    for (int axis = 0; axis < move.rank; ++axis) {
        std::vector<long double> next;
        for (const long double base : all)
            for (index_t i = 0; i < move.extents[axis]; ++i)
                next.push_back(base + static_cast<long double>(i) * static_cast<long double>(move.steps[axis]));
        all = std::move(next);
    }
    return all;
}

MoveParams random_move(std::mt19937& random, index_t in) {
    MoveParams move;
    move.rank = 1 + static_cast<int>(random() % max_rank);
    for (int axis = 0; axis < move.rank; ++axis) {
        move.extents[axis] = 1 + static_cast<index_t>(random() % 3);
        move.steps[axis] = static_cast<index_t>(random() % static_cast<unsigned>(in)) / (1 + axis) - in / 8;
        if (random() % 3 == 0) move.steps[axis] = axis % 2;
    }
    move.offset = static_cast<index_t>(random() % static_cast<unsigned>(in));
    return move;
}

/// The rows of one type, of every backend. Those of a backend's targets are the same ones.
template <class Row, class Visit>
void for_each_row(std::span<const Row> kernels::KernelTable::*rows, DType dtype, Visit&& visit) {
    int count = 0;
    for (const test::BackendTables& backend : test::usable_backend_tables())
        for (const Row& row : (*backend.tables[0]).*rows)
            if (row.dtype == dtype) {
                ++count;
                visit(row);
            }
    REQUIRE(count == static_cast<int>(test::usable_backend_tables().size()));
}

template <class Code> void check_run(const MoveParams& move, index_t in) {
    constexpr index_t batch = 3;
    const auto from = addresses(move);
    std::vector<Code> x(static_cast<std::size_t>(batch * in));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<Code>(i * 7 + 1);
    test::BackwardExecutor backward;
    for_each_row(&kernels::KernelTable::move, dtype_of<Code>, [&](const kernels::MoveRow& row) {
        for (const Executor& executor : {serial, backward.executor()}) {
            test::GuardedBuffer buffer(batch * from.size() * sizeof(Code));
            Code* const y = buffer.template as<Code>();
            row.run({&move, x.data(), y, batch, in, &executor});
            int wrong = 0;
            for (std::size_t n = 0; n < batch; ++n)
                for (std::size_t i = 0; i < from.size(); ++i)
                    wrong += y[n * from.size() + i] !=
                             x[n * static_cast<std::size_t>(in) + static_cast<std::size_t>(from[i])];
            CHECK(wrong == 0);
            CHECK(buffer.is_intact());
        }
    });
}

/// Every cell of the output by the formula of pad.
template <class Code> void check_pad_run(const PadParams& pad, Size2d in, index_t channels) {
    constexpr index_t batch = 2;
    const Size2d out = kernels::padded_size(pad, in);
    std::vector<Code> x(static_cast<std::size_t>(batch * in.height * in.width * channels));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<Code>(i * 7 + 1);
    std::vector<Code> expected;
    for (index_t n = 0; n < batch; ++n)
        for (index_t i = 0; i < out.height; ++i)
            for (index_t j = 0; j < out.width; ++j)
                for (index_t c = 0; c < channels; ++c) {
                    const index_t row = i - pad.padding.top, column = j - pad.padding.left;
                    bool is_pixel = row >= 0 && column >= 0 && row % pad.step.height == 0 &&
                                    column % pad.step.width == 0 && row / pad.step.height < in.height &&
                                    column / pad.step.width < in.width;
                    const index_t from = ((n * in.height + row / pad.step.height) * in.width + column / pad.step.width);
                    expected.push_back(is_pixel ? x[static_cast<std::size_t>(from * channels + c)]
                                                : static_cast<Code>(pad.fill));
                }
    test::BackwardExecutor backward;
    for_each_row(&kernels::KernelTable::pad, dtype_of<Code>, [&](const kernels::PadRow& row) {
        for (const Executor& executor : {serial, backward.executor()}) {
            test::GuardedBuffer buffer(expected.size() * sizeof(Code));
            row.run({&pad, x.data(), buffer.template as<Code>(), batch, channels, in, &executor});
            CHECK(std::vector<Code>(buffer.template as<Code>(), buffer.template as<Code>() + expected.size()) ==
                  expected);
            CHECK(buffer.is_intact());
        }
    });
}

}  // namespace

TEST_CASE("A move writes what its formula reads, and its check accepts exactly what stays inside the image") {
    std::mt19937 random(1);
    int accepted = 0, refused = 0;
    for (int i = 0; i < 4000; ++i) {
        const index_t in = 1 + static_cast<index_t>(random() % 200);
        const MoveParams move = random_move(random, in);
        const auto from = addresses(move);
        const bool is_inside = std::all_of(
            from.begin(), from.end(), [&](long double at) { return at >= 0 && at < static_cast<long double>(in); });
        const auto out = static_cast<index_t>(from.size());
        INFO("move " << i << " of " << in << " elements");
        REQUIRE(kernels::check_move(move, in, out, OpKind::slice).ok() == is_inside);
        CHECK_FALSE(kernels::check_move(move, in, out + 1, OpKind::slice).ok());
        ++(is_inside ? accepted : refused);
        if (!is_inside) continue;
        check_run<std::int8_t>(move, in);
        check_run<std::int16_t>(move, in);
    }
    CHECK(accepted > 500);
    CHECK(refused > 500);
}

TEST_CASE("The check of a move survives any numbers") {
    constexpr index_t most = std::numeric_limits<index_t>::max(), least = std::numeric_limits<index_t>::min();
    const std::array<index_t, 9> numbers{most, least, least + 1, most / 2, index_t{1} << 40, -1, 0, 1, 3};
    std::mt19937 random(2);
    int accepted = 0;
    for (int i = 0; i < 20000; ++i) {
        MoveParams move;
        const auto draw = [&] { return numbers[random() % numbers.size()]; };
        move.rank = i % 5 == 0 ? static_cast<int>(random()) : 1 + static_cast<int>(random() % max_rank);
        move.offset = i % 2 == 0 ? 1 : draw();
        for (int axis = 0; axis < max_rank; ++axis) {
            move.extents[axis] = i % 3 == 0 ? draw() : axis == 0 ? 3 : 1;
            move.steps[axis] = draw();
        }
        const Status status = kernels::check_move(move, 4, 3, OpKind::permute);
        if (!status.ok()) {
            CHECK(status.code == StatusCode::corrupt);
            continue;
        }
        ++accepted;
        for (const long double at : addresses(move)) CHECK((at >= 0 && at < 4));
    }
    CHECK(accepted > 20);
}

TEST_CASE("A pad puts pixels onto a larger or smaller field, next to each other or apart") {
    std::mt19937 random(3);
    int checked = 0;
    for (int i = 0; i < 300; ++i) {
        const auto draw = [&](int from, int to) {
            return from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1));
        };
        const PadParams pad{
            {draw(-2, 3), draw(-2, 3), draw(-2, 3), draw(-2, 3)}, {draw(1, 3), draw(1, 3)}, draw(-9, 9)};
        const Size2d in{draw(1, 5), draw(1, 5)};
        if (!kernels::check_pad(pad, in, OpKind::pad).ok()) continue;
        ++checked;
        const index_t channels = draw(1, 20);
        check_pad_run<std::int8_t>(pad, in, channels);
        check_pad_run<std::int16_t>(pad, in, channels);
    }
    CHECK(checked > 200);
}
