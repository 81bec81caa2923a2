// SPDX-License-Identifier: MIT
//
// ONNX QuantizeLinear and DequantizeLinear. Layer: interop.
//
// Operators on codes are written as these two around the operator in float before the import begins
// (nodes/expand_operators.hpp).
#ifndef INTQ_INTEROP_ONNX_OPERATORS_QUANTIZE_HPP
#define INTQ_INTEROP_ONNX_OPERATORS_QUANTIZE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// A QuantizeDequantize, whose output is marked as codes; a constant is a buffer of the model. Codes of uint8 are taken
/// as int8, shifted by 128 with their zero point: the same real numbers.
void quantize_linear(NodeImport& node);

/// Of codes that a QuantizeLinear made: their real numbers. Of an input of the graph: a QuantizeDequantize, so that the
/// model takes the real numbers that the codes stand for. Of a constant: the constant in real numbers.
void dequantize_linear(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <memory>
#    include <optional>
#    include <span>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/ieee.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/nodes/dims.hpp"
#    include "intq/interop/onnx/nodes/node_import.hpp"
#    include "intq/interop/onnx/nodes/quantize_dequantize.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/tensor/owned_qparams.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

inline constexpr std::int32_t uint8_shift = 128;

/// The integers of a constant, as they are in the file.
INTQ_INLINE std::vector<std::int32_t> codes_in_file(const FileTensor& tensor) {
    const auto copy = [](const auto& values) { return std::vector<std::int32_t>(values.begin(), values.end()); };
    switch (tensor.dtype) {
        case DType::int8:
            return copy(tensor.as<std::int8_t>());
        case DType::uint8:
            return copy(tensor.as<std::uint8_t>());
        case DType::int16:
            return copy(tensor.as<std::int16_t>());
        case DType::int32:
            return copy(tensor.as<std::int32_t>());
        default:
            throw Error("the codes " + in_quotes(tensor.name) + " have dtype " + name_of(tensor.dtype) +
                        ", expected int8, uint8, int16 or int32");
    }
}

/// Scales and zero points of the file, before any shift.
struct FileGrid {
    std::vector<float> scales;
    std::vector<std::int32_t> zero_points;  // as many as scales
    DType dtype = DType::none;              // of the zero points; none without
    int axis = -1;
};

/// Inputs 1 and 2.
INTQ_INLINE FileGrid read_grid(NodeImport& node, const Dims& dims) {
    const FileTensor& scale = node.float_constant(1, "scale");
    if (scale.dims.size() > 1 || node.integer("block_size", 0) != 0)
        throw Error("the scale has shape " + describe_shape(scale.dims) +
                    ", a scale for each block of elements, which is not supported; expected one for the tensor or one "
                    "for each channel");
    FileGrid grid;
    const std::span<const float> scales = scale.as<float>();
    grid.scales.assign(scales.begin(), scales.end());
    for (const float value : grid.scales)
        if (!(value > 0.0f)) throw Error("the scale holds " + std::to_string(value) + ", expected positive numbers");
    const std::int64_t axis = node.integer("axis", 1);
    if (grid.scales.size() != 1) {
        if (!dims && axis < 0) throw Error("the axis is counted from the end of an unknown rank");
        grid.axis = static_cast<int>(dims ? static_cast<std::int64_t>(axis_in(axis, *dims)) : axis);
        const index_t channels = dims ? (*dims)[static_cast<std::size_t>(grid.axis)] : -1;
        if (grid.scales.empty() || (channels >= 0 && channels != static_cast<index_t>(grid.scales.size())))
            throw Error("there are " + std::to_string(grid.scales.size()) + " scales for " + std::to_string(channels) +
                        " channels");
    }
    grid.zero_points.assign(grid.scales.size(), 0);
    if (!node.has_input(2)) return grid;
    const FileTensor& zero_point = node.constant(2, "zero point");
    grid.dtype = zero_point.dtype;
    grid.zero_points = codes_in_file(zero_point);
    if (grid.zero_points.size() != grid.scales.size())
        throw Error("there are " + std::to_string(grid.zero_points.size()) + " zero points for " +
                    std::to_string(grid.scales.size()) + " scales");
    return grid;
}

/// The grid as the library has it.
INTQ_INLINE OwnedQParams to_qparams(const FileGrid& grid, DType dtype) {
    const std::int32_t shift = dtype == DType::uint8 ? uint8_shift : 0;
    if (dtype == DType::uint8) dtype = DType::int8;
    OwnedQParams result = OwnedQParams::per_channel(grid.scales, grid.axis, dtype);
    for (const std::int32_t zero_point : grid.zero_points) result.zero_points.push_back(zero_point - shift);
    if (std::all_of(result.zero_points.begin(), result.zero_points.end(), [](auto zero) { return zero == 0; }))
        result.zero_points.clear();
    return result;
}

/// What attribute output_dtype says; none where it is left out.
INTQ_INLINE DType output_dtype_of(NodeImport& node) {
    switch (const std::int64_t code = node.integer("output_dtype", 0)) {
        case 0:
            return DType::none;
        case 1:
            return DType::float32;
        case 2:
            return DType::uint8;
        case 3:
            return DType::int8;
        case 5:
            return DType::int16;
        default:
            throw Error("output_dtype has the code " + std::to_string(code) +
                        ", which is not supported; expected uint8 (2), int8 (3) or int16 (5)");
    }
}

INTQ_INLINE void quantize_linear(NodeImport& node) {
    node.expect_inputs(2, 3);
    graph::Node& x = node.is_constant(0) ? node.add_buffer(0, "input") : node.value(0);
    node.integer("saturate", 1);   // concerns float8 only
    node.integer("precision", 0);  // of the division, which is in float32
    const Dims dims = node.dims(0);
    const FileGrid grid = read_grid(node, dims);
    const DType asked = output_dtype_of(node), own = grid.dtype != DType::none ? grid.dtype : DType::uint8;
    if (asked != DType::none && grid.dtype != DType::none && asked != grid.dtype)
        throw Error(std::string("output_dtype is ") + name_of(asked) + ", the zero point has dtype " +
                    name_of(grid.dtype));
    const DType dtype = asked != DType::none ? asked : own;
    if (dtype != DType::int8 && dtype != DType::uint8 && dtype != DType::int16)
        throw Error(std::string("codes of dtype ") + name_of(dtype) +
                    " are not supported; expected int8, uint8 or int16");
    const OwnedQParams qparams = to_qparams(grid, dtype);
    node.call_module(std::make_shared<QuantizeDequantize>(qparams), {x}, dims);
    node.mark_codes(qparams);
}

/// Codes of the file in real numbers, with what the library keeps of them.
INTQ_INLINE void dequantize_constant(NodeImport& node, const FileTensor& codes, const FileGrid& grid) {
    const std::vector<std::int32_t> values = codes_in_file(codes);
    if (grid.dtype != DType::none && grid.dtype != codes.dtype)
        throw Error(std::string("the codes have dtype ") + name_of(codes.dtype) + ", the zero point " +
                    name_of(grid.dtype));
    if (codes.dtype == DType::int32 &&
        std::any_of(grid.zero_points.begin(), grid.zero_points.end(), [](auto zero) { return zero != 0; }))
        throw Error("int32 codes have a zero point, which they must not");
    index_t inner = 1, channels = 1;
    if (grid.axis >= 0) {
        const auto axis = static_cast<std::size_t>(grid.axis);
        channels = codes.dims[axis];
        inner = product_of(codes.dims, axis + 1, codes.dims.size());
    }
    std::vector<float> real(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto c = static_cast<std::size_t>(static_cast<index_t>(i) / std::max<index_t>(inner, 1) % channels);
        real[i] = arith::fmul(static_cast<float>(values[i] - grid.zero_points[grid.axis < 0 ? 0 : c]),
                              grid.scales[grid.axis < 0 ? 0 : c]);
    }
    const auto bytes = std::as_bytes(std::span<const float>(real));
    CodedConstant coded{to_qparams(grid, codes.dtype), codes.dtype == DType::int32 ? values : decltype(values){}};
    node.set_coded_constant(
        {.name = codes.name, .dtype = DType::float32, .dims = codes.dims, .data = {bytes.begin(), bytes.end()}},
        std::move(coded));
}

INTQ_INLINE void dequantize_linear(NodeImport& node) {
    node.expect_inputs(2, 3);
    if (const DType asked = output_dtype_of(node); asked != DType::none && asked != DType::float32)
        throw Error(std::string("output_dtype is ") + name_of(asked) + ", expected float32");
    const ImportedValue& x = node.any_value(0, "input");
    const FileGrid grid = read_grid(node, x.dims);
    if (x.constant != nullptr) return dequantize_constant(node, *x.constant, grid);
    if (!x.grid && x.input_codes == DType::none) throw Error("its input holds real numbers, expected codes");
    if (!x.grid) {
        if (grid.dtype != DType::none && grid.dtype != x.input_codes)
            throw Error(std::string("the codes have dtype ") + name_of(x.input_codes) + ", the zero point " +
                        name_of(grid.dtype));
        return node.call_module(std::make_shared<QuantizeDequantize>(to_qparams(grid, x.input_codes)), {*x.node},
                                x.dims);
    }
    const OwnedQParams given = to_qparams(grid, grid.dtype != DType::none ? grid.dtype : x.grid->dtype);
    if (!(given == *x.grid))
        throw Error(
            "its scale and zero point are not those with which the codes were made; codes that are read on another "
            "grid are not supported");
    node.set_output({.node = x.node, .dims = x.dims});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_QUANTIZE_HPP
