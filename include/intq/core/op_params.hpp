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

/// How a window moves over an image; shared by convolution and pooling.
struct Window2d {
    Size2d kernel{};
    Size2d stride{};
    Padding2d padding{};
    Size2d dilation{};
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const Window2d&, const Window2d&) = default;
};

/// Which cells an average divides by: the whole kernel (PyTorch's default), or the cells inside the image.
enum class PoolDivisor : std::uint8_t { kernel_cells, valid_cells };

/// What follows the accumulator inside a fused operator: a clamp on codes.
enum class Activation : std::uint8_t { none, relu, relu6 };

/// Real functions that a table holds. gelu_erf is x·Φ(x), gelu_tanh its approximation by tanh.
enum class TableFunction : std::uint8_t {
    sigmoid,
    tanh,
    exp,
    gelu_erf,
    gelu_tanh,
    silu,
    elu,
    hard_sigmoid,
    hard_tanh,
    hard_swish,
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

/// @return ok; value_out_of_range naming kernel, stride, dilation or padding
constexpr Status check_window(const Window2d& window, OpKind op) noexcept {
    const auto positive = [op](Size2d size, Field field) -> Status {
        if (size.height < 1) return {StatusCode::value_out_of_range, op, field, size.height, 1};
        if (size.width < 1) return {StatusCode::value_out_of_range, op, field, size.width, 1};
        return {};
    };
    if (const Status status = positive(window.kernel, Field::kernel); !status) return status;
    if (const Status status = positive(window.stride, Field::stride); !status) return status;
    if (const Status status = positive(window.dilation, Field::dilation); !status) return status;
    for (const index_t pad : {window.padding.top, window.padding.left, window.padding.bottom, window.padding.right})
        if (pad < 0) return {StatusCode::value_out_of_range, op, Field::padding, pad, 0};
    return {};
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
