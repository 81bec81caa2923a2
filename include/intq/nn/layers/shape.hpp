// SPDX-License-Identifier: MIT
//
// Flatten, Identity, Dropout: layers that move or pass values. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_LAYERS_SHAPE_HPP
#define INTQ_NN_LAYERS_SHAPE_HPP

#include <random>

#include "intq/nn/functional.hpp"
#include "intq/nn/module.hpp"

namespace intq::inline INTQ_ABI::nn {

/// Joins the axes start_axis to end_axis, inclusive.
class Flatten : public Cloneable<Flatten> {
public:
    explicit Flatten(int start_axis = 1, int end_axis = -1) : start_axis_(start_axis), end_axis_(end_axis) {}

    std::string type_name() const override { return "Flatten"; }
    bool is_leaf() const override { return true; }
    Value forward(Arguments arguments) override {
        return functional::flatten(arguments.tensor(0), start_axis_, end_axis_);
    }
    int start_axis() const noexcept { return start_axis_; }
    int end_axis() const noexcept { return end_axis_; }

private:
    int start_axis_, end_axis_;
};

class Identity : public Cloneable<Identity> {
public:
    std::string type_name() const override { return "Identity"; }
    bool is_leaf() const override { return true; }
    Value forward(Arguments arguments) override { return arguments[0]; }
};

/// In training each element is 0 with probability p and x/(1-p) otherwise; in evaluation x itself.
class Dropout : public Cloneable<Dropout> {
public:
    explicit Dropout(double p = 0.5, std::uint64_t seed = 0) : p_(p), generator_(seed) {
        if (!(p >= 0.0 && p < 1.0)) throw Error("Dropout: p must be in [0, 1), given " + std::to_string(p));
    }

    std::string type_name() const override { return "Dropout"; }
    bool is_leaf() const override { return true; }
    Value forward(Arguments arguments) override {
        if (!training() || p_ == 0.0) return arguments[0];
        // Taken from the generator's bits, because std::bernoulli_distribution differs between standard libraries.
        const auto kept_below = static_cast<std::uint64_t>((1.0 - p_) * 4294967296.0);
        Tensor y = arguments.tensor(0).clone();
        y.set_qparams(std::nullopt);
        for (float& value : y.flat<float>())
            value = (generator_() & 0xffffffffu) < kept_below
                        ? static_cast<float>(static_cast<double>(value) / (1.0 - p_))
                        : 0.0f;
        return y;
    }

private:
    double p_;
    std::mt19937_64 generator_;
};

}  // namespace intq::inline INTQ_ABI::nn

#endif  // INTQ_NN_LAYERS_SHAPE_HPP
