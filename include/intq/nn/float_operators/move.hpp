// SPDX-License-Identifier: MIT
//
// Operators that move elements: flatten, reshape, permute, slice, select, split, chunk, cat, pad, expand. Long
// because one file holds a family of operators. Layer: nn (docs/design.md section 6).
//
// Any dtype; results are row_major; per-tensor qparams stay.
#ifndef INTQ_NN_FLOAT_OPERATORS_MOVE_HPP
#define INTQ_NN_FLOAT_OPERATORS_MOVE_HPP

#include <span>
#include <string_view>
#include <vector>

#include "intq/core/op_params.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// Joins the axes start_axis to end_axis (inclusive; negative ones count from the end).
Tensor flatten(const Tensor& x, int start_axis = 1, int end_axis = -1);

/// The same elements in row_major order; one extent may be -1: it is inferred.
Tensor reshape(const Tensor& x, std::span<const index_t> extents);
/// Throws for extents that no tensor can take.
void check_reshape(std::span<const index_t> extents);

/// Axis i of the result is axis axes[i] of x; each axis once.
Tensor permute(const Tensor& x, std::span<const index_t> axes);
Tensor transpose(const Tensor& x, int axis0, int axis1);
/// The axes of a permute counted from the front. Throws where they are not all axes, each once.
///
/// @param shape  whose axes they are, for messages; null where it is not known
std::vector<int> permuted_axes(std::span<const index_t> axes, const Shape* shape = nullptr);

/// Elements start, start + step, … before stop along an axis, counted and clamped as Python's slices are. A negative
/// step goes from the end to the front; with a stop below -extent it takes the first element too.
Tensor slice(const Tensor& x, int axis, index_t start, index_t stop, index_t step = 1);
/// Which elements a slice takes: `count` from `first` on, every `step`-th.
struct SliceRange {
    index_t first = 0, count = 0;
};
SliceRange slice_range(index_t extent, index_t start, index_t stop, index_t step);
/// Element `at` of an axis, which the result does not have.
Tensor select(const Tensor& x, int axis, index_t at);

/// The sizes of the pieces of an axis: all but the last are `size`.
std::vector<index_t> piece_sizes(index_t extent, index_t size);
/// The size of a piece where `chunks` are asked for.
index_t chunk_size(index_t extent, index_t chunks);

/// Pieces of `size` along an axis, the last one perhaps smaller; or of the given sizes, whose sum must be the extent.
std::vector<Tensor> split(const Tensor& x, index_t size, int axis = 0);
std::vector<Tensor> split(const Tensor& x, std::span<const index_t> sizes, int axis);
/// Pieces of ceil(extent / chunks); fewer than asked for when those suffice.
std::vector<Tensor> chunk(const Tensor& x, index_t chunks, int axis = 0);

/// Concatenation along an axis; the other extents, and the dtypes, must be equal.
Tensor cat(std::span<const Tensor> parts, int axis);

/// Elements of `value` before and behind the axes of a float32 tensor, or of 0 in int8 and int16 codes, as PyTorch
/// counts them: first two numbers for the last axis, then two for the axis before it. Negative numbers crop.
Tensor pad(const Tensor& x, std::span<const index_t> padding, double value = 0.0);

/// PyTorch's word.
constexpr const char* name_of(PadMode mode) noexcept {
    return mode == PadMode::constant ? "constant" : mode == PadMode::reflect ? "reflect" : "replicate";
}
/// @throws Error for any other word
PadMode pad_mode_of(std::string_view word);

/// Elements of the tensor itself before and behind its axes, counted as above. Of any type.
///
///     y[i] = x[|i - before|], mirrored at the last element likewise (reflect);  x[clamp(i - before)] (replicate)
///
/// @param mode  reflect or replicate
/// @throws Error for a negative number, and for one that is not below the extent of its axis (reflect) or is beyond
///         2^24 (replicate)
Tensor pad(const Tensor& x, std::span<const index_t> padding, PadMode mode);

/// Repeats axes of extent 1, and adds axes in front, until the shape is `shape`.
Tensor expand(const Tensor& x, const Shape& shape, const char* op = "expand");
/// The same, where an extent of -1 is that of the tensor.
Tensor expand(const Tensor& x, std::span<const index_t> extents);
/// @throws Error for an extent below -1
void check_expand(std::span<const index_t> extents);
/// The shape to which two operands are expanded, aligned at the last axis. Throws where extents differ and none is 1.
Shape broadcast_shape(const Shape& a, const Shape& b, const char* op);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <array>
#    include <cstddef>
#    include <string>
#    include <utility>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

