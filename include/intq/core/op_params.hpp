// SPDX-License-Identifier: MIT
//
// Parameter structs of the operators, as plain aggregates in the words of PyTorch. Layer: core.
#ifndef INTQ_CORE_OP_PARAMS_HPP
#define INTQ_CORE_OP_PARAMS_HPP

#include <initializer_list>

#include "intq/core/dtype.hpp"
#include "intq/core/status.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Values for height and width.
struct Size2d {
    index_t height = 1;
    index_t width = 1;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const Size2d&, const Size2d&) = default;
};

/// Rows and columns of zeros (the zero point) around an image.
struct Padding2d {
    index_t top = 0;
    index_t left = 0;
    index_t bottom = 0;
    index_t right = 0;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const Padding2d&, const Padding2d&) = default;
};

/// The elements that a pad adds.
enum class PadMode : std::uint8_t {
    constant,
    reflect,   // the tensor's, mirrored at its outermost element, which is not repeated
    replicate  // the outermost element
};

/// How a window moves over an image; shared by convolution and pooling.
struct Window2d {
    Size2d kernel{};
    Size2d stride{};
    Padding2d padding{};
    Size2d dilation{};
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const Window2d&, const Window2d&) = default;
};

/// Largest kernel, stride, dilation and padding of a window, and the largest extent of an image. Numbers computed from
/// one axis of both stay in 32 bits.
inline constexpr index_t largest_window = index_t{1} << 24;
inline constexpr index_t largest_extent = index_t{1} << 30;

/// Which cells an average divides by: the whole kernel (PyTorch's default), or the cells inside the image.
enum class PoolDivisor : std::uint8_t { kernel_cells, valid_cells };

/// The step after the accumulator inside a fused operator: a clamp on codes.
enum class Activation : std::uint8_t { none, relu, relu6 };

/// Real functions that a table holds. gelu_erf is x·Φ(x), gelu_tanh its approximation by tanh.
enum class TableFunction : std::uint8_t {
    sigmoid,
    tanh,
    exp,
    erf,
    gelu_erf,
    gelu_tanh,
    silu,
    elu,
    hard_sigmoid,
    hard_tanh,
    hard_swish,
    softplus,
    mish,
    selu,
    celu,
    softsign,
    tanhshrink,
    abs,
    neg,
    square,
    leaky_relu,
    log,
    sqrt,
    rsqrt,
    reciprocal
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

/// Extents of the output of a window; at least 0.
///
///     out = fl((in + padding - dilation·(kernel - 1) - 1) / stride) + 1
///
/// @pre check_window() and check_image() are ok
constexpr Size2d output_size(const Window2d& window, Size2d in) noexcept {
    const auto along = [](index_t extent, index_t padding, index_t kernel, index_t dilation, index_t stride) {
        const index_t room = extent + padding - dilation * (kernel - 1) - 1;
        return room < 0 ? index_t{0} : room / stride + 1;
    };
    return {along(in.height, window.padding.top + window.padding.bottom, window.kernel.height, window.dilation.height,
                  window.stride.height),
            along(in.width, window.padding.left + window.padding.right, window.kernel.width, window.dilation.width,
                  window.stride.width)};
}

/// @return ok; shape_mismatch of kernel where the window spans more pixels than the padded image has
/// @pre check_window() and check_image() are ok
constexpr Status check_span(const Window2d& window, Size2d in, OpKind op) noexcept {
    const index_t tall = window.dilation.height * (window.kernel.height - 1) + 1,
                  wide = window.dilation.width * (window.kernel.width - 1) + 1;
    const index_t rows = in.height + window.padding.top + window.padding.bottom,
                  columns = in.width + window.padding.left + window.padding.right;
    if (tall > rows) return {StatusCode::shape_mismatch, op, Field::kernel, tall, rows};
    if (wide > columns) return {StatusCode::shape_mismatch, op, Field::kernel, wide, columns};
    return {};
}

/// Whether the product of numbers of at least 1 is at most `limit`; found by division, so that nothing overflows.
template <class... Factor> constexpr bool product_fits(index_t limit, Factor... factor) noexcept {
    return ((limit /= static_cast<index_t>(factor), limit >= 1) && ...);
}

/// @return ok; value_out_of_range naming kernel, stride, dilation or padding: below 1 (padding: 0) or beyond
///         largest_window; kernel and dilation also where the cells or the reach of the window exceed largest_extent
constexpr Status check_window(const Window2d& window, OpKind op) noexcept {
    const auto check_least = [op](Field field, index_t least, std::initializer_list<index_t> values) -> Status {
        for (const index_t value : values)
            if (value < least || value > largest_window)
                return {StatusCode::value_out_of_range, op, field, value, value < least ? least : largest_window};
        return {};
    };
    const auto& [kernel, stride, padding, dilation] = window;
    if (const Status status = check_least(Field::kernel, 1, {kernel.height, kernel.width}); !status) return status;
    if (const Status status = check_least(Field::stride, 1, {stride.height, stride.width}); !status) return status;
    if (const Status status = check_least(Field::dilation, 1, {dilation.height, dilation.width}); !status)
        return status;
    if (const Status status =
            check_least(Field::padding, 0, {padding.top, padding.left, padding.bottom, padding.right});
        !status)
        return status;
    if (!product_fits(largest_extent, kernel.height, kernel.width))
        return {StatusCode::value_out_of_range, op, Field::kernel, kernel.width, largest_extent / kernel.height};
    for (const auto& [cells, step] : {Size2d{kernel.height, dilation.height}, Size2d{kernel.width, dilation.width}})
        if (!product_fits(largest_extent, cells, step))
            return {StatusCode::value_out_of_range, op, Field::dilation, step, largest_extent / cells};
    return {};
}

/// @return ok; value_out_of_range of input: an extent that is not in 1 … largest_extent
constexpr Status check_image(Size2d in, OpKind op) noexcept {
    for (const index_t extent : {in.height, in.width})
        if (extent < 1 || extent > largest_extent)
            return {StatusCode::value_out_of_range, op, Field::input, extent, extent < 1 ? 1 : largest_extent};
    return {};
}

/// @return ok; value_out_of_range of activation: a number that no activation has
constexpr Status check_activation(Activation activation, OpKind op) noexcept {
    if (activation <= Activation::relu6) return {};
    return {StatusCode::value_out_of_range, op, Field::activation, static_cast<std::int64_t>(activation),
            static_cast<std::int64_t>(Activation::relu6)};
}

constexpr const char* name_of(Activation activation) noexcept {
    switch (activation) {
        case Activation::relu:
            return "relu";
        case Activation::relu6:
            return "relu6";
        case Activation::none:
            break;
    }
    return "none";
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_OP_PARAMS_HPP
