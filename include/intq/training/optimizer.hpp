// SPDX-License-Identifier: MIT
//
// Optimizers: SGD with momentum, Adam, AdamW, as PyTorch defines them. Layer: training.
#ifndef INTQ_TRAINING_OPTIMIZER_HPP
#define INTQ_TRAINING_OPTIMIZER_HPP

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "intq/core/shape.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// A tensor that an optimizer keeps for each parameter.
struct KeptTensor {
    const char* name = "";  // PyTorch's
    bool is_count = false;  // one int64; otherwise float32 of the parameter's shape
};

/// Moves parameters against their gradients, and keeps its state by parameter and name.
///
/// Only one thread at a time may use an object and its parameters.
class Optimizer {
public:
    /// The state of one parameter, by PyTorch's names.
    using ParameterState = std::map<std::string, Tensor>;
    /// The state of all, by the parameter's qualified name.
    using State = std::map<std::string, ParameterState>;

    virtual ~Optimizer() = default;

    /// PyTorch's name of the class: a checkpoint names it.
    virtual std::string type_name() const = 0;
    virtual std::vector<KeptTensor> kept_tensors() const = 0;

    /// One step, of all parameters or of none. A parameter without a gradient stays as it is, and so does its state.
    ///
    /// @param parameters  of the model, in its order; changed in place
    /// @param gradients   by qualified name
    ///
    /// Memory   while it runs, a second copy of the parameters and of the state
    /// @throws Error  for a gradient of another shape than its parameter; for a rate that is negative, NaN or infinite;
    ///                for a state that this optimizer could not have made; and where a parameter would become NaN or
    ///                infinite. Nothing is changed then
    void step(const std::vector<nn::Named<Tensor*>>& parameters, const std::map<std::string, Tensor>& gradients,
              double rate);

    const State& state() const noexcept { return state_; }
    void set_state(State state) { state_ = std::move(state); }
    /// Throws Error unless the state is empty or valid for this optimizer and a parameter of that shape.
    void check_state(const std::string& parameter, const Shape& shape, const ParameterState& state) const;
    /// The parameters subject to weight decay, by qualified name; all unless set.
    void set_decays(std::function<bool(const std::string&)> decays) { decays_ = std::move(decays); }

protected:
    virtual INTQ_INLINE void update(Tensor& parameter, std::span<const float> gradient, double rate,
                                    double weight_decay, ParameterState& state) const = 0;
    virtual double weight_decay() const = 0;

private:
    State state_;
    std::function<bool(const std::string&)> decays_;
};

struct SGDOptions {
    double momentum = 0.0;
    double dampening = 0.0;
    double weight_decay = 0.0;
    bool nesterov = false;
};

/// Stochastic gradient descent.
///
///     g = gradient + weight_decay · p
///     b = g at the first step, then momentum · b + (1 - dampening) · g
///     p = p - rate · (g + momentum · b if nesterov; b with momentum; g without)
///
/// Result   in double, state and parameter rounded to float32 once
/// Source   PyTorch's torch.optim.SGD
class SGD : public Optimizer {
public:
    /// Throws for an option that is negative, NaN or infinite, and for Nesterov without momentum or with dampening.
    explicit SGD(const SGDOptions& options = {});

    std::string type_name() const override { return "SGD"; }
    INTQ_INLINE std::vector<KeptTensor> kept_tensors() const override;

protected:
    double weight_decay() const override { return options_.weight_decay; }
    INTQ_INLINE void update(Tensor& parameter, std::span<const float> gradient, double rate, double weight_decay,
                            ParameterState& state) const override;

private:
    SGDOptions options_;
};

struct AdamOptions {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.0;
    bool decoupled = false;  // AdamW's decay, which bypasses the moments
};

/// Adam, and AdamW where `decoupled`.
///
///     p = p - rate · weight_decay · p if decoupled, else g = gradient + weight_decay · p
///     m = beta1 · m + (1 - beta1) · g,  v = beta2 · v + (1 - beta2) · g²
///     p = p - rate · (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
///
/// Result   in double, state and parameter rounded to float32 once
/// Source   Kingma, Ba 2015; Loshchilov, Hutter 2019; PyTorch's torch.optim.Adam and AdamW
class Adam : public Optimizer {
public:
    /// Throws for a beta outside [0, 1), and for another option that is negative, NaN or infinite.
    explicit Adam(const AdamOptions& options = {});