using Strides = std::array<index_t, max_rank>;

// The elements of row_major x at offset + sum of index · stride.
INTQ_INLINE Tensor gather(const Tensor& x, const Shape& shape, const Strides& strides, index_t offset) {
    Tensor y = is_of_shapes(x) ? Tensor::of_shape(shape, x.dtype()) : Tensor::empty(shape, x.dtype());
    keep_qparams(x, y);
    if (!is_of_shapes(x) && y.size() != 0)
        tensor_detail::copy_strided(x.dtype(), shape, x.data() + offset * size_of(x.dtype()), strides, y.data(),
                                    y.strides());
    return y;
}

}  // namespace detail

INTQ_INLINE Tensor flatten(const Tensor& x, int start_axis, int end_axis) {
    if (x.rank() == 0) return x.reshape(Shape(1));
    const int first = positive_axis(start_axis, x.rank(), "flatten");
    const int last = positive_axis(end_axis, x.rank(), "flatten");
    if (first > last)
        throw Error("flatten: axis " + std::to_string(start_axis) + " comes after axis " + std::to_string(end_axis));
    Shape shape;
    for (int axis = 0; axis < x.rank(); ++axis)
        if (axis <= first || axis > last) {
            append_extent(shape, x.extent(axis), "flatten");
        } else {
            shape[shape.rank - 1] *= x.extent(axis);
        }
    return x.reshape(shape);
}

INTQ_INLINE void check_reshape(std::span<const index_t> extents) {
    if (std::any_of(extents.begin(), extents.end(), [](index_t extent) { return extent < -1; }) ||
        std::count(extents.begin(), extents.end(), -1) > 1)
        throw Error("reshape: extents must be 0 or more, and one may be -1; given " + describe_shape(extents));
}

INTQ_INLINE Tensor reshape(const Tensor& x, std::span<const index_t> extents) {
    check_reshape(extents);
    Shape shape;
    int open = -1;
    index_t known = 1;
    for (const index_t extent : extents) {
        if (extent == -1) {
            open = shape.rank;
        } else {
            known *= extent;
        }
        append_extent(shape, extent, "reshape");
    }
    if (open >= 0 && known > 0 && x.size() % known == 0) shape[open] = x.size() / known;
    if ((open >= 0 && shape[open] < 0) || shape.size() != x.size())
        throw Error("reshape: " + to_string(x.shape()) + " cannot take the shape " + describe_shape(extents));
    return x.reshape(shape);
}

INTQ_INLINE std::vector<int> permuted_axes(std::span<const index_t> axes, const Shape* shape) {
    const auto rank = static_cast<int>(axes.size());
    std::vector<int> order;
    for (const index_t given : axes) {
        const int axis = positive_axis(static_cast<int>(given), rank, "permute");
        if (std::find(order.begin(), order.end(), axis) != order.end())
            throw Error("permute: axis " + std::to_string(axis) + (shape == nullptr ? "" : " of " + to_string(*shape)) +
                        " is there twice");
        order.push_back(axis);
    }
    return order;
}

INTQ_INLINE Tensor permute(const Tensor& x, std::span<const index_t> axes) {
    if (static_cast<int>(axes.size()) != x.rank())
        throw Error("permute: " + std::to_string(axes.size()) + " axes are given for the shape " +
                    to_string(x.shape()));
    const Tensor input = x.contiguous();
    const auto strides = input.strides();
    const std::vector<int> order = permuted_axes(axes, &x.shape());
    Shape shape;
    detail::Strides steps{};
    for (std::size_t i = 0; i < order.size(); ++i) {
        const int axis = order[i];
        append_extent(shape, x.extent(axis), "permute");
        steps[i] = strides[static_cast<std::size_t>(axis)];
    }
    return detail::gather(input, shape, steps, 0);
}

INTQ_INLINE Tensor transpose(const Tensor& x, int axis0, int axis1) {
    std::vector<index_t> axes;
    for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
    std::swap(axes[static_cast<std::size_t>(positive_axis(axis0, x.rank(), "transpose"))],
              axes[static_cast<std::size_t>(positive_axis(axis1, x.rank(), "transpose"))]);
    return permute(x, axes);
}

