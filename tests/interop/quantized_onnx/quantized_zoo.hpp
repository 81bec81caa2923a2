// SPDX-License-Identifier: MIT
//
// Converted models whose files are compared: the shipped network and one model for each operator.
#ifndef INTQ_TESTS_INTEROP_QUANTIZED_ZOO_HPP
#define INTQ_TESTS_INTEROP_QUANTIZED_ZOO_HPP

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/npy.hpp"
#include "support/small_models.hpp"

namespace intq::test {

struct ZooModel {
    std::string name;
    nn::ModulePtr model;
    intq::Tensor x;
    std::vector<std::string> in_float{};  // modules that get no qconfig
};

/// Ids of a table's rows.
inline intq::Tensor random_ids(const Shape& shape, unsigned seed, std::int64_t rows) {
    intq::Tensor ids = intq::Tensor::empty(shape, DType::int64);
    std::mt19937 generator(seed);
    for (std::int64_t& id : ids.flat<std::int64_t>()) id = static_cast<std::int64_t>(generator()) % rows;
    return ids;
}

/// One model for each operator that a file holds.
inline std::vector<ZooModel> quantized_zoo() {
    const intq::Tensor image = random_tensor(Shape(3, 4, 6, 6), 3), line = random_tensor(Shape(3, 4, 9), 4),
                       row = random_tensor(Shape(3, 8), 5), rows = random_tensor(Shape(3, 5, 8), 6);
    std::vector<ZooModel> zoo;
    const auto of = [&](const std::string& name, const intq::Tensor& x, const nn::ModulePtr& module) {
        zoo.push_back(
            {name, stubbed({{"act", module}}, [](auto& m, nn::Arguments a) { return m.call("act", a[0]); }), x});
    };
    const auto with = [&](const std::string& name, const intq::Tensor& x,
                          std::initializer_list<std::pair<std::string, nn::ModulePtr>> children,
                          const LambdaModel::Forward& body) {
        zoo.push_back({name, stubbed(children, body), x});
    };
    const auto fn = std::make_shared<nn::FloatFunctional>();
    with("conv", image, {{"conv", make_conv(4, 6, 3, 1)}, {"more", make_conv(6, 3, 1, 2)}},
         [](auto& m, nn::Arguments a) { return m.call("more", nn::relu(m.call("conv", a[0]))); });
    with("depthwise", image, {{"conv", make_conv(4, 4, 3, 1, 2, 4)}, {"more", make_conv(4, 3, 1, 2)}},
         [](auto& m, nn::Arguments a) { return m.call("more", nn::relu6(m.call("conv", a[0]))); });
    with("linear", row, {{"first", make_linear(8, 6, 1)}, {"second", make_linear(6, 3, 2)}},
         [](auto& m, nn::Arguments a) { return m.call("second", m.call("first", a[0])); });
    auto no_bias = std::make_shared<nn::Linear>(nn::LinearOptions{8, 6, false});
    no_bias->set_weight(random_tensor(Shape(6, 8), 9));
    with("matmul", row, {{"first", no_bias}, {"second", make_linear(6, 3, 2)}},
         [](auto& m, nn::Arguments a) { return m.call("second", m.call("first", a[0])); });
    with("linear_rows", rows, {{"first", make_linear(8, 6, 1)}, {"second", make_linear(6, 3, 2)}},
         [](auto& m, nn::Arguments a) { return m.call("second", m.call("first", a[0])); });
    with("add", image, {{"conv", make_conv(4, 4, 1, 1)}, {"skip", fn}}, [](auto& m, nn::Arguments a) {
        const nn::Value y = nn::relu(a[0]);
        return nn::call_add(m, "skip", m.call("conv", y), y);
    });
    with("add_codes", image, {{"skip", fn}, {"relu", std::make_shared<nn::ReLU>()}},
         [](auto& m, nn::Arguments a) { return m.call("relu", nn::call_add(m, "skip", a[0], nn::relu(a[0]))); });
    with("sub", image, {}, [](auto&, nn::Arguments a) { return nn::sub(a[0], nn::relu(a[0])); });
    with("mul", image, {}, [](auto&, nn::Arguments a) { return nn::mul(a[0], nn::relu(a[0])); });
    with("product_of_values", image, {},
         [](auto&, nn::Arguments a) { return nn::matmul(a[0], nn::transpose(nn::relu(a[0]), 2, 3)); });
    with("cat", image, {{"cat", fn}, {"conv", make_conv(4, 4, 1, 1)}}, [](auto& m, nn::Arguments a) {
        return nn::call_cat(m, "cat", {m.call("conv", a[0]), a[0]}, 1);
    });
    of("max_pool", image, std::make_shared<nn::MaxPool2d>(Window2d{.kernel = {2, 2}, .stride = {2, 2}}));
    of("average_pool", image, std::make_shared<nn::AvgPool2d>(Window2d{.kernel = {2, 2}, .stride = {2, 2}}));
    of("global_average", image, std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
    of("sigmoid", image, std::make_shared<nn::Sigmoid>());
    of("tanh", image, std::make_shared<nn::Tanh>());
    of("leaky_relu", image, std::make_shared<nn::LeakyReLU>(0.125));
    of("hardswish", image, std::make_shared<nn::Hardswish>());
    of("softmax", row, std::make_shared<nn::Softmax>(1));
    of("log_softmax", row, std::make_shared<nn::LogSoftmax>(1));
    const auto layer_norm = std::make_shared<nn::LayerNorm>(Shape(6, 6));
    layer_norm->tensor("weight") = random_tensor(Shape(6, 6), 24);
    layer_norm->tensor("bias") = random_tensor(Shape(6, 6), 25);
    of("layer_norm", image, layer_norm);
    of("group_norm", image, std::make_shared<nn::GroupNorm>(2, 4));
    of("instance_norm", image, std::make_shared<nn::InstanceNorm2d>(nn::InstanceNormOptions{4}));
    of("masked_scores", row, [] {
        intq::Tensor mask = intq::Tensor::zeros(Shape(index_t{8}), DType::uint8);
        mask.flat<std::uint8_t>()[4] = 1;
        return std::make_shared<nn::MaskedFill>(mask, -std::numeric_limits<double>::infinity());
    }());
    with("moves", image, {{"conv", make_conv(2, 4, 1, 1)}}, [](auto& m, nn::Arguments a) {
        const nn::Value half = nn::slice(a[0], 1, 0, 4, 2);
        return nn::reshape(nn::flatten(nn::permute(m.call("conv", half), {0, 2, 3, 1}), 1), {-1, 12, 12});
    });
    with("expand", image, {{"conv", make_conv(4, 4, 1, 1)}}, [](auto& m, nn::Arguments a) {
        return m.call("conv", nn::expand(nn::slice(a[0], 2, 1, 2), {-1, 4, 3, -1}));
    });
    with("pad", image, {{"conv", make_conv(4, 4, 3, 1)}}, [](auto& m, nn::Arguments a) {
        return m.call("conv", nn::pad(a[0], {1, 1, 1, 1}));
    });
    with("resize", image, {}, [](auto&, nn::Arguments a) { return nn::interpolate(a[0], {}, 2); });
    with("resize_to_size", image, {}, [](auto&, nn::Arguments a) {
        return nn::interpolate(a[0], nn::Value::Tuple{9, 16});
    });
    of("conv1d", line, [] {
        auto conv = std::make_shared<nn::Conv1d>(nn::Conv1dOptions{.in_channels = 4, .out_channels = 5, .kernel = 3});
        conv->set_weight(random_tensor(Shape(5, 4, 3), 8));
        conv->set_bias(random_tensor(Shape(5), 9));
        return conv;
    }());
    of("conv_transpose1d", line, [] {
        auto conv = std::make_shared<nn::ConvTranspose1d>(
            nn::ConvTranspose1dOptions{.in_channels = 4, .out_channels = 3, .kernel = 3, .stride = 2, .padding = 1});
        conv->set_weight(random_tensor(Shape(4, 3, 3), 8));
        conv->set_bias(random_tensor(Shape(3), 9));
        return conv;
    }());
    of("conv_transpose", image, [] {
        auto conv = std::make_shared<nn::ConvTranspose2d>(nn::ConvTranspose2dOptions{
            .in_channels = 4, .out_channels = 6, .window = {.kernel = {2, 2}, .stride = {2, 2}}, .groups = 2});
        conv->set_weight(random_tensor(Shape(4, 3, 2, 2), 8));
        conv->set_bias(random_tensor(Shape(6), 9));
        return conv;
    }());
    zoo.push_back({"embedding",
                   make_model({{"act", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{7, 8})},
                               {"dequant", std::make_shared<nn::DeQuantStub>()}},
                              [](auto& m, nn::Arguments a) { return m.call("dequant", m.call("act", a[0])); }),
                   random_ids(Shape(3, 5), 31, 7)});
    zoo.push_back({"index_copy",
                   make_model({{"act", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{7, 8})},
                               {"dequant", std::make_shared<nn::DeQuantStub>()}},
                              [](auto& m, nn::Arguments a) {
                                  const nn::Value rows = m.call("act", a[0]);
                                  return m.call("dequant", nn::index_copy(rows, 1, a[0], rows));
                              }),
                   random_ids(Shape(3, 7), 31, 7)});
    zoo.push_back({"argmax",
                   stubbed({}, [](auto&, nn::Arguments a) { return nn::transpose(nn::argmax(a[0], 1), 1, 2); }),
                   image});
    zoo.push_back({"residual", std::make_shared<ResidualNet>(4), random_tensor(Shape(3, 3, 6, 6), 7)});
    return zoo;
}

