// SPDX-License-Identifier: MIT
//
// One direction of one layer of a long short-term memory. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_FUNCTIONAL_LSTM_HPP
#define INTQ_NN_FUNCTIONAL_LSTM_HPP

#include "intq/arith/lookup_table.hpp"
#include "intq/nn/functional/linear.hpp"

namespace intq::inline INTQ_ABI::nn::functional {

/// (4·H, I), (4·H, H), and both (4·H) or both undefined; the gates in the order input, forget, cell, output.
struct LstmWeights {
    Tensor weight_ih, weight_hh, bias_ih, bias_hh;
};

/// The outputs of all steps (L, N, H), and the state behind the last one, (N, H) each.
struct LstmResult {
    Tensor output, h, c;
};

/// Runs over a sequence.
///
///     [i f g o] = product_x(x) + product_h(h)
///     c = sigmoid(f)·c + sigmoid(i)·tanh(g),   h = sigmoid(o)·tanh(c)
///
/// @param x          (L, N, I)
/// @param width      H
/// @param product_x  from (L, N, I) to (L, N, 4·H), bias included: called once
/// @param product_h  from (N, H) to (N, 4·H), bias included: called at every step
/// @param h, c       (N, H): the state before the first step
/// @param reverse    from the last step to the first; output[t] still belongs to x[t]
///
/// Result   gates in double, h and c rounded once a step
template <class ProductX, class ProductH>
LstmResult lstm_layer_of(const Tensor& x, index_t width, const ProductX& product_x, const ProductH& product_h, Tensor h,
                         Tensor c, bool reverse = false) {
    const index_t steps = x.extent(0), batch = x.extent(1);
    for (const Tensor* state : {&h, &c})
        if (!(state->shape() == Shape(batch, width)))
            throw Error("lstm: a state has shape " + to_string(state->shape()) + ", expected " +
                        to_string(Shape(batch, width)));
    const Tensor from_x = product_x(x);
    Tensor output = Tensor::empty(Shape(steps, batch, width));
    c = c.clone();
    const auto sigmoid = [](double v) { return arith::table_function(arith::TableFunction::sigmoid, v); };
    for (index_t step = 0; step < steps; ++step) {
        const index_t t = reverse ? steps - 1 - step : step;
        const Tensor from_h = product_h(h);
        h = Tensor::empty(Shape(batch, width));
        for (index_t n = 0; n < batch; ++n)
            for (index_t k = 0; k < width; ++k) {
                const auto gate = [&](index_t which) {
                    const index_t at = n * 4 * width + which * width + k;
                    return static_cast<double>(from_x.flat<float>().data()[t * batch * 4 * width + at]) +
                           static_cast<double>(from_h.flat<float>().data()[at]);
                };
                float& cell = c.flat<float>().data()[n * width + k];
                cell = static_cast<float>(sigmoid(gate(1)) * static_cast<double>(cell) +
                                          sigmoid(gate(0)) * std::tanh(gate(2)));
                h.flat<float>().data()[n * width + k] =
                    static_cast<float>(sigmoid(gate(3)) * std::tanh(static_cast<double>(cell)));
            }
        std::copy_n(h.flat<float>().data(), batch * width, output.flat<float>().data() + t * batch * width);
    }
    return {output, h, c};
}

/// The same with the products W_ih·x + b_ih and W_hh·h + b_hh.
///
/// Result   products as linear()
inline LstmResult lstm_layer(const Tensor& x, const LstmWeights& weights, Tensor h, Tensor c, bool reverse = false) {
    return lstm_layer_of(
        x, weights.weight_hh.extent(1),
        [&](const Tensor& input) { return linear(input, weights.weight_ih, weights.bias_ih); },
        [&](const Tensor& state) { return linear(state, weights.weight_hh, weights.bias_hh); }, std::move(h),
        std::move(c), reverse);
}

}  // namespace intq::inline INTQ_ABI::nn::functional

#endif  // INTQ_NN_FUNCTIONAL_LSTM_HPP
