// SPDX-License-Identifier: MIT
//
// Where the samples lie in the shape of a value. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_SAMPLE_AXIS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_SAMPLE_AXIS_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "intq/core/dtype.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The shape of a value of N samples, in which axis `axis` has the extent before · N · behind: windows or heads of a
/// sample may share an axis with the samples, and other axes may lie in front. A file of one sample may have no axis
/// for it.
///
/// *Kept* is the same value with the samples in axis 0, and all else behind in its order. An axis of samples alone is
/// gone from its place.
struct SampleAxis {
    static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

    std::vector<index_t> extents;  // of the value where N is 1; none is below 1
    std::size_t axis = 0;
    index_t before = 1;

    /// Whether the axis holds samples alone.
    bool is_alone() const { return axis != nowhere && extents[axis] == 1; }
    /// The extent of the axis of the samples, for one of them.
    index_t beside() const { return axis == nowhere ? 1 : extents[axis]; }
    /// Whether the samples lie before the last `count` axes.
    bool is_before_last(std::size_t count) const { return axis == nowhere || axis + count < extents.size(); }
    /// Takes in that axes before `at` have come, or gone where `count` is negative.
    void shift_from(std::size_t at, std::ptrdiff_t count) {
        if (axis != nowhere && at <= axis) axis += static_cast<std::size_t>(count);
    }
    /// Whether the value is kept.
    bool is_first() const { return axis == 0 && is_alone(); }
    friend bool operator==(const SampleAxis&, const SampleAxis&) = default;
};

/// Extents behind the samples of the kept value.
std::vector<index_t> kept_extents(const SampleAxis& at);

/// The axis of the kept value that is axis i of the value, which may be counted from the end.
/// @return none for the axis of the samples, and for one that does not exist
std::optional<std::size_t> kept_axis(const SampleAxis& at, std::int64_t i);

/// The value in another shape of as many elements.
///
/// @param dims     -1 where an extent is not known; that is the axis of the samples
/// @param samples  N of the file, or -1
/// @return none where the new axes split the samples, or extents are not known
std::optional<SampleAxis> reshaped(const SampleAxis& at, std::vector<index_t> dims, index_t samples);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>

#    include "intq/interop/onnx/internal/read/limits.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The product of the first `count` extents; none beyond that of a value.
INTQ_INLINE std::optional<index_t> elements_of(const std::vector<index_t>& extents, std::size_t count) {
    index_t product = 1;
    for (std::size_t i = 0; i < count; ++i) {
        if (extents[i] < 1 || extents[i] > max_extent) return std::nullopt;
        product *= extents[i];
        if (product > max_extent) return std::nullopt;
    }
    return product;
}

/// The axis that holds the samples of a file whose number is open: the only one that is not known.
INTQ_INLINE std::optional<std::size_t> open_axis(const std::vector<index_t>& dims) {
    if (std::count(dims.begin(), dims.end(), -1) != 1) return std::nullopt;
    return static_cast<std::size_t>(std::find(dims.begin(), dims.end(), -1) - dims.begin());
}

/// The axis in which `passed` elements of a sample lie before its samples, of which there are several.
INTQ_INLINE std::optional<std::size_t> fixed_axis(const std::vector<index_t>& dims, index_t passed, index_t samples) {
    index_t product = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (product > passed) break;
        if (passed * samples <= product * dims[i] && dims[i] % samples == 0) return i;
        product *= dims[i];
    }
    return std::nullopt;
}

/// Puts the extent that a target leaves open.
INTQ_INLINE bool fill_open_extent(std::vector<index_t>& dims, index_t elements) {
    if (!open_axis(dims)) return true;
    index_t& open = dims[*open_axis(dims)];
    open = 1;
    const auto others = elements_of(dims, dims.size());
    if (!others || elements % *others != 0) return false;
    open = elements / *others;
    return true;
}

/// The same where the file does not fix one sample.
INTQ_INLINE std::optional<SampleAxis> reshaped_samples(const SampleAxis& at, std::vector<index_t> dims, index_t samples,
                                                       index_t size) {
    const index_t passed = *elements_of(at.extents, at.axis) * at.before;  // of a sample, before the samples
    const auto axis = samples < 0 ? open_axis(dims) : fixed_axis(dims, passed, samples);
    if (!axis) return std::nullopt;
    SampleAxis result{std::move(dims), *axis, 1};
    index_t& extent = result.extents[*axis];
    extent = samples < 0 ? -1 : extent / samples;
    if (!fill_open_extent(result.extents, size)) return std::nullopt;
    const auto all = elements_of(result.extents, result.extents.size());
    if (!all || *all != size) return std::nullopt;
    const index_t in_front = *elements_of(result.extents, *axis);
    result.before = passed / in_front;
    if (passed % in_front != 0 || result.before < 1 || extent % result.before != 0) return std::nullopt;
    return result;
}

/// The axis for one sample, which has no place of its own: the first of extent 1.
INTQ_INLINE std::size_t single_axis(const std::vector<index_t>& dims) {
    const auto alone = std::find(dims.begin(), dims.end(), 1);
    return alone == dims.end() ? SampleAxis::nowhere : static_cast<std::size_t>(alone - dims.begin());
}

}  // namespace detail

INTQ_INLINE std::vector<index_t> kept_extents(const SampleAxis& at) {
    std::vector<index_t> result = at.extents;
    if (at.is_alone()) result.erase(result.begin() + static_cast<std::ptrdiff_t>(at.axis));
    return result;
}

INTQ_INLINE std::optional<std::size_t> kept_axis(const SampleAxis& at, std::int64_t i) {
    const auto rank = static_cast<std::int64_t>(at.extents.size());
    if (i < -rank || i >= rank) return std::nullopt;
    const auto axis = static_cast<std::size_t>(i < 0 ? i + rank : i);
    if (axis == at.axis) return std::nullopt;
    return axis + (at.is_alone() && axis > at.axis ? 0 : 1);
}

INTQ_INLINE std::optional<SampleAxis> reshaped(const SampleAxis& at, std::vector<index_t> dims, index_t samples) {
    const auto size = detail::elements_of(at.extents, at.extents.size());
    if (!size || (samples > 0 && !detail::fill_open_extent(dims, *size * samples))) return std::nullopt;
    if (samples > 0 && detail::elements_of(dims, dims.size()) != *size * samples) return std::nullopt;
    if (samples != 1) return detail::reshaped_samples(at, std::move(dims), samples, *size);
    const std::size_t axis = detail::single_axis(dims);
    return SampleAxis{std::move(dims), axis, 1};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_SAMPLE_AXIS_HPP
