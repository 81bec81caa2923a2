// SPDX-License-Identifier: MIT
//
// Conv2d, Conv1d, ConvTranspose2d, ConvTranspose1d. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_CONV_HPP
#define INTQ_NN_LAYERS_CONV_HPP

#include <string>

#include "intq/core/op_params.hpp"
#include "intq/nn/layers/weighted.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

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

/// Two-dimensional convolution. Parameters: weight (O, C/groups, KH, KW) and, with a bias, bias (O).
class Conv2d : public Cloneable<Conv2d, Weighted> {
public:
    explicit Conv2d(const Conv2dOptions& options);

    std::string type_name() const override { return "Conv2d"; }
    std::string operator_name() const override { return "conv2d"; }
    const Conv2dOptions& options() const noexcept { return options_; }
    INTQ_INLINE Tensor apply(const Tensor& x, const Tensor& weight) const override;

    /// "ConvReLU2d", "ConvAddReLU62d", …
    static std::string fused_type_name(const Fusion& fusion);

private:
    Conv2dOptions options_;
};

/// ConvReLU2d, ConvReLU62d, ConvAdd2d, ConvAddReLU2d, ConvAddReLU62d.
using FusedConv2d = Fused<Conv2d>;

/// Padding along one axis. One number pads both ends; {k - 1, 0} makes a causal convolution.
struct Padding1d {
    index_t before = 0, behind = 0;
    constexpr Padding1d(index_t both_ends = 0) noexcept : before(both_ends), behind(both_ends) {}
    constexpr Padding1d(index_t first, index_t last) noexcept : before(first), behind(last) {}
    friend constexpr bool operator==(const Padding1d&, const Padding1d&) = default;
};

struct Conv1dOptions {
    index_t in_channels = 1;
    index_t out_channels = 1;
    index_t kernel = 1;
    index_t stride = 1;
    Padding1d padding{};
    index_t dilation = 1;
    index_t groups = 1;
    bool bias = true;
};

/// One-dimensional convolution on (N, C, L). Parameters: weight (O, C/groups, K) and, with a bias, bias (O).
class Conv1d : public Cloneable<Conv1d, Weighted> {
public:
    explicit Conv1d(const Conv1dOptions& options);

    std::string type_name() const override { return "Conv1d"; }
    std::string operator_name() const override { return "conv1d"; }
    const Conv1dOptions& options() const noexcept { return options_; }
    /// The window of the same convolution on images of one row.
    Window2d window() const noexcept {
        return {{1, options_.kernel},
                {1, options_.stride},
                {0, options_.padding.before, 0, options_.padding.behind},
                {1, options_.dilation}};
    }
    INTQ_INLINE Tensor apply(const Tensor& x, const Tensor& weight) const override;
    static std::string fused_type_name(const Fusion& fusion);

private:
    Conv1dOptions options_;
};

struct ConvTranspose2dOptions {
    index_t in_channels = 1;
    index_t out_channels = 1;
    Window2d window{};  // the padding is cut off
    Size2d output_padding{0, 0};
    index_t groups = 1;
    bool bias = true;
};

/// Transposed convolution. Parameters: weight (C, O/groups, KH, KW) and, with a bias, bias (O).
class ConvTranspose2d : public Cloneable<ConvTranspose2d, Weighted> {
public:
    explicit ConvTranspose2d(const ConvTranspose2dOptions& options);

    std::string type_name() const override { return "ConvTranspose2d"; }
    std::string operator_name() const override { return "conv_transpose2d"; }
    const ConvTranspose2dOptions& options() const noexcept { return options_; }
    int weight_channel_axis() const noexcept override { return 1; }
    index_t out_channels() const override { return options_.out_channels; }
    INTQ_INLINE Tensor apply(const Tensor& x, const Tensor& weight) const override;
    static std::string fused_type_name(const Fusion& fusion);

private:
    ConvTranspose2dOptions options_;
};

struct ConvTranspose1dOptions {
    index_t in_channels = 1;
    index_t out_channels = 1;
    index_t kernel = 1;
    index_t stride = 1;
    Padding1d padding{};  // is cut off
    index_t output_padding = 0;
    index_t dilation = 1;
    index_t groups = 1;
    bool bias = true;
};

/// Transposed convolution on (N, C, L). Parameters: weight (C, O/groups, K) and, with a bias, bias (O).
class ConvTranspose1d : public Cloneable<ConvTranspose1d, Weighted> {
public:
    explicit ConvTranspose1d(const ConvTranspose1dOptions& options);

