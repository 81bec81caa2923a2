// SPDX-License-Identifier: MIT
//
// SELECT and SELECT_V2 by a constant condition: the operands times masks of 0 and 1, and their sum. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_SELECT_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_SELECT_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void select(OperatorImport& node);
void select_v2(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <optional>
#    include <string>
#    include <vector>

#    include "intq/arith/fixed_point.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/layout.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/interop/tflite/internal/operators/constant_operand.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/interop/tflite/internal/read/model.hpp"
#    include "intq/interop/tflite/internal/read/names.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// Numbers that are the same for each sample, in the order of the file.
struct ConstantNumbers {
    Dims dims;  // of the rank of the output; the first is 1
    std::vector<std::int32_t> numbers;

    /// The number for an element of extents that these are repeated to.
    std::int32_t at(const Dims& extents, index_t element) const {
        index_t place = 0, step = 1;
        for (std::size_t axis = dims.size(); axis-- > 0; element /= extents[axis]) {
            if (dims[axis] != 1) place += element % extents[axis] * step;
            step *= dims[axis];
        }
        return numbers[static_cast<std::size_t>(place)];
    }
};

/// @param what  of the error
INTQ_INLINE Dims dims_of_constant(const OperatorImport& node, std::size_t i, const char* what) {
    const Dims out = node.output_dims();
    Dims dims = node.input(i).dims;
    if (dims.size() < out.size()) dims.insert(dims.begin(), out.size() - dims.size(), 1);
    bool fits = dims.size() == out.size() && dims[0] == 1;
    for (std::size_t axis = 1; fits && axis < dims.size(); ++axis) fits = dims[axis] == 1 || dims[axis] == out[axis];
    if (!fits)
        throw Error(std::string(what) + " " + in_quotes(node.input(i).name) + " of shape " +
                    describe_dims(node.input(i).dims) + " is not the same for each sample, or does not fit " +
                    describe_dims(out));
    return dims;
}

/// The condition as numbers of 0 and 1.
INTQ_INLINE ConstantNumbers condition_of(OperatorImport& node) {
    const FileTensor& file = node.input(0);
    if (file.type != static_cast<std::int8_t>(ElementType::boolean))
        throw Error("its condition " + in_quotes(file.name) + " has " + element_name(file.type) + ", expected bool");
    if (!file.is_constant())
        throw Error("its condition " + in_quotes(file.name) +
                    " is computed; a program selects by a constant of the file");
    ConstantNumbers condition{dims_of_constant(node, 0, "the condition"), {}};
    if (file.data.size() != static_cast<std::uint64_t>(file.size()))
        throw Error("its condition has " + std::to_string(file.data.size()) + " bytes, expected " +
                    std::to_string(file.size()));
    node.count_copied(file.data.size() * sizeof(std::int32_t));
    for (const std::byte each : file.data) condition.numbers.push_back(each == std::byte{0} ? 0 : 1);
    return condition;
}

INTQ_INLINE std::int32_t add_numbers(OperatorImport& node, const ConstantNumbers& from, const OwnedQParams& grid,
                                     const std::string& part) {
    node.count_copied(from.numbers.size() * static_cast<std::uint64_t>(size_of(grid.dtype)));
    Tensor codes = Tensor::empty(program_shape(from.dims), grid.dtype, Layout::channels_last);
    for (std::size_t i = 0; i < from.numbers.size(); ++i) {
        if (grid.dtype == DType::int8)
            reinterpret_cast<std::int8_t*>(codes.data())[i] = static_cast<std::int8_t>(from.numbers[i]);
        else
            reinterpret_cast<std::int16_t*>(codes.data())[i] = static_cast<std::int16_t>(from.numbers[i]);
    }
    return quantization::add_constant(node.builder(), codes, grid, node.layer(part.c_str()));
}

/// The codes of a constant operand where the mask is 1, and the zero point elsewhere; none where all are that.
INTQ_INLINE std::optional<ConstantNumbers> masked_constant(OperatorImport& node, std::size_t i,
                                                           const ConstantNumbers& mask, std::int32_t zero_point) {
    node.count_copied(static_cast<std::uint64_t>(node.input(i).size()) * sizeof(std::int32_t));
    const ConstantNumbers operand{dims_of_constant(node, i, "the constant operand"), constant_codes(node.input(i))};
    ConstantNumbers result{operand.dims, {}};
    for (std::size_t axis = 0; axis < result.dims.size(); ++axis)
        result.dims[axis] = (std::max)(result.dims[axis], mask.dims[axis]);
    node.count_copied(static_cast<std::uint64_t>(count_of(result.dims)) * sizeof(std::int32_t));
    bool is_needed = false;
    for (index_t element = 0; element < count_of(result.dims); ++element) {
        const bool takes = mask.at(result.dims, element) != 0;
        result.numbers.push_back(takes ? operand.at(result.dims, element) : zero_point);
        is_needed = is_needed || result.numbers.back() != zero_point;
    }
    if (!is_needed) return std::nullopt;
    return result;
}

/// An operand where the mask is 1, and the zero point elsewhere: half of a product with 0 and 2, which no code takes
/// out of 32 bits.
INTQ_INLINE std::int32_t masked(OperatorImport& node, std::size_t i, const ConstantNumbers& mask, const char* part) {
    const OwnedQParams grid = node.output_qparams();
    Dims dims = node.dims(i);
    const std::size_t rank = node.output_dims().size();
    if (dims.size() < rank && dims[0] != 1)
        throw Error("the operand " + in_quotes(node.input(i).name) + " of shape " + describe_dims(dims) +
                    " does not keep axis 0, the samples, as a program does");
    if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), 1);
    const std::int32_t x = node.shaped(i, dims);
    if (part != nullptr && std::all_of(mask.numbers.begin(), mask.numbers.end(), [](int one) { return one == 1; }))
        return x;
    ConstantNumbers factors = mask;
    for (std::int32_t& each : factors.numbers) each *= 2;
    const std::int32_t by = add_numbers(node, factors, OwnedQParams::per_tensor(0.5f, grid.dtype),
                                        part == nullptr ? "mask" : std::string(part) + "_mask");
    return quantization::add_mul(node.builder(), x, by, grid, node.codes(FusedActivation::none),
                                 arith::QuantizedMultiplier{1 << 30, 0}, node.layer(part));
}

