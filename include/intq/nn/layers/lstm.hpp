// SPDX-License-Identifier: MIT
//
// LSTM. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_LSTM_HPP
#define INTQ_NN_LAYERS_LSTM_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "intq/nn/float_operators/lstm.hpp"
#include "intq/nn/layers/move.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

struct LSTMOptions {
    index_t input_size = 1;
    index_t hidden_size = 1;
    index_t num_layers = 1;
    bool bias = true;
    bool batch_first = false;
    bool bidirectional = false;
    double dropout = 0.0;    // in training, of the output of each layer but the last one; in [0, 1)
    std::uint64_t seed = 0;  // of the dropout
};

/// Long short-term memory of several layers.
///
///     (output, (h_n, c_n)) = lstm(x[, (h_0, c_0)])
///
/// x is (L, N, input_size), output (L, N, D·hidden_size), or N before L with batch_first; the states are
/// (D·num_layers, N, hidden_size), and default to 0. D is 2 with bidirectional, else 1. Parameters: weight_ih_l<k>
/// (4·H, I), weight_hh_l<k> (4·H, H), with a bias bias_ih_l<k> and bias_hh_l<k> (4·H), each with the suffix _reverse
/// again for the way back. Their initial values are uniform in ±1/√H (initial_uniform()). The gates are input, forget,
/// cell, output. With dropout, the masks follow from the seed and the buffer `calls`, as in Dropout.
class LSTM : public Cloneable<LSTM> {
public:
    explicit LSTM(const LSTMOptions& options);

