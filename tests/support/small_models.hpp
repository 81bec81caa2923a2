// SPDX-License-Identifier: MIT
//
// Small models with fixed random weights, for tests of graphs and quantization.
#ifndef INTQ_TESTS_SUPPORT_SMALL_MODELS_HPP
#define INTQ_TESTS_SUPPORT_SMALL_MODELS_HPP

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "intq/nn.hpp"

namespace intq::test {

/// Normally distributed values of a generator with a given seed.
inline intq::Tensor random_tensor(const Shape& shape, unsigned seed, float deviation = 1.0f) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> distribution(0.0f, deviation);
    intq::Tensor tensor = intq::Tensor::empty(shape);
    for (float& value : tensor.flat<float>()) value = distribution(generator);
    return tensor;
}

inline std::shared_ptr<nn::Conv2d> make_conv(index_t in, index_t out, index_t kernel, unsigned seed, index_t stride = 1,
                                             index_t groups = 1, bool bias = true) {
    auto conv = std::make_shared<nn::Conv2d>(
        nn::Conv2dOptions{in, out, nn::square_window(kernel, stride, kernel / 2), groups, bias});
    conv->set_weight(random_tensor(conv->weight().shape(), seed, 0.4f));
    if (bias) conv->set_bias(random_tensor(Shape(out), seed + 1000));
    return conv;
}

inline std::shared_ptr<nn::Linear> make_linear(index_t in, index_t out, unsigned seed) {
    auto linear = std::make_shared<nn::Linear>(nn::LinearOptions{in, out});
    linear->set_weight(random_tensor(Shape(out, in), seed, 0.4f));
    linear->set_bias(random_tensor(Shape(out), seed + 1000));
    return linear;
}

/// A batch norm with statistics that are not those of a new one.
template <class BatchNorm> std::shared_ptr<BatchNorm> make_batch_norm(index_t channels, unsigned seed) {
    auto norm = std::make_shared<BatchNorm>(nn::BatchNormOptions{channels});
    norm->tensor("weight") = random_tensor(Shape(channels), seed);
    norm->tensor("bias") = random_tensor(Shape(channels), seed + 1);
    norm->tensor("running_mean") = random_tensor(Shape(channels), seed + 2);
    intq::Tensor variance = random_tensor(Shape(channels), seed + 3);
    for (float& value : variance.flat<float>()) value = value * value + 0.5f;
    norm->tensor("running_var") = variance;
    return norm;
}

/// A user's own layer, of which only float is known: y = x + relu(x).
struct UserLayer : nn::Cloneable<UserLayer> {
    std::string type_name() const override { return "UserLayer"; }
    nn::Value forward(nn::Arguments arguments) override { return arguments[0] + nn::relu(arguments[0]); }
};
inline nn::ModulePtr make_user_layer() { return std::make_shared<nn::Leaf<UserLayer>>(); }

/// A model whose forward is a lambda over its children.
class LambdaModel : public nn::Cloneable<LambdaModel> {
public:
    using Forward = std::function<nn::Value(LambdaModel&, nn::Arguments)>;

    LambdaModel(std::initializer_list<std::pair<std::string, nn::ModulePtr>> children, Forward forward,
                std::vector<std::string> inputs = {"x"})
        : forward_(std::move(forward)), inputs_(std::move(inputs)) {
        for (const auto& [name, module] : children) add_child(name, module);
    }
    std::string type_name() const override { return "LambdaModel"; }
    std::vector<std::string> input_names() const override { return inputs_; }
    nn::Value forward(nn::Arguments arguments) override { return forward_(*this, arguments); }

private:
    Forward forward_;
    std::vector<std::string> inputs_;
};

inline std::shared_ptr<LambdaModel> make_model(std::initializer_list<std::pair<std::string, nn::ModulePtr>> children,
                                               LambdaModel::Forward forward, std::vector<std::string> inputs = {"x"}) {
    auto model = std::make_shared<LambdaModel>(children, std::move(forward), std::move(inputs));
    model->eval();
    return model;
}

/// conv-bn-relu, conv-bn-add-relu, with one ReLU that is called twice, as in torchvision's networks.
struct BasicBlock : nn::Cloneable<BasicBlock> {
    BasicBlock(index_t channels, unsigned seed) {
        add_child("conv1", make_conv(channels, channels, 3, seed, 1, 1, false));
        add_child("bn1", make_batch_norm<nn::BatchNorm2d>(channels, seed + 10));
        add_child("relu", std::make_shared<nn::ReLU>());
        add_child("conv2", make_conv(channels, channels, 3, seed + 20, 1, 1, false));
        add_child("bn2", make_batch_norm<nn::BatchNorm2d>(channels, seed + 30));
        add_child("skip_add", std::make_shared<nn::FloatFunctional>());
    }
    std::string type_name() const override { return "BasicBlock"; }
    nn::Value forward(nn::Arguments arguments) override {
        nn::Value y = call("relu", call("bn1", call("conv1", arguments[0])));
        y = call("bn2", call("conv2", y));
        return call("relu", nn::call_add(*this, "skip_add", y, arguments[0]));
    }
};

