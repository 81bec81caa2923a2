// SPDX-License-Identifier: MIT
//
// Memory plan: where each edge of a program lies in the arena, so that edges which never live together share
// bytes. Layer: runtime.
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

    INTQ_ALWAYS_INLINE constexpr bool overlaps(const Lifetime& other) const noexcept {
        return first <= other.last && other.first <= last;
    }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

namespace intq::runtime {
inline namespace INTQ_ABI {

namespace detail {

/// Lowest aligned offset at which `edge` meets no placed edge that lives at the same time.
inline index_t first_fit(std::span<const Lifetime> edges, std::span<const bool> placed, const Lifetime& edge) noexcept {
    index_t offset = 0;
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

}  // namespace detail

/// Places every edge: largest first, each at the lowest offset that is free during its life.
///
/// @param edges   sizes and lifetimes; receives the offsets
/// @param placed  scratch, as long as edges
/// @return bytes of the arena
///
/// Result   deterministic; offsets are multiples of buffer_alignment
/// Cost     O(n³) in the number of edges in the worst case; a program has hundreds
inline index_t plan_memory(std::span<Lifetime> edges, std::span<bool> placed) INTQ_NOEXCEPT {
    INTQ_ASSERT(placed.size() == edges.size());
    for (bool& done : placed) done = false;
    index_t arena = 0;
    for (std::size_t round = 0; round < edges.size(); ++round) {
        std::size_t largest = edges.size();
        for (std::size_t i = 0; i < edges.size(); ++i)
            if (!placed[i] && (largest == edges.size() || edges[i].bytes > edges[largest].bytes)) largest = i;
        Lifetime& edge = edges[largest];
        edge.offset = detail::first_fit(edges, placed, edge);
        placed[largest] = true;
        const index_t end = round_up(edge.offset + edge.bytes, buffer_alignment);
        if (end > arena) arena = end;
    }
    return arena;
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_MEMORY_PLAN_HPP
