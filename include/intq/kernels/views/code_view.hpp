// SPDX-License-Identifier: MIT
//
// Which views the operators on views take. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_CODE_VIEW_HPP
#define INTQ_KERNELS_VIEWS_CODE_VIEW_HPP

#include <cstdint>
#include <type_traits>

#include "intq/core/op_params.hpp"
#include "intq/core/status.hpp"
#include "intq/core/tensor_view.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Whether operators take codes of a type.
template <class Code>
inline constexpr bool is_code = std::is_same_v<Code, std::int8_t> || std::is_same_v<Code, std::int16_t>;

/// A view of int8 or int16 codes, of any layout.
template <class View>
concept AnyCodeView = is_code<typename View::value_type> && requires(const View& view) {
    view.strides();
};

/// A view of int8 or int16 codes that lie next to each other: row_major or channels_last. move() gathers a strided one.
template <class View>
concept CodeView = AnyCodeView<View> && !std::is_same_v<typename View::layout_type, strided>;

/// The same, and its elements are not const.
template <class View>
concept CodeOutput = CodeView<View> && !std::is_const_v<typename View::element_type>;

/// Views of one rank and order, so that their elements correspond in memory.
template <class First, class Second>
concept SameOrder =
    (First::rank == Second::rank) && std::is_same_v<typename First::layout_type, typename Second::layout_type>;

/// Views of one rank, order and type of codes.
template <class First, class Second>
concept SameCodes = SameOrder<First, Second> && std::is_same_v<typename First::value_type, typename Second::value_type>;

/// An (N, C, H, W) view with contiguous channels, as kernels on images take it.
template <class View>
concept CodeImage = CodeView<View> && View::rank == 4 && std::is_same_v<typename View::layout_type, channels_last>;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Height and width of an image.
template <class Image> constexpr Size2d size_of_image(const Image& image) noexcept {
    return {image.extent(2), image.extent(3)};
}

/// The place of an axis in the order of memory, counted from the outermost: channels_last puts axis 1 behind all
/// others.
template <class View> constexpr int place_in_memory(int axis) noexcept {
    if (View::rank < 3 || !std::is_same_v<typename View::layout_type, channels_last>) return axis;
    return axis == 1 ? View::rank - 1 : axis > 1 ? axis - 1 : axis;
}

/// Elements of a dense view before one axis in the order of memory, along it, and behind it.
struct AxisRun {
    index_t outer = 1;
    index_t count = 1;
    index_t inner = 1;
};

/// @pre axis in [0, rank)
template <class View> constexpr AxisRun axis_run(const View& view, int axis) noexcept {
    AxisRun run{1, view.extent(axis), 1};
    for (int other = 0; other < View::rank; ++other)
        if (place_in_memory<View>(other) < place_in_memory<View>(axis))
            run.outer *= view.extent(other);
        else if (other != axis)
            run.inner *= view.extent(other);
    return run;
}

/// @return ok; value_out_of_range of axis
template <class View> constexpr Status check_axis(int axis, OpKind op) noexcept {
    if (axis >= 0 && axis < View::rank) return {};
    return {StatusCode::value_out_of_range, op, Field::axis, axis, axis < 0 ? 0 : View::rank - 1};
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_CODE_VIEW_HPP
