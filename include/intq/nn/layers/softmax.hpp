// SPDX-License-Identifier: MIT
//
// Softmax and its logarithm as functions on Values and as layers. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_SOFTMAX_HPP
#define INTQ_NN_LAYERS_SOFTMAX_HPP

#include <span>
#include <string>

#include "intq/nn/model/call.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

Value evaluate_softmax(std::span<const Value> values);
Value evaluate_log_softmax(std::span<const Value> values);

}  // namespace detail

inline constexpr Function softmax_function{"softmax", &detail::evaluate_softmax};
inline constexpr Function log_softmax_function{"log_softmax", &detail::evaluate_log_softmax};

Value softmax(const Value& x, int axis);
Value log_softmax(const Value& x, int axis);

/// Softmax along one axis; from_axis is for files that mean "along this axis and all after it, as one".
class Softmax : public Cloneable<Softmax> {
public:
    explicit Softmax(int axis, bool from_axis = false) : axis_(axis), from_axis_(from_axis) {}

    std::string type_name() const override { return "Softmax"; }
    bool is_leaf() const override { return true; }
    int axis() const noexcept { return axis_; }
    bool is_from_axis() const noexcept { return from_axis_; }
    INTQ_INLINE Value forward(Arguments arguments) override;

private:
    int axis_;
    bool from_axis_;
};

/// The logarithm of a softmax along one axis.
class LogSoftmax : public Cloneable<LogSoftmax> {
public:
    explicit LogSoftmax(int axis) : axis_(axis) {}

    std::string type_name() const override { return "LogSoftmax"; }
    bool is_leaf() const override { return true; }
    int axis() const noexcept { return axis_; }
    INTQ_INLINE Value forward(Arguments arguments) override;

private:
    int axis_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/nn/float_operators/move.hpp"
#    include "intq/nn/float_operators/softmax.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Value evaluate_softmax(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::softmax(arguments.tensor(0), static_cast<int>(arguments[1].integer()));
}

INTQ_INLINE Value evaluate_log_softmax(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::log_softmax(arguments.tensor(0), static_cast<int>(arguments[1].integer()));
}

}  // namespace detail

INTQ_INLINE Value softmax(const Value& x, int axis) { return call(softmax_function, x, axis); }
INTQ_INLINE Value log_softmax(const Value& x, int axis) { return call(log_softmax_function, x, axis); }

INTQ_INLINE Value LogSoftmax::forward(Arguments arguments) {
    return float_operators::log_softmax(arguments.tensor(0), axis_);
}

INTQ_INLINE Value Softmax::forward(Arguments arguments) {
    const Tensor& x = arguments.tensor(0);
    if (!from_axis_) return float_operators::softmax(x, axis_);
    return float_operators::softmax(float_operators::flatten(x, axis_, -1), axis_ < 0 ? -1 : axis_).reshape(x.shape());
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_SOFTMAX_HPP
