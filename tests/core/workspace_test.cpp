// SPDX-License-Identifier: MIT
//
// The cursor that sizes and places buffers, and the executor that kernels are given.
#include "intq/core/workspace.hpp"

#include <vector>

#include "intq/core/executor.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;

struct Parts {
    float* reals = nullptr;
    std::int8_t* codes = nullptr;
    std::int64_t* sums = nullptr;
};

Parts place(BufferCursor& cursor) {
    Parts parts;
    parts.reals = cursor.take<float>(17);
    parts.codes = cursor.take<std::int8_t>(1);
    parts.sums = cursor.take<std::int64_t>(0);
    return parts;
}

}  // namespace

TEST_CASE("workspace: counting and placing use the same bytes, aligned and apart") {
    BufferCursor counter;
    CHECK(place(counter).reals == nullptr);
    REQUIRE(counter.used() == 128 + 64);
    alignas(buffer_alignment) std::byte storage[192];
    BufferCursor cursor(storage, counter.used());
    const Parts parts = place(cursor);
    CHECK(cursor.used() == counter.used());
    CHECK(static_cast<void*>(parts.reals) == storage);
    CHECK(static_cast<void*>(parts.codes) == storage + 128);
    CHECK(static_cast<void*>(parts.sums) == storage + 192);
    CHECK(is_aligned(parts.codes));
    CHECK_FALSE(is_aligned(storage + 8));
}

TEST_CASE("workspace: sizes round up to whole alignments") {
    static_assert(round_up(0, 64) == 0 && round_up(1, 64) == 64 && round_up(64, 64) == 64 && round_up(65, 64) == 128);
    static_assert(round_up(7, 3) == 9);
    SUCCEED();
}

TEST_CASE("executor: serial runs every task once, in order") {
    std::vector<index_t> seen;
    serial(5, [&](index_t i) { seen.push_back(i); });
    CHECK(seen == std::vector<index_t>{0, 1, 2, 3, 4});
    serial(0, [&](index_t) { seen.clear(); });
    CHECK(seen.size() == 5);
}

TEST_CASE("executor: a user's parallel-for gets the count and runs each task; one task stays in the caller") {
    struct State {
        int runs = 0;
        index_t tasks = 0;
    } state;
    const Executor backward(
        [](void* context, index_t count, Executor::Task task, void* task_context) {
            auto& seen = *static_cast<State*>(context);
            ++seen.runs;
            seen.tasks += count;
            for (index_t i = count; i-- > 0;) task(task_context, i);
        },
        &state);
    std::vector<index_t> order;
    const auto record = [&](index_t i) { order.push_back(i); };
    backward(4, record);
    CHECK(order == std::vector<index_t>{3, 2, 1, 0});
    CHECK(state.runs == 1);
    CHECK(state.tasks == 4);
    backward(1, record);
    backward(0, record);
    CHECK(order.size() == 5);
    CHECK(state.runs == 1);
}
