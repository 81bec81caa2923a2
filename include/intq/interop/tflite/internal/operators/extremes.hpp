// SPDX-License-Identifier: MIT
//
// MAXIMUM and MINIMUM: of codes and one constant a clamp; the maximum of two tensors is a max pool of their join, and
// their minimum that of the complements.
// Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_EXTREMES_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_EXTREMES_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void maximum(OperatorImport& node);
void minimum(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <cstddef>
#    include <cstdint>
#    include <string>
#    include <vector>

#    include "intq/arith/requantize.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/interop/tflite/internal/operators/constant_operand.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/extreme.hpp"
#    include "intq/quantization/operators/move.hpp"
#    include "intq/quantization/operators/pool.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// The one code of a constant operand, which may repeat.
INTQ_INLINE std::int32_t one_code(OperatorImport& node, std::size_t i) {
    node.count_copied(static_cast<std::uint64_t>(node.input(i).size()) * sizeof(std::int32_t));
    const std::vector<std::int32_t> codes = constant_codes(node.input(i));
    for (const std::int32_t code : codes)
        if (code != codes[0])
            throw Error("the constant operand " + in_quotes(node.input(i).name) +
                        " has different elements, expected one number for all");
    return codes.at(0);
}

/// @param constant  which operand is one
INTQ_INLINE void clamp_by_constant(OperatorImport& node, std::size_t constant, bool is_maximum) {
    const std::int32_t bound = one_code(node, constant);
    arith::OutputCodes codes = node.codes(FusedActivation::none);
    (is_maximum ? codes.lowest : codes.highest) = bound;
    const std::size_t x = 1 - constant;
    node.require_output(node.input(x).dims);
    node.set(quantization::add_clamp(node.builder(), node.x(x), codes, node.layer()));
}

/// LiteRT compares codes, whatever their scales are.
INTQ_INLINE std::size_t constant_of(OperatorImport& node) {
    node.require_inputs(2, 2);
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
        node.require_same_qparams(node.input(i), node.output());
    if (node.is_constant(0) && node.is_constant(1)) throw Error("both operands are constants");
    return node.is_constant(0) ? 0 : node.is_constant(1) ? 1 : 2;
}

/// Codes in the opposite order: -1 - q. For int16 codes a difference of codes of one scale, which is exact.
INTQ_INLINE std::int32_t complement(OperatorImport& node, std::int32_t x, const char* part) {
    const OwnedQParams grid = node.output_qparams();
    if (grid.dtype == DType::int8) return quantization::add_complement(node.builder(), x, grid, node.layer(part));
    if (grid.zero_points[0] != 0)
        throw Error("a minimum of two activations of int16 needs a zero point of 0, given " +
                    std::to_string(grid.zero_points[0]));
    Tensor last = Tensor::zeros(program_shape({1, 1, 1, 1}), DType::int16);
    last.flat<std::int16_t>()[0] = -1;
    const std::string constant = std::string(part == nullptr ? "" : part) + "_constant";
    const std::int32_t y = quantization::add_constant(node.builder(), last, grid, node.layer(constant.c_str()));
    return quantization::add_sum(node.builder(), OpKind::sub, y, x, grid, Activation::none, node.layer(part));
}

/// Both tensors as rows of one image, of which a window of two rows takes the larger code, or the smaller one.
INTQ_INLINE void compare(OperatorImport& node, bool is_maximum) {
    const Dims dims = node.dims();
    if (dims != node.dims(1))
        throw Error("operands of the shapes " + describe_dims(node.input(0).dims) + " and " +
                    describe_dims(node.input(1).dims) + ", expected one shape");
    node.require_output(dims);
    const index_t channels = dims.size() > 1 ? dims.back() : 1, cells = count_of(dims) / (dims[0] * channels);
    std::vector<std::int32_t> rows;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
        rows.push_back(node.shaped(i, {dims[0], 1, cells, channels}));
    std::int32_t joined =
        quantization::add_cat(node.builder(), rows, program_axis(1, 4), node.output_qparams(), node.layer("joined"));
    constexpr Window2d both{{2, 1}, {1, 1}, {}, {1, 1}};
    if (is_maximum) return node.set(quantization::add_max_pool(node.builder(), joined, both, node.layer()), dims);
    joined = complement(node, joined, "complement");
    const std::int32_t largest = quantization::add_max_pool(node.builder(), joined, both, node.layer("largest"));
    node.set(complement(node, largest, nullptr), dims);
}

INTQ_INLINE void extreme(OperatorImport& node, bool is_maximum) {
    const std::size_t constant = constant_of(node);
    if (constant < 2) return clamp_by_constant(node, constant, is_maximum);
    compare(node, is_maximum);
}
INTQ_INLINE void maximum(OperatorImport& node) { extreme(node, true); }
INTQ_INLINE void minimum(OperatorImport& node) { extreme(node, false); }

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_EXTREMES_HPP
