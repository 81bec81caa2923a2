// SPDX-License-Identifier: MIT
//
// BATCH_MATMUL, one operand of which may be a constant. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_MATMUL_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_MATMUL_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void batch_matmul(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <numeric>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/layout.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/tflite/internal/operators/constant_operand.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/interop/tflite/internal/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/program/program_builder.hpp"
#    include "intq/quantization/operators/matmul.hpp"
#    include "intq/quantization/operators/moved_view.hpp"
#    include "intq/tensor/owned_qparams.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE std::string describe_operand(const OperatorImport& node, std::size_t i) {
    return "the operand " + in_quotes(node.input(i).name) + " of shape " + describe_dims(node.input(i).dims);
}

/// The operands of a BATCH_MATMUL as matrices of one rank, the samples first.
struct Matrices {
    Dims dims[2];           // in the order of the file
    bool exchanged[2];      // whether the last two axes are
    bool has_rows = false;  // each sample is one row of the file's matrix: axis 1 is added
};

/// TFLite puts extents of 1 before the shorter shape. One sample may be left out.
INTQ_INLINE Matrices matrices_of(const OperatorImport& node, index_t samples) {
    using Options = fields::BatchMatMul;
    Matrices m{{node.input(0).dims, node.input(1).dims},
               {node.options().flag(Options::adj_x), node.options().flag(Options::adj_y)}};
    const std::size_t rank = (std::max)(m.dims[0].size(), m.dims[1].size());
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
        Dims& dims = m.dims[i];
        if (dims.size() < 2 || dims.size() > 5)  // those of LiteRT
            throw Error(describe_operand(node, i) + " has " + std::to_string(dims.size()) + " axes, expected 2 to 5");
        dims.insert(dims.begin(), rank - dims.size(), 1);
    }
    if (samples == 1) {
        if (rank == 2 || m.dims[0][0] != 1 || m.dims[1][0] != 1)
            for (Dims& dims : m.dims) dims.insert(dims.begin(), 1);
        return m;
    }
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
        if (node.is_constant(i)) continue;
        const bool keeps_samples = m.dims[i][0] == samples && (rank > 2 || (i == 0 && !m.exchanged[0]));
        if (!keeps_samples)
            throw Error(describe_operand(node, i) + " does not keep axis 0, the samples, as a program does");
    }
    m.has_rows = rank == 2;
    if (m.has_rows) {  // the other operand is a constant
        m.dims[0].insert(m.dims[0].begin() + 1, 1);
        m.dims[1].insert(m.dims[1].begin(), 1);
    }
    return m;
}

/// The type of both operands. LiteRT multiplies int16 codes by int8 ones too, which a constant's can become int16.
INTQ_INLINE DType type_of_operands(const OperatorImport& node) {
    const OwnedQParams qparams[3] = {node.qparams(node.input(0)), node.qparams(node.input(1)), node.output_qparams()};
    const DType a = qparams[0].dtype, b = qparams[1].dtype;
    const bool is_widened = a == DType::int16 && b == DType::int8 && node.is_constant(1);
    if (a != b && !is_widened)
        throw Error("the operands " + in_quotes(node.input(0).name) + " and " + in_quotes(node.input(1).name) +
                    " have " + name_of(a) + " and " + name_of(b) + ", expected one type");
    for (std::size_t i = 0; i < 3 && a == DType::int16; ++i)
        if (const std::int32_t zero_point = qparams[i].zero_points[0]; zero_point != 0)
            throw Error("the zero point of the tensor " + in_quotes((i < 2 ? node.input(i) : node.output()).name) +
                        " is " + std::to_string(zero_point) + ", expected 0 in a product of int16 codes");
    return a;
}

INTQ_INLINE void batch_matmul(OperatorImport& node) {
    node.require_inputs(2, 2);
    if (node.is_constant(0) && node.is_constant(1)) throw Error("both operands are constants");
    const DType dtype = type_of_operands(node);
    const Matrices m = matrices_of(node, node.builder().max_batch());
    const auto view = [&](std::size_t i) {
        const std::size_t rank = m.dims[i].size();
        const std::int32_t tensor = node.is_constant(i) ? constant_operand(node, i, rank, dtype) : node.written(i);
        // Its memory has the order of the file, whatever shape it was written in.
        Shape shape;
        for (const index_t extent : m.dims[i]) shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
        shape[0] = node.builder().max_batch();
        std::vector<int> axes(rank);
        std::iota(axes.begin(), axes.end(), 0);
        if (m.exchanged[i]) std::swap(axes[rank - 1], axes[rank - 2]);
        return quantization::MovedView(tensor, shape, Layout::row_major).permuted(axes);
    };
    const quantization::MovedView a = view(0), b = view(1);
    const std::int32_t y =
        quantization::add_matmul(node.builder(), a, b, node.output_qparams(), node.codes(FusedActivation::none),
                                 node.layer(), Layout::channels_last);
    const Shape made = node.builder().at(y).shape;
    if (m.has_rows)
        node.set(y, {made[0], made[1]});
    else
        node.set(y);
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_MATMUL_HPP
