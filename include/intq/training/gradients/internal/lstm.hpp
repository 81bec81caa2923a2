// SPDX-License-Identifier: MIT
//
// Gradients of a long short-term memory: backward through time. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_LSTM_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_LSTM_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/lstm.hpp"
#include "intq/nn/float_operators/move.hpp"
#include "intq/nn/layers/lstm.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"
#include "intq/training/gradients/internal/elementwise.hpp"
#include "intq/training/gradients/internal/linear.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// One direction of one layer, as its forward pass left it.
struct LstmLayerCall {
    Tensor x, h_0, c_0;  // (L, N, I), (N, H), (N, H)
    nn::float_operators::LstmWeights weights;
    bool reverse = false;
    nn::float_operators::LstmResult result{};
    nn::float_operators::LstmTrace trace{};
};

/// The gradients of a layer's inputs and parameters; both biases share one.
struct LstmGradients {
    Tensor x, h_0, c_0, weight_ih, weight_hh, bias;
};

/// Backward through time, with the gates i, f, g, o after their functions:
///
///     dc += dh · o · (1 - tanh(c)²)
///     di = dc · g · i(1 - i),  df = dc · c' · f(1 - f),  dg = dc · i · (1 - g²),  do = dh · tanh(c) · o(1 - o)
///     dh' = [di df dg do] · W_hh,  dc' = dc · f                              c', h': of the step before
///
/// @param output  (L, N, H); h_n, c_n (N, H): the gradients of the result
template <class T>
LstmGradients lstm_layer_gradients(const LstmLayerCall& call, const Tensor& output, const Tensor& h_n,
                                   const Tensor& c_n);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

/// The elements of one step: (N, W) of (L, N, W).
Tensor step_of(const Tensor& x, index_t t);

/// [di df dg do] of one step; `dc` becomes the gradient of the cells of the step before.
template <class T>
Tensor lstm_step_gradients(const Tensor& gates, const Tensor& cells, const Tensor& cells_before, const Tensor& dh,
                           Tensor& dc) {
    Tensor result = Tensor::empty(gates.shape(), dtype_of<T>);
    const index_t width = dh.extent(1);
    const auto gate = gates.view<T, 2>();
    const auto to = result.view<T, 2>();
    for (index_t at = 0; at < dh.size(); ++at) {
        const index_t n = at / width, k = at % width;
        const auto of = [&](const Tensor& t) { return static_cast<double>(t.flat<T>().data()[at]); };
        const auto value = [&](index_t which) { return static_cast<double>(gate(n, which * width + k)); };
        const double i = value(0), f = value(1), g = value(2), o = value(3), tanh_c = std::tanh(of(cells));
        const double cell = of(dc) + of(dh) * o * (1 - tanh_c * tanh_c);
        to(n, k) = static_cast<T>(cell * g * i * (1 - i));
        to(n, width + k) = static_cast<T>(cell * of(cells_before) * f * (1 - f));
        to(n, 2 * width + k) = static_cast<T>(cell * i * (1 - g * g));
        to(n, 3 * width + k) = static_cast<T>(of(dh) * tanh_c * o * (1 - o));
        dc.flat<T>().data()[at] = static_cast<T>(cell * f);
    }
    return result;
}

/// The gradient, or zeros where it is missing.
template <class T> Tensor or_zeros(const Tensor& gradient, const Shape& shape) {
    return gradient.defined() ? gradient : Tensor::zeros(shape, dtype_of<T>);
}

/// The layers' calls in order, run again on T: (layer, direction) at layer · directions + direction.
///
/// @param call_number  of the dropout, from the tape; none where nothing was dropped
template <class T>
std::vector<LstmLayerCall> lstm_calls(const nn::LSTM& lstm, Tensor x, const nn::Arguments& inputs,
                                      const nn::Value& call_number) {
    const nn::LSTMOptions& options = lstm.options();
    const index_t directions = lstm.directions();
    const Shape state(directions * options.num_layers, x.extent(1), options.hidden_size);
    const auto initial = [&](std::size_t which) {
        return inputs.has(1) ? inputs[1].tuple().at(which).tensor() : Tensor::zeros(state, dtype_of<T>);
    };
    const Tensor h_0 = initial(0), c_0 = initial(1);
    std::vector<LstmLayerCall> calls;
    for (index_t layer = 0; layer < options.num_layers; ++layer) {
        std::vector<Tensor> outputs;
        for (index_t direction = 0; direction < directions; ++direction) {
            LstmLayerCall call{x, step_of(h_0, static_cast<index_t>(calls.size())),
                               step_of(c_0, static_cast<index_t>(calls.size())), lstm.weights(layer, direction),
                               direction == 1};
            call.result = nn::float_operators::lstm_layer<T>(x, call.weights, call.h_0, call.c_0, call.reverse,
                                                             &linear<T>, &call.trace);
            outputs.push_back(call.result.output);
            calls.push_back(std::move(call));
        }
        x = outputs.size() == 1 ? outputs[0] : nn::float_operators::cat(outputs, 2);
        if (!call_number.is_none() && layer + 1 < options.num_layers)
            x = lstm.dropout_mask(call_number.integer(), layer).template apply_to<T>(x);
    }
    return calls;
}

