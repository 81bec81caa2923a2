// SPDX-License-Identifier: MIT
//
// BatchNorm1d, BatchNorm2d and BatchNorm3d, with or without a clamp; LayerNorm, RMSNorm, GroupNorm and InstanceNorm.
// Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_NORM_HPP
#define INTQ_NN_LAYERS_NORM_HPP

#include <string>

#include "intq/core/op_params.hpp"
#include "intq/nn/layers/fusion.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

struct ChannelMoments;
struct NormRuns;

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

struct BatchNormOptions {
    index_t num_features = 1;
    double eps = 1e-5;
    double momentum = 0.1;
};

/// Batch normalization over the channels of (N, C, …). Parameters weight and bias, buffers running_mean and
/// running_var, each (C).
///
/// In evaluation the running statistics are used. In training the batch's are used, and the running ones move: `v +=
/// momentum·(batch - v)`, with the variance divided by count - 1.
class BatchNorm : public Module, public FusedFrom {
public:
    explicit BatchNorm(const BatchNormOptions& options);

    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    const BatchNormOptions& options() const noexcept { return options_; }
    /// Fused into it.
    virtual Activation activation() const { return Activation::none; }

    /// A frozen layer uses its running statistics and keeps them, in training too; train() does not thaw it.
    void freeze_statistics(bool on = true) noexcept { frozen_ = on; }
    bool uses_batch_statistics() const noexcept { return training() && !frozen_; }
    /// PyTorch's state has num_batches_tracked as well, which is never read here.
    INTQ_INLINE void adapt_state(std::vector<Named<Tensor>>& state) const override;
    /// Refuses impossible running statistics: NaN, infinity, a negative variance.
    INTQ_INLINE void tensors_changed() override;

protected:
    virtual bool accepts_rank(int rank) const = 0;

private:
    void update_running(const float_operators::ChannelMoments& moments);

    BatchNormOptions options_;
    bool frozen_ = false;
};

/// On (N, C, H, W).
class BatchNorm2d : public Cloneable<BatchNorm2d, BatchNorm> {
public:
    using Cloneable::Cloneable;
    std::string type_name() const override { return "BatchNorm2d"; }

protected:
    INTQ_INLINE bool accepts_rank(int rank) const override;
};

/// On (N, C) or (N, C, L).
class BatchNorm1d : public Cloneable<BatchNorm1d, BatchNorm> {
public:
    using Cloneable::Cloneable;
    std::string type_name() const override { return "BatchNorm1d"; }

protected:
    INTQ_INLINE bool accepts_rank(int rank) const override;
};

/// On (N, C, D, H, W).
class BatchNorm3d : public Cloneable<BatchNorm3d, BatchNorm> {
public:
    using Cloneable::Cloneable;
    std::string type_name() const override { return "BatchNorm3d"; }

protected:
    INTQ_INLINE bool accepts_rank(int rank) const override;
};

/// "BNReLU2d" for a relu behind "BatchNorm2d".
std::string fused_norm_name(const std::string& norm, Activation activation);

/// BNReLU2d, BNReLU62d and the like: a batch norm with a clamp behind it.
///
/// @tparam Norm  BatchNorm1d, BatchNorm2d or BatchNorm3d
template <class Norm> class FusedBatchNorm : public Cloneable<FusedBatchNorm<Norm>, Norm> {
public:
    FusedBatchNorm(const Norm& norm, Activation activation)
        : Cloneable<FusedBatchNorm<Norm>, Norm>(norm), activation_(activation) {}
    std::string type_name() const override { return fused_norm_name(Norm::type_name(), activation_); }
    Activation activation() const override { return activation_; }

private:
    Activation activation_;
};

using FusedBatchNorm2d = FusedBatchNorm<BatchNorm2d>;

/// What normalizations by the moments of a sample have in common. Parameters weight and bias, where there are some, are
/// for each feature; they start as 1 and 0.
class RunNorm : public Module {
public:
    bool is_leaf() const override { return true; }
    double eps() const noexcept { return eps_; }
    /// Whether the mean is subtracted.
    virtual bool is_centered() const noexcept { return true; }
    virtual bool has_weight() const noexcept { return true; }
    virtual bool has_bias() const noexcept { return is_centered(); }
    /// What is normalized together; throws an Error naming the type for an input that does not fit.
    virtual float_operators::NormRuns runs_of(const Tensor& x) const = 0;

protected:
    /// @param type  for messages
    /// @throws Error naming the type for an eps that is negative or not finite
    RunNorm(const char* type, double eps);

private:
    double eps_;
};

/// Normalizes over the last axes, which have the shape `normalized_shape`.
class LastAxesNorm : public RunNorm {
public:
    /// @throws Error naming the type for a shape without elements
    LastAxesNorm(const char* type, const Shape& normalized_shape, double eps);
    const Shape& normalized_shape() const noexcept { return normalized_shape_; }
    INTQ_INLINE float_operators::NormRuns runs_of(const Tensor& x) const override;

private:
    Shape normalized_shape_;
};