INTQ_INLINE SliceRange slice_range(index_t extent, index_t start, index_t stop, index_t step) {
    if (step == 0) throw Error("slice: the step must not be 0");
    // Backwards, the places are one lower: the last element is the first that can be, and -1 the last that stops.
    const index_t low = step > 0 ? 0 : -1;
    const auto inside = [=](index_t at) { return std::clamp<index_t>(at < 0 ? at + extent : at, low, extent + low); };
    const index_t first = inside(start), last = inside(stop);
    const index_t length = std::max<index_t>(step > 0 ? last - first : first - last, 0);
    if (length == 0) return {std::max<index_t>(first, 0), 0};
    // -step may not be a number.
    return {first, step > 0 ? (length - 1) / step + 1 : 1 - (length - 1) / step};
}

INTQ_INLINE Tensor slice(const Tensor& x, int axis, index_t start, index_t stop, index_t step) {
    const int along = positive_axis(axis, x.rank(), "slice");
    const index_t extent = x.extent(along);
    const auto [first, count] = slice_range(extent, start, stop, step);
    const Tensor input = x.contiguous();
    auto strides = input.strides();
    index_t& stride = strides[static_cast<std::size_t>(along)];
    const index_t offset = first * stride;
    const index_t longest = std::max<index_t>(extent, 1);  // a longer step takes the first element only
    stride *= std::clamp<index_t>(step, -longest, longest);
    Shape shape = x.shape();
    shape[along] = count;
    return detail::gather(input, shape, strides, offset);
}

INTQ_INLINE Tensor select(const Tensor& x, int axis, index_t at) {
    const int along = positive_axis(axis, x.rank(), "select");
    const index_t extent = x.extent(along), first = at < 0 ? at + extent : at;
    if (first < 0 || first >= extent)
        throw Error("select: index " + std::to_string(at) + " does not exist on axis " + std::to_string(along) +
                    " of shape " + to_string(x.shape()));
    Shape shape;
    for (int other = 0; other < x.rank(); ++other)
        if (other != along) append_extent(shape, x.extent(other), "select");
    return slice(x, along, first, first + 1).reshape(shape);
}

INTQ_INLINE std::vector<Tensor> split(const Tensor& x, std::span<const index_t> sizes, int axis) {
    const int along = positive_axis(axis, x.rank(), "split");
    index_t sum = 0;
    for (const index_t size : sizes) sum += size;
    if (sum != x.extent(along) || std::any_of(sizes.begin(), sizes.end(), [](index_t size) { return size < 0; }))
        throw Error("split: the sizes " + describe_shape(sizes) + " do not make up axis " + std::to_string(along) +
                    " of shape " + to_string(x.shape()));
    std::vector<Tensor> pieces;
    index_t first = 0;
    for (const index_t size : sizes) {
        pieces.push_back(slice(x, along, first, first + size));
        first += size;
    }
    return pieces;
}

INTQ_INLINE std::vector<index_t> piece_sizes(index_t extent, index_t size) {
    if (size < 1) throw Error("split: the size of a piece must be at least 1, given " + std::to_string(size));
    std::vector<index_t> sizes;
    for (index_t first = 0; first < extent; first += size) sizes.push_back((std::min)(size, extent - first));
    if (sizes.empty()) sizes.push_back(0);
    return sizes;
}

INTQ_INLINE std::vector<Tensor> split(const Tensor& x, index_t size, int axis) {
    return split(x, piece_sizes(x.extent(positive_axis(axis, x.rank(), "split")), size), axis);
}

INTQ_INLINE index_t chunk_size(index_t extent, index_t chunks) {
    if (chunks < 1) throw Error("chunk: the number of pieces must be at least 1, given " + std::to_string(chunks));
    return std::max<index_t>((extent + chunks - 1) / chunks, 1);
}

INTQ_INLINE std::vector<Tensor> chunk(const Tensor& x, index_t chunks, int axis) {
    return split(x, chunk_size(x.extent(positive_axis(axis, x.rank(), "chunk")), chunks), axis);
}