template <class T>
void add_lstm_parameters(GradientContext& context, const LstmLayerCall& call, const LstmGradients& g) {
    context.add_parameter(call.weights.weight_ih, g.weight_ih);
    context.add_parameter(call.weights.weight_hh, g.weight_hh);
    if (!call.weights.bias_ih.defined()) return;
    context.add_parameter(call.weights.bias_ih, g.bias);
    context.add_parameter(call.weights.bias_hh, g.bias);
}

/// Outputs and their gradients: the sequence, h_n, c_n.
template <class T> void lstm_backward(GradientContext& context) {
    const auto& lstm = context.module_as<nn::LSTM>();
    const nn::LSTMOptions& options = lstm.options();
    const auto by_step = [&](const Tensor& t) {
        return options.batch_first ? nn::float_operators::transpose(t, 0, 1) : t;
    };
    const Tensor x = by_step(context.input(0));
    const index_t directions = lstm.directions(), width = options.hidden_size;
    const nn::Value call_number = context.kept("call");
    const auto calls = lstm_calls<T>(lstm, x, context.inputs(), call_number);
    const Shape states(static_cast<index_t>(calls.size()), x.extent(1), width);
    Tensor dy = or_zeros<T>(context.gradient(0).defined() ? by_step(context.gradient(0)) : Tensor(),
                            Shape(x.extent(0), x.extent(1), directions * width));
    const Tensor dh = or_zeros<T>(context.gradient(1), states), dc = or_zeros<T>(context.gradient(2), states);
    std::vector<Tensor> dh_0(calls.size()), dc_0(calls.size());
    for (index_t layer = options.num_layers; layer-- > 0;) {
        Tensor dx;
        for (index_t direction = 0; direction < directions; ++direction) {
            const index_t at = layer * directions + direction;
            const auto k = static_cast<std::size_t>(at);
            const LstmGradients g = lstm_layer_gradients<T>(
                calls[k], nn::float_operators::slice(dy, 2, direction * width, (direction + 1) * width),
                step_of(dh, at), step_of(dc, at));
            dx = dx.defined() ? sum_of<T>(dx, g.x) : g.x;
            dh_0[k] = g.h_0.reshape(Shape(1, x.extent(1), width));
            dc_0[k] = g.c_0.reshape(Shape(1, x.extent(1), width));
            add_lstm_parameters<T>(context, calls[k], g);
        }
        dy = dx;
        if (!call_number.is_none() && layer > 0)
            dy = lstm.dropout_mask(call_number.integer(), layer - 1).template apply_to<T>(dy);
    }
    context.add_input(0, by_step(dy));
    if (!context.inputs().has(1)) return;
    context.add_input(1, nn::float_operators::cat(dh_0, 0), 0);
    context.add_input(1, nn::float_operators::cat(dc_0, 0), 1);
}

}  // namespace detail

template <class T>
LstmGradients lstm_layer_gradients(const LstmLayerCall& call, const Tensor& output, const Tensor& h_n,
                                   const Tensor& c_n) {
    const index_t steps = call.x.extent(0), batch = call.x.extent(1), width = h_n.extent(1);
    Tensor dgates = Tensor::empty(call.trace.gates.shape(), dtype_of<T>);
    Tensor before = Tensor::empty(Shape(steps, batch, width), dtype_of<T>);  // h of the step before each
    const auto keep = [&](const Tensor& from, Tensor& to, index_t t) {
        std::copy_n(from.template flat<T>().data(), from.size(), to.template flat<T>().data() + t * from.size());
    };
    const Tensor by_state = transpose<T>(call.weights.weight_hh.contiguous());
    Tensor dh = h_n, dc = c_n.contiguous().clone();
    for (index_t step = steps; step-- > 0;) {
        const auto at = [&](index_t s) { return call.reverse ? steps - 1 - s : s; };
        const auto state_before = [&](const Tensor& all, const Tensor& first) {
            return step == 0 ? first.contiguous() : detail::step_of(all, at(step - 1));
        };
        dh = sum_of<T>(dh, detail::step_of(output, at(step)));
        const Tensor gradient = detail::lstm_step_gradients<T>(detail::step_of(call.trace.gates, at(step)),
                                                               detail::step_of(call.trace.cells, at(step)),
                                                               state_before(call.trace.cells, call.c_0), dh, dc);
        keep(gradient, dgates, at(step));
        keep(state_before(call.result.output, call.h_0), before, at(step));
        dh = multiply_rows<T>(gradient, by_state);
    }
    const ProductGradients of_x = linear_gradients<T>(call.x, call.weights.weight_ih, dgates);
    const ProductGradients of_h = linear_gradients<T>(before, call.weights.weight_hh, dgates, {false, false});
    return {of_x.input, dh, dc, of_x.weight, of_h.weight, of_x.bias};
}

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training_gradients)

namespace detail {

INTQ_INLINE Tensor step_of(const Tensor& x, index_t t) {
    return x.batch(t, 1).reshape(Shape(x.extent(1), x.extent(2)));
}

}  // namespace detail

#endif  // INTQ_DEFINES(training_gradients)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_LSTM_HPP