    std::string type_name() const override { return "LSTM"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE std::vector<std::string> input_names() const override;
    /// The output, and the tuple of the states.
    int output_count() const override { return 2; }
    const LSTMOptions& options() const noexcept { return options_; }
    index_t directions() const noexcept { return options_.bidirectional ? 2 : 1; }
    /// "_l0", "_l0_reverse", "_l1", …: the suffix of the parameters of a layer and direction.
    static std::string suffix_of(index_t layer, index_t direction);
    float_operators::LstmWeights weights(index_t layer, index_t direction) const;
    INTQ_INLINE Value forward(Arguments arguments) override;
    /// Whether forward drops elements between the layers.
    bool is_dropping() const noexcept { return training() && options_.dropout != 0.0 && options_.num_layers > 1; }
    /// The mask on the output of a layer in call number `call`, counted from 0.
    DropoutMask dropout_mask(std::int64_t call, index_t layer) const noexcept {
        return DropoutMask::of_call(options_.seed, call * options_.num_layers + layer, options_.dropout);
    }

protected:
    /// One direction of one layer.
    virtual INTQ_INLINE float_operators::LstmResult run_layer(const Tensor& x, index_t layer, index_t direction,
                                                              const Tensor& h, const Tensor& c) const;

private:
    // The number of this call of the dropout; -1 where it does not drop.
    std::int64_t begin_call();
    // h_0 or c_0.
    Tensor initial_state(const Arguments& arguments, std::size_t which, index_t batch) const;

    LSTMOptions options_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/move.hpp"
#    include "intq/nn/layers/initial_weights.hpp"
#    include "intq/nn/model/tape.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Tensor LSTM::initial_state(const Arguments& arguments, std::size_t which, index_t batch) const {
    const Shape expected(directions() * options_.num_layers, batch, options_.hidden_size);
    if (!arguments.has(1))
        return arguments.tensor(0).lacks_values() ? Tensor::of_shape(expected) : Tensor::zeros(expected);
    const Value::Tuple& states = arguments[1].tuple();
    if (states.size() != 2) throw Error("LSTM: the state is (h, c), given " + std::to_string(states.size()) + " items");
    if (!(states[which].tensor().shape() == expected))
        throw Error(std::string("LSTM: the state ") + (which == 0 ? "h" : "c") + " has shape " +
                    to_string(states[which].tensor().shape()) + ", expected " + to_string(expected));
    return states[which].tensor();
}

INTQ_INLINE Value LSTM::forward(Arguments arguments) {
    Tensor x = arguments.tensor(0);
    if (x.rank() != 3 || x.extent(2) != options_.input_size)
        throw Error("LSTM: the input has shape " + to_string(x.shape()) + ", expected rank 3 and " +
                    std::to_string(options_.input_size) + " features");
    if (options_.batch_first) x = float_operators::transpose(x, 0, 1);
    const index_t batch = x.extent(1);
    const Tensor h_0 = initial_state(arguments, 0, batch), c_0 = initial_state(arguments, 1, batch);
    const std::int64_t call = begin_call();
    std::vector<Tensor> h_n, c_n;
    const Shape state(1, batch, options_.hidden_size);
    for (index_t layer = 0; layer < options_.num_layers; ++layer) {
        std::vector<Tensor> outputs;
        for (index_t direction = 0; direction < directions(); ++direction) {
            const index_t at = layer * directions() + direction;
            const auto result = run_layer(x, layer, direction, float_operators::select(h_0, 0, at),
                                          float_operators::select(c_0, 0, at));
            outputs.push_back(result.output);
            h_n.push_back(result.h.reshape(state));
            c_n.push_back(result.c.reshape(state));
        }
        x = outputs.size() == 1 ? outputs[0] : float_operators::cat(outputs, 2);
        if (call >= 0 && layer + 1 < options_.num_layers) x = dropout_mask(call, layer).apply_to<float>(x);
    }
    if (options_.batch_first) x = float_operators::transpose(x, 0, 1);
    return Value::Tuple{x, Value::Tuple{float_operators::cat(h_n, 0), float_operators::cat(c_n, 0)}};
}

INTQ_INLINE std::int64_t LSTM::begin_call() {
    if (!is_dropping()) return -1;
    const std::int64_t call = tensor("calls").flat<std::int64_t>()[0];
    keep_on_tape(*this, "call", call);
    tensor("calls") = Tensor::from(Shape(1), {call + 1});
    return call;
}

INTQ_INLINE LSTM::LSTM(const LSTMOptions& options) : options_(options) {
    if (options.input_size < 1 || options.hidden_size < 1 || options.num_layers < 1)
        throw Error("LSTM: sizes and the number of layers must be at least 1, given " +
                    std::to_string(options.input_size) + ", " + std::to_string(options.hidden_size) + " and " +
                    std::to_string(options.num_layers));
    if (!(options.dropout >= 0.0 && options.dropout < 1.0))
        throw Error("LSTM: dropout must be in [0, 1), given " + std::to_string(options.dropout));
    if (options.dropout != 0.0) add_buffer("calls", Tensor::zeros(Shape(1), DType::int64), false);
    const index_t gates = 4 * options.hidden_size;
    for (index_t layer = 0; layer < options.num_layers; ++layer)
        for (index_t direction = 0; direction < directions(); ++direction) {
            const std::string suffix = suffix_of(layer, direction);
            const index_t in = layer == 0 ? options.input_size : directions() * options.hidden_size;
            const auto add = [&](const std::string& name, const Shape& shape) {
                add_parameter(name + suffix, initial_uniform(shape, options.hidden_size));
            };
            add("weight_ih", Shape(gates, in));
            add("weight_hh", Shape(gates, options.hidden_size));
            if (!options.bias) continue;
            add("bias_ih", Shape(gates));
            add("bias_hh", Shape(gates));
        }
}

INTQ_INLINE std::vector<std::string> LSTM::input_names() const { return {"input", "hx"}; }

INTQ_INLINE std::string LSTM::suffix_of(index_t layer, index_t direction) {
    return "_l" + std::to_string(layer) + (direction == 0 ? "" : "_reverse");
}

INTQ_INLINE float_operators::LstmWeights LSTM::weights(index_t layer, index_t direction) const {
    const std::string suffix = suffix_of(layer, direction);
    const auto bias = [&](const char* name) { return options_.bias ? tensor(name + suffix) : Tensor(); };
    return {tensor("weight_ih" + suffix), tensor("weight_hh" + suffix), bias("bias_ih"), bias("bias_hh")};
}

INTQ_INLINE float_operators::LstmResult LSTM::run_layer(const Tensor& x, index_t layer, index_t direction,
                                                        const Tensor& h, const Tensor& c) const {
    return float_operators::lstm_layer(x, weights(layer, direction), h, c, direction == 1);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_LSTM_HPP
