// SPDX-License-Identifier: MIT
//
// One direction of one layer of a long short-term memory. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_LSTM_HPP
#define INTQ_NN_FLOAT_OPERATORS_LSTM_HPP

#include <array>
#include <cstring>
#include <utility>

#include "intq/arith/ieee.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// (4·H, I), (4·H, H), and both (4·H) or both undefined; the gates in the order input, forget, cell, output.
struct LstmWeights {
    Tensor weight_ih, weight_hh, bias_ih, bias_hh;
};

/// The outputs of all steps (L, N, H), and the state after the last one, (N, H) each.
struct LstmResult {
    Tensor output, h, c;
};

/// The results of the steps for the backward pass: the gates after their functions (L, N, 4·H) in the order of the
/// weights, and the cells (L, N, H).
struct LstmTrace {
    Tensor gates, cells;
};

namespace detail {

/// The functions of the gates input, forget, cell, output.
std::array<double, 4> lstm_gates(const std::array<double, 4>& sums);
/// o·tanh(c)
double lstm_hidden(double output_gate, double cell);
/// Throws where a state is not (N, H).
void check_lstm_state(const Tensor& state, index_t batch, index_t width);

}  // namespace detail

/// Runs over a sequence.
///
///     [i f g o] = product_x(x) + product_h(h)
///     c = sigmoid(f)·c + sigmoid(i)·tanh(g),   h = sigmoid(o)·tanh(c)
///
/// @tparam T          float or double: the dtype of all tensors
/// @param x           (L, N, I)
/// @param width       H
/// @param product_x   from (L, N, I) to (L, N, 4·H), bias included: called once
/// @param product_h   from (N, H) to (N, 4·H), bias included: called at every step
/// @param h, c        (N, H): the state before the first step
/// @param reverse     from the last step to the first; output[t] still belongs to x[t]
/// @param trace       optional
///
/// Result   gates in double, h and c rounded once per step
template <class T, class ProductX, class ProductH>
LstmResult lstm_layer_of(const Tensor& x, index_t width, const ProductX& product_x, const ProductH& product_h, Tensor h,
                         Tensor c, bool reverse = false, LstmTrace* trace = nullptr) {
    const index_t steps = x.extent(0), batch = x.extent(1);
    for (const Tensor* state : {&h, &c}) detail::check_lstm_state(*state, batch, width);
    const Tensor from_x = product_x(x);
    if (from_x.lacks_values() || h.lacks_values() || c.lacks_values())
        return {Tensor::of_shape(Shape(steps, batch, width), dtype_of<T>), Tensor::of_shape(h.shape(), dtype_of<T>),
                Tensor::of_shape(c.shape(), dtype_of<T>)};
    Tensor output = Tensor::empty(Shape(steps, batch, width), dtype_of<T>);
    if (trace != nullptr) *trace = {Tensor::empty(from_x.shape(), dtype_of<T>), output.clone()};
    c = c.clone();
    for (index_t step = 0; step < steps; ++step) {
        const index_t t = reverse ? steps - 1 - step : step;
        const Tensor from_h = product_h(h);
        h = Tensor::empty(Shape(batch, width), dtype_of<T>);
        for (index_t n = 0; n < batch; ++n)
            for (index_t k = 0; k < width; ++k) {
                const auto place = [&](index_t which) { return n * 4 * width + which * width + k; };
                const auto sum = [&](index_t which) {
                    return static_cast<double>(from_x.template flat<T>().data()[t * batch * 4 * width + place(which)]) +
                           static_cast<double>(from_h.template flat<T>().data()[place(which)]);
                };
                const std::array<double, 4> gates = detail::lstm_gates({sum(0), sum(1), sum(2), sum(3)});
                T& cell = c.flat<T>().data()[n * width + k];
                cell =
                    static_cast<T>(arith::dmul(gates[1], static_cast<double>(cell)) + arith::dmul(gates[0], gates[2]));
                h.flat<T>().data()[n * width + k] =
                    static_cast<T>(detail::lstm_hidden(gates[3], static_cast<double>(cell)));
                for (index_t which = 0; trace != nullptr && which < 4; ++which)
                    trace->gates.flat<T>().data()[t * batch * 4 * width + place(which)] =
                        static_cast<T>(gates[static_cast<std::size_t>(which)]);
            }
        const auto keep = [&](const Tensor& from, Tensor& to) {
            std::memcpy(to.flat<T>().data() + t * batch * width, from.template flat<T>().data(),
                        static_cast<std::size_t>(from.bytes()));
        };
        keep(h, output);
        if (trace != nullptr) keep(c, trace->cells);
    }
    return {output, h, c};
}

/// The same with the products W_ih·x + b_ih and W_hh·h + b_hh.
///
/// @param product  product(x, weight, bias): a linear layer
///
/// Result   products as `product`
template <class T, class Product>
LstmResult lstm_layer(const Tensor& x, const LstmWeights& weights, Tensor h, Tensor c, bool reverse,
                      const Product& product, LstmTrace* trace = nullptr) {
    return lstm_layer_of<T>(
        x, weights.weight_hh.extent(1),
        [&](const Tensor& input) { return product(input, weights.weight_ih, weights.bias_ih); },
        [&](const Tensor& state) { return product(state, weights.weight_hh, weights.bias_hh); }, std::move(h),
        std::move(c), reverse, trace);
}

/// The same for float32 tensors, with the products of linear().
LstmResult lstm_layer(const Tensor& x, const LstmWeights& weights, Tensor h, Tensor c, bool reverse = false);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include "intq/arith/unary.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/linear.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::array<double, 4> lstm_gates(const std::array<double, 4>& sums) {
    const auto sigmoid = [](double v) { return arith::table_function(TableFunction::sigmoid, v); };
    return {sigmoid(sums[0]), sigmoid(sums[1]), arith::real_tanh(sums[2]), sigmoid(sums[3])};
}

INTQ_INLINE double lstm_hidden(double output_gate, double cell) { return output_gate * arith::real_tanh(cell); }

INTQ_INLINE void check_lstm_state(const Tensor& state, index_t batch, index_t width) {
    if (!(state.shape() == Shape(batch, width)))
        throw Error("lstm: a state has shape " + to_string(state.shape()) + ", expected " +
                    to_string(Shape(batch, width)));
}

}  // namespace detail

INTQ_INLINE LstmResult lstm_layer(const Tensor& x, const LstmWeights& weights, Tensor h, Tensor c, bool reverse) {
    const auto product = [](const Tensor& input, const Tensor& weight, const Tensor& bias) {
        return linear(input, weight, bias);
    };
    return lstm_layer<float>(x, weights, std::move(h), std::move(c), reverse, product);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_LSTM_HPP
