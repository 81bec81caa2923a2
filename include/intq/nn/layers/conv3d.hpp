// SPDX-License-Identifier: MIT
//
// Conv3d and ConvTranspose3d. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_CONV3D_HPP
#define INTQ_NN_LAYERS_CONV3D_HPP

#include <string>

#include "intq/core/op_params.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/conv3d.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

using float_operators::DepthWindow;

struct Conv3dOptions {
    index_t in_channels = 1;
    index_t out_channels = 1;
    DepthWindow depth{};
    Window2d window{};  // along height and width
    index_t groups = 1;
    bool bias = true;
};

/// Three-dimensional convolution on (N, C, D, H, W). Parameters: weight (O, C/groups, KD, KH, KW) and, with a bias,
/// bias (O). It has no integer form: a quantized one computes in float between its codes.
class Conv3d : public Cloneable<Conv3d, Weighted> {
public:
    explicit Conv3d(const Conv3dOptions& options);

    std::string type_name() const override { return "Conv3d"; }
    std::string operator_name() const override { return "conv3d"; }
    const Conv3dOptions& options() const noexcept { return options_; }
    INTQ_INLINE Tensor apply(const Tensor& x, const Tensor& weight) const override;
    static std::string fused_type_name(const Fusion& fusion);

private:
    Conv3dOptions options_;
};

struct ConvTranspose3dOptions {
    index_t in_channels = 1;
    index_t out_channels = 1;
    DepthWindow depth{};  // its padding is cut off, as the window's is
    Window2d window{};
    index_t depth_padding = 0;  // of the output
    Size2d output_padding{0, 0};
    index_t groups = 1;
    bool bias = true;
};

/// Transposed convolution on (N, C, D, H, W). Parameters: weight (C, O/groups, KD, KH, KW) and, with a bias, bias (O).
/// Like Conv3d, it has no integer form.
class ConvTranspose3d : public Cloneable<ConvTranspose3d, Weighted> {
public:
    explicit ConvTranspose3d(const ConvTranspose3dOptions& options);

    std::string type_name() const override { return "ConvTranspose3d"; }
    std::string operator_name() const override { return "conv_transpose3d"; }
    const ConvTranspose3dOptions& options() const noexcept { return options_; }
    int weight_channel_axis() const noexcept override { return 1; }
    index_t out_channels() const override { return options_.out_channels; }
    INTQ_INLINE Tensor apply(const Tensor& x, const Tensor& weight) const override;
    static std::string fused_type_name(const Fusion& fusion);

private:
    ConvTranspose3dOptions options_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/nn/layers/conv.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Conv3d::Conv3d(const Conv3dOptions& options) : options_(options) {
    detail::check_conv_options("Conv3d", options.in_channels, options.out_channels, options.groups, options.window);
    add_weight(Shape(options.out_channels, options.in_channels / options.groups, options.depth.kernel,
                     options.window.kernel.height, options.window.kernel.width),
               options.bias, options.out_channels);
}

INTQ_INLINE Tensor Conv3d::apply(const Tensor& x, const Tensor& weight) const {
    return float_operators::conv3d(x, weight, bias(), options_.depth, options_.window, options_.groups, &cache());
}

INTQ_INLINE std::string Conv3d::fused_type_name(const Fusion& fusion) { return "Conv" + name_of(fusion) + "3d"; }

INTQ_INLINE ConvTranspose3d::ConvTranspose3d(const ConvTranspose3dOptions& options) : options_(options) {
    detail::check_conv_options("ConvTranspose3d", options.in_channels, options.out_channels, options.groups,
                               options.window);
    add_weight(Shape(options.in_channels, options.out_channels / options.groups, options.depth.kernel,
                     options.window.kernel.height, options.window.kernel.width),
               options.bias, options.out_channels);
}

INTQ_INLINE Tensor ConvTranspose3d::apply(const Tensor& x, const Tensor& weight) const {
    return float_operators::conv_transpose3d(x, weight, bias(), options_.depth, options_.window, options_.depth_padding,
                                             options_.output_padding, options_.groups, &cache());
}

INTQ_INLINE std::string ConvTranspose3d::fused_type_name(const Fusion& fusion) {
    return "ConvTranspose" + name_of(fusion) + "3d";
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_CONV3D_HPP
