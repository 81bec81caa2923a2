// SPDX-License-Identifier: MIT
//
// MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, and the same along one axis. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_POOL_HPP
#define INTQ_NN_LAYERS_POOL_HPP

#include <string>

#include "intq/core/op_params.hpp"
#include "intq/nn/float_operators/pool.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

class MaxPool2d : public Cloneable<MaxPool2d> {
public:
    /// @param ceil_mode  one more window for the rest of an image that the windows do not cover
    explicit MaxPool2d(const Window2d& window, bool ceil_mode = false);

    std::string type_name() const override { return "MaxPool2d"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    const Window2d& window() const noexcept { return window_; }
    bool ceil_mode() const noexcept { return ceil_mode_; }
    /// The window on images of a size: with ceil_mode it may reach further at the end.
    INTQ_INLINE Window2d window_on(Size2d in) const noexcept;

private:
    Window2d window_;
    bool ceil_mode_;
};

/// PoolDivisor::kernel_cells is PyTorch's count_include_pad = true.
class AvgPool2d : public Cloneable<AvgPool2d> {
public:
    /// @param ceil_mode  as of MaxPool2d; cells beyond the padding count in no divisor
    explicit AvgPool2d(const Window2d& window, PoolDivisor divisor = PoolDivisor::kernel_cells, bool ceil_mode = false);

    std::string type_name() const override { return "AvgPool2d"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    const Window2d& window() const noexcept { return window_; }
    PoolDivisor divisor() const noexcept { return divisor_; }
    bool ceil_mode() const noexcept { return ceil_mode_; }
    /// Window and divisor on images of a size.
    INTQ_INLINE float_operators::AverageWindow window_on(Size2d in) const noexcept;

private:
    Window2d window_;
    PoolDivisor divisor_;
    bool ceil_mode_;
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

/// A window along one axis.
struct PoolWindow1d {
    index_t kernel = 1, stride = 1;
    index_t padding_before = 0, padding_after = 0;
    index_t dilation = 1;
    /// The same on images of one row.
    INTQ_INLINE Window2d on_rows() const noexcept;
};

/// The pools of (N, C, L), computed as pools of images of one row.
class MaxPool1d : public Cloneable<MaxPool1d, MaxPool2d> {
public:
    explicit MaxPool1d(const PoolWindow1d& window, bool ceil_mode = false);
    std::string type_name() const override { return "MaxPool1d"; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

class AvgPool1d : public Cloneable<AvgPool1d, AvgPool2d> {
public:
    explicit AvgPool1d(const PoolWindow1d& window, PoolDivisor divisor = PoolDivisor::kernel_cells,
                       bool ceil_mode = false);
    std::string type_name() const override { return "AvgPool1d"; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

class AdaptiveAvgPool1d : public Cloneable<AdaptiveAvgPool1d, AdaptiveAvgPool2d> {
public:
    explicit AdaptiveAvgPool1d(index_t output);
    std::string type_name() const override { return "AdaptiveAvgPool1d"; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE MaxPool2d::MaxPool2d(const Window2d& window, bool ceil_mode) : window_(window), ceil_mode_(ceil_mode) {
    throw_if_failed(check_window(window, OpKind::max_pool2d), "MaxPool2d");
}

INTQ_INLINE Window2d MaxPool2d::window_on(Size2d in) const noexcept {
    return ceil_mode_ ? float_operators::ceil_window(window_, in) : window_;
}

INTQ_INLINE Value MaxPool2d::forward(Arguments arguments) {
    const Tensor& x = arguments.tensor(0);
    return float_operators::max_pool2d(x, x.rank() == 4 ? window_on({x.extent(2), x.extent(3)}) : window_);
}

INTQ_INLINE AvgPool2d::AvgPool2d(const Window2d& window, PoolDivisor divisor, bool ceil_mode)
    : window_(window), divisor_(divisor), ceil_mode_(ceil_mode) {
    throw_if_failed(check_window(window, OpKind::avg_pool2d), "AvgPool2d");
}

INTQ_INLINE float_operators::AverageWindow AvgPool2d::window_on(Size2d in) const noexcept {
    const float_operators::AverageWindow average{window_, divisor_, {}};
    return ceil_mode_ ? float_operators::ceil_average(average, in) : average;
}

INTQ_INLINE Value AvgPool2d::forward(Arguments arguments) {
    const Tensor& x = arguments.tensor(0);
    const auto average =
        x.rank() == 4 ? window_on({x.extent(2), x.extent(3)}) : float_operators::AverageWindow{window_, divisor_, {}};
    return float_operators::avg_pool2d(x, average);
}

INTQ_INLINE AdaptiveAvgPool2d::AdaptiveAvgPool2d(Size2d output) : output_(output) {
    if (output.height < 1 || output.width < 1)
        throw Error("AdaptiveAvgPool2d: the height and width of the output must be at least 1, given " +
                    std::to_string(output.height) + " and " + std::to_string(output.width));
}

INTQ_INLINE Value AdaptiveAvgPool2d::forward(Arguments arguments) {
    return float_operators::adaptive_avg_pool2d(arguments.tensor(0), output_);
}

INTQ_INLINE Window2d PoolWindow1d::on_rows() const noexcept {
    return {{1, kernel}, {1, stride}, {0, padding_before, 0, padding_after}, {1, dilation}};
}

INTQ_INLINE MaxPool1d::MaxPool1d(const PoolWindow1d& window, bool ceil_mode) : Cloneable(window.on_rows(), ceil_mode) {}

INTQ_INLINE Value MaxPool1d::forward(Arguments arguments) {
    return float_operators::pool_line(arguments.tensor(0), "max_pool1d", [&](const Tensor& image) {
        return float_operators::max_pool2d(image, window_on({1, image.extent(3)}));
    });
}

INTQ_INLINE AvgPool1d::AvgPool1d(const PoolWindow1d& window, PoolDivisor divisor, bool ceil_mode)
    : Cloneable(window.on_rows(), divisor, ceil_mode) {}

INTQ_INLINE Value AvgPool1d::forward(Arguments arguments) {
    return float_operators::pool_line(arguments.tensor(0), "avg_pool1d", [&](const Tensor& image) {
        return float_operators::avg_pool2d(image, window_on({1, image.extent(3)}));
    });
}

INTQ_INLINE AdaptiveAvgPool1d::AdaptiveAvgPool1d(index_t output) : Cloneable(Size2d{1, output}) {}

INTQ_INLINE Value AdaptiveAvgPool1d::forward(Arguments arguments) {
    return float_operators::pool_line(arguments.tensor(0), "adaptive_avg_pool1d", [&](const Tensor& image) {
        return float_operators::adaptive_avg_pool2d(image, output());
    });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_POOL_HPP
