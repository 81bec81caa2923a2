// SPDX-License-Identifier: MIT
//
// argmax on codes: int32 indices, which no quantizer rounds. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_ARGMAX_HPP
#define INTQ_QUANTIZATION_OPERATORS_ARGMAX_HPP

#include <cstdint>

#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/operator.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The index of the largest code along an axis behind the samples; int32, in the order of the input's memory.
///
/// @param keepdim  whether the axis stays, with extent 1
std::int32_t add_argmax(program::ProgramBuilder& builder, std::int32_t x, int axis, bool keepdim,
                        const program::LayerName& layer);

class ArgMaxStep : public FloatBackedStep {
public:
    ArgMaxStep(FloatCall call, int axis, bool keepdim);
    OpKind kind() const noexcept override { return OpKind::argmax; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    int axis_;
    bool keepdim_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <utility>

#    include "intq/core/layout.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/qparams.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/argmax.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::int32_t add_argmax(program::ProgramBuilder& builder, std::int32_t x, int axis, bool keepdim,
                                    const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    builder.check_use({OpKind::argmax, in.dtype, DType::none, DType::int32}, layer);
    Shape shape;
    for (int other = 0; other < in.shape.rank; ++other)
        if (other != axis || keepdim)
            shape.extents[static_cast<std::size_t>(shape.rank++)] = other == axis ? 1 : in.shape[other];
    // Without its innermost axis, the channels of an image, the rest lies by rows.
    const bool drops_channels = in.layout != Layout::row_major && axis == 1 && !keepdim;
    const bool by_rows = shape.rank >= 3 && (in.layout == Layout::row_major || drops_channels);
    const kernels::ArgMaxParams along{in.shape[axis],
                                      tensor_detail::strides_of(in.shape, in.layout)[static_cast<std::size_t>(axis)]};
    return builder.push(OpKind::argmax, {x},
                        builder.tensor(DType::int32, shape, QParams::per_tensor(1.0f, 0, DType::int32), layer,
                                       by_rows ? Layout::row_major : Layout::channels_last),
                        builder.keep_params(along), layer);
}

INTQ_INLINE ArgMaxStep::ArgMaxStep(FloatCall call, int axis, bool keepdim)
    : FloatBackedStep(std::move(call)), axis_(axis), keepdim_(keepdim) {}

INTQ_INLINE void ArgMaxStep::lower(Lowering& l, const QuantizedNode& node) const {
    l.set_elements(node, add_argmax(l.builder(), l.elements(node), axis_, keepdim_, Lowering::layer(node)));
}

namespace operators {

INTQ_INLINE void check_argmax(const StepRequest& request) {
    if (request.known_axis(request.integer(1, -1)) == 0)
        throw request.error("an argmax over the samples (axis 0) has no integer form");
}

INTQ_INLINE StepPtr make_argmax(const StepRequest& request) {
    check_argmax(request);
    return make_as<Step, ArgMaxStep>(request.call, request.axis(request.integer(1, -1)), request.arguments().flag(2));
}

inline constexpr QuantizedOperator argmax{.name = "argmax",
                                          .role = Role::gives_ids,
                                          .kind = OpKind::argmax,
                                          .make_step = &make_argmax,
                                          .check = &check_argmax};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_ARGMAX_HPP