/// stem, a residual block, a depthwise stage, global average, a linear classifier; with stubs.
struct ResidualNet : nn::Cloneable<ResidualNet> {
    explicit ResidualNet(index_t channels = 8, index_t classes = 5) {
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("stem", make_conv(3, channels, 3, 1, 1, 1, false));
        add_child("bn", make_batch_norm<nn::BatchNorm2d>(channels, 2));
        add_child("layer1",
                  std::make_shared<nn::Sequential>(std::initializer_list<nn::ModulePtr>{
                      std::make_shared<BasicBlock>(channels, 100), std::make_shared<BasicBlock>(channels, 200)}));
        add_child("depthwise", make_conv(channels, channels, 3, 3, 2, channels));
        add_child("pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
        add_child("flatten", std::make_shared<nn::Flatten>());
        add_child("fc", make_linear(channels, classes, 4));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "ResidualNet"; }
    nn::Value forward(nn::Arguments arguments) override {
        nn::Value y = nn::relu(call("bn", call("stem", call("quant", arguments[0]))));
        y = nn::relu6(call("depthwise", call("layer1", y)));
        return call("dequant", call("fc", call("flatten", call("pool", y))));
    }
};

/// embedding, two layers of LSTM and a decoder: (ids, (h, c)) to (scores, (h, c)).
struct LanguageModel : nn::Cloneable<LanguageModel> {
    LanguageModel() {
        add_child("encoder", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{10, 8}));
        add_child("rnn",
                  std::make_shared<nn::LSTM>(nn::LSTMOptions{.input_size = 8, .hidden_size = 6, .num_layers = 2}));
        add_child("decoder", make_linear(6, 10, 3));
        unsigned seed = 40;
        for (const auto& parameter : named_parameters())
            *parameter.value = random_tensor(parameter.value->shape(), seed++, 0.3f);
        eval();
    }
    std::string type_name() const override { return "LanguageModel"; }
    std::vector<std::string> input_names() const override { return {"ids", "hidden"}; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value both = call("rnn", call("encoder", x[0]), x[1]);
        return nn::Value::Tuple{call("decoder", both.tuple()[0]), both.tuple()[1]};
    }
};

/// 10·lg(sum x² / sum (x - y)²) of what is expected and what is given, in dB; infinite where they are equal.
inline double sqnr(const intq::Tensor& expected, const intq::Tensor& given) {
    const intq::Tensor x = expected.contiguous(), y = given.contiguous();
    double signal = 0.0, noise = 0.0;
    for (std::size_t i = 0; i < x.flat<float>().size(); ++i) {
        const double p = static_cast<double>(x.flat<float>()[i]), q = static_cast<double>(y.flat<float>()[i]);
        signal += p * p, noise += (p - q) * (p - q);
    }
    return noise == 0.0 ? std::numeric_limits<double>::infinity() : 10.0 * std::log10(signal / noise);
}

/// The message of the exception that `act` throws; "nothing was thrown" otherwise.
template <class Exception, class Act> std::string message_of(const Act& act) {
    try {
        act();
    } catch (const Exception& error) {
        return error.what();
    }
    return "nothing was thrown";
}

/// The elements of a tensor of real numbers or of indices.
inline std::vector<double> elements_of(const intq::Tensor& tensor) {
    const intq::Tensor x = tensor.contiguous();
    std::vector<double> values;
    const auto take = [&](const auto from) {
        for (const auto value : from) values.push_back(static_cast<double>(value));
    };
    if (x.dtype() == DType::int64)
        take(x.flat<std::int64_t>());
    else if (x.dtype() == DType::int32)
        take(x.flat<std::int32_t>());
    else
        take(x.flat<float>());
    return values;
}

inline double largest_difference(const intq::Tensor& a, const intq::Tensor& b) {
    if (!(a.shape() == b.shape())) return std::numeric_limits<double>::infinity();
    double largest = 0;
    const std::vector<double> p = elements_of(a), q = elements_of(b);
    for (std::size_t i = 0; i < p.size(); ++i) largest = std::max(largest, std::abs(p[i] - q[i]));
    return largest;
}

/// A model between a QuantStub and a DeQuantStub, in evaluation.
inline nn::ModulePtr stubbed(std::initializer_list<std::pair<std::string, nn::ModulePtr>> children,
                             LambdaModel::Forward body) {
    const auto model = make_model(children, [body](LambdaModel& m, nn::Arguments x) {
        const std::array<nn::Value, 1> inner{m.call("quant", x[0])};
        return m.call("dequant", body(m, nn::Arguments(inner)));
    });
    model->add_child("quant", std::make_shared<nn::QuantStub>());
    model->add_child("dequant", std::make_shared<nn::DeQuantStub>());
    model->eval();
    return model;
}

/// A network of which three of eight channels of `first` are dead: two by their bias, one by its weights, whose bias is
/// a code above zero. `second` reads them without padding, and `third` reads only some of its outputs.
struct HalfDeadNet : nn::Cloneable<HalfDeadNet> {
    HalfDeadNet() {
        const auto first = make_conv(3, 8, 3, 1), second = make_conv(8, 6, 1, 2), third = make_conv(6, 5, 3, 3);
        intq::Tensor weight = first->weight(), bias = first->bias();
        for (const index_t dead : {1, 4}) bias.flat<float>()[static_cast<std::size_t>(dead)] = -1000.0f;
        for (std::size_t i = 0; i < 27; ++i) weight.flat<float>()[6 * 27 + i] = 0.0f;
        bias.flat<float>()[6] = 1.0f;
        first->set_weight(weight);
        first->set_bias(bias);
        weight = third->weight();
        for (std::size_t o = 0; o < 5; ++o)
            for (std::size_t tap = 0; tap < 9; ++tap) weight.flat<float>()[(o * 6 + 2) * 9 + tap] = 0.0f;
        third->set_weight(weight);
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("first", first);
        add_child("second", second);
        add_child("third", third);
        add_child("pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
        add_child("flatten", std::make_shared<nn::Flatten>());
        add_child("fc", make_linear(5, 4, 4));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "HalfDeadNet"; }
    nn::Value forward(nn::Arguments arguments) override {
        nn::Value y = nn::relu(call("first", call("quant", arguments[0])));
        y = call("third", nn::relu(call("second", y)));
        return call("dequant", call("fc", call("flatten", call("pool", y))));
    }
};

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_SMALL_MODELS_HPP
