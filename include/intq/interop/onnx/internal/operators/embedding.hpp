// SPDX-License-Identifier: MIT
//
// A Gather of rows of a constant by ids that the model is given. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EMBEDDING_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EMBEDDING_HPP

#include "intq/graph/node.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The Gather as an nn::Embedding.
void gather_rows(NodeImport& node, graph::Node& ids);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <memory>
#    include <utility>

#    include "intq/core/shape.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/embedding.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void gather_rows(NodeImport& node, graph::Node& ids) {
    const FileTensor& table = node.float_constant(0, 2, "data");
    if (axis_in(node.integer("axis", 0), table.dims) != 0)
        throw Error("it takes columns of a constant by given ids; supported are rows, of axis 0");
    auto embedding = std::make_shared<nn::Embedding>(nn::EmbeddingOptions{table.dims[0], table.dims[1]});
    embedding->tensor("weight") = to_tensor(table, Shape(table.dims[0], table.dims[1]));
    Dims dims = node.any_value(1, "indices").dims;
    if (dims) dims->push_back(table.dims[1]);
    node.call_module(std::move(embedding), {ids}, std::move(dims));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EMBEDDING_HPP