    std::string type_name() const override { return options_.decoupled ? "AdamW" : "Adam"; }
    INTQ_INLINE std::vector<KeptTensor> kept_tensors() const override;

protected:
    double weight_decay() const override { return options_.weight_decay; }
    INTQ_INLINE void update(Tensor& parameter, std::span<const float> gradient, double rate, double weight_decay,
                            ParameterState& state) const override;

private:
    AdamOptions options_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>

#    include "intq/core/dtype.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/state_dict.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_not_negative(const char* optimizer, const char* option, double value) {
    if (!(value >= 0.0 && std::isfinite(value)))
        throw Error(std::string(optimizer) + ": " + option + " must be 0 or above and finite, given " +
                    std::to_string(value));
}

INTQ_INLINE void check_finite(const std::string& parameter, const Tensor& value, double rate) {
    for (const float x : value.flat<float>())
        if (!std::isfinite(x))
            throw Error(parameter, "a step of rate " + std::to_string(rate) + " would make it NaN or infinite");
}

}  // namespace detail

INTQ_INLINE void Optimizer::step(const std::vector<nn::Named<Tensor*>>& parameters,
                                 const std::map<std::string, Tensor>& gradients, double rate) {
    detail::check_not_negative("Optimizer::step", "the rate", rate);
    for (const auto& parameter : parameters) {
        const auto found = gradients.find(parameter.name);
        if (found != gradients.end() && !(found->second.shape() == parameter.value->shape()))
            throw Error(parameter.name, "the gradient has shape " + to_string(found->second.shape()) +
                                            ", the parameter " + to_string(parameter.value->shape()));
    }
    struct Moved {
        Tensor value;
        ParameterState state;
    };
    std::vector<std::pair<nn::Named<Tensor*>, Moved>> moved;
    for (const auto& parameter : parameters) {
        const auto found = gradients.find(parameter.name);
        if (found == gradients.end()) continue;
        Moved next{parameter.value->clone(), {}};
        if (const auto kept = state_.find(parameter.name); kept != state_.end()) {
            check_state(parameter.name, parameter.value->shape(), kept->second);
            for (const auto& [name, tensor] : kept->second) next.state[name] = tensor.clone();
        }
        const Tensor gradient = found->second.contiguous();
        const double decay = decays_ && !decays_(parameter.name) ? 0.0 : weight_decay();
        update(next.value, gradient.flat<float>(), rate, decay, next.state);
        detail::check_finite(parameter.name, next.value, rate);
        moved.emplace_back(parameter, std::move(next));
    }
    for (auto& [parameter, next] : moved) {
        nn::assign(*parameter.value, next.value);
        state_[parameter.name] = std::move(next.state);
    }
}

INTQ_INLINE void Optimizer::check_state(const std::string& parameter, const Shape& shape,
                                        const ParameterState& state) const {
    if (state.empty()) return;
    const std::vector<KeptTensor> kept = kept_tensors();
    for (const auto& [name, tensor] : state) {
        const auto same_name = [&, &wanted = name](const KeptTensor& row) { return row.name == wanted; };
        const auto row = std::find_if(kept.begin(), kept.end(), same_name);
        if (row == kept.end())
            throw Error(parameter,
                        "its state has " + in_quotes(name) + ", which this " + type_name() + " does not keep");
        const DType dtype = row->is_count ? DType::int64 : DType::float32;
        const Shape expected = row->is_count ? Shape(1) : shape;
        if (!tensor.defined() || tensor.dtype() != dtype || !(tensor.shape() == expected))
            throw Error(parameter, "its state " + name + " must be " + name_of(dtype) + " " + to_string(expected) +
                                       (tensor.defined() ? std::string(", given ") + name_of(tensor.dtype()) + " " +
                                                               to_string(tensor.shape())
                                                         : std::string(", given nothing")));
        if (row->is_count && (tensor.flat<std::int64_t>()[0] < 0 || tensor.flat<std::int64_t>()[0] == INT64_MAX))
            throw Error(parameter,
                        "its state " + name + " cannot be " + std::to_string(tensor.flat<std::int64_t>()[0]));
        if (!row->is_count)
            for (const float value : tensor.contiguous().flat<float>())
                if (!std::isfinite(value)) throw Error(parameter, "its state " + name + " holds NaN or infinity");
    }
    for (const KeptTensor& row : kept)
        if (state.count(row.name) == 0) throw Error(parameter, std::string("its state lacks ") + row.name);
}