    std::string type_name() const override { return "ConvTranspose1d"; }
    std::string operator_name() const override { return "conv_transpose1d"; }
    const ConvTranspose1dOptions& options() const noexcept { return options_; }
    /// The same layer on images of one row.
    ConvTranspose2dOptions as_2d() const noexcept {
        const Window2d window{{1, options_.kernel},
                              {1, options_.stride},
                              {0, options_.padding.before, 0, options_.padding.behind},
                              {1, options_.dilation}};
        return {options_.in_channels,         options_.out_channels, window,
                {0, options_.output_padding}, options_.groups,       options_.bias};
    }
    int weight_channel_axis() const noexcept override { return 1; }
    index_t out_channels() const override { return options_.out_channels; }
    INTQ_INLINE Tensor apply(const Tensor& x, const Tensor& weight) const override;
    static std::string fused_type_name(const Fusion& fusion);

private:
    ConvTranspose1dOptions options_;
};

namespace detail {

/// Throws for an impossible window, and channels that cannot be split into groups.
void check_conv_options(const char* type, index_t in_channels, index_t out_channels, index_t groups,
                        const Window2d& window);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/conv.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_conv_options(const char* type, index_t in_channels, index_t out_channels, index_t groups,
                                    const Window2d& window) {
    throw_if_failed(check_window(window, OpKind::conv2d), type);
    if (groups < 1 || in_channels < 1 || out_channels < 1 || in_channels % groups != 0 || out_channels % groups != 0)
        throw Error(std::string(type) + ": " + std::to_string(in_channels) + " input and " +
                    std::to_string(out_channels) + " output channels cannot be split into " + std::to_string(groups) +
                    " groups");
}

}  // namespace detail

INTQ_INLINE Conv2d::Conv2d(const Conv2dOptions& options) : options_(options) {
    detail::check_conv_options("Conv2d", options.in_channels, options.out_channels, options.groups, options.window);
    add_weight(Shape(options.out_channels, options.in_channels / options.groups, options.window.kernel.height,
                     options.window.kernel.width),
               options.bias, options.out_channels);
}

INTQ_INLINE Tensor Conv2d::apply(const Tensor& x, const Tensor& weight) const {
    return float_operators::conv2d(x, weight, bias(), options_.window, options_.groups, &cache());
}

INTQ_INLINE std::string Conv2d::fused_type_name(const Fusion& fusion) { return "Conv" + name_of(fusion) + "2d"; }

INTQ_INLINE Conv1d::Conv1d(const Conv1dOptions& options) : options_(options) {
    detail::check_conv_options("Conv1d", options.in_channels, options.out_channels, options.groups, window());
    add_weight(Shape(options.out_channels, options.in_channels / options.groups, options.kernel), options.bias,
               options.out_channels);
}

INTQ_INLINE Tensor Conv1d::apply(const Tensor& x, const Tensor& weight) const {
    return float_operators::conv1d(x, weight, bias(), window(), options_.groups, &cache());
}

INTQ_INLINE std::string Conv1d::fused_type_name(const Fusion& fusion) { return "Conv" + name_of(fusion) + "1d"; }

INTQ_INLINE ConvTranspose2d::ConvTranspose2d(const ConvTranspose2dOptions& options) : options_(options) {
    detail::check_conv_options("ConvTranspose2d", options.in_channels, options.out_channels, options.groups,
                               options.window);
    add_weight(Shape(options.in_channels, options.out_channels / options.groups, options.window.kernel.height,
                     options.window.kernel.width),
               options.bias, options.out_channels);
}

INTQ_INLINE Tensor ConvTranspose2d::apply(const Tensor& x, const Tensor& weight) const {
    return float_operators::conv_transpose2d(x, weight, bias(), options_.window, options_.output_padding,
                                             options_.groups, &cache());
}

INTQ_INLINE ConvTranspose1d::ConvTranspose1d(const ConvTranspose1dOptions& options) : options_(options) {
    detail::check_conv_options("ConvTranspose1d", options.in_channels, options.out_channels, options.groups,
                               as_2d().window);
    add_weight(Shape(options.in_channels, options.out_channels / options.groups, options.kernel), options.bias,
               options.out_channels);
}

INTQ_INLINE Tensor ConvTranspose1d::apply(const Tensor& x, const Tensor& weight) const {
    return float_operators::conv_transpose1d(x, weight, bias(), as_2d().window, options_.output_padding,
                                             options_.groups, &cache());
}

INTQ_INLINE std::string ConvTranspose1d::fused_type_name(const Fusion& fusion) {
    return "ConvTranspose" + name_of(fusion) + "1d";
}

INTQ_INLINE std::string ConvTranspose2d::fused_type_name(const Fusion& fusion) {
    return "ConvTranspose" + name_of(fusion) + "2d";
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_CONV_HPP
