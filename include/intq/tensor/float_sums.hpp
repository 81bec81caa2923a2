// SPDX-License-Identifier: MIT
//
// How the float operators of a thread sum: as fast as they can, or with the same bits on every machine. Layer: tensor.
#ifndef INTQ_TENSOR_FLOAT_SUMS_HPP
#define INTQ_TENSOR_FLOAT_SUMS_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

enum class FloatSums : std::uint8_t {
    by_model,     // what the called model needs (nn::Module::needs_reproducible_sums()), else fast
    fast,         // products and sums may be contracted (FMA): other last bits on other CPUs
    reproducible  // one order of sums, and every product is rounded: the same bits on every CPU
};

namespace tensor_detail {

/// The choice of this thread: one in the whole program.
FloatSums& float_sums_of_thread() noexcept;

}  // namespace tensor_detail

/// How float convolution, linear and matmul of this thread sum: `by_model`, unless a FloatSumsScope lives. The other
/// float operators are always reproducible.
inline FloatSums current_float_sums() noexcept { return tensor_detail::float_sums_of_thread(); }

/// Chooses for the float operators of this thread as long as the object lives.
///
/// calibrate() makes one, and so does a call of a model that holds a quantizer at work, or of a reference graph.
/// Training makes one that is fast. Code that passes tensors to an observer by hand makes one where these are computed.
///
///     const FloatSumsScope scope(FloatSums::reproducible);
///     observer.observe(model(x).tensor());
class FloatSumsScope {
public:
    explicit FloatSumsScope(FloatSums sums) : former_(tensor_detail::float_sums_of_thread()) {
        tensor_detail::float_sums_of_thread() = sums;
    }
    ~FloatSumsScope() { tensor_detail::float_sums_of_thread() = former_; }
    FloatSumsScope(const FloatSumsScope&) = delete;
    FloatSumsScope& operator=(const FloatSumsScope&) = delete;

private:
    FloatSums former_;
};

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(tensor)

namespace tensor_detail {

INTQ_INLINE FloatSums& float_sums_of_thread() noexcept {
    thread_local FloatSums sums = FloatSums::by_model;
    return sums;
}

}  // namespace tensor_detail

#endif  // INTQ_DEFINES(tensor)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_TENSOR_FLOAT_SUMS_HPP
