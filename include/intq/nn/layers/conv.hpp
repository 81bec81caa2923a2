// SPDX-License-Identifier: MIT
//
// Conv2d. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_LAYERS_CONV_HPP
#define INTQ_NN_LAYERS_CONV_HPP

#include "intq/nn/layers/weighted.hpp"

namespace intq::inline INTQ_ABI::nn {

/// A square window, as most networks have it.
constexpr Window2d square_window(index_t kernel, index_t stride = 1, index_t padding = 0, index_t dilation = 1) {
    return {{kernel, kernel}, {stride, stride}, {padding, padding, padding, padding}, {dilation, dilation}};
}

struct Conv2dOptions {
    index_t in_channels = 1;
    index_t out_channels = 1;
    Window2d window{};  // padding may differ on each side
    index_t groups = 1;
    bool bias = true;
};

/// Two-dimensional convolution. Parameters: weight (O, C/groups, KH, KW) and, with a bias, bias (O); both start as 0.
class Conv2d : public Cloneable<Conv2d, Weighted> {
public:
    explicit Conv2d(const Conv2dOptions& options) : options_(options) {
        throw_if_failed(check_window(options.window, OpKind::conv2d), "Conv2d");
        if (options.groups < 1 || options.in_channels < 1 || options.out_channels < 1 ||
            options.in_channels % options.groups != 0 || options.out_channels % options.groups != 0)
            throw Error("Conv2d: " + std::to_string(options.in_channels) + " input and " +
                        std::to_string(options.out_channels) + " output channels cannot be split into " +
                        std::to_string(options.groups) + " groups");
        add_parameter("weight", Tensor::zeros(Shape(options.out_channels, options.in_channels / options.groups,
                                                    options.window.kernel.height, options.window.kernel.width)));
        if (options.bias) add_parameter("bias", Tensor::zeros(Shape(options.out_channels)));
    }

    std::string type_name() const override { return "Conv2d"; }
    std::string operator_name() const override { return "conv2d"; }
    const Conv2dOptions& options() const noexcept { return options_; }
    Tensor apply(const Tensor& x, const Tensor& weight) const override {
        return functional::conv2d(x, weight, bias(), options_.window, options_.groups);
    }

    /// "ConvReLU2d", "ConvAddReLU62d", …
    static std::string fused_type_name(const Fusion& fusion) {
        const char* activation = fusion.activation == Activation::relu    ? "ReLU"
                                 : fusion.activation == Activation::relu6 ? "ReLU6"
                                                                          : "";
        return std::string("Conv") + (fusion.add ? "Add" : "") + activation + "2d";
    }

private:
    Conv2dOptions options_;
};

/// ConvReLU2d, ConvReLU62d, ConvAdd2d, ConvAddReLU2d, ConvAddReLU62d.
using FusedConv2d = Fused<Conv2d>;

}  // namespace intq::inline INTQ_ABI::nn

#endif  // INTQ_NN_LAYERS_CONV_HPP
