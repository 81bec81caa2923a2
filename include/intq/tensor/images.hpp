// SPDX-License-Identifier: MIT
//
// Images of bytes as the real values that a network was trained on. Layer: tensor.
#ifndef INTQ_TENSOR_IMAGES_HPP
#define INTQ_TENSOR_IMAGES_HPP

#include <span>

#include "intq/tensor/tensor.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

/// Pixels as real values, in float32:
///
///     y[n, c, ...] = (x[n, c, ...] / 255 - mean[c]) / deviation[c]
///
/// @param pixels     uint8, (N, C, ...)
/// @param mean       one number, or one for each channel
/// @param deviation  the same; none is 0
/// @throws Error for another type or rank, another count of numbers, and a deviation of 0
///
/// Cost  O(n)
Tensor normalize_images(const Tensor& pixels, std::span<const float> mean, std::span<const float> deviation);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(tensor)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <string>

#    include "intq/core/dtype.hpp"
#    include "intq/io/error.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

namespace tensor_detail {

INTQ_INLINE void check_channel_numbers(const char* what, std::span<const float> numbers, index_t channels) {
    if (numbers.size() != 1 && static_cast<index_t>(numbers.size()) != channels)
        throw Error("normalize_images", std::string(what) + " has " + std::to_string(numbers.size()) +
                                            " numbers, expected one, or one for each of " + std::to_string(channels) +
                                            " channels");
}

}  // namespace tensor_detail

INTQ_INLINE Tensor normalize_images(const Tensor& pixels, std::span<const float> mean,
                                    std::span<const float> deviation) {
    if (!pixels.defined() || pixels.dtype() != DType::uint8 || pixels.rank() < 2)
        throw Error("normalize_images", "pixels must be uint8, (N, C, ...)");
    const index_t channels = pixels.extent(1);
    tensor_detail::check_channel_numbers("mean", mean, channels);
    tensor_detail::check_channel_numbers("deviation", deviation, channels);
    if (std::find(deviation.begin(), deviation.end(), 0.0f) != deviation.end())
        throw Error("normalize_images", "a deviation is 0");
    const auto of_channel = [](std::span<const float> numbers, index_t channel) {
        return numbers[numbers.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
    };
    Tensor images = Tensor::empty(pixels.shape());
    const auto from = pixels.flat<std::uint8_t>();
    const auto to = images.flat<float>();
    const index_t plane = pixels.size() / std::max<index_t>(1, pixels.extent(0) * channels);
    for (index_t i = 0; i < pixels.size(); ++i) {
        const index_t channel = i / plane % channels;
        const auto at = static_cast<std::size_t>(i);
        to[at] = (static_cast<float>(from[at]) / 255.0f - of_channel(mean, channel)) / of_channel(deviation, channel);
    }
    return images;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_DEFINES(tensor)
#endif  // INTQ_TENSOR_IMAGES_HPP