/// A layer with random weights, and with a bias where its options ask for one.
template <class Layer, class Options> std::shared_ptr<Layer> random_layer(const Options& options, unsigned seed) {
    auto layer = std::make_shared<Layer>(options);
    layer->set_weight(random_tensor(layer->weight().shape(), seed, 0.4f));
    if (layer->has_bias()) layer->set_bias(random_tensor(Shape(layer->out_channels()), seed + 1));
    return layer;
}

/// An operator on codes, before and behind layers in float.
inline nn::Value squared(const nn::Value& x) { return nn::mul(x, x); }

/// Layers in float between codes: each of their classes, with each clamp, with a second operand where it may have one,
/// and with a batch norm that is folded.
inline std::vector<ZooModel> layers_in_float() {
    using Activate = nn::Value (*)(const nn::Value&);
    const Activate relu = [](const nn::Value&x) { return nn::relu(x); },
                   relu6 = [](const nn::Value&x) { return nn::relu6(x); }, none = [](const nn::Value&x) { return x; };
    std::vector<ZooModel> zoo;
    const auto of = [&](const std::string& name, const intq::Tensor& x, const nn::ModulePtr& layer, Activate activate) {
        const auto body = [activate](auto& m, nn::Arguments a) { return squared(activate(m.call("layer", a[0]))); };
        zoo.push_back({"float_" + name, stubbed({{"layer", layer}}, body), x, {"layer"}});
    };
    const auto added = [&](const std::string& name, const intq::Tensor& x, const nn::ModulePtr& layer,
                           Activate activate) {
        const auto body = [activate](auto& m, nn::Arguments a) {
            const nn::Value y = squared(a[0]);
            return squared(activate(nn::add(m.call("norm", m.call("layer", y)), y)));
        };
        const auto children = {std::pair<std::string, nn::ModulePtr>{"layer", layer},
                               {"norm", make_batch_norm<nn::BatchNorm2d>(4, 70)}};
        zoo.push_back({"float_" + name, stubbed(children, body), x, {"layer"}});
    };
    const intq::Tensor image = random_tensor(Shape(3, 4, 6, 6), 3), line = random_tensor(Shape(3, 4, 9), 4),
                       row = random_tensor(Shape(3, 8), 5), rows = random_tensor(Shape(3, 5, 8), 6);
    for (const auto& [name, activate] : {std::pair{"", none}, {"_relu", relu}, {"_relu6", relu6}}) {
        const std::string end = name;
        of("conv" + end, image, make_conv(4, 6, 3, 11), activate);
        of("conv1d" + end, line,
           random_layer<nn::Conv1d>(nn::Conv1dOptions{.in_channels = 4, .out_channels = 5, .kernel = 3}, 12), activate);
        of("conv_transpose" + end, image,
           random_layer<nn::ConvTranspose2d>(
               nn::ConvTranspose2dOptions{
                   .in_channels = 4, .out_channels = 6, .window = {.kernel = {2, 2}, .stride = {2, 2}}, .groups = 2},
               13),
           activate);
        of("conv_transpose1d" + end, line,
           random_layer<nn::ConvTranspose1d>(
               nn::ConvTranspose1dOptions{
                   .in_channels = 4, .out_channels = 3, .kernel = 3, .stride = 2, .padding = 1, .bias = false},
               14),
           activate);
        of("linear" + end, row, make_linear(8, 6, 15), activate);
        of("linear_rows" + end, rows, make_linear(8, 6, 16), activate);
        of("norm" + end, image, make_batch_norm<nn::BatchNorm2d>(4, 17), activate);
        of("norm1d" + end, line, make_batch_norm<nn::BatchNorm1d>(4, 18), activate);
        added("add" + end, image, make_conv(4, 4, 3, 19), activate);
    }
    return zoo;
}

