// SPDX-License-Identifier: MIT
//
// MaxPool2d, AvgPool2d, AdaptiveAvgPool2d. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_POOL_HPP
#define INTQ_NN_LAYERS_POOL_HPP

#include <string>

#include "intq/core/op_params.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

class MaxPool2d : public Cloneable<MaxPool2d> {
public:
    explicit MaxPool2d(const Window2d& window);

    std::string type_name() const override { return "MaxPool2d"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    const Window2d& window() const noexcept { return window_; }

private:
    Window2d window_;
};

/// PoolDivisor::kernel_cells is PyTorch's count_include_pad = true.
class AvgPool2d : public Cloneable<AvgPool2d> {
public:
    explicit AvgPool2d(const Window2d& window, PoolDivisor divisor = PoolDivisor::kernel_cells);

    std::string type_name() const override { return "AvgPool2d"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    const Window2d& window() const noexcept { return window_; }
    PoolDivisor divisor() const noexcept { return divisor_; }

private:
    Window2d window_;
    PoolDivisor divisor_;
};

/// Average pooling to a given output size; {1, 1} is the global average.
class AdaptiveAvgPool2d : public Cloneable<AdaptiveAvgPool2d> {
public:
    explicit AdaptiveAvgPool2d(Size2d output);

    std::string type_name() const override { return "AdaptiveAvgPool2d"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    Size2d output() const noexcept { return output_; }

private:
    Size2d output_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/pool.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE MaxPool2d::MaxPool2d(const Window2d& window) : window_(window) {
    throw_if_failed(check_window(window, OpKind::max_pool2d), "MaxPool2d");
}

INTQ_INLINE Value MaxPool2d::forward(Arguments arguments) {
    return float_operators::max_pool2d(arguments.tensor(0), window_);
}

INTQ_INLINE AvgPool2d::AvgPool2d(const Window2d& window, PoolDivisor divisor) : window_(window), divisor_(divisor) {
    throw_if_failed(check_window(window, OpKind::avg_pool2d), "AvgPool2d");
}

INTQ_INLINE Value AvgPool2d::forward(Arguments arguments) {
    return float_operators::avg_pool2d(arguments.tensor(0), window_, divisor_);
}

INTQ_INLINE AdaptiveAvgPool2d::AdaptiveAvgPool2d(Size2d output) : output_(output) {
    if (output.height < 1 || output.width < 1)
        throw Error("AdaptiveAvgPool2d: the height and width of the output must be at least 1, given " +
                    std::to_string(output.height) + " and " + std::to_string(output.width));
}

INTQ_INLINE Value AdaptiveAvgPool2d::forward(Arguments arguments) {
    return float_operators::adaptive_avg_pool2d(arguments.tensor(0), output_);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_POOL_HPP
