// SPDX-License-Identifier: MIT
//
// maximum and minimum of two tensors on codes: a max pool of the two under each other, on the grid of the output.
// Layer: quantization (docs/arithmetic.md section 4, exact on codes).
#ifndef INTQ_QUANTIZATION_OPERATORS_EXTREME_HPP
#define INTQ_QUANTIZATION_OPERATORS_EXTREME_HPP

#include <cstdint>

#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Codes in the opposite order, as a table.
///
///     int8 -1 - q;  int16 -q, at most one code off
///
/// @param grid  of the codes
/// @throws Error for int16 codes with a zero point
std::int32_t add_complement(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& grid,
                            const program::LayerName& layer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/unary.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/layout.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/core/workspace.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/unary.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/internal/on_grid.hpp"
#    include "intq/quantization/operators/move.hpp"
#    include "intq/quantization/operators/moved_view.hpp"
#    include "intq/quantization/operators/pool.hpp"
#    include "intq/quantization/operators/unary.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::int32_t add_complement(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& grid,
                                        const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    if (in.dtype != DType::int8) {
        if (grid.view().zero_point() != 0) throw Error(layer.name, "a minimum of int16 codes needs a zero point of 0");
        return add_look_up(builder, x, {TableFunction::neg}, grid, layer);
    }
    builder.check_use({OpKind::lookup_table, in.dtype, DType::none, in.dtype}, layer);
    kernels::LookUpParams table;
    table.size = static_cast<index_t>(arith::int8_table_size);
    const Workspace memory = builder.new_buffer(table.size);
    auto* const entries = reinterpret_cast<std::int8_t*>(memory.data);
    for (int i = 0; i < table.size; ++i) entries[i] = static_cast<std::int8_t>(127 - i);  // of the code i - 128
    table.entries = memory.data;
    return builder.push(OpKind::lookup_table, {x}, builder.tensor(in.dtype, in.shape, in.qparams, layer, in.layout),
                        builder.keep_params(table), layer);
}

class ExtremeStep : public FloatBackedStep {
public:
    ExtremeStep(FloatCall call, bool is_maximum) : FloatBackedStep(std::move(call)), is_maximum_(is_maximum) {}
    OpKind kind() const noexcept override { return OpKind::max_pool2d; }

    void lower(Lowering& l, const QuantizedNode& node) const override {
        program::ProgramBuilder& builder = l.builder();
        const program::LayerName layer = Lowering::layer(node);
        const auto part = [&](const std::string& name) { return program::LayerName{layer.name + name, layer.type}; };
        const OwnedQParams& output = l.qparams(node);
        std::vector<std::int32_t> operands;
        for (std::size_t i = 0; i < 2; ++i) {
            const std::int32_t x = l.elements(node, i);
            const bool by_table = has_onnx_table(builder.target(), builder.at(x).dtype, output.dtype);
            operands.push_back(by_table ? add_on_grid(builder, x, output, {}, part(".operand_" + std::to_string(i)))
                                        : x);
        }
        const kernels::ArenaTensor first = builder.at(operands[0]);
        const bool is_image = first.layout != Layout::row_major && (first.shape.rank == 3 || first.shape.rank == 4);
        std::int32_t x = add_cat(builder, operands, is_image ? 2 : 1, output, part(".joined"));
        const index_t rows = is_image ? first.shape[2] : rows_of(first.shape);
        if (!is_image) x = l.write_view(lines_of(builder.at(x), x, rows, layer), OpKind::permute, part(".lines"));
        if (!is_maximum_) x = add_complement(builder, x, output, part(".complement"));
        x = add_max_pool(builder, x, window_of_two(builder.at(x).shape.rank, rows),
                         part(is_maximum_ ? "" : ".largest"));
        if (!is_maximum_) x = add_complement(builder, x, output, layer);
        if (is_image) return l.set_elements(node, x);
        const MovedView turned = MovedView(x, builder.at(x).shape).permuted(std::vector<int>{0, 2, 1});
        l.set_view(node, OpKind::permute, turned.reshaped(first.shape).value());
    }

private:
    /// The places of a sample, each of which has the features of the last axis.
    static index_t rows_of(const Shape& shape) {
        index_t rows = 1;
        for (int axis = 1; axis + 1 < shape.rank; ++axis) rows *= shape[axis];
        return rows;
    }
    /// Two tensors one after the other as lines whose channels are the features.
    static MovedView lines_of(const kernels::ArenaTensor& joined, std::int32_t x, index_t rows,
                              const program::LayerName& layer) {
        const Shape& shape = joined.shape;
        const auto pairs = MovedView(x, shape, joined.layout)
                               .reshaped(Shape(shape[0], 2 * rows, shape.size() / (2 * rows * shape[0])));
        if (!pairs) throw Error(layer.name, "its codes come from more places than one instruction moves");
        return pairs->permuted(std::vector<int>{0, 2, 1});
    }
    /// The cells of two images, or lines, under each other.
    static Window2d window_of_two(int rank, index_t rows) {
        if (rank == 4) return {{2, 1}, {1, 1}, {}, {rows, 1}};
        return {{1, 2}, {1, 1}, {}, {1, rows}};
    }

    bool is_maximum_;
};

namespace operators {

template <bool IsMaximum> StepPtr make_extreme(const StepRequest& request) {
    const Shape &a = request.inputs.at(0)->shape, &b = request.inputs.at(1)->shape;
    if (!(a == b))
        throw request.error("operands of one shape are compared, given " + to_string(a) + " and " + to_string(b) +
                            "; expand the smaller one");
    if (a.rank < 2) throw request.error("operands of rank 2 or more are compared, given " + to_string(a));
    return make_as<Step, ExtremeStep>(request.call, IsMaximum);
}

inline constexpr QuantizedOperator maximum{.name = "maximum",
                                           .role = Role::own_output,
                                           .kind = OpKind::max_pool2d,
                                           .operands = 2,
                                           .make_step = &make_extreme<true>};
inline constexpr QuantizedOperator minimum{.name = "minimum",
                                           .role = Role::own_output,
                                           .kind = OpKind::max_pool2d,
                                           .operands = 2,
                                           .make_step = &make_extreme<false>};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_EXTREME_HPP
