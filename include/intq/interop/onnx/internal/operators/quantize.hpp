// SPDX-License-Identifier: MIT
//
// ONNX QuantizeLinear and DequantizeLinear. Layer: interop.
//
// Operators on codes are written as these two around the operator in float before the import begins
// (nodes/expand_operators.hpp).
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_QUANTIZE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_QUANTIZE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// A QuantizeDequantize, whose output is marked as codes. Codes of uint8 are taken as int8, shifted by 128 with their
/// zero point: the same real numbers. For a constant: its codes, and a buffer with a QuantizeDequantize where an
/// operator reads it as a value.
void quantize_linear(NodeImport& node);

/// For codes that a QuantizeLinear made: their real numbers. For an input of the graph: a QuantizeDequantize, so that
/// the model takes the real numbers of the codes. For a constant: the constant in real numbers.
void dequantize_linear(NodeImport& node);

/// Bounds of codes that a QuantizeLinear made: a narrower range of them.
void clip_codes(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <optional>
#    include <span>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/ieee.hpp"
#    include "intq/arith/quantize.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/nodes/quantize_dequantize.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/quantize.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

inline constexpr std::int32_t uint8_shift = 128;

INTQ_INLINE std::int32_t shift_of(DType dtype) { return dtype == DType::uint8 ? uint8_shift : 0; }

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

/// Inputs 1 and 2: scales and as many zero points, as they are in the file, before any shift. The type is the zero
/// points'; none without them.
INTQ_INLINE OwnedQParams read_grid(NodeImport& node, const Dims& dims) {
    const FileTensor& scale = node.float_constant(1, "scale");
    if (scale.dims.size() > 1 || node.integer("block_size", 0) != 0)
        throw Error("the scale has shape " + describe_shape(scale.dims) +
                    ", a scale for each block of elements, which is not supported; expected one for the tensor or one "
                    "for each channel");
    OwnedQParams grid;
    grid.dtype = DType::none;
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

INTQ_INLINE void leave_out_zeros(OwnedQParams& grid) {
    if (std::all_of(grid.zero_points.begin(), grid.zero_points.end(), [](auto zero) { return zero == 0; }))
        grid.zero_points.clear();
}

/// The grid as the library has it, whose codes are the file's minus a shift.
INTQ_INLINE OwnedQParams to_qparams(const OwnedQParams& grid, DType dtype, std::int32_t shift) {
    if (dtype == DType::uint8) dtype = DType::int8;
    OwnedQParams result = OwnedQParams::per_channel(grid.scales, grid.axis, dtype);
    for (const std::int32_t zero_point : grid.zero_points) result.zero_points.push_back(zero_point - shift);
    leave_out_zeros(result);
    return result;
}

/// The type that attribute output_dtype names; none where it is left out.
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

/// The codes of a constant, as QuantizeLinear computes them.
INTQ_INLINE FileTensor codes_of_constant(const FileTensor& real, const OwnedQParams& grid, DType dtype) {
    const bool has_channels = grid.is_per_channel();
    const auto axis = static_cast<std::size_t>((std::max)(grid.axis, 0));
    OwnedQParams of_blocks = grid;
    if (has_channels) of_blocks.axis = 1;
    const Shape blocks = has_channels ? Shape(product_of(real.dims, 0, axis), real.dims[axis],
                                              product_of(real.dims, axis + 1, real.dims.size()))
                                      : Shape(1, 1, real.size());
    const Tensor codes = quantize(Tensor::from(blocks, real.as<float>()), of_blocks, arith::onnx_quantize_rule);
    FileTensor result{.name = real.name, .dtype = dtype, .dims = real.dims, .data = {}};
    const auto* const bytes = static_cast<const std::byte*>(codes.data());
    result.data.assign(bytes, bytes + codes.bytes());
    // Codes of int8 and uint8 that differ by 128 differ in the highest bit.
    if (dtype == DType::uint8)
        for (std::byte& code : result.data) code ^= std::byte{uint8_shift};
    return result;
}

INTQ_INLINE void quantize_linear(NodeImport& node) {
    node.expect_inputs(2, 3);
    node.integer("saturate", 1);   // concerns float8 only
    node.integer("precision", 0);  // of the division, which is in float32
    const Dims dims = node.dims(0);
    const OwnedQParams grid = read_grid(node, dims);
    const DType asked = output_dtype_of(node), own = grid.dtype != DType::none ? grid.dtype : DType::uint8;
    if (asked != DType::none && grid.dtype != DType::none && asked != grid.dtype)
        throw Error(std::string("output_dtype is ") + name_of(asked) + ", the zero point has dtype " +
                    name_of(grid.dtype));
    const DType dtype = asked != DType::none ? asked : own;
    if (dtype != DType::int8 && dtype != DType::uint8 && dtype != DType::int16)
        throw Error(std::string("codes of dtype ") + name_of(dtype) +
                    " are not supported; expected int8, uint8 or int16");
    const OwnedQParams qparams = to_qparams(grid, dtype, shift_of(dtype));
    if (node.has_elements(0))
        return node.set_quantized_constant(codes_of_constant(node.float_constant(0, "input"), qparams, dtype), qparams);
    node.call_module(make_as<nn::Module, QuantizeDequantize>(qparams), {node.value(0)}, dims);
    node.mark_codes(qparams, dtype, shift_of(dtype));
}

/// Codes of the file as real numbers, together with the codes as the library keeps them.
INTQ_INLINE void dequantize_constant(NodeImport& node, const FileTensor& codes, const OwnedQParams& grid) {
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
    const OwnedQParams qparams = to_qparams(grid, codes.dtype, shift_of(codes.dtype));
    node.set_folded(
        {.name = codes.name, .dtype = DType::float32, .dims = codes.dims, .data = {bytes.begin(), bytes.end()}},
        CodedConstant{qparams, codes.dtype == DType::int32 ? values : decltype(values){}});
    node.keep_quantizer(qparams);
}

INTQ_INLINE void dequantize_linear(NodeImport& node) {
    node.expect_inputs(2, 3);
    if (const DType asked = output_dtype_of(node); asked != DType::none && asked != DType::float32)
        throw Error(std::string("output_dtype is ") + name_of(asked) + ", expected float32");
    const ImportedValue& x = node.any_value(0, "input");
    const OwnedQParams grid = read_grid(node, x.dims);
    if (x.constant != nullptr) return dequantize_constant(node, *x.constant, grid);
    if (x.codes == DType::none) throw Error("its input holds real numbers, expected codes");
    if (grid.dtype != DType::none && grid.dtype != x.codes)
        throw Error(std::string("the codes have dtype ") + name_of(x.codes) + ", the zero point " +
                    name_of(grid.dtype));
    OwnedQParams given = to_qparams(grid, x.codes, x.grid ? x.shift : shift_of(x.codes));
    if (!x.grid) return node.call_module(make_as<nn::Module, QuantizeDequantize>(given), {*x.node}, x.dims);
    given.quant_min = x.grid->quant_min, given.quant_max = x.grid->quant_max;  // of a Clip between the two
    if (!(given == *x.grid))
        throw Error(
            "its scale and zero point are not those with which the codes were made; codes that are read on another "
            "grid are not supported");
    node.set_output({.node = x.node, .dims = x.dims});
}

/// A bound of codes of the file; `otherwise` where it is left out.
INTQ_INLINE std::int64_t bound_of_codes(const NodeImport& node, std::size_t i, DType codes, const char* what,
                                        std::int64_t otherwise) {
    if (!node.has_input(i)) return otherwise;
    const FileTensor& bound = node.constant(i, what);
    if (bound.dtype != codes || bound.size() != 1)
        throw Error(std::string("the ") + what + " has dtype " + name_of(bound.dtype) + " and " +
                    std::to_string(bound.size()) + " elements, expected one code of dtype " + name_of(codes));
    return codes_in_file(bound)[0];
}

/// Takes codes that are greater by a shift as they are, where int8 has them all; codes of fewer bits then include 0.
/// @return the shift that is left
INTQ_INLINE std::int32_t without_shift(OwnedQParams& grid, std::int32_t shift) {
    const auto fits = [&](std::int64_t code) { return code + shift <= highest_code(grid.dtype); };
    if (grid.zero_points.empty() || !fits(grid.quant_max) ||
        !std::all_of(grid.zero_points.begin(), grid.zero_points.end(), fits))
        return shift;
    grid.quant_min += shift, grid.quant_max += shift;
    for (std::int32_t& zero_point : grid.zero_points) zero_point += shift;
    leave_out_zeros(grid);
    return 0;
}

INTQ_INLINE void clip_codes(NodeImport& node) {
    node.expect_inputs(1, 3);
    const ImportedValue x = node.any_value(0, "input");
    if (!x.grid)
        throw Error("it bounds codes of an input of the model, which is not supported before they are dequantized");
    OwnedQParams grid = *x.grid;
    std::int64_t low = grid.quant_min + x.shift, high = grid.quant_max + x.shift;
    low = (std::max)(low, bound_of_codes(node, 1, x.codes, "min", low));
    high = (std::min)(high, bound_of_codes(node, 2, x.codes, "max", high));
    if (low >= high)
        throw Error("its bounds leave no range of codes: " + std::to_string(low) + " to " + std::to_string(high));
    grid.quant_min = low - x.shift, grid.quant_max = high - x.shift;
    const std::int32_t shift = without_shift(grid, x.shift);
    auto* const quantizer = node.producer<QuantizeDequantize>(0);
    if (quantizer != nullptr && node.is_only_user(0)) {
        quantizer->set_grid(grid);
        node.set_output({.node = x.node, .dims = x.dims});
    } else {
        node.call_module(make_as<nn::Module, QuantizeDequantize>(grid), {*x.node}, x.dims);
    }
    node.mark_codes(grid, x.codes, shift);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_QUANTIZE_HPP
