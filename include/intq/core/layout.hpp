// SPDX-License-Identifier: MIT
//
// Where the bytes of a tensor are: the layouts of views. Index order is always logical. Layer: core.
#ifndef INTQ_CORE_LAYOUT_HPP
#define INTQ_CORE_LAYOUT_HPP

#include <array>
#include <cstdint>

#include "intq/core/dtype.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Run-time name of a layout.
enum class Layout : std::uint8_t { row_major, channels_last, strided };

/// The last logical axis is contiguous: NCHW for images.
struct row_major {
    static constexpr Layout kind = Layout::row_major;

    template <std::size_t Rank>
    static INTQ_ALWAYS_INLINE constexpr std::array<index_t, Rank> strides(
        const std::array<index_t, Rank>& extents) noexcept {
        std::array<index_t, Rank> result{};
        index_t step = 1;
        for (std::size_t axis = Rank; axis-- > 0;) {
            result[axis] = step;
            step *= extents[axis];
        }
        return result;
    }
};

/// Axis 1 is contiguous, the others follow in logical order: NHWC for images. Equal to row_major below rank 3.
struct channels_last {
    static constexpr Layout kind = Layout::channels_last;

    template <std::size_t Rank>
    static INTQ_ALWAYS_INLINE constexpr std::array<index_t, Rank> strides(
        const std::array<index_t, Rank>& extents) noexcept {
        if constexpr (Rank < 3) {
            return row_major::strides(extents);
        } else {
            std::array<index_t, Rank> result{};
            result[1] = 1;
            index_t step = extents[1];
            for (std::size_t axis = Rank; axis-- > 2;) {
                result[axis] = step;
                step *= extents[axis];
            }
            result[0] = step;
            return result;
        }
    }
};

/// Any strides, also zero or negative; sub-views have this layout.
struct strided {
    static constexpr Layout kind = Layout::strided;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

constexpr const char* name_of(Layout layout) noexcept {
    switch (layout) {
        case Layout::row_major:
            return "row_major";
        case Layout::channels_last:
            return "channels_last";
        case Layout::strided:
            break;
    }
    return "strided";
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_LAYOUT_HPP
