// SPDX-License-Identifier: MIT
//
// Extents of tensors: a run-time Shape of any rank, and Extents whose values may be part of the type.
// Layer: core.
#ifndef INTQ_CORE_SHAPE_HPP
#define INTQ_CORE_SHAPE_HPP

#include <array>

#include "intq/core/assert.hpp"
#include "intq/core/dtype.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Largest rank of a tensor.
inline constexpr int max_rank = 6;

/// Rank and extents known at run time. Index order is logical: (N, C, H, W).
struct Shape {
    int rank = 0;
    std::array<index_t, max_rank> extents{};

    INTQ_ALWAYS_INLINE constexpr Shape() = default;

    /// @pre sizeof...(extent) <= max_rank
    template <class... Extent>
    requires(sizeof...(Extent) > 0 && (std::is_convertible_v<Extent, index_t> && ...)) INTQ_ALWAYS_INLINE
        constexpr explicit Shape(Extent... extent)
        : rank(static_cast<int>(sizeof...(Extent))), extents{static_cast<index_t>(extent)...} {
        static_assert(sizeof...(Extent) <= max_rank, "a Shape has at most max_rank extents");
    }

    INTQ_ALWAYS_INLINE constexpr index_t operator[](int axis) const INTQ_NOEXCEPT {
        INTQ_ASSERT(axis >= 0 && axis < rank);
        return extents[static_cast<std::size_t>(axis)];
    }
    INTQ_ALWAYS_INLINE constexpr index_t& operator[](int axis) INTQ_NOEXCEPT {
        INTQ_ASSERT(axis >= 0 && axis < rank);
        return extents[static_cast<std::size_t>(axis)];
    }

    /// Product of the extents; 1 for rank 0.
    INTQ_ALWAYS_INLINE constexpr index_t size() const noexcept {
        index_t product = 1;
        for (int axis = 0; axis < rank; ++axis) product *= extents[static_cast<std::size_t>(axis)];
        return product;
    }

    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const Shape& a, const Shape& b) noexcept {
        if (a.rank != b.rank) return false;
        for (int axis = 0; axis < a.rank; ++axis)
            if (a.extents[static_cast<std::size_t>(axis)] != b.extents[static_cast<std::size_t>(axis)]) return false;
        return true;
    }
};

/// An extent that is known at run time only.
inline constexpr index_t dynamic = -1;

/// Extents of fixed rank; each value either part of the type or `dynamic`.
///
///     Extents<1, 16, dynamic, dynamic> image{1, 16, height, width};
template <index_t... Values> struct Extents {
    static_assert(sizeof...(Values) <= max_rank, "an Extents has at most max_rank values");
    static_assert(((Values >= 0 || Values == dynamic) && ...), "a static extent is 0 or more, or intq::dynamic");
    static constexpr int rank = static_cast<int>(sizeof...(Values));
    static constexpr std::array<index_t, sizeof...(Values)> static_values{Values...};
    static constexpr bool all_static = ((Values != dynamic) && ...);

    INTQ_ALWAYS_INLINE constexpr Extents() = default;
    INTQ_ALWAYS_INLINE constexpr explicit Extents(const std::array<index_t, sizeof...(Values)>& values) INTQ_NOEXCEPT {
        for (std::size_t axis = 0; axis < sizeof...(Values); ++axis)
            INTQ_ASSERT(static_values[axis] == dynamic || static_values[axis] == values[axis]);
        if constexpr (!all_static) values_ = values;
    }

    INTQ_ALWAYS_INLINE constexpr index_t operator[](int axis) const INTQ_NOEXCEPT {
        INTQ_ASSERT(axis >= 0 && axis < rank);
        const auto i = static_cast<std::size_t>(axis);
        if constexpr (all_static) {
            return static_values[i];
        } else {
            return static_values[i] != dynamic ? static_values[i] : values_[i];
        }
    }

private:
    struct Nothing {};
    [[no_unique_address]] std::conditional_t<all_static, Nothing, std::array<index_t, sizeof...(Values)>> values_{};
};

namespace detail {

template <int Rank, index_t... Values> struct MakeDynamicExtents : MakeDynamicExtents<Rank - 1, dynamic, Values...> {};
template <index_t... Values> struct MakeDynamicExtents<0, Values...> { using type = Extents<Values...>; };

}  // namespace detail

/// Extents of the given rank, all known at run time only.
template <int Rank> using DynamicExtents = typename detail::MakeDynamicExtents<Rank>::type;

}  // namespace INTQ_CORE_ABI
}  // namespace intq

#endif  // INTQ_CORE_SHAPE_HPP
