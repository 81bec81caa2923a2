// SPDX-License-Identifier: MIT
//
// Staging: an input in the form that a backend's tile reads, converted once a run. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_STAGE_HPP
#define INTQ_KERNELS_CONV_STAGE_HPP

#include <cstring>

#include "intq/core/executor.hpp"
#include "intq/kernels/conv/gemm_input.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Elements that one task converts.
inline constexpr index_t stage_chunk = 16 * 1024;

/// to[i] = from[i]
template <class L> void widen_bytes(const std::int8_t* from, std::int16_t* to, index_t size) noexcept {
    if constexpr (requires { L::widen_bytes(from, to, size); }) {
        L::widen_bytes(from, to, size);
    } else {
        for (index_t i = 0; i < size; i += L::width()) {
            const index_t count = size - i < L::width() ? size - i : L::width();
            L::store(to + i, L::load(from + i, count), count);
        }
    }
}

/// to[i] = from[i] ^ 0x80: int8 codes in offset binary, and back.
template <class L> void flip_bytes(const std::uint8_t* from, std::uint8_t* to, index_t size) noexcept {
    if constexpr (requires { L::flip_top_bits(from, to, size); })
        L::flip_top_bits(from, to, size);
    else
        for (index_t i = 0; i < size; ++i) to[i] = static_cast<std::uint8_t>(from[i] ^ 0x80u);
}

/// Converts elements as the tiles of a packing read them.
template <class Backend> class Stager {
    using L = simd::lanes<Backend>;

public:
    Stager(const PackedConv2d& packed, const void* x, void* staged) noexcept
        : staging_(packed.packing.staging), element_(size_of(packed.input_dtype)), x_(x), staged_(staged) {}

    /// staged[to …] = x[from …], converted.
    void copy(index_t from, index_t to, index_t size) const noexcept {
        if (staging_ == simd::Staging::offset_binary)
            return flip_bytes<L>(static_cast<const std::uint8_t*>(x_) + from, static_cast<std::uint8_t*>(staged_) + to,
                                 size);
        if (simd::widens(staging_))
            return widen_bytes<L>(static_cast<const std::int8_t*>(x_) + from, static_cast<std::int16_t*>(staged_) + to,
                                  size);
        std::memcpy(static_cast<std::byte*>(staged_) + to * element_,
                    static_cast<const std::byte*>(x_) + from * element_, static_cast<std::size_t>(size * element_));
    }
    /// staged[to …] = code, converted.
    void fill(index_t to, index_t size, std::int32_t code) const noexcept {
        for (index_t i = to; i < to + size; ++i) {
            if (staging_ == simd::Staging::offset_binary)
                static_cast<std::uint8_t*>(staged_)[i] = static_cast<std::uint8_t>(code + 128);
            else if (staging_ == simd::Staging::as_is && element_ == 1)
                static_cast<std::int8_t*>(staged_)[i] = static_cast<std::int8_t>(code);
            else
                static_cast<std::int16_t*>(staged_)[i] = static_cast<std::int16_t>(code);
        }
    }

private:
    simd::Staging staging_;  // as_is: copied
    index_t element_;        // bytes of x
    const void* x_;
    void* staged_;
};

/// The pixels that a strided 1×1 window reads.
template <class Backend>
void stage_gathered(const PackedConv2d& packed, const ConvGeometry& geometry, const Stager<Backend>& stager,
                    const Executor& executor) INTQ_NOEXCEPT {
    const index_t channels = packed.in_channels;
    const Size2d stride = packed.window.stride, in = geometry.in, out = geometry.out;
    executor(geometry.batch * out.height, [&](index_t line) {
        const index_t image = line / out.height, row = (line - image * out.height) * stride.height;
        index_t from = (image * in.height + row) * in.width * channels, to = line * out.width * channels;
        for (index_t ox = 0; ox < out.width; ++ox, from += stride.width * channels, to += channels)
            stager.copy(from, to, channels);
    });
}

/// The whole input.
template <class Backend>
void stage_image(const PackedConv2d& packed, const ConvGeometry& geometry, const Stager<Backend>& stager,
                 const Executor& executor) INTQ_NOEXCEPT {
    const index_t channels = packed.in_channels;
    const index_t size = geometry.batch * geometry.in_pixels() * channels;
    executor((size + stage_chunk - 1) / stage_chunk, [&](index_t chunk) {
        const index_t first = chunk * stage_chunk;
        stager.copy(first, first, size - first < stage_chunk ? size - first : stage_chunk);
    });
}

/// Images with their margins.
template <class Backend>
void stage_padded(const PackedConv2d& packed, const ConvGeometry& geometry, const Stager<Backend>& stager,
                  const Executor& executor) INTQ_NOEXCEPT {
    const index_t channels = packed.in_channels;
    const std::int32_t zero = packed.input_zero_point;
    const Padding2d padding = packed.window.padding;
    const Size2d size = padded_size(packed.window, geometry.out);
    const index_t left = padding.left < size.width ? padding.left : size.width;
    const index_t inside = geometry.in.width < size.width - left ? geometry.in.width : size.width - left;
    executor(geometry.batch * size.height, [&](index_t line) {
        const index_t image = line / size.height, y = line % size.height - padding_above(packed.window, geometry);
        const index_t to = line * size.width * channels;
        if (y < 0 || y >= geometry.in.height) return stager.fill(to, size.width * channels, zero);
        stager.fill(to, left * channels, zero);
        stager.copy((image * geometry.in.height + y) * geometry.in.width * channels, to + left * channels,
                    inside * channels);
        stager.fill(to + (left + inside) * channels, (size.width - left - inside) * channels, zero);
    });
}

/// The input as the packed layer's tile wants it: itself, or a copy in the workspace.
/// @pre workspace.size >= conv2d_workspace_size()
template <class Backend>
const void* stage_input(const PackedConv2d& packed, const ConvGeometry& geometry, const void* x, Workspace workspace,
                        const Executor& executor) INTQ_NOEXCEPT {
    if constexpr (!stages_input<Backend>) return x;
    const InputForm form = input_form(packed);
    if (!is_staged(packed) || form == InputForm::blocks || form == InputForm::tiles) return x;
    const Stager<Backend> stager(packed, x, workspace.data);
    if (form == InputForm::padded)
        stage_padded(packed, geometry, stager, executor);
    else if (form == InputForm::gathered)
        stage_gathered(packed, geometry, stager, executor);
    else
        stage_image(packed, geometry, stager, executor);
    stager.fill(staged_size(packed, geometry) - packed.packing.depth, packed.packing.depth, packed.input_zero_point);
    return workspace.data;
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_STAGE_HPP
