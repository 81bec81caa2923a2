// SPDX-License-Identifier: MIT
//
// TensorView: a pointer, extents and a layout; owns nothing. Layer: core (docs/design.md section 3).
#ifndef INTQ_CORE_TENSOR_VIEW_HPP
#define INTQ_CORE_TENSOR_VIEW_HPP

#include <array>
#include <concepts>
#include <type_traits>

#include "intq/core/layout.hpp"
#include "intq/core/shape.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Non-owning view of a tensor.
///
///     element(i_0, …, i_r-1) = data[sum_k i_k · stride_k]
///
/// @tparam T          element type, const for a view that only reads
/// @tparam Rank       number of axes; index order is logical, (N, C, H, W)
/// @tparam LayoutTag  row_major, channels_last or strided
/// @tparam ExtentsType  DynamicExtents<Rank>, or Extents<…> with values that are part of the type
///
/// Memory   one pointer, and the extents and strides that the type does not fix
template <class T, int Rank, class LayoutTag = row_major, class ExtentsType = DynamicExtents<Rank>> class TensorView {
    static_assert(dtype_of<T> != DType::none,
                  "TensorView<T>: T must be float, double, int8_t, int16_t, int32_t, int64_t or uint8_t (or const)");
    static_assert(Rank >= 1 && Rank <= max_rank, "TensorView: the rank must be 1 to max_rank");
    static_assert(ExtentsType::rank == Rank, "TensorView: the extents must have the view's rank");
    static constexpr bool stores_strides = std::is_same_v<LayoutTag, strided>;
    static constexpr auto rank_size = static_cast<std::size_t>(Rank);

public:
    using element_type = T;
    using value_type = std::remove_const_t<T>;
    using layout_type = LayoutTag;
    using extents_type = ExtentsType;
    using Index = std::array<index_t, rank_size>;
    static constexpr int rank = Rank;

    INTQ_ALWAYS_INLINE constexpr TensorView() = default;

    /// View of `data` with the layout's own strides.
    INTQ_ALWAYS_INLINE constexpr TensorView(T* data, const Index& extents) INTQ_NOEXCEPT requires(!stores_strides)
        : data_(data), extents_(extents) {}

    /// View of a type whose extents are all static.
    INTQ_ALWAYS_INLINE constexpr explicit TensorView(T* data) INTQ_NOEXCEPT
        requires(ExtentsType::all_static && !stores_strides)
        : data_(data) {}

    /// View with the given strides, counted in elements.
    INTQ_ALWAYS_INLINE constexpr TensorView(T* data, const Index& extents,
                                            const Index& strides) INTQ_NOEXCEPT requires stores_strides
        : data_(data),
          extents_(extents),
          strides_(strides) {}

    /// From any view that has the same elements: mutable to const, any layout to strided, static to dynamic.
    template <class Other, class OtherLayout, class OtherExtents>
    requires(std::is_same_v<std::remove_const_t<Other>, value_type> &&
             (std::is_const_v<T> || !std::is_const_v<Other>)&&(std::is_same_v<OtherLayout, LayoutTag> ||
                                                               stores_strides)) INTQ_ALWAYS_INLINE
        constexpr TensorView(const TensorView<Other, Rank, OtherLayout, OtherExtents>& other) INTQ_NOEXCEPT
        : data_(other.data()),
          extents_(other.extents()) {
        if constexpr (stores_strides) strides_ = other.strides();
    }

    INTQ_ALWAYS_INLINE constexpr T* data() const noexcept { return data_; }
    INTQ_ALWAYS_INLINE constexpr index_t extent(int axis) const INTQ_NOEXCEPT { return extents_[axis]; }
    INTQ_ALWAYS_INLINE constexpr Index extents() const noexcept {
        Index result{};
        for (int axis = 0; axis < Rank; ++axis) result[static_cast<std::size_t>(axis)] = extents_[axis];
        return result;
    }
    INTQ_ALWAYS_INLINE constexpr Index strides() const noexcept {
        if constexpr (stores_strides) {
            return strides_;
        } else {
            return LayoutTag::strides(extents());
        }
    }
    INTQ_ALWAYS_INLINE constexpr index_t stride(int axis) const noexcept {
        return strides()[static_cast<std::size_t>(axis)];
    }
    INTQ_ALWAYS_INLINE constexpr Shape shape() const noexcept {
        Shape result;
        result.rank = Rank;
        for (int axis = 0; axis < Rank; ++axis) result.extents[static_cast<std::size_t>(axis)] = extents_[axis];
        return result;
    }
    INTQ_ALWAYS_INLINE constexpr index_t size() const noexcept { return shape().size(); }
    INTQ_ALWAYS_INLINE constexpr bool empty() const noexcept { return size() == 0; }

    /// Whether the elements fill one run of size() addresses, in some order of the axes.
    INTQ_ALWAYS_INLINE constexpr bool is_contiguous() const noexcept {
        if constexpr (stores_strides) {
            return strides_ == row_major::strides(extents()) || strides_ == channels_last::strides(extents());
        } else {
            return true;
        }
    }

    /// The element at a logical index.
    template <class... Indices>
    requires(sizeof...(Indices) == Rank && (std::is_convertible_v<Indices, index_t> && ...)) INTQ_ALWAYS_INLINE
        constexpr T&
        operator()(Indices... index) const INTQ_NOEXCEPT {
        return (*this)[Index{static_cast<index_t>(index)...}];
    }
    INTQ_ALWAYS_INLINE constexpr T& operator[](const Index& index) const INTQ_NOEXCEPT {
        const Index step = strides();
        index_t offset = 0;
        for (std::size_t axis = 0; axis < rank_size; ++axis) {
            INTQ_ASSERT(index[axis] >= 0 && index[axis] < extents_[static_cast<int>(axis)]);
            offset += index[axis] * step[axis];
        }
        return data_[offset];
    }

    /// The part [first, first + count) of one axis; shares the elements.
    /// @pre 0 <= first, 0 <= count, first + count <= extent(axis)
    INTQ_ALWAYS_INLINE constexpr TensorView<T, Rank, strided> sub_view(int axis, index_t first,
                                                                       index_t count) const INTQ_NOEXCEPT {
        INTQ_ASSERT(axis >= 0 && axis < Rank && first >= 0 && count >= 0 && first + count <= extents_[axis]);
        Index part = extents();
        part[static_cast<std::size_t>(axis)] = count;
        return {data_ + first * stride(axis), part, strides()};
    }

    /// The view without one axis, at the given index of it.
    /// @pre 0 <= index < extent(axis)
    INTQ_ALWAYS_INLINE constexpr TensorView<T, Rank - 1, strided> select(int axis, index_t index) const INTQ_NOEXCEPT
        requires(Rank > 1) {
        INTQ_ASSERT(axis >= 0 && axis < Rank && index >= 0 && index < extents_[axis]);
        std::array<index_t, rank_size - 1> part{}, step{};
        const Index all = extents(), all_strides = strides();
        for (std::size_t from = 0, to = 0; from < rank_size; ++from)
            if (from != static_cast<std::size_t>(axis)) {
                part[to] = all[from];
                step[to++] = all_strides[from];
            }
        return {data_ + index * stride(axis), part, step};
    }

private:
    struct Nothing {};
    T* data_ = nullptr;
    [[no_unique_address]] ExtentsType extents_{};
    [[no_unique_address]] std::conditional_t<stores_strides, Index, Nothing> strides_{};
};

/// An (N, C, H, W) image tensor in the order that kernels read: channels contiguous.
template <class T> using ImageView = TensorView<T, 4, channels_last>;

}  // namespace INTQ_CORE_ABI
}  // namespace intq

#endif  // INTQ_CORE_TENSOR_VIEW_HPP
