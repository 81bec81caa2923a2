// SPDX-License-Identifier: MIT
//
// index_copy as a function on Values: a cache of fixed length takes new rows. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_INDEX_COPY_HPP
#define INTQ_NN_LAYERS_INDEX_COPY_HPP

#include <span>

#include "intq/nn/model/call.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

Value evaluate_index_copy(std::span<const Value> values);

}  // namespace detail

inline constexpr Function index_copy_function{"index_copy", &detail::evaluate_index_copy};

/// A copy of x in which rows along an axis are those of another tensor: y[…, index[t], …] = source[…, t, …].
///
/// @param index   int32 or int64: (T) as in PyTorch, or (N, T), of each sample, which has an integer form
/// @param source  as x, but for T along the axis
Value index_copy(const Value& x, int axis, const Value& index, const Value& source);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/nn/float_operators/index_copy.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Value evaluate_index_copy(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::index_copy(arguments.tensor(0), static_cast<int>(arguments[1].integer()),
                                       arguments.tensor(2), arguments.tensor(3));
}

}  // namespace detail

INTQ_INLINE Value index_copy(const Value& x, int axis, const Value& index, const Value& source) {
    return call(index_copy_function, x, axis, index, source);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_INDEX_COPY_HPP
