// SPDX-License-Identifier: MIT
//
// ReLU, ReLU6, Softmax. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_LAYERS_ACTIVATION_HPP
#define INTQ_NN_LAYERS_ACTIVATION_HPP

#include "intq/nn/functional.hpp"
#include "intq/nn/module.hpp"

namespace intq::inline INTQ_ABI::nn {

class ReLU : public Cloneable<ReLU> {
public:
    std::string type_name() const override { return "ReLU"; }
    bool is_leaf() const override { return true; }
    Value forward(Arguments arguments) override { return functional::relu(arguments.tensor(0)); }
};

class ReLU6 : public Cloneable<ReLU6> {
public:
    std::string type_name() const override { return "ReLU6"; }
    bool is_leaf() const override { return true; }
    Value forward(Arguments arguments) override { return functional::relu6(arguments.tensor(0)); }
};

/// Softmax along one axis; from_axis is for files that mean "along this axis and all after it, as one".
class Softmax : public Cloneable<Softmax> {
public:
    explicit Softmax(int axis, bool from_axis = false) : axis_(axis), from_axis_(from_axis) {}

    std::string type_name() const override { return "Softmax"; }
    bool is_leaf() const override { return true; }
    int axis() const noexcept { return axis_; }
    bool is_from_axis() const noexcept { return from_axis_; }
    Value forward(Arguments arguments) override {
        const Tensor& x = arguments.tensor(0);
        if (!from_axis_) return functional::softmax(x, axis_);
        return functional::softmax(functional::flatten(x, axis_, -1), axis_ < 0 ? -1 : axis_).reshape(x.shape());
    }

private:
    int axis_;
    bool from_axis_;
};

}  // namespace intq::inline INTQ_ABI::nn

#endif  // INTQ_NN_LAYERS_ACTIVATION_HPP
