// SPDX-License-Identifier: MIT
//
// embedding on codes: rows of a table, which is quantized to the grid of the output. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_EMBEDDING_HPP
#define INTQ_QUANTIZATION_OPERATORS_EMBEDDING_HPP

#include <cstdint>

#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The rows of a table by ids (N, T); by rows (N, T, width). A run refuses an id without a row.
///
/// @param weight  float32 (rows, width)
std::int32_t add_embedding(program::ProgramBuilder& builder, std::int32_t ids, const Tensor& weight,
                           const OwnedQParams& output, const program::LayerName& layer);

/// The same of codes on the grid of the output.
std::int32_t add_embedding_of_codes(program::ProgramBuilder& builder, std::int32_t ids, const Tensor& codes,
                                    const OwnedQParams& output, const program::LayerName& layer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <cstring>
#    include <utility>

#    include "intq/core/op_kind.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/embedding.hpp"
#    include "intq/nn/layers/embedding.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::int32_t add_embedding(program::ProgramBuilder& builder, std::int32_t ids, const Tensor& weight,
                                       const OwnedQParams& output, const program::LayerName& layer) {
    return add_embedding_of_codes(builder, ids, quantize(weight.contiguous(), output, builder.target().quantize),
                                  output, layer);
}

INTQ_INLINE std::int32_t add_embedding_of_codes(program::ProgramBuilder& builder, std::int32_t ids, const Tensor& codes,
                                                const OwnedQParams& output, const program::LayerName& layer) {
    const kernels::ArenaTensor x = builder.at(ids);
    if (x.dtype != DType::int32 || x.shape.rank != 2)
        throw Error(layer.name, std::string("an embedding reads int32 ids (N, T), given ") + name_of(x.dtype) + " " +
                                    to_string(x.shape));
    builder.check_use({OpKind::embedding, DType::int32, DType::none, output.dtype}, layer);
    builder.state_ids(ids, codes.extent(0));
    const Workspace kept = builder.new_buffer(codes.bytes());
    std::memcpy(kept.data, codes.data(), static_cast<std::size_t>(codes.bytes()));
    const auto* const params =
        builder.keep_params(kernels::EmbeddingParams{kept.data, codes.extent(0), codes.extent(1), output.dtype});
    const std::int32_t y = builder.tensor(output.dtype, Shape(x.shape[0], x.shape[1], codes.extent(1)),
                                          builder.keep(output), layer, Layout::row_major);
    return builder.push(OpKind::embedding, {ids}, y, params, layer);
}

class EmbeddingStep : public FloatBackedStep {
public:
    EmbeddingStep(FloatCall call, Tensor weight) : FloatBackedStep(std::move(call)), weight_(std::move(weight)) {}
    OpKind kind() const noexcept override { return OpKind::embedding; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set_rows(node, add_embedding(l.builder(), l.input(node), weight_, l.qparams(node), Lowering::layer(node)));
    }

private:
    Tensor weight_;
};

namespace operators {

INTQ_INLINE Tensor table_of_embedding(const nn::Module& module) {
    return dynamic_cast<const nn::Embedding&>(module).weight();
}

INTQ_INLINE StepPtr make_embedding(const StepRequest& request) {
    if (const Shape& ids = request.inputs.at(0)->shape; ids.rank != 2)
        throw request.error("an embedding of ids (N, T) has an integer form, given " + to_string(ids) +
                            "; give the model ids of two axes, and reshape what it returns");
    return make_as<Step, EmbeddingStep>(request.call, table_of_embedding(*request.module));
}

inline constexpr QuantizedOperator embedding{.name = "embedding",
                                             .role = Role::own_output,
                                             .kind = OpKind::embedding,
                                             .operands = 0,
                                             .make_step = &make_embedding,
                                             .table = &table_of_embedding,
                                             .torch_role = Role::float_only};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_EMBEDDING_HPP