/// nn::float_operators::layer_norm()
class LayerNorm : public Cloneable<LayerNorm, LastAxesNorm> {
public:
    explicit LayerNorm(const Shape& normalized_shape, double eps = 1e-5);

    std::string type_name() const override { return "LayerNorm"; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

/// nn::float_operators::rms_norm(). The default of eps is PyTorch's, the distance of 1 from the next float.
class RMSNorm : public Cloneable<RMSNorm, LastAxesNorm> {
public:
    explicit RMSNorm(const Shape& normalized_shape, double eps = 0x1p-23);

    std::string type_name() const override { return "RMSNorm"; }
    bool is_centered() const noexcept override { return false; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

/// nn::float_operators::group_norm() over groups of channels.
class ChannelsNorm : public RunNorm {
public:
    /// @throws Error naming the type for channels that are not a multiple of the groups
    ChannelsNorm(const char* type, index_t groups, index_t channels, double eps, bool affine);
    index_t num_groups() const noexcept { return groups_; }
    index_t num_channels() const noexcept { return channels_; }
    bool has_weight() const noexcept override { return affine_; }
    bool has_bias() const noexcept override { return affine_; }
    virtual bool accepts_rank(int rank) const { return rank >= 2; }
    INTQ_INLINE float_operators::NormRuns runs_of(const Tensor& x) const override;
    INTQ_INLINE Value forward(Arguments arguments) override;

private:
    index_t groups_, channels_;
    bool affine_;
};

class GroupNorm : public Cloneable<GroupNorm, ChannelsNorm> {
public:
    /// @param affine  whether there are weight and bias
    GroupNorm(index_t num_groups, index_t num_channels, double eps = 1e-5, bool affine = true);

    std::string type_name() const override { return "GroupNorm"; }
};

struct InstanceNormOptions {
    index_t num_features = 1;
    double eps = 1e-5;
    bool affine = false;  // whether there are weight and bias
};

/// A group norm with a group for each channel: InstanceNorm1d, InstanceNorm2d, InstanceNorm3d of (N, C, …), not of a
/// sample alone. Statistics of batches are not tracked.
template <int Rank> class InstanceNorm : public Cloneable<InstanceNorm<Rank>, ChannelsNorm> {
public:
    explicit InstanceNorm(const InstanceNormOptions& options)
        : Cloneable<InstanceNorm<Rank>, ChannelsNorm>("InstanceNorm", options.num_features, options.num_features,
                                                      options.eps, options.affine) {}
    std::string type_name() const override { return "InstanceNorm" + std::to_string(Rank) + "d"; }
    bool accepts_rank(int rank) const override { return rank == Rank + 2; }
};
using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include <cmath>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"
#    include "intq/nn/float_operators/norm.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_eps(const char* layer, double eps) {
    if (!(eps >= 0.0) || !std::isfinite(eps))
        throw Error(layer, "eps must be finite and not negative, given " + std::to_string(eps));
}

}  // namespace detail

INTQ_INLINE Value BatchNorm::forward(Arguments arguments) {
    const Tensor& x = arguments.tensor(0);
    if (!accepts_rank(x.rank()) || x.extent(1) != options_.num_features)
        throw Error(type_name() + ": the input has shape " + to_string(x.shape()) + ", expected " +
                    std::to_string(options_.num_features) + " channels");
    float_operators::ChannelMoments moments;
    if (uses_batch_statistics()) {
        moments = float_operators::channel_moments(x);
        update_running(moments);
    } else {
        const auto mean = tensor("running_mean").flat<float>(), variance = tensor("running_var").flat<float>();
        moments.mean.assign(mean.begin(), mean.end());
        moments.variance.assign(variance.begin(), variance.end());
    }
    return float_operators::activate(
        float_operators::batch_norm(x, moments.mean, moments.variance, tensor("weight"), tensor("bias"), options_.eps),
        activation());
}

INTQ_INLINE void BatchNorm::tensors_changed() {
    for (const float mean : tensor("running_mean").flat<float>())
        if (!std::isfinite(mean)) throw Error(type_name() + ": its running_mean is NaN or infinite");
    for (const float variance : tensor("running_var").flat<float>())
        if (!(variance >= 0.0f) || !std::isfinite(variance))
            throw Error(type_name() + ": its running_var is negative, NaN or infinite");
}

INTQ_INLINE void BatchNorm::update_running(const float_operators::ChannelMoments& moments) {
    const auto mean = tensor("running_mean").flat<float>(), variance = tensor("running_var").flat<float>();
    const auto count = static_cast<double>(moments.count);
    const double unbiased = moments.count > 1 ? count / (count - 1) : 1.0;
    for (std::size_t c = 0; c < mean.size(); ++c) {
        const auto move = [&](float& running, double batch) {
            const auto old = static_cast<double>(running);
            running = static_cast<float>(old + options_.momentum * (batch - old));
        };
        move(mean[c], moments.mean[c]);
        move(variance[c], moments.variance[c] * unbiased);
    }
}

INTQ_INLINE void BatchNorm::adapt_state(std::vector<Named<Tensor>>& state) const {
    std::erase_if(state, [](const Named<Tensor>& item) { return item.name == "num_batches_tracked"; });
}

INTQ_INLINE BatchNorm::BatchNorm(const BatchNormOptions& options) : options_(options) {
    if (options.num_features < 1)
        throw Error("BatchNorm: num_features must be at least 1, given " + std::to_string(options.num_features));
    detail::check_eps("BatchNorm", options.eps);
    if (!std::isfinite(options.momentum))
        throw Error("BatchNorm: momentum must be finite, given " + std::to_string(options.momentum));
    add_parameter("weight", Tensor::full(Shape(options.num_features), 1.0f));
    add_parameter("bias", Tensor::zeros(Shape(options.num_features)));
    add_buffer("running_mean", Tensor::zeros(Shape(options.num_features)));
    add_buffer("running_var", Tensor::full(Shape(options.num_features), 1.0f));
}

INTQ_INLINE bool BatchNorm2d::accepts_rank(int rank) const { return rank == 4; }
INTQ_INLINE bool BatchNorm1d::accepts_rank(int rank) const { return rank == 2 || rank == 3; }

INTQ_INLINE bool BatchNorm3d::accepts_rank(int rank) const { return rank == 5; }

INTQ_INLINE std::string fused_norm_name(const std::string& norm, Activation activation) {
    return "BN" + name_of(Fusion{false, activation}) + norm.substr(norm.size() - 2);
}

INTQ_INLINE RunNorm::RunNorm(const char* type, double eps) : eps_(eps) { detail::check_eps(type, eps); }

INTQ_INLINE LastAxesNorm::LastAxesNorm(const char* type, const Shape& normalized_shape, double eps)
    : RunNorm(type, eps), normalized_shape_(normalized_shape) {
    if (normalized_shape.rank < 1 || normalized_shape.size() < 1)
        throw Error(std::string(type) + ": the normalized shape " + to_string(normalized_shape) + " has no elements");
    add_parameter("weight", Tensor::full(normalized_shape, 1.0f));
}

INTQ_INLINE float_operators::NormRuns LastAxesNorm::runs_of(const Tensor& x) const {
    const int axes = normalized_shape_.rank;
    for (int axis = 1; axis <= axes; ++axis)
        if (axis > x.rank() || x.extent(-axis) != normalized_shape_[axes - axis])
            throw Error(type_name() + ": the input has shape " + to_string(x.shape()) + ", expected " +
                        to_string(normalized_shape_) + " at its end");
    return float_operators::detail::last_axes_runs("layer_norm", x, axes);
}

INTQ_INLINE LayerNorm::LayerNorm(const Shape& normalized_shape, double eps)
    : Cloneable("LayerNorm", normalized_shape, eps) {
    add_parameter("bias", Tensor::zeros(normalized_shape));
}

INTQ_INLINE Value LayerNorm::forward(Arguments arguments) {
    const Tensor& x = arguments.tensor(0);
    runs_of(x);
    return float_operators::layer_norm(x, normalized_shape().rank, tensor("weight"), tensor("bias"), eps());
}

INTQ_INLINE RMSNorm::RMSNorm(const Shape& normalized_shape, double eps) : Cloneable("RMSNorm", normalized_shape, eps) {}

INTQ_INLINE Value RMSNorm::forward(Arguments arguments) {
    const Tensor& x = arguments.tensor(0);
    runs_of(x);
    return float_operators::rms_norm(x, normalized_shape().rank, tensor("weight"), eps());
}

INTQ_INLINE ChannelsNorm::ChannelsNorm(const char* type, index_t groups, index_t channels, double eps, bool affine)
    : RunNorm(type, eps), groups_(groups), channels_(channels), affine_(affine) {
    if (groups < 1 || channels < 1 || channels % groups != 0)
        throw Error(std::string(type) + ": " + std::to_string(channels) + " channels are not a multiple of " +
                    std::to_string(groups) + " groups");
    if (!affine) return;
    add_parameter("weight", Tensor::full(Shape(channels), 1.0f));
    add_parameter("bias", Tensor::zeros(Shape(channels)));
}

INTQ_INLINE float_operators::NormRuns ChannelsNorm::runs_of(const Tensor& x) const {
    if (!accepts_rank(x.rank()))
        throw Error(type_name() + ": the input has shape " + to_string(x.shape()) +
                    ", which is not of samples with channels and the axes of this layer");
    if (x.extent(1) != channels_)
        throw Error(type_name() + ": the input has shape " + to_string(x.shape()) + ", expected " +
                    std::to_string(channels_) + " channels");
    return float_operators::detail::group_runs("group_norm", x, groups_);
}

INTQ_INLINE Value ChannelsNorm::forward(Arguments arguments) {
    const Tensor& x = arguments.tensor(0);
    runs_of(x);
    return float_operators::group_norm(x, groups_, affine_ ? tensor("weight") : Tensor(),
                                       affine_ ? tensor("bias") : Tensor(), eps());
}

INTQ_INLINE GroupNorm::GroupNorm(index_t num_groups, index_t num_channels, double eps, bool affine)
    : Cloneable("GroupNorm", num_groups, num_channels, eps, affine) {}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_NORM_HPP