INTQ_INLINE std::vector<KeptTensor> SGD::kept_tensors() const {
    if (options_.momentum == 0.0) return {};
    return {{"momentum_buffer", false}};
}

INTQ_INLINE std::vector<KeptTensor> Adam::kept_tensors() const {
    return {{"step", true}, {"exp_avg", false}, {"exp_avg_sq", false}};
}

INTQ_INLINE SGD::SGD(const SGDOptions& options) : options_(options) {
    detail::check_not_negative("SGD", "momentum", options.momentum);
    detail::check_not_negative("SGD", "dampening", options.dampening);
    detail::check_not_negative("SGD", "weight_decay", options.weight_decay);
    if (options.nesterov && (options.momentum <= 0.0 || options.dampening != 0.0))
        throw Error("SGD: nesterov needs momentum and no dampening");
}

INTQ_INLINE void SGD::update(Tensor& parameter, std::span<const float> gradient, double rate, double weight_decay,
                             ParameterState& state) const {
    const auto values = parameter.flat<float>();
    const bool first = state.empty();
    Tensor buffer;
    if (options_.momentum != 0.0) {
        if (first) state["momentum_buffer"] = Tensor::zeros(parameter.shape());
        buffer = state["momentum_buffer"];
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto p = static_cast<double>(values[i]);
        double g = static_cast<double>(gradient[i]) + weight_decay * p;
        if (options_.momentum != 0.0) {
            float& kept = buffer.flat<float>()[i];
            const double b = first ? g : options_.momentum * static_cast<double>(kept) + (1.0 - options_.dampening) * g;
            kept = static_cast<float>(b);
            g = options_.nesterov ? g + options_.momentum * b : b;
        }
        values[i] = static_cast<float>(p - rate * g);
    }
}

INTQ_INLINE Adam::Adam(const AdamOptions& options) : options_(options) {
    for (const double* beta : {&options.beta1, &options.beta2})
        if (!(*beta >= 0.0 && *beta < 1.0))
            throw Error(std::string("Adam: ") + (beta == &options.beta1 ? "beta1" : "beta2") +
                        " must be at least 0 and below 1, given " + std::to_string(*beta));
    detail::check_not_negative("Adam", "eps", options.eps);
    detail::check_not_negative("Adam", "weight_decay", options.weight_decay);
}

INTQ_INLINE void Adam::update(Tensor& parameter, std::span<const float> gradient, double rate, double weight_decay,
                              ParameterState& state) const {
    if (state.empty()) {
        state["step"] = Tensor::zeros(Shape(1), DType::int64);
        state["exp_avg"] = Tensor::zeros(parameter.shape());
        state["exp_avg_sq"] = Tensor::zeros(parameter.shape());
    }
    const auto step = static_cast<double>(++state["step"].flat<std::int64_t>()[0]);
    const double first_bias = 1.0 - std::pow(options_.beta1, step), second_bias = 1.0 - std::pow(options_.beta2, step);
    const auto values = parameter.flat<float>(), means = state["exp_avg"].flat<float>(),
               squares = state["exp_avg_sq"].flat<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto p = static_cast<double>(values[i]);
        auto g = static_cast<double>(gradient[i]);
        if (options_.decoupled)
            p -= rate * weight_decay * p;
        else
            g += weight_decay * p;
        const double m = options_.beta1 * static_cast<double>(means[i]) + (1.0 - options_.beta1) * g;
        const double v = options_.beta2 * static_cast<double>(squares[i]) + (1.0 - options_.beta2) * g * g;
        means[i] = static_cast<float>(m);
        squares[i] = static_cast<float>(v);
        values[i] = static_cast<float>(p - rate * (m / first_bias) / (std::sqrt(v / second_bias) + options_.eps));
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_OPTIMIZER_HPP
