// SPDX-License-Identifier: MIT
//
// The extents of a value, as far as they are known before the model runs. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_DIMS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_DIMS_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "intq/core/dtype.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Extents as far as they are known; nothing where the rank is not. A negative extent is not known: -1, or a number
/// from ImportState::unknown_extent(), which means the same extent wherever it occurs.
using Dims = std::optional<std::vector<index_t>>;

/// Refuses a shape with more cells than a value may have; extents that are not known do not count.
/// @param what  the value, for the message
void check_dims(std::string_view what, const std::vector<index_t>& dims);

/// An axis counted from the front.
/// @throws Error for an axis that does not exist
std::size_t axis_in(std::int64_t axis, const std::vector<index_t>& dims);

/// Extents of the result of two broadcast operands; nothing where a rank is not known.
/// @throws Error for extents that differ and are not 1
Dims broadcast_dims(const Dims& a, const Dims& b);

/// The product of extents; -1 where one is not known.
/// @throws Error for a product beyond index_t
index_t product_of(const std::vector<index_t>& dims, std::size_t first, std::size_t last);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <string>

#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void check_dims(std::string_view what, const std::vector<index_t>& dims) {
    std::int64_t size = 1;
    bool fits = true;
    for (const index_t extent : dims) {
        fits = fits && extent <= detail::max_extent;
        if (fits && extent > 0) size *= extent;
        fits = fits && size <= detail::max_extent;
    }
    if (!fits)
        throw Error(std::string(what) + " would have shape " + describe_shape(dims) + ", expected extents up to " +
                    std::to_string(detail::max_extent) + " and as many elements");
}

INTQ_INLINE std::size_t axis_in(std::int64_t axis, const std::vector<index_t>& dims) {
    const auto rank = static_cast<std::int64_t>(dims.size());
    if (axis < -rank || axis >= rank)
        throw Error("axis " + std::to_string(axis) + " does not exist in shape " + describe_shape(dims));
    return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

INTQ_INLINE Dims broadcast_dims(const Dims& a, const Dims& b) {
    if (!a || !b) return std::nullopt;
    std::vector<index_t> result = a->size() < b->size() ? *b : *a;
    for (std::size_t back = 1; back <= (std::min)(a->size(), b->size()); ++back) {
        const index_t x = (*a)[a->size() - back], y = (*b)[b->size() - back];
        if (x >= 0 && y >= 0 && x != y && x != 1 && y != 1)
            throw Error("the shapes " + describe_shape(*a) + " and " + describe_shape(*b) + " cannot be broadcast");
        // An unknown extent equals the other side's, unless that is 1.
        result[result.size() - back] = x == 1 ? y : y == 1 ? x : (std::max)(x, y);
    }
    return result;
}

INTQ_INLINE index_t product_of(const std::vector<index_t>& dims, std::size_t first, std::size_t last) {
    index_t product = 1;
    for (std::size_t axis = first; axis < last; ++axis) {
        if (dims[axis] < 0) return -1;
        if (__builtin_mul_overflow(product, dims[axis], &product))
            throw Error("the shape " + describe_shape(dims) + " overflows");
    }
    return product;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_DIMS_HPP
