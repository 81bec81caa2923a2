// SPDX-License-Identifier: MIT
//
// causal_fill on codes: scores behind a position have the lowest code. Layer: quantization (docs/workflow.md
// section 4, "Masks").
#ifndef INTQ_QUANTIZATION_OPERATORS_CAUSAL_FILL_HPP
#define INTQ_QUANTIZATION_OPERATORS_CAUSAL_FILL_HPP

#include <cstdint>

#include "intq/arith/requantize.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Codes on the grid of the output, of which those behind a position along the last axis are the lowest: a sum as that
/// of add_masked_fill(). The mask is an embedding of the position whose rows overlap, so that it takes 2·L - 1 codes.
///
/// @param x         scores (N, …, T, L)
/// @param position  int32 (N, T)
std::int32_t add_causal_fill(program::ProgramBuilder& builder, std::int32_t x, std::int32_t position,
                             const OwnedQParams& output, const arith::OutputCodes& codes,
                             const program::LayerName& layer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstring>
#    include <string>

#    include "intq/core/dtype.hpp"
#    include "intq/core/layout.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/embedding.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/mask.hpp"
#    include "intq/quantization/operators/moved_view.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Whether the scores of a row are behind the position: rows of an embedding, each of which begins a code before the
/// one before it.
INTQ_INLINE Tensor mask_behind(index_t columns) {
    Tensor mask = Tensor::zeros(Shape(2 * columns - 1), DType::uint8);
    const auto masked = mask.flat<std::uint8_t>();
    std::fill(masked.begin() + columns, masked.end(), std::uint8_t{1});
    return mask;
}

/// The rows of the mask for the positions, by rows: (N, T, columns).
template <class Code>
std::int32_t add_masks_behind(program::ProgramBuilder& builder, std::int32_t position, index_t columns,
                              const OwnedQParams& grid, const program::LayerName& layer) {
    const kernels::ArenaTensor at = builder.at(position);
    builder.check_use({OpKind::embedding, DType::int32, DType::none, grid.dtype}, layer);
    builder.state_ids(position, columns);
    const Tensor mask = mask_behind(columns);
    const Tensor codes = codes_of_mask<Code>(mask, mask.shape());
    const Workspace kept = builder.new_buffer(codes.bytes());
    std::memcpy(kept.data, codes.data(), static_cast<std::size_t>(codes.bytes()));
    const auto* const params =
        builder.keep_params(kernels::EmbeddingParams{kept.data, columns, columns, grid.dtype, -1});
    const std::int32_t y = builder.tensor(grid.dtype, Shape(at.shape[0], at.shape[1], columns), builder.keep(grid),
                                          layer, Layout::row_major);
    return builder.push(OpKind::embedding, {position}, y, params, layer);
}

}  // namespace detail

INTQ_INLINE std::int32_t add_causal_fill(program::ProgramBuilder& builder, std::int32_t x, std::int32_t position,
                                         const OwnedQParams& output, const arith::OutputCodes& codes,
                                         const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x), at = builder.at(position);
    const int rank = in.shape.rank;
    if (at.dtype != DType::int32 || at.shape.rank != 2 || rank < 3 || in.shape[rank - 2] != at.shape[1])
        throw Error(layer.name, std::string("scores (N, ..., T, L) are masked by int32 positions (N, T), given ") +
                                    name_of(at.dtype) + " " + to_string(at.shape) + " for " + to_string(in.shape));
    const OwnedQParams grid = OwnedQParams::per_tensor(detail::scale_of_mask(in.qparams, output, in.dtype), in.dtype);
    const program::LayerName mask{layer.name + ".mask", layer.type};
    const index_t columns = in.shape[rank - 1];
    const std::int32_t rows = in.dtype == DType::int8
                                  ? detail::add_masks_behind<std::int8_t>(builder, position, columns, grid, mask)
                                  : detail::add_masks_behind<std::int16_t>(builder, position, columns, grid, mask);
    Shape shape = in.shape;
    for (int axis = 1; axis < rank - 2; ++axis) shape[axis] = 1;
    const auto move = MovedView(rows, builder.at(rows).shape, Layout::row_major).reshaped(shape)->move(in.layout);
    const std::int32_t placed = builder.push(OpKind::reshape, {rows},
                                             builder.tensor(in.dtype, shape, builder.at(rows).qparams, mask, in.layout),
                                             builder.keep_params(*move), mask);
    return add_sum(builder, OpKind::add, x, placed, output, codes, layer);
}

class CausalFillStep : public FloatBackedStep {
public:
    using FloatBackedStep::FloatBackedStep;
    OpKind kind() const noexcept override { return OpKind::add; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        const program::LayerName layer = Lowering::layer(node);
        const int scores = node.inputs[0];
        const std::int32_t x = l.lies_by_rows(scores) ? l.rows(scores, layer) : l.tensor(scores);
        l.set_elements(node,
                       add_causal_fill(l.builder(), x, l.input(node, 1), l.qparams(node), l.output_codes(node), layer));
    }
};

namespace operators {

INTQ_INLINE void check_causal_fill(const StepRequest& request) { check_fill(request, request.arguments()[2].number()); }

INTQ_INLINE StepPtr make_causal_fill(const StepRequest& request) {
    check_causal_fill(request);
    const QuantizedTensor& position = *request.inputs.at(1);
    if (!position.is_ids || position.shape.rank != 2)
        throw request.error(
            "scores that are masked by an input of int32 positions (N, T) have an integer form, given " +
            std::string(position.is_ids ? "" : "computed positions of ") + to_string(position.shape));
    return make_as<Step, CausalFillStep>(request.call);
}

inline constexpr QuantizedOperator causal_fill{.name = "causal_fill",
                                               .role = Role::own_output,
                                               .kind = OpKind::add,
                                               .make_step = &make_causal_fill,
                                               .check = &check_causal_fill,
                                               .torch_role = Role::float_only};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_CAUSAL_FILL_HPP
