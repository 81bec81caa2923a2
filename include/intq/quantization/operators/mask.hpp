// SPDX-License-Identifier: MIT
//
// masked_fill on codes: masked scores of a softmax have the lowest code. Layer: quantization (docs/workflow.md
// section 4, "Masks").
#ifndef INTQ_QUANTIZATION_OPERATORS_MASK_HPP
#define INTQ_QUANTIZATION_OPERATORS_MASK_HPP

#include <cstdint>

#include "intq/arith/requantize.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Codes on the grid of the output, of which masked ones are the lowest: a sum with a constant.
///
///     y = clamp(requantize(x + m)),  m = 0, or beyond all sums that the grid of the output has
///
/// @param mask  uint8, of the rank of x or less; broadcast, and the same for each sample
std::int32_t add_masked_fill(program::ProgramBuilder& builder, std::int32_t x, const Tensor& mask,
                             const OwnedQParams& output, const arith::OutputCodes& codes,
                             const program::LayerName& layer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <string>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/operator.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/quantization/observers/internal/scores.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// A scale with which the lowest code is below the lowest value of `output` for every x, and as coarse as needed.
INTQ_INLINE float scale_of_mask(const QParams& x, const OwnedQParams& output, DType dtype) {
    const double codes = -static_cast<double>(lowest_code(dtype));
    const double highest = static_cast<double>(x.scale()) * (codes - 1.0 - x.zero_point());
    const double lowest = static_cast<double>(output.scale()) * (-codes - output.view().zero_point());
    return (std::max)(2.0f * output.scale(), static_cast<float>((highest - lowest) / codes) * 1.01f);
}

/// 0, and the lowest code where the mask is set.
template <class Code> Tensor codes_of_mask(const Tensor& mask, const Shape& shape) {
    const Tensor given = mask.contiguous();
    Tensor codes = Tensor::zeros(shape, dtype_of<Code>);
    for (index_t i = 0; i < codes.size(); ++i)
        if (given.flat<std::uint8_t>()[static_cast<std::size_t>(i)] != 0)
            codes.flat<Code>()[static_cast<std::size_t>(i)] = static_cast<Code>(lowest_code(dtype_of<Code>));
    return codes;
}

/// The shape of a mask with the rank of the value that it masks.
INTQ_INLINE Shape shape_of_mask(const Shape& mask, const Shape& x, const std::string& where) {
    Shape shape;
    for (int axis = 0; axis < x.rank; ++axis) {
        const int own = axis - (x.rank - mask.rank);
        shape.extents[static_cast<std::size_t>(shape.rank++)] = own < 0 ? 1 : mask[own];
    }
    bool fits = mask.rank <= x.rank && shape.rank > 0 && shape[0] == 1;
    for (int axis = 1; fits && axis < x.rank; ++axis) fits = shape[axis] == 1 || shape[axis] == x[axis];
    if (!fits)
        throw Error(where, "a mask is the same for each sample: expected a shape that is broadcast to " + to_string(x) +
                               " behind axis 0, given " + to_string(mask));
    return shape;
}

}  // namespace detail

INTQ_INLINE std::int32_t add_masked_fill(program::ProgramBuilder& builder, std::int32_t x, const Tensor& mask,
                                         const OwnedQParams& output, const arith::OutputCodes& codes,
                                         const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    const Shape shape = detail::shape_of_mask(mask.shape(), in.shape, layer.name);
    const Tensor masked = in.dtype == DType::int8 ? detail::codes_of_mask<std::int8_t>(mask, shape)
                                                  : detail::codes_of_mask<std::int16_t>(mask, shape);
    const OwnedQParams grid = OwnedQParams::per_tensor(detail::scale_of_mask(in.qparams, output, in.dtype), in.dtype);
    const program::LayerName constant{layer.name + ".mask", layer.type};
    return add_sum(builder, OpKind::add, x, add_constant(builder, masked, grid, constant, in.layout), output, codes,
                   layer);
}

class MaskedFillStep : public FloatBackedStep {
public:
    MaskedFillStep(FloatCall call, Tensor mask) : FloatBackedStep(std::move(call)), mask_(std::move(mask)) {}
    OpKind kind() const noexcept override { return OpKind::add; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set_elements(node, add_masked_fill(l.builder(), l.elements(node), mask_, l.qparams(node),
                                             l.output_codes(node), Lowering::layer(node)));
    }

private:
    Tensor mask_;
};

namespace operators {

INTQ_INLINE const nn::MaskedFill& masked_fill_of(const StepRequest& request) {
    if (const auto* module = dynamic_cast<const nn::MaskedFill*>(request.module)) return *module;
    throw request.error("its mask must be a tensor of the model; a mask that is computed has no integer form");
}

INTQ_INLINE void check_fill(const StepRequest& request, double value) {
    if (value > -detail::masked_scores)
        throw request.error("a fill of " + shortest_text(value) + " has no integer form; -inf and values up to " +
                            shortest_text(-detail::masked_scores) +
                            " become the lowest code, and a product with a tensor of 0 and 1 fills with 0");
}

INTQ_INLINE void check_masked_fill(const StepRequest& request) { check_fill(request, masked_fill_of(request).value()); }

INTQ_INLINE StepPtr make_masked_fill(const StepRequest& request) {
    check_masked_fill(request);
    const Tensor& mask = masked_fill_of(request).mask();
    detail::shape_of_mask(mask.shape(), request.inputs.at(0)->shape, request.where);
    return make_as<Step, MaskedFillStep>(request.call, mask);
}

inline constexpr QuantizedOperator masked_fill{.name = "masked_fill",
                                               .role = Role::own_output,
                                               .kind = OpKind::add,
                                               .make_step = &make_masked_fill,
                                               .check = &check_masked_fill};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_MASK_HPP
