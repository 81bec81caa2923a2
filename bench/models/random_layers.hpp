// SPDX-License-Identifier: MIT
//
// Layers with random weights, for networks whose speed and structure count but not their answers.
#ifndef INTQ_BENCH_MODELS_RANDOM_LAYERS_HPP
#define INTQ_BENCH_MODELS_RANDOM_LAYERS_HPP

#include <cmath>
#include <memory>
#include <random>

#include "intq/nn.hpp"

namespace intq_bench {

/// Makes layers from one generator: the same seed gives the same network.
///
/// Weights are normal with variance 2 / fan-in and statistics of batch norms near those of a new one, so that
/// activations keep their size through any depth (He et al. 2015, "Delving deep into rectifiers").
class RandomLayers {
public:
    explicit RandomLayers(unsigned seed) : generator_(seed) {}

    intq::Tensor normal(const intq::Shape& shape, double mean, double deviation) {
        std::normal_distribution<float> distribution(static_cast<float>(mean), static_cast<float>(deviation));
        intq::Tensor tensor = intq::Tensor::empty(shape);
        for (float& value : tensor.flat<float>()) value = distribution(generator_);
        return tensor;
    }

    /// Without a bias and padded by half its kernel, as in front of a batch norm.
    intq::nn::ModulePtr conv(intq::index_t in, intq::index_t out, intq::index_t kernel, intq::index_t stride = 1,
                             intq::index_t groups = 1) {
        using intq::nn::Conv2d, intq::nn::Conv2dOptions;
        auto layer = std::make_shared<Conv2d>(
            Conv2dOptions{in, out, intq::nn::square_window(kernel, stride, kernel / 2), groups, false});
        const auto fan_in = static_cast<double>(in / groups * kernel * kernel);
        layer->set_weight(normal(layer->weight().shape(), 0.0, std::sqrt(2.0 / fan_in)));
        return layer;
    }

    intq::nn::ModulePtr batch_norm(intq::index_t channels) {
        auto layer = std::make_shared<intq::nn::BatchNorm2d>(intq::nn::BatchNormOptions{channels});
        const intq::Shape shape(channels);
        layer->tensor("weight") = normal(shape, 1.0, 0.05);
        layer->tensor("bias") = normal(shape, 0.0, 0.05);
        layer->tensor("running_mean") = normal(shape, 0.0, 0.05);
        intq::Tensor variance = normal(shape, 0.0, 0.2);
        for (float& value : variance.flat<float>()) value = 0.9f + value * value;
        layer->tensor("running_var") = variance;
        return layer;
    }

    /// As slots 0, 1, 2.
    intq::nn::ModulePtr conv_bn_relu6(intq::index_t in, intq::index_t out, intq::index_t kernel,
                                      intq::index_t stride = 1, intq::index_t groups = 1) {
        return std::make_shared<intq::nn::Sequential>(std::initializer_list<intq::nn::ModulePtr>{
            conv(in, out, kernel, stride, groups), batch_norm(out), std::make_shared<intq::nn::ReLU6>()});
    }

    intq::nn::ModulePtr linear(intq::index_t in, intq::index_t out) {
        auto layer = std::make_shared<intq::nn::Linear>(intq::nn::LinearOptions{in, out});
        layer->set_weight(normal(intq::Shape(out, in), 0.0, std::sqrt(1.0 / static_cast<double>(in))));
        layer->set_bias(normal(intq::Shape(out), 0.0, 0.05));
        return layer;
    }

private:
    std::mt19937 generator_;
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_MODELS_RANDOM_LAYERS_HPP
