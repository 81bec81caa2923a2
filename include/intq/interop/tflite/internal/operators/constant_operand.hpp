// SPDX-License-Identifier: MIT
//
// A constant of the file as an operand of an operator on activations. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_CONSTANT_OPERAND_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_CONSTANT_OPERAND_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/interop/tflite/internal/nodes/operator_import.hpp"
#include "intq/interop/tflite/internal/read/model.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// Codes of a constant of int8 or int16.
std::vector<std::int32_t> constant_codes(const FileTensor& tensor);

/// A constant as an operand of `rank` axes; the first counts the samples, for which it is the same.
///
/// @param dtype  the constant's, or int16 for one of int8 codes, which become the same integers in 16 bits
std::int32_t constant_operand(OperatorImport& node, std::size_t i, std::size_t rank, DType dtype);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <string>

#    include "intq/core/layout.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/flatbuffer.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE std::vector<std::int32_t> constant_codes(const FileTensor& tensor) {
    const io::FlatBytes bytes(tensor.data);
    std::vector<std::int32_t> codes;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(tensor.size()); ++i)
        codes.push_back(tensor.dtype == DType::int8 ? bytes.number<std::int8_t>(i) : bytes.number<std::int16_t>(2 * i));
    return codes;
}

INTQ_INLINE std::int32_t constant_operand(OperatorImport& node, std::size_t i, std::size_t rank, DType dtype) {
    const FileTensor& file = node.input(i);
    Dims dims = file.dims;
    if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), 1);
    if (dims.size() > rank || dims[0] != 1)
        throw Error("the constant operand " + in_quotes(file.name) + " of shape " + describe_dims(file.dims) +
                    " is not the same for each sample");
    const OwnedQParams in_file = node.qparams(file);
    OwnedQParams qparams = OwnedQParams::per_tensor(in_file.scale(), dtype);
    qparams.zero_points = in_file.zero_points;
    node.count_copied(static_cast<std::uint64_t>(file.size() * size_of(dtype)));
    Tensor codes = Tensor::empty(program_shape(dims), dtype, Layout::channels_last);
    index_t at = 0;
    for (const std::int32_t code : constant_codes(file)) {
        if (dtype == DType::int8)
            reinterpret_cast<std::int8_t*>(codes.data())[at++] = static_cast<std::int8_t>(code);
        else
            reinterpret_cast<std::int16_t*>(codes.data())[at++] = static_cast<std::int16_t>(code);
    }
    return quantization::add_constant(node.builder(), codes, qparams, node.layer("constant"));
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_CONSTANT_OPERAND_HPP
