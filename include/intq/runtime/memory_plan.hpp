// SPDX-License-Identifier: MIT
//
// Memory plan: where each edge of a program lies in the arena, so that edges which never live together share
// bytes. Layer: runtime. All of it is constexpr, for graphs that are known to the compiler.
#ifndef INTQ_RUNTIME_MEMORY_PLAN_HPP
#define INTQ_RUNTIME_MEMORY_PLAN_HPP

#include <cstdint>
#include <span>

#include "intq/core/workspace.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

/// An edge for the planner: its size, and the first and last instruction during which it holds data.
struct Lifetime {
    index_t bytes = 0;
    std::int32_t first = 0;
    std::int32_t last = 0;
    index_t offset = 0;  // result
    index_t lowest = 0;  // offset that it may take, a multiple of buffer_alignment

    INTQ_ALWAYS_INLINE constexpr bool overlaps(const Lifetime& other) const noexcept {
        return first <= other.last && other.first <= last;
    }
    INTQ_ALWAYS_INLINE constexpr bool lives_at(std::int32_t instruction) const noexcept {
        return first <= instruction && instruction <= last;
    }
};

/// The order in which edges are placed.
enum class PackingOrder : std::uint8_t { largest, longest, area, busiest, first };
inline constexpr PackingOrder packing_orders[] = {PackingOrder::largest, PackingOrder::longest, PackingOrder::area,
                                                  PackingOrder::busiest, PackingOrder::first};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

namespace intq::runtime {
inline namespace INTQ_ABI {

/// Bytes of the edges that live during an instruction, each rounded up to `alignment`.
constexpr index_t live_bytes(std::span<const Lifetime> edges, std::int32_t instruction,
                             index_t alignment = buffer_alignment) noexcept {
    index_t sum = 0;
    for (const Lifetime& edge : edges)
        if (edge.lives_at(instruction)) sum += round_up(edge.bytes, alignment);
    return sum;
}

/// The first instruction during which the most bytes live; the least of int32 without edges.
constexpr std::int32_t peak_of(std::span<const Lifetime> edges, index_t alignment = buffer_alignment) noexcept {
    std::int32_t peak = INT32_MIN;
    index_t most = -1;
    // Edges that live at one time all live when the last of them begins.
    for (const Lifetime& edge : edges) {
        const index_t bytes = live_bytes(edges, edge.first, alignment);
        if (bytes < most || (bytes == most && edge.first >= peak)) continue;
        most = bytes;
        peak = edge.first;
    }
    return peak;
}

/// The most bytes that live at one time: no plan of these edges is smaller.
constexpr index_t lower_bound_of(std::span<const Lifetime> edges, index_t alignment = buffer_alignment) noexcept {
    return live_bytes(edges, peak_of(edges, alignment), alignment);
}

namespace detail {

/// The keys of an order: the first decides, the second where the first is equal.
struct Rank {
    index_t first = 0;
    index_t second = 0;
    constexpr bool operator>(const Rank& other) const noexcept {
        return first != other.first ? first > other.first : second > other.second;
    }
};

constexpr Rank rank_of(const Lifetime& edge, PackingOrder order, std::int32_t peak) noexcept {
    const index_t life = index_t{1} + edge.last - edge.first;
    switch (order) {
        case PackingOrder::longest:
            return {life, edge.bytes};
        case PackingOrder::area:
            // Sizes are far below the square root of the largest index, except where the product may saturate.
            return {edge.bytes > PTRDIFF_MAX / (life > 0 ? life : 1) ? PTRDIFF_MAX : edge.bytes * life, edge.bytes};
        case PackingOrder::busiest:
            return {edge.lives_at(peak) ? 1 : 0, edge.bytes};
        case PackingOrder::first:
            return {-index_t{edge.first}, edge.bytes};
        case PackingOrder::largest:
            break;
    }
    return {edge.bytes, 0};
}

/// Lowest aligned offset from edge.lowest on at which `edge` meets no placed edge that lives at the same time.
constexpr index_t first_fit(std::span<const Lifetime> edges, std::span<const bool> placed,
                            const Lifetime& edge) noexcept {
    index_t offset = edge.lowest;
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t i = 0; i < edges.size(); ++i) {
            const Lifetime& other = edges[i];
            const bool apart = offset + edge.bytes <= other.offset || other.offset + other.bytes <= offset;
            if (!placed[i] || apart || !edge.overlaps(other)) continue;
            offset = round_up(other.offset + other.bytes, buffer_alignment);
            moved = true;
        }
    }
    return offset;
}

/// Places every edge in an order, each at the lowest offset that is free during its life; returns the arena's bytes.
constexpr index_t pack_in_order(std::span<Lifetime> edges, std::span<bool> placed, PackingOrder order) noexcept {
    const std::int32_t peak = order == PackingOrder::busiest ? peak_of(edges) : 0;
    for (bool& done : placed) done = false;
    index_t arena = 0;
    for (std::size_t pass = 0; pass < edges.size(); ++pass) {
        std::size_t next = edges.size();
        for (std::size_t i = 0; i < edges.size(); ++i)
            if (!placed[i] &&
                (next == edges.size() || rank_of(edges[i], order, peak) > rank_of(edges[next], order, peak)))
                next = i;
        Lifetime& edge = edges[next];
        edge.offset = first_fit(edges, placed, edge);
        placed[next] = true;
        const index_t end = round_up(edge.offset + edge.bytes, buffer_alignment);
        if (end > arena) arena = end;
    }
    return arena;
}

}  // namespace detail

/// Places every edge: in several orders, each edge at the lowest offset that is free during its life. The smallest
/// arena wins, and of equal ones the first.
///
/// @param edges   sizes and lifetimes; receives the offsets
/// @param placed  scratch, as long as edges
/// @return bytes of the arena
///
/// Result   deterministic; offsets are multiples of buffer_alignment
/// Cost     O(n³) in the number of edges in the worst case; a program has hundreds
constexpr index_t plan_memory(std::span<Lifetime> edges, std::span<bool> placed) INTQ_NOEXCEPT {
    INTQ_ASSERT(placed.size() == edges.size());
    const index_t bound = lower_bound_of(edges);
    PackingOrder best = PackingOrder::largest;
    index_t smallest = PTRDIFF_MAX;
    for (const PackingOrder order : packing_orders) {
        const index_t arena = detail::pack_in_order(edges, placed, order);
        if (arena >= smallest) continue;
        smallest = arena;
        best = order;
        if (arena == bound) return arena;
    }
    return detail::pack_in_order(edges, placed, best);
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_MEMORY_PLAN_HPP
