// SPDX-License-Identifier: MIT
//
// EMBEDDING_LOOKUP, and a GATHER of the rows of a constant: the embedding of a program. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_EMBEDDING_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_EMBEDDING_HPP

#include <cstddef>

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void embedding_lookup(OperatorImport& node);

/// The rows of a constant (rows, …) by ids that are an input of the model.
void look_up_rows(OperatorImport& node, std::size_t table, std::size_t ids);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <cstdint>
#    include <cstring>
#    include <string>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/layout.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/tflite/internal/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/operators/embedding.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE void look_up_rows(OperatorImport& node, std::size_t table, std::size_t ids) {
    const FileTensor &rows = node.input(table), &from = node.input(ids);
    node.require_same_qparams(rows, node.output());
    if (!rows.is_constant())
        throw Error("its table " + in_quotes(rows.name) + " is computed; ids choose rows of a constant of the file");
    if (from.is_constant() || from.dtype != DType::int32)
        throw Error("its ids " + in_quotes(from.name) + " must be an int32 input of the model, given " +
                    (from.is_constant() ? "a constant" : describe_type(from)));
    if (rows.dims.size() < 2 || rows.dims[0] < 1 || rows.size() < 1)
        throw Error("its table has the shape " + describe_dims(rows.dims) + ", expected rows of elements");
    const index_t width = rows.size() / rows.dims[0];
    Dims out = from.dims;
    out.insert(out.end(), rows.dims.begin() + 1, rows.dims.end());
    node.require_output(out);
    const OwnedQParams grid = node.output_qparams();
    node.count_copied(2 * rows.data.size());  // once more into the program
    Tensor codes = Tensor::empty(Shape(rows.dims[0], width), grid.dtype);
    std::memcpy(codes.data(), rows.data.data(), rows.data.size());
    const std::int32_t y =
        quantization::add_embedding_of_codes(node.builder(), node.written(ids), codes, grid, node.layer("rows"));
    node.set(node.copy(y, program_shape(node.output_dims()), nullptr), node.output_dims());
}

INTQ_INLINE void embedding_lookup(OperatorImport& node) {
    node.require_inputs(2, 2);
    look_up_rows(node, 1, 0);
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_EMBEDDING_HPP