/// Models of which parts stay in float, or the whole.
inline std::vector<ZooModel> partly_in_float() {
    std::vector<ZooModel> zoo = layers_in_float();
    const auto residual = std::make_shared<ResidualNet>(4);
    const intq::Tensor x = random_tensor(Shape(3, 3, 6, 6), 7);
    zoo.push_back({"float_first", residual, x, {"stem"}});
    zoo.push_back({"float_last", residual, x, {"fc"}});
    zoo.push_back({"float_some", residual, x, {"layer1.0.conv1", "layer1.1.conv2", "depthwise"}});
    zoo.push_back({"float_all", residual, x, {"stem", "layer1", "depthwise", "pool", "flatten", "fc"}});
    return zoo;
}

/// Layers in float on volumes, and over rows.
inline std::vector<ZooModel> volumes_in_float() {
    std::vector<ZooModel> zoo;
    const intq::Tensor volume = random_tensor(Shape(3, 4, 3, 5, 6), 8);
    const nn::float_operators::DepthWindow depth{.kernel = 2, .stride = 1, .padding = 1, .dilation = 1};
    const Window2d window{.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 0, 1, 1}};
    const auto of = [&](const std::string& name, const nn::ModulePtr& layer) {
        const auto body = [](auto& m, nn::Arguments a) { return nn::relu(m.call("layer", squared(a[0]))); };
        zoo.push_back({"float_" + name, stubbed({{"layer", layer}}, body), volume, {"layer"}});
    };
    of("conv3d",
       random_layer<nn::Conv3d>(
           nn::Conv3dOptions{.in_channels = 4, .out_channels = 6, .depth = depth, .window = window, .groups = 2}, 21));
    of("conv_transpose3d",
       random_layer<nn::ConvTranspose3d>(nn::ConvTranspose3dOptions{.in_channels = 4,
                                                                    .out_channels = 6,
                                                                    .depth = {.kernel = 2, .stride = 2},
                                                                    .window = {.kernel = {3, 2}, .stride = {2, 3}},
                                                                    .depth_padding = 1,
                                                                    .output_padding = {1, 2},
                                                                    .groups = 2},
                                         22));
    of("norm3d", make_batch_norm<nn::BatchNorm3d>(4, 23));
    const auto layer_norm = std::make_shared<nn::LayerNorm>(Shape(5, 6));
    layer_norm->tensor("weight") = random_tensor(Shape(5, 6), 24);
    layer_norm->tensor("bias") = random_tensor(Shape(5, 6), 25);
    of("layer_norm", layer_norm);
    return zoo;
}

/// @param in_float  modules that get no qconfig
inline std::shared_ptr<quantization::PreparedModel> calibrated(const nn::Module& model,
                                                               const arith::PolicyRecord& target, const intq::Tensor& x,
                                                               const std::vector<std::string>& in_float = {}) {
    quantization::QConfigMapping mapping = quantization::get_default_qconfig_mapping(target);
    for (const std::string& name : in_float) mapping.set_module_name(name, std::nullopt);
    const auto prepared = quantization::prepare_calibration_fx(model, mapping, target);
    quantization::calibrate(*prepared, x, 3);
    return prepared;
}

/// The network that ships with the library, calibrated on its images.
inline quantization::QuantizedGraph shipped_network(const arith::PolicyRecord& target) {
    const std::string folder = INTQ_EXAMPLES_DIR "/digits/data/";
    const auto model = interop::onnx::import_file(folder + "digits_resnet.onnx");
    quantization::add_stubs(*model);
    const auto prepared =
        quantization::prepare_calibration_fx(*model, quantization::get_default_qconfig_mapping(target), target);
    quantization::calibrate(*prepared, intq::load_npy(folder + "calibration_images.npy"), 100);
    return quantization::convert_fx(*prepared);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_INTEROP_QUANTIZED_ZOO_HPP
