// SPDX-License-Identifier: MIT
//
// Initial parameters of new layers. Layer: nn.
#ifndef INTQ_NN_LAYERS_INITIAL_WEIGHTS_HPP
#define INTQ_NN_LAYERS_INITIAL_WEIGHTS_HPP

#include "intq/tensor/random.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Whether a SkipInitScope lives on this thread.
bool& skips_init_of_thread() noexcept;

}  // namespace detail

/// While it lives, layers made on this thread begin with zeros and take nothing from the generator: for code that sets
/// their weights at once, as the imports do (torch.nn.utils.skip_init).
class SkipInitScope {
public:
    SkipInitScope() : former_(detail::skips_init_of_thread()) { detail::skips_init_of_thread() = true; }
    ~SkipInitScope() { detail::skips_init_of_thread() = former_; }
    SkipInitScope(const SkipInitScope&) = delete;
    SkipInitScope& operator=(const SkipInitScope&) = delete;

private:
    bool former_;
};

/// A tensor initialized as in PyTorch's convolutions and linear layers (kaiming_uniform_ with a = √5), from the
/// generator that manual_seed() sets. Its numbers are not PyTorch's.
///
///     uniform in ±1/√fan_in
///
/// @param fan_in  at least 1: the weights of one row of the weight, also for the bias; the hidden size for an LSTM
Tensor initial_uniform(const Shape& shape, index_t fan_in);

/// A tensor initialized as in PyTorch's embeddings: normal, of mean 0 and deviation 1.
///
/// Source   Marsaglia and Bray 1964: the polar method
Tensor initial_normal(const Shape& shape);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include <cmath>
#    include <cstddef>
#    include <cstdint>

#    include "intq/arith/ieee.hpp"
#    include "intq/arith/real_functions.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool& skips_init_of_thread() noexcept {
    thread_local bool skips = false;
    return skips;
}

/// In [-1, 1), of the upper 53 bits.
INTQ_INLINE double to_unit(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0; }

}  // namespace detail

INTQ_INLINE Tensor initial_uniform(const Shape& shape, index_t fan_in) {
    Tensor result = Tensor::zeros(shape);
    if (detail::skips_init_of_thread()) return result;
    const std::uint64_t stream = next_random_stream();
    const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
    std::uint64_t position = 0;
    for (float& value : result.flat<float>())
        value = static_cast<float>(detail::to_unit(random_bits(stream, position++)) * bound);
    return result;
}

INTQ_INLINE Tensor initial_normal(const Shape& shape) {
    Tensor result = Tensor::zeros(shape);
    if (detail::skips_init_of_thread()) return result;
    const std::uint64_t stream = next_random_stream();
    std::uint64_t position = 0;
    for (float& value : result.flat<float>()) {
        double u = 0.0, square = 0.0;  // of a point in the unit circle, without its center
        while (square == 0.0 || square >= 1.0) {
            u = detail::to_unit(random_bits(stream, position++));
            const double v = detail::to_unit(random_bits(stream, position++));
            square = arith::dmul(u, u) + arith::dmul(v, v);
        }
        value = static_cast<float>(u * std::sqrt(-2.0 * arith::real_log(square) / square));
    }
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_INITIAL_WEIGHTS_HPP
