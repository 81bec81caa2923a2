// SPDX-License-Identifier: MIT
//
// argmax as a function on Values. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_ARGMAX_HPP
#define INTQ_NN_LAYERS_ARGMAX_HPP

#include <span>

#include "intq/nn/model/call.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

Value evaluate_argmax(std::span<const Value> values);

}  // namespace detail

inline constexpr Function argmax_function{"argmax", &detail::evaluate_argmax};

/// The index of the largest element along an axis, which is dropped, or becomes 1 with keepdim; of equal ones the
/// lowest. Indices are no real numbers: the model returns them, as they are or moved.
///
/// @return int64; a program gives int32
Value argmax(const Value& x, int axis, bool keepdim = false);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/nn/float_operators/argmax.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Value evaluate_argmax(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::argmax(arguments.tensor(0), static_cast<int>(arguments[1].integer()), arguments.flag(2));
}

}  // namespace detail

INTQ_INLINE Value argmax(const Value& x, int axis, bool keepdim) { return call(argmax_function, x, axis, keepdim); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_ARGMAX_HPP
