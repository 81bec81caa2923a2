// SPDX-License-Identifier: MIT
//
// Scales and zero points in an ONNX file, and the QuantizeLinear and DequantizeLinear that read them. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_GRID_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_GRID_HPP

#include <string>

#include "intq/interop/onnx/export/internal/graph_writer.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The initializers of a grid: <name>_scale and <name>_zero_point.
struct GridNames {
    std::string scale, zero_point;
};

/// Adds the initializers. A scale per tensor is a scalar.
///
/// @throws Error for codes other than int8 and int16, and for an int16 grid with a zero point
GridNames add_grid(GraphWriter& writer, const std::string& name, const OwnedQParams& grid);

/// Adds QuantizeLinear or DequantizeLinear, and says which opset the grid needs: 13 per channel, 21 for int16.
std::string add_quantize(GraphWriter& writer, const std::string& name, const std::string& value,
                         const OwnedQParams& grid, const GridNames& names);
std::string add_dequantize(GraphWriter& writer, const std::string& name, const std::string& value,
                           const OwnedQParams& grid, const GridNames& names);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <algorithm>
#    include <cstdint>
#    include <vector>

#    include "intq/interop/onnx/export/internal/node_export.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

template <class Code>
std::string add_zero_point(GraphWriter& writer, const std::string& name, const std::vector<index_t>& dims,
                           const OwnedQParams& grid) {
    std::vector<Code> codes(grid.scales.size(), Code{0});
    for (std::size_t i = 0; i < grid.zero_points.size(); ++i) codes[i] = static_cast<Code>(grid.zero_points[i]);
    return writer.add_constant<Code>(name + "_zero_point", dims, codes);
}

/// Whether a scale is written for each channel. A single channel's scale is one that a reader takes for the tensor.
INTQ_INLINE bool has_axis(const OwnedQParams& grid) { return grid.is_per_channel() && grid.scales.size() != 1; }

INTQ_INLINE std::vector<Attribute> axis_of(const OwnedQParams& grid) {
    if (!has_axis(grid)) return {};
    return {integer_attribute("axis", grid.axis)};
}

INTQ_INLINE void need_for(GraphWriter& writer, const std::string& name, const OwnedQParams& grid) {
    if (has_axis(grid)) writer.need(13, "a scale for each channel of " + in_quotes(name));
    if (grid.dtype == DType::int16) writer.need(21, "int16 codes of " + in_quotes(name));
}

}  // namespace detail

INTQ_INLINE GridNames add_grid(GraphWriter& writer, const std::string& name, const OwnedQParams& grid) {
    const std::vector<index_t> dims(detail::has_axis(grid) ? 1 : 0, static_cast<index_t>(grid.scales.size()));
    GridNames names;
    names.scale = writer.add_constant<float>(name + "_scale", dims, grid.scales);
    if (grid.dtype == DType::int8) {
        names.zero_point = detail::add_zero_point<std::int8_t>(writer, name, dims, grid);
    } else if (grid.dtype == DType::int16) {
        names.zero_point = detail::add_zero_point<std::int16_t>(writer, name, dims, grid);
    } else {
        throw Error(in_quotes(name) + " has codes of dtype " + name_of(grid.dtype) + ", expected int8 or int16");
    }
    return names;
}

INTQ_INLINE std::string add_quantize(GraphWriter& writer, const std::string& name, const std::string& value,
                                     const OwnedQParams& grid, const GridNames& names) {
    detail::need_for(writer, name, grid);
    return writer.add_node(name, "QuantizeLinear", {value, names.scale, names.zero_point}, detail::axis_of(grid));
}

INTQ_INLINE std::string add_dequantize(GraphWriter& writer, const std::string& name, const std::string& value,
                                       const OwnedQParams& grid, const GridNames& names) {
    detail::need_for(writer, name, grid);
    return writer.add_node(name, "DequantizeLinear", {value, names.scale, names.zero_point}, detail::axis_of(grid));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_GRID_HPP
