// SPDX-License-Identifier: MIT
//
// Batches: the order of samples in an epoch, and samples by number. Layer: training.
#ifndef INTQ_TRAINING_BATCHES_HPP
#define INTQ_TRAINING_BATCHES_HPP

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// A uniform number below `count`, the same on every standard library.
std::uint64_t uniform_below(std::mt19937_64& generator, std::uint64_t count);

/// All numbers below `count` in a random order determined by the seed.
std::vector<index_t> shuffled_order(index_t count, std::uint64_t seed);

/// A copy of the samples with these numbers, along axis 0.
Tensor gather(const Tensor& tensor, std::span<const index_t> samples);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <cstddef>
#    include <cstring>
#    include <numeric>
#    include <string>
#    include <utility>

#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::uint64_t uniform_below(std::mt19937_64& generator, std::uint64_t count) {
    const std::uint64_t limit = UINT64_MAX - UINT64_MAX % count;
    for (;;)
        if (const std::uint64_t value = generator(); value < limit) return value % count;
}

INTQ_INLINE std::vector<index_t> shuffled_order(index_t count, std::uint64_t seed) {
    std::vector<index_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), index_t{0});
    std::mt19937_64 generator(seed);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[uniform_below(generator, i)]);
    return order;
}

INTQ_INLINE Tensor gather(const Tensor& tensor, std::span<const index_t> samples) {
    Shape shape = tensor.shape();
    const index_t count = tensor.extent(0), bytes = count == 0 ? 0 : tensor.bytes() / count;
    shape[0] = static_cast<index_t>(samples.size());
    Tensor result = Tensor::empty(shape, tensor.dtype(), tensor.layout());
    for (std::size_t i = 0; i < samples.size(); ++i) {
        if (samples[i] < 0 || samples[i] >= count)
            throw Error("gather: there is no sample " + std::to_string(samples[i]) + " of " + std::to_string(count));
        std::memcpy(result.data() + static_cast<index_t>(i) * bytes, tensor.data() + samples[i] * bytes,
                    static_cast<std::size_t>(bytes));
    }
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_BATCHES_HPP