/// The sum of both operands, of which one is the zero point wherever the other is not. It is exact, because all have
/// one scale.
INTQ_INLINE void select_v2(OperatorImport& node) {
    node.require_inputs(3, 3);
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
        node.require_same_qparams(node.input(i), node.output());
    if (node.is_constant(1) && node.is_constant(2)) throw Error("both operands are constants");
    const OwnedQParams grid = node.output_qparams();
    ConstantNumbers masks[2] = {condition_of(node), {}};
    masks[1] = masks[0];
    for (std::int32_t& each : masks[1].numbers) each = 1 - each;
    if (!node.is_constant(1) && !node.is_constant(2))
        return node.set(quantization::add_sum(node.builder(), OpKind::add, masked(node, 1, masks[0], "true"),
                                              masked(node, 2, masks[1], "false"), grid, Activation::none,
                                              node.layer()));
    const std::size_t fill = node.is_constant(1) ? 1 : 2, x = 3 - fill;
    const auto filled = masked_constant(node, fill, masks[fill - 1], grid.zero_points[0]);
    if (!filled) return node.set(masked(node, x, masks[x - 1], nullptr));
    const std::int32_t kept = masked(node, x, masks[x - 1], "kept");
    node.set(quantization::add_sum(node.builder(), OpKind::add, kept, add_numbers(node, *filled, grid, "fill"), grid,
                                   Activation::none, node.layer()));
}

/// LiteRT's SELECT repeats a condition of one axis along the axes behind it, and one number.
INTQ_INLINE void select(OperatorImport& node) {
    node.require_inputs(3, 3);
    if (node.input(0).size() != 1 && node.input(0).dims != node.output().dims)
        throw Error("its condition has the shape " + describe_dims(node.input(0).dims) + ", expected " +
                    describe_dims(node.output().dims) + " or one number");
    select_v2(node);
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_SELECT_HPP
