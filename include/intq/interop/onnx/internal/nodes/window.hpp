// SPDX-License-Identifier: MIT
//
// The window of Conv and the pools: kernel_shape, strides, pads, dilations, auto_pad, ceil_mode. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_WINDOW_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_WINDOW_HPP

#include <cstdint>
#include <string_view>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/op_params.hpp"
#include "intq/interop/onnx/internal/nodes/node_import.hpp"
#include "intq/interop/onnx/internal/read/limits.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// A window along one axis of an image.
struct AxisWindow {
    index_t kernel = 1, stride = 1, dilation = 1;
    index_t before = 0, behind = 0;  // the padding
};

/// The window that a node's attributes describe, for each axis of the kernel.
///
/// @throws Error for attributes of another length, for values that no image needs, and for auto_pad where the padding
///         depends on an unknown extent
std::vector<AxisWindow> read_axes(NodeImport& node, const std::vector<index_t>& kernel);
Window2d window_of(const AxisWindow& rows, const AxisWindow& columns);

/// The same of images.
///
/// @param kernel  (height, width)
Window2d read_window(NodeImport& node, Size2d kernel);
/// The same along the one axis of (N, C, L), as a window of one row.
Window2d read_line_window(NodeImport& node, index_t kernel);

/// (N, channels, height, width) of the output, as far as they are known.
/// @throws Error when the window does not fit into the input
Dims window_output_dims(const NodeImport& node, const Window2d& window, index_t channels);

/// Two numbers out of an attribute; both `otherwise` when it is not there.
Size2d read_pair(NodeImport& node, std::string_view name, std::int64_t otherwise);

namespace detail {

/// The numbers in an attribute, as many as `otherwise` has; `otherwise` when it is not there.
/// @throws Error for a number below `least` or beyond images
std::vector<std::int64_t> read_extents(NodeImport& node, std::string_view name, std::vector<std::int64_t> otherwise,
                                       std::int64_t least);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cstddef>
#    include <string>
#    include <utility>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::vector<std::int64_t> read_extents(NodeImport& node, std::string_view name,
                                                   std::vector<std::int64_t> otherwise, std::int64_t least) {
    const std::size_t count = otherwise.size();
    std::vector<std::int64_t> values = node.integers(name, std::move(otherwise));
    if (values.size() != count)
        throw Error("the attribute " + std::string(name) + " has " + std::to_string(values.size()) +
                    " values, expected " + std::to_string(count));
    for (const std::int64_t value : values)
        if (value < least || value > max_window_extent)
            throw Error("the attribute " + std::string(name) + " holds " + std::to_string(value) + ", expected " +
                        std::to_string(least) + " to " + std::to_string(max_window_extent));
    return values;
}

/// Padding at both ends of an axis so that the output has ceil(extent / stride) cells.
///
///     total = max(0, (ceil(extent / stride) - 1)·stride + dilation·(kernel - 1) + 1 - extent)
struct BothEnds {
    index_t first, last;
};
INTQ_INLINE BothEnds same_padding(index_t extent, index_t kernel, index_t stride, index_t dilation, bool more_at_end) {
    // With a stride of 1 the extent cancels out.
    if (extent < 0 && stride == 1) extent = 1;
    if (extent < 0) throw Error("auto_pad with a stride needs height and width of the input, which are not known");
    const index_t cells = (extent + stride - 1) / stride;
    const index_t total = std::max<index_t>(0, (cells - 1) * stride + dilation * (kernel - 1) + 1 - extent);
    const index_t less = total / 2;
    return more_at_end ? BothEnds{less, total - less} : BothEnds{total - less, less};
}

/// A window along an axis, without its padding.
struct WindowAlong {
    index_t kernel, stride, dilation;
};

/// The padding of an axis: given, or derived by auto_pad.
INTQ_INLINE BothEnds padding_along(const std::string& mode, BothEnds given, index_t extent, const WindowAlong& window) {
    if (mode == "NOTSET") return given;
    if (given.first != 0 || given.last != 0) throw Error("it has both pads and auto_pad " + mode);
    if (mode == "VALID") return {0, 0};
    if (mode != "SAME_UPPER" && mode != "SAME_LOWER") throw Error("auto_pad " + in_quotes(mode) + " is not supported");
    return same_padding(extent, window.kernel, window.stride, window.dilation, mode == "SAME_UPPER");
}

}  // namespace detail

INTQ_INLINE Size2d read_pair(NodeImport& node, std::string_view name, std::int64_t otherwise) {
    const auto values = detail::read_extents(node, name, {otherwise, otherwise}, 1);
    return {values[0], values[1]};
}

INTQ_INLINE std::vector<AxisWindow> read_axes(NodeImport& node, const std::vector<index_t>& kernel) {
    const std::size_t count = kernel.size();
    const std::vector<std::int64_t> ones(count, 1);
    const auto strides = detail::read_extents(node, "strides", ones, 1);
    const auto dilations = detail::read_extents(node, "dilations", ones, 1);
    const std::string mode = node.text("auto_pad", "NOTSET");
    const auto pads = detail::read_extents(node, "pads", std::vector<std::int64_t>(2 * count, 0), 0);
    std::vector<AxisWindow> axes;
    for (std::size_t i = 0; i < count; ++i) {
        const detail::BothEnds ends = detail::padding_along(mode, {pads[i], pads[count + i]}, node.extent(0, 2 + i),
                                                            {kernel[i], strides[i], dilations[i]});
        axes.push_back({kernel[i], strides[i], dilations[i], ends.first, ends.last});
    }
    return axes;
}

INTQ_INLINE Window2d window_of(const AxisWindow& rows, const AxisWindow& columns) {
    return {{rows.kernel, columns.kernel},
            {rows.stride, columns.stride},
            {rows.before, columns.before, rows.behind, columns.behind},
            {rows.dilation, columns.dilation}};
}

INTQ_INLINE Window2d read_window(NodeImport& node, Size2d kernel) {
    const std::vector<AxisWindow> axes = read_axes(node, {kernel.height, kernel.width});
    return window_of(axes[0], axes[1]);
}

INTQ_INLINE Window2d read_line_window(NodeImport& node, index_t kernel) {
    return window_of({}, read_axes(node, {kernel})[0]);
}

INTQ_INLINE Dims window_output_dims(const NodeImport& node, const Window2d& window, index_t channels) {
    if (!node.dims(0)) return std::vector<index_t>{-1, channels, -1, -1};
    const Size2d in{node.extent(0, 2), node.extent(0, 3)};
    const Size2d out = output_size(window, in);
    if ((in.height >= 0 && out.height < 1) || (in.width >= 0 && out.width < 1))
        throw Error("the window of " + std::to_string(window.kernel.height) + " x " +
                    std::to_string(window.kernel.width) + " does not fit into the input of shape " +
                    describe_shape(*node.dims(0)));
    return std::vector<index_t>{node.extent(0, 0), channels, in.height < 0 ? -1 : out.height,
                                in.width < 0 ? -1 : out.width};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_WINDOW_HPP
