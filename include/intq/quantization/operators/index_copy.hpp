// SPDX-License-Identifier: MIT
//
// index_copy on codes: a cache of fixed length, and its new rows on the cache's grid. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_INDEX_COPY_HPP
#define INTQ_QUANTIZATION_OPERATORS_INDEX_COPY_HPP

#include <cstdint>

#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The codes of x with rows along an axis behind the samples replaced; in the layout of x. A run refuses an index
/// without a row.
///
/// @param index   int32 (N, T)
/// @param source  codes as x, in its layout, but for T along the axis; requantized to the grid of x
/// @param grid    of x
std::int32_t add_index_copy(program::ProgramBuilder& builder, std::int32_t x, int axis, std::int32_t index,
                            std::int32_t source, const OwnedQParams& grid, const program::LayerName& layer);

class IndexCopyStep : public FloatBackedStep {
public:
    IndexCopyStep(FloatCall call, int axis);
    OpKind kind() const noexcept override { return OpKind::index_copy; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    int axis_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <string>
#    include <utility>

#    include "intq/core/layout.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/index_copy.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/internal/on_grid.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Extents before an axis, along it and behind it, in the order of memory and of one sample.
INTQ_INLINE kernels::IndexCopyParams rows_along(const kernels::ArenaTensor& x, int axis, index_t count) {
    kernels::IndexCopyParams rows{.count = count};
    const bool is_channels_last = x.layout != Layout::row_major && x.shape.rank >= 3;
    const auto place = [&](int a) { return is_channels_last && a == 1 ? x.shape.rank : a; };
    for (int a = 1; a < x.shape.rank; ++a)
        (place(a) < place(axis) ? rows.outer : a == axis ? rows.rows : rows.inner) *= x.shape[a];
    return rows;
}

}  // namespace detail

INTQ_INLINE std::int32_t add_index_copy(program::ProgramBuilder& builder, std::int32_t x, int axis, std::int32_t index,
                                        std::int32_t source, const OwnedQParams& grid,
                                        const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x), at = builder.at(index);
    if (at.dtype != DType::int32 || at.shape.rank != 2)
        throw Error(layer.name, std::string("index_copy reads int32 indices (N, T), given ") + name_of(at.dtype) + " " +
                                    to_string(at.shape));
    builder.check_use({OpKind::index_copy, in.dtype, DType::none, in.dtype}, layer);
    builder.state_ids(index, in.shape[axis]);
    const std::int32_t rows = add_on_grid(builder, source, grid, {}, {layer.name + ".source", layer.type});
    const auto* const params = builder.keep_params(detail::rows_along(in, axis, at.shape[1]));
    return builder.push(OpKind::index_copy, {x, rows, index},
                        builder.tensor(in.dtype, in.shape, in.qparams, layer, in.layout), params, layer);
}

INTQ_INLINE IndexCopyStep::IndexCopyStep(FloatCall call, int axis) : FloatBackedStep(std::move(call)), axis_(axis) {}

INTQ_INLINE void IndexCopyStep::lower(Lowering& l, const QuantizedNode& node) const {
    const program::LayerName layer = Lowering::layer(node);
    const bool by_rows = l.lies_by_rows(node.inputs[0]);
    const auto codes = [&](std::size_t i) { return by_rows ? l.rows(node.inputs[i], layer) : l.input(node, i); };
    l.set_elements(node,
                   add_index_copy(l.builder(), codes(0), axis_, l.input(node, 1), codes(2), l.qparams(node), layer));
}

namespace operators {

INTQ_INLINE StepPtr make_index_copy(const StepRequest& request) {
    const int axis = request.axis(request.integer(1, 0));
    if (axis == 0) throw request.error("a program keeps axis 0, the samples, whole");
    const QuantizedTensor& index = *request.inputs.at(1);
    if (!index.is_ids || index.shape.rank != 2)
        throw request.error("an index_copy by an input of int32 indices (N, T) has an integer form, given " +
                            std::string(index.is_ids ? "" : "computed indices of ") + to_string(index.shape));
    return make_as<Step, IndexCopyStep>(request.call, axis);
}

inline constexpr QuantizedOperator index_copy{.name = "index_copy",
                                              .role = Role::copies_into,
                                              .kind = OpKind::index_copy,
                                              .make_step = &make_index_copy,
                                              .source = 3,
                                              .torch_role = Role::float_only};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_INDEX_COPY_HPP