INTQ_INLINE Tensor cat(std::span<const Tensor> parts, int axis) {
    if (parts.empty()) throw Error("cat: there is nothing to concatenate");
    const int along = positive_axis(axis, parts[0].rank(), "cat");
    Shape shape = parts[0].shape();
    shape[along] = 0;
    for (const Tensor& part : parts) {
        bool fits = part.rank() == shape.rank;
        for (int i = 0; fits && i < shape.rank; ++i) fits = i == along || part.extent(i) == parts[0].extent(i);
        if (!fits)
            throw Error("cat: the parts have shapes " + to_string(parts[0].shape()) + " and " +
                        to_string(part.shape()) + "; all extents except on axis " + std::to_string(along) +
                        " must be equal");
        if (part.dtype() != parts[0].dtype())
            throw Error(std::string("cat: the parts have the types ") + name_of(parts[0].dtype()) + " and " +
                        name_of(part.dtype()));
        shape[along] += part.extent(along);
    }
    if (std::any_of(parts.begin(), parts.end(), [](const Tensor& part) { return part.lacks_values(); }))
        return Tensor::of_shape(shape, parts[0].dtype());
    Tensor y = Tensor::empty(shape, parts[0].dtype());
    const index_t unit = size_of(y.dtype());
    const index_t outer = extent_product(shape, 0, along), step = extent_product(shape, along, shape.rank);
    index_t offset = 0;
    for (const Tensor& part : parts) {
        const Tensor input = part.contiguous();
        const index_t run = extent_product(part.shape(), along, shape.rank);
        for (index_t o = 0; o < outer; ++o)
            std::copy_n(input.data() + o * run * unit, run * unit, y.data() + (o * step + offset) * unit);
        offset += run;
    }
    return y;
}

namespace detail {

INTQ_INLINE void check_pad_numbers(const Tensor& x, std::span<const index_t> padding) {
    if (padding.size() % 2 != 0 || static_cast<int>(padding.size() / 2) > x.rank())
        throw Error("pad: two numbers an axis are needed, for at most " + std::to_string(x.rank()) + " axes; given " +
                    std::to_string(padding.size()) + " numbers");
}

/// The elements of an axis at these places.
INTQ_INLINE Tensor take_along(const Tensor& x, int axis, std::span<const index_t> places) {
    Shape shape = x.shape();
    shape[axis] = static_cast<index_t>(places.size());
    if (x.lacks_values()) return Tensor::of_shape(shape, x.dtype());
    Tensor y = Tensor::empty(shape, x.dtype());
    const index_t run = extent_product(shape, axis + 1, shape.rank) * size_of(x.dtype());
    const std::byte* from = x.data();
    std::byte* to = y.data();
    for (index_t o = extent_product(shape, 0, axis); o > 0; --o, from += x.extent(axis) * run)
        for (const index_t place : places) to = std::copy_n(from + place * run, run, to);
    return y;
}

/// A tensor of one value: codes of 0, which is on every grid, or real values.
INTQ_INLINE Tensor padding_of(const Tensor& x, const Shape& shape, double value) {
    if (x.dtype() == DType::float32) {
        Tensor y = is_of_shapes(x) ? Tensor::of_shape(shape) : Tensor::full(shape, static_cast<float>(value));
        if (value == 0.0) keep_qparams(x, y);
        return y;
    }
    const bool is_codes = (x.dtype() == DType::int8 || x.dtype() == DType::int16) && x.qparams().has_value() &&
                          !x.qparams()->is_per_channel();
    if (!is_codes || value != 0.0)
        throw Error("pad: float32 is needed, or int8 or int16 codes that are padded with 0; given " +
                    std::string(name_of(x.dtype())) + " padded with " + std::to_string(value));
    Tensor y = is_of_shapes(x) ? Tensor::of_shape(shape, x.dtype()) : Tensor::empty(shape, x.dtype());
    keep_qparams(x, y);
    if (is_of_shapes(x)) return y;
    const std::int32_t zero_point = x.qparams()->view().zero_point();
    if (x.dtype() == DType::int8)
        std::ranges::fill(y.flat<std::int8_t>(), static_cast<std::int8_t>(zero_point));
    else
        std::ranges::fill(y.flat<std::int16_t>(), static_cast<std::int16_t>(zero_point));
    return y;
}

}  // namespace detail

INTQ_INLINE PadMode pad_mode_of(std::string_view word) {
    for (const PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::replicate})
        if (word == name_of(mode)) return mode;
    throw Error("pad: the mode must be constant, reflect or replicate, given " + in_quotes(word));
}

INTQ_INLINE Tensor pad(const Tensor& x, std::span<const index_t> padding, PadMode mode) {
    constexpr index_t largest_replicate = index_t{1} << 24;
    detail::check_pad_numbers(x, padding);
    Tensor y = x.contiguous();
    std::vector<index_t> places;
    for (std::size_t i = 0; i < padding.size(); i += 2) {
        const int axis = x.rank() - 1 - static_cast<int>(i / 2);
        const index_t before = padding[i], behind = padding[i + 1], last = x.extent(axis) - 1;
        const index_t most = mode == PadMode::reflect || last < 0 ? last : largest_replicate;
        if (before < 0 || behind < 0 || before > most || behind > most)
            throw Error("pad: " + std::to_string(before) + " and " + std::to_string(behind) + " on axis " +
                        std::to_string(axis) + " of the shape " + to_string(x.shape()) + "; the mode " + name_of(mode) +
                        " takes numbers of 0 to " + std::to_string(most) + " there");
        if (before == 0 && behind == 0) continue;
        places.clear();
        for (index_t place = -before; place <= last + behind; ++place) {
            const index_t inside = std::clamp<index_t>(place, 0, last);
            places.push_back(mode == PadMode::reflect ? 2 * inside - place : inside);
        }
        y = detail::take_along(y, axis, places);
    }
    detail::keep_qparams(x, y);
    return y;
}

