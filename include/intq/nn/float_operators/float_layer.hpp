// SPDX-License-Identifier: MIT
//
// A float convolution or linear layer on tensors, through the kernels: packed, run, forgotten. Layer: nn
// (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_FLOAT_LAYER_HPP
#define INTQ_NN_FLOAT_OPERATORS_FLOAT_LAYER_HPP

#include "intq/kernels/conv/pack_float.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::functional {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// y = x * weight + bias for images in channels_last.
///
/// @param spec  without its weight and bias
/// @param y     (N, O, H', W'), channels_last
void run_float_layer(kernels::FloatConv2dSpec spec, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     Tensor& y);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::functional

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include "intq/io/error.hpp"
#    include "intq/program/float/best_backend.hpp"
#    include "intq/tensor/current_executor.hpp"

namespace intq::nn::functional {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// Memory of `size` bytes as the kernels want it.
INTQ_INLINE Tensor aligned_bytes(index_t size) { return Tensor::empty(Shape(size), DType::int8); }
INTQ_INLINE Workspace workspace_of(Tensor& bytes) { return {bytes.data(), bytes.bytes()}; }

INTQ_INLINE void run_float_layer(kernels::FloatConv2dSpec spec, const Tensor& x, const Tensor& weight,
                                 const Tensor& bias, Tensor& y) {
    const Tensor plain_weight = weight.contiguous();
    spec.weight = plain_weight.flat<float>().data();
    if (bias.defined()) spec.bias = bias.flat<float>().data();
    const program::FloatKernels& backend = program::float_kernels();
    Tensor storage = aligned_bytes(kernels::packed_float_conv2d_size(backend.packing, spec));
    const kernels::PackedConv2d packed =
        value_or_throw(kernels::pack_float_conv2d(backend.packing, spec, workspace_of(storage)));
    const Size2d in{x.extent(2), x.extent(3)};
    Tensor memory = aligned_bytes(kernels::conv2d_geometry_size(spec.window, in));
    const kernels::ConvGeometry geometry =
        value_or_throw(kernels::make_conv2d_geometry(spec.window, x.extent(0), in, workspace_of(memory)));
    const auto from = x.view<float, 4, channels_last>();
    const auto to = y.view<float, 4, channels_last>();
    backend.run({&packed, &geometry, from.data(), nullptr, to.data(), &current_executor()});
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::functional

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_FLOAT_LAYER_HPP
