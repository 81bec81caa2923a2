// SPDX-License-Identifier: MIT
//
// The digits, the network, and how good it is.
#ifndef INTQ_EXAMPLES_TRAIN_DIGITS_DIGITS_HPP
#define INTQ_EXAMPLES_TRAIN_DIGITS_DIGITS_HPP

#include <memory>
#include <string>
#include <vector>

#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/tensor/npy.hpp"
#include "intq/training/trainer.hpp"

namespace train_digits {

using intq::index_t;
using intq::Tensor;

struct Digits {
    Tensor train_images, test_images;  // (N, 1, 8, 8), -1 to 1
    std::vector<index_t> train_labels, test_labels;
};

inline Digits load_digits(const std::string& folder = INTQ_EXAMPLES_DIR "/digits/data/") {
    const auto labels = [&](const char* name) {
        const Tensor numbers = intq::load_npy(folder + name);
        const auto values = numbers.flat<std::int64_t>();
        return std::vector<index_t>(values.begin(), values.end());
    };
    const Tensor pixels = intq::load_npy(folder + "train_pixels.npy");
    Tensor images = Tensor::empty(pixels.shape());
    for (std::size_t i = 0; i < images.flat<float>().size(); ++i)
        images.flat<float>()[i] = static_cast<float>(pixels.flat<std::uint8_t>()[i]) / 8.0f - 1.0f;
    return {images, intq::load_npy(folder + "test_images.npy"), labels("train_labels.npy"), labels("test_labels.npy")};
}

/// A convolution, then twice a depthwise and a pointwise one, each with batch norm and ReLU; the mean of each channel;
/// a linear layer: 2,700 parameters.
inline intq::nn::ModulePtr make_network() {
    using namespace intq::nn;
    const auto network = std::make_shared<Sequential>();
    const auto block = [&](index_t in, index_t out, index_t kernel, index_t stride, index_t groups) {
        const intq::Window2d window = square_window(kernel, stride, kernel / 2);
        network->append(std::make_shared<Conv2d>(Conv2dOptions{in, out, window, groups, false}));
        network->append(std::make_shared<BatchNorm2d>(BatchNormOptions{out}));
        network->append(std::make_shared<ReLU>());
    };
    block(1, 16, 3, 1, 1);
    block(16, 16, 3, 1, 16);
    block(16, 32, 1, 1, 1);
    block(32, 32, 3, 2, 32);
    block(32, 32, 1, 1, 1);
    network->append(std::make_shared<AdaptiveAvgPool2d>(intq::Size2d{1, 1}));
    network->append(std::make_shared<Flatten>());
    network->append(std::make_shared<Linear>(LinearOptions{32, 10}));
    return network;
}

inline std::vector<index_t> pick(const std::vector<index_t>& labels, std::span<const index_t> samples) {
    std::vector<index_t> picked;
    for (const index_t sample : samples) picked.push_back(labels[static_cast<std::size_t>(sample)]);
    return picked;
}

/// Percent of the test images whose largest logit is that of their class.
inline double accuracy(const Tensor& logits, const Digits& digits) {
    const auto values = logits.flat<float>();
    index_t right = 0;
    for (std::size_t n = 0; n < digits.test_labels.size(); ++n) {
        const auto row = values.subspan(n * 10, 10);
        right += std::max_element(row.begin(), row.end()) - row.begin() == digits.test_labels[n] ? 1 : 0;
    }
    return 100.0 * static_cast<double>(right) / static_cast<double>(digits.test_labels.size());
}

inline double accuracy(intq::nn::Module& model, const Digits& digits) {
    model.eval();
    return accuracy(model(digits.test_images).tensor(), digits);
}

}  // namespace train_digits

#endif  // INTQ_EXAMPLES_TRAIN_DIGITS_DIGITS_HPP
