// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <vector>

#include "intq/runtime/memory_plan.hpp"
#include "kernels/oracle_bridge.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using runtime::Lifetime;

index_t plan(std::vector<Lifetime>& edges) {
    const auto placed = std::make_unique<bool[]>(edges.size());
    return runtime::plan_memory(edges, std::span<bool>(placed.get(), edges.size()));
}

/// Empty where the plan is sound.
std::string fault_of(const std::vector<Lifetime>& edges, index_t arena) {
    index_t end = 0;
    for (std::size_t i = 0; i < edges.size(); ++i) {
        const Lifetime& a = edges[i];
        if (a.offset < 0 || a.offset % buffer_alignment != 0) return "edge " + std::to_string(i) + " is misaligned";
        end = std::max(end, round_up(a.offset + a.bytes, buffer_alignment));
        for (std::size_t k = 0; k < i; ++k) {
            const Lifetime& b = edges[k];
            const bool live_together = std::max(a.first, b.first) <= std::min(a.last, b.last);
            const bool share = std::max(a.offset, b.offset) < std::min(a.offset + a.bytes, b.offset + b.bytes);
            if (live_together && share)
                return "edges " + std::to_string(k) + " and " + std::to_string(i) + " share bytes while both live";
        }
    }
    return end == arena ? ""
                        : "the arena has " + std::to_string(arena) + " bytes, its edges end at " + std::to_string(end);
}

/// The most bytes that live at one time: no plan can be smaller.
index_t largest_live_sum(const std::vector<Lifetime>& edges) {
    index_t largest = 0;
    for (const Lifetime& at : edges) {
        index_t sum = 0;
        for (const Lifetime& edge : edges)
            if (edge.first <= at.first && at.first <= edge.last) sum += round_up(edge.bytes, buffer_alignment);
        largest = std::max(largest, sum);
    }
    return largest;
}

std::vector<Lifetime> draw_edges(std::uint64_t seed) {
    test::Draw draw(seed);
    std::vector<Lifetime> edges;
    const std::int64_t count = draw.between(1, 40), instructions = draw.between(1, 30);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t first = draw.between(-1, instructions);
        const std::int64_t last =
            draw.one_in(4) ? draw.between(first, instructions) : std::min(first + draw.between(0, 3), instructions);
        const index_t bytes = draw.one_in(10) ? 0 : draw.one_in(3) ? 64 * draw.between(1, 40) : draw.between(1, 5000);
        edges.push_back({bytes, static_cast<std::int32_t>(first), static_cast<std::int32_t>(last), 0});
    }
    return edges;
}

}  // namespace

TEST_CASE("edges that live together never share bytes, whatever their sizes and lives") {
    index_t planned = 0, without_sharing = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
        std::vector<Lifetime> edges = draw_edges(seed);
        const index_t arena = plan(edges);
        const std::string fault = fault_of(edges, arena);
        if (!fault.empty()) FAIL_CHECK("seed " << seed << ": " << fault);
        if (arena < largest_live_sum(edges))
            FAIL_CHECK("seed " << seed << ": the arena is smaller than what lives at one time");
        planned += arena;
        for (const Lifetime& edge : edges) without_sharing += round_up(edge.bytes, buffer_alignment);
        std::vector<Lifetime> again = draw_edges(seed);
        CHECK(plan(again) == arena);
        for (std::size_t i = 0; i < edges.size(); ++i)
            if (edges[i].offset != again[i].offset) FAIL_CHECK("seed " << seed << ": the plan is not deterministic");
    }
    CHECK(planned * 10 < without_sharing * 7);
}

TEST_CASE("a chain needs the room of its two largest neighbours") {
    std::vector<Lifetime> edges{{1000, 0, 1, 0}, {3000, 1, 2, 0}, {500, 2, 3, 0}, {3000, 3, 4, 0}, {64, 4, 5, 0}};
    CHECK(plan(edges) == 1024 + 3008);
    CHECK(fault_of(edges, 1024 + 3008).empty());
}

TEST_CASE("no edges need no arena, and an edge of no bytes needs no room") {
    std::vector<Lifetime> none;
    CHECK(plan(none) == 0);
    std::vector<Lifetime> empty{{0, 0, 5, 0}, {128, 0, 5, 0}, {0, 2, 3, 0}};
    CHECK(plan(empty) == 128);
}

TEST_CASE("the lower bound is the most bytes that live at one time, and the peak is when") {
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        const std::vector<Lifetime> edges = draw_edges(seed);
        const index_t bound = runtime::lower_bound_of(edges);
        INFO("seed " << seed);
        REQUIRE(bound == largest_live_sum(edges));
        REQUIRE(runtime::live_bytes(edges, runtime::peak_of(edges)) == bound);
        REQUIRE(runtime::lower_bound_of(edges, 1) <= bound);
    }
}

TEST_CASE("the plan is that of the best order") {
    int better = 0;
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        std::vector<Lifetime> edges = draw_edges(seed), others = edges;
        const index_t arena = plan(edges);
        const auto placed = std::make_unique<bool[]>(edges.size());
        index_t least = PTRDIFF_MAX, first = 0;
        for (const runtime::PackingOrder order : runtime::packing_orders) {
            const index_t size =
                runtime::detail::pack_in_order(others, std::span<bool>(placed.get(), others.size()), order);
            if (order == runtime::PackingOrder::largest) first = size;
            least = std::min(least, size);
        }
        if (arena != least) FAIL_CHECK("seed " << seed << ": " << arena << " instead of " << least);
        better += arena < first ? 1 : 0;
    }
    CHECK(better > 25);  // there is something to choose
}

namespace {

/// A graph that the compiler knows.
constexpr index_t static_arena = [] {
    Lifetime edges[]{{1000, 0, 1, 0}, {3000, 1, 2, 0}, {500, 2, 3, 0}};
    bool placed[3]{};
    return runtime::plan_memory(edges, placed);
}();
static_assert(static_arena == 1024 + 3008);

}  // namespace