INTQ_INLINE Tensor pad(const Tensor& x, std::span<const index_t> padding, double value) {
    detail::check_pad_numbers(x, padding);
    Tensor kept = x.contiguous();
    Shape shape = x.shape();
    index_t offset = 0;
    for (std::size_t i = 0; i < padding.size(); i += 2) {
        const int axis = x.rank() - 1 - static_cast<int>(i / 2);
        const index_t before = padding[i], behind = padding[i + 1], extent = x.extent(axis);
        shape[axis] = extent + before + behind;
        if (shape[axis] < 0 || std::max<index_t>(-before, 0) + std::max<index_t>(-behind, 0) > extent)
            throw Error("pad: " + std::to_string(before) + " and " + std::to_string(behind) + " on axis " +
                        std::to_string(axis) + " leave nothing of the shape " + to_string(x.shape()));
        kept = slice(kept, axis, std::max<index_t>(-before, 0), extent - std::max<index_t>(-behind, 0));
    }
    Tensor y = detail::padding_of(x, shape, value);
    const auto strides = y.strides();
    for (std::size_t i = 0; i < padding.size(); i += 2)
        offset += std::max<index_t>(padding[i], 0) * strides[static_cast<std::size_t>(x.rank()) - 1 - i / 2];
    if (!y.lacks_values() && kept.size() != 0)
        tensor_detail::copy_strided(x.dtype(), kept.shape(), kept.data(), kept.strides(),
                                    y.data() + offset * size_of(x.dtype()), strides);
    return y;
}

INTQ_INLINE Tensor expand(const Tensor& x, const Shape& shape, const char* op) {
    if (x.shape() == shape) return x.contiguous();
    const Tensor input = x.contiguous();
    const auto strides = input.strides();
    detail::Strides steps{};
    const int added = shape.rank - x.rank();
    bool fits = added >= 0;
    for (int axis = 0; fits && axis < x.rank(); ++axis) {
        fits = x.extent(axis) == shape[axis + added] || x.extent(axis) == 1;
        if (x.extent(axis) != 1)
            steps[static_cast<std::size_t>(axis + added)] = strides[static_cast<std::size_t>(axis)];
    }
    if (!fits)
        throw Error(std::string(op) + ": the shape " + to_string(x.shape()) + " cannot be expanded to " +
                    to_string(shape));
    return detail::gather(input, shape, steps, 0);
}

INTQ_INLINE void check_expand(std::span<const index_t> extents) {
    for (const index_t extent : extents)
        if (extent < -1) throw Error("expand: an extent must be 0 or more, or -1; given " + std::to_string(extent));
}

INTQ_INLINE Tensor expand(const Tensor& x, std::span<const index_t> extents) {
    check_expand(extents);
    const auto added = static_cast<std::ptrdiff_t>(extents.size()) - x.rank();
    Shape shape;
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(extents.size()); ++i) {
        const index_t given = extents[static_cast<std::size_t>(i)];
        if (given < 0 && i < added)
            throw Error("expand: " + to_string(x.shape()) + " cannot be expanded to " + describe_shape(extents) +
                        ", whose axis " + std::to_string(i) + " is a new one");
        append_extent(shape, given < 0 ? x.extent(static_cast<int>(i - added)) : given, "expand");
    }
    return expand(x, shape);
}

INTQ_INLINE Shape broadcast_shape(const Shape& a, const Shape& b, const char* op) {
    Shape result = a.rank < b.rank ? b : a;
    for (int back = 1; back <= (std::min)(a.rank, b.rank); ++back) {
        const index_t x = a[a.rank - back], y = b[b.rank - back];
        if (x != y && x != 1 && y != 1)
            throw Error(std::string(op) + ": the operands have shapes " + to_string(a) + " and " + to_string(b) +
                        "; counted from the end their extents must be equal or 1");
        result[result.rank - back] = x == 1 ? y : x;
    }
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_MOVE_HPP
