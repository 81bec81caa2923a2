// SPDX-License-Identifier: MIT
//
// The product of two activations on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_MATMUL_HPP
#define INTQ_QUANTIZATION_OPERATORS_MATMUL_HPP

#include <cstdint>

#include "intq/arith/requantize.hpp"
#include "intq/core/layout.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/moved_view.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The product of the matrices in the last two axes; the axes between them and the samples are broadcast. The operands
/// are read where they lie.
///
/// @param layout  row_major: the tensor has the axes of the product; channels_last: its axis 1 is the product's last
///                one, which images have there. The bytes are the same.
/// @throws Error for operands of other ranks or extents, for a sum that can leave its bits, and for codes from more
///         places than a program describes
std::int32_t add_matmul(program::ProgramBuilder& builder, const MovedView& a, const MovedView& b,
                        const OwnedQParams& output, const arith::OutputCodes& codes, const program::LayerName& layer,
                        Layout layout = Layout::row_major);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/matmul.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/matmul.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// What keeps two shapes from a product on codes; none for those that have one.
INTQ_INLINE std::optional<std::string> matmul_refusal(const Shape& a, const Shape& b) {
    const std::string given = ", given " + to_string(a) + " and " + to_string(b);
    if (a.rank < 3 || b.rank < 3) return "a product over the samples has no integer form" + given;
    if (a.rank != b.rank) return "operands of different ranks have no integer form" + given;
    // A constant is one sample in the model, and the same for each of a program.
    if (a[0] != b[0] && a[0] != 1 && b[0] != 1) return "the operands differ in the number of samples" + given;
    bool fits = a[a.rank - 1] == b[b.rank - 2];
    for (int axis = 1; axis < a.rank - 2; ++axis) fits = fits && (a[axis] == b[axis] || a[axis] == 1 || b[axis] == 1);
    return fits ? std::nullopt : std::optional("these matrices cannot be multiplied" + given);
}

}  // namespace detail

INTQ_INLINE std::int32_t add_matmul(program::ProgramBuilder& builder, const MovedView& a, const MovedView& b,
                                    const OwnedQParams& output, const arith::OutputCodes& codes,
                                    const program::LayerName& layer, Layout layout) {
    if (const auto refusal = detail::matmul_refusal(a.shape(), b.shape())) throw Error(layer.name, *refusal);
    const DType dtype = builder.at(a.source()).dtype;
    builder.check_use({OpKind::matmul, dtype, DType::none, output.dtype}, layer);
    const int rank = a.shape().rank, rows = rank - 2, columns = rank - 1;
    Shape of_a = a.shape(), of_b = b.shape(), shape = a.shape();
    for (int axis = 1; axis < rows; ++axis)
        of_a[axis] = of_b[axis] = shape[axis] = (std::max)(a.shape()[axis], b.shape()[axis]);
    shape[columns] = b.shape()[columns];
    std::vector<int> exchanged(static_cast<std::size_t>(rank));
    for (int axis = 0; axis < rank; ++axis) exchanged[static_cast<std::size_t>(axis)] = axis;
    std::swap(exchanged[static_cast<std::size_t>(rows)], exchanged[static_cast<std::size_t>(columns)]);
    const auto places_a = a.expanded(of_a).move(Layout::row_major);
    const auto places_b = b.expanded(of_b).permuted(exchanged).move(Layout::row_major);
    if (!places_a || !places_b) throw Error(layer.name, "its codes come from more places than one instruction reads");
    kernels::MatmulStepParams step;
    step.shape = {shape[rows], shape[columns], of_a[columns], {*places_a, *places_b}};
    const QParams out = builder.keep(output);
    step.numbers = program::made_or_throw(
        arith::make_matmul(builder.target(), builder.codes_of(a.source()), builder.codes_of(b.source()),
                           program::ProgramBuilder::codes_of(output), codes, step.shape.inner),
        out, layer);
    if (layout == Layout::channels_last)
        for (int axis = columns; axis > 1; --axis) std::swap(shape[axis], shape[axis - 1]);
    return builder.push(OpKind::matmul, {a.source(), b.source()},
                        builder.tensor(output.dtype, shape, out, layer, layout), builder.keep_params(step), layer);
}

class MatmulStep : public FloatBackedStep {
public:
    using FloatBackedStep::FloatBackedStep;
    OpKind kind() const noexcept override { return OpKind::matmul; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set_rows(node, add_matmul(l.builder(), l.view(node.inputs.at(0)), l.view(node.inputs.at(1)), l.qparams(node),
                                    l.output_codes(node), Lowering::layer(node)));
    }
};

namespace operators {

INTQ_INLINE StepPtr make_matmul(const StepRequest& request) {
    if (const auto refusal = detail::matmul_refusal(request.inputs.at(0)->shape, request.inputs.at(1)->shape))
        throw request.error(*refusal);
    return make_as<Step, MatmulStep>(request.call);
}

inline constexpr QuantizedOperator matmul{.name = "matmul",
                                          .role = Role::own_output,
                                          .kind = OpKind::matmul,
                                          .operands = 2,
                                          .make_step = &make_matmul,
                                          .takes_clip = true};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_MATMUL_HPP
