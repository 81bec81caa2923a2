// SPDX-License-Identifier: MIT
//
// Equalization, bias correction and AdaRound: that they leave what they promise to leave, and what they gain.
// Long, because the three share their models and their measure of what was gained.
#include <algorithm>
#include <cmath>

#include "intq/graph/tracer.hpp"
#include "intq/improve/adaround.hpp"
#include "intq/improve/bias_correction.hpp"
#include "intq/improve/equalization.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/operator_table.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/training/gradients.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using intq::Tensor;
using test::make_conv;
using test::message_of;

namespace {

// --- equalization ----------------------------------------------------------------------------------------------------

/// A factor for each channel, from 1/30 to 30.
float uneven(index_t channel) { return std::pow(10.0f, 1.5f * std::sin(static_cast<float>(3 * channel + 1))); }

/// The convolution with its output channels multiplied, as a folded batch norm multiplies them.
std::shared_ptr<nn::Conv2d> unevenly(std::shared_ptr<nn::Conv2d> conv) {
    Tensor weight = conv->weight().clone(), bias = conv->bias().clone();
    const index_t each = weight.size() / weight.extent(0);
    for (index_t i = 0; i < weight.size(); ++i) weight.flat<float>()[static_cast<std::size_t>(i)] *= uneven(i / each);
    for (index_t o = 0; o < bias.size(); ++o) bias.flat<float>()[static_cast<std::size_t>(o)] *= uneven(o);
    conv->set_weight(weight);
    conv->set_bias(bias);
    return conv;
}

/// The convolution, in one group, that undoes the factors of its inputs, as a trained one has learnt to.
std::shared_ptr<nn::Conv2d> undoing(std::shared_ptr<nn::Conv2d> conv) {
    Tensor weight = conv->weight().clone();
    const index_t taps = weight.extent(2) * weight.extent(3);
    for (index_t i = 0; i < weight.size(); ++i)
        weight.flat<float>()[static_cast<std::size_t>(i)] /= uneven(i / taps % weight.extent(1));
    conv->set_weight(weight);
    return conv;
}

/// The largest magnitude of each output channel, or of each input channel, of a Conv2d in one group.
std::vector<double> channel_ranges(const nn::Module& module, bool of_outputs) {
    const auto& weight = dynamic_cast<const nn::Weighted&>(module).weight();
    std::vector<double> ranges(static_cast<std::size_t>(weight.extent(of_outputs ? 0 : 1)));
    const auto w = weight.view<float, 4>();
    for (index_t o = 0; o < weight.extent(0); ++o)
        for (index_t c = 0; c < weight.extent(1); ++c)
            for (index_t i = 0; i < weight.extent(2); ++i)
                for (index_t j = 0; j < weight.extent(3); ++j) {
                    double& range = ranges[static_cast<std::size_t>(of_outputs ? o : c)];
                    range = std::max(range, std::abs(static_cast<double>(w(o, c, i, j))));
                }
    return ranges;
}

void check_equal(const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-3 * b[i]);
}

double spread(const std::vector<double>& ranges) {
    return *std::max_element(ranges.begin(), ranges.end()) / *std::min_element(ranges.begin(), ranges.end());
}

/// Largest magnitude, for relative errors.
double magnitude(const Tensor& x) { return test::largest_difference(x, Tensor::zeros(x.shape())); }

/// The model's largest error where each weight is rounded to 8 bits with one scale a tensor.
double per_tensor_error(const graph::GraphModule& model, const Tensor& x) {
    const auto rounded = nn::clone(static_cast<const nn::Module&>(model));
    const auto exact = nn::clone(static_cast<const nn::Module&>(model));
    for (const auto& module : rounded->named_modules())
        if (auto* layer = dynamic_cast<nn::Weighted*>(module.value)) {
            const auto grid =
                intq::OwnedQParams::per_tensor(static_cast<float>(magnitude(layer->weight()) / 127.5), DType::int8);
            layer->set_weight(fake_quantize(layer->weight(), grid, {}));
        }
    return test::largest_difference((*rounded)(x).tensor(), (*exact)(x).tensor());
}

std::shared_ptr<graph::GraphModule> traced(const nn::ModulePtr& model) {
    model->eval();
    return graph::symbolic_trace(model);
}

std::string reason_for(const improve::EqualizationReport& report, const std::string& layer) {
    for (const auto& blocked : report.blocked)
        if (blocked.layer == layer) return blocked.reason;
    return "it is not blocked";
}

}  // namespace

TEST_CASE("Equalization of conv-relu-conv: the function stays, the ranges are equal, and one scale a tensor does") {
    const auto model = traced(test::make_model(
        {{"first", unevenly(make_conv(3, 8, 3, 1))}, {"second", undoing(make_conv(8, 5, 3, 2))}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("second", nn::relu(m.call("first", x[0]))); }));
    const Tensor x = test::random_tensor(Shape(2, 3, 7, 6), 3);
    const Tensor before = (*model)(x).tensor();
    const double error = per_tensor_error(*model, x);
    const improve::EqualizationReport report = improve::equalize(*model);
    REQUIRE(report.pairs.size() == 1);
    CHECK(report.sweeps == 2);  // one that moves the factors, and one that finds them equal
    CHECK(report.pairs[0].first == "first");
    CHECK(report.pairs[0].second == "second");
    CHECK(report.pairs[0].channels == 8);
    CHECK_THAT(reason_for(report, "second"), Contains("output"));
    CHECK(test::largest_difference((*model)(x).tensor(), before) < 2e-6 * magnitude(before));
    check_equal(channel_ranges(model->find("first"), true), channel_ranges(model->find("second"), false));
    CHECK(per_tensor_error(*model, x) < 0.3 * error);
}

TEST_CASE("Equalization around a depthwise layer evens out both sides of it") {
    const auto model = traced(
        test::make_model({{"expand", make_conv(3, 8, 1, 1)},
                          {"depthwise", unevenly(make_conv(8, 8, 3, 2, 1, 8))},
                          {"project", undoing(make_conv(8, 4, 1, 3))}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             return m.call("project", nn::relu(m.call("depthwise", nn::relu(m.call("expand", x[0])))));
                         }));
    const Tensor x = test::random_tensor(Shape(2, 3, 7, 6), 3);
    const Tensor before = (*model)(x).tensor();
    const double error = per_tensor_error(*model, x);
    const double uneven = spread(channel_ranges(model->find("depthwise"), true));
    const improve::EqualizationReport report = improve::equalize(*model);
    CHECK(report.pairs.size() == 2);
    CHECK(report.sweeps > 1);
    CHECK(report.largest_factor <= 1e-4);
    CHECK(test::largest_difference((*model)(x).tensor(), before) < 2e-6 * magnitude(before));
    const auto depthwise = channel_ranges(model->find("depthwise"), true);
    check_equal(channel_ranges(model->find("expand"), true), depthwise);
    check_equal(depthwise, channel_ranges(model->find("project"), false));
    CHECK(spread(depthwise) < 0.5 * uneven);
    CHECK(per_tensor_error(*model, x) < 0.3 * error);
}

TEST_CASE("Equalization knows the channels of groups, of transposed convolutions and behind a flatten") {
    const auto up = std::make_shared<nn::ConvTranspose2d>(
        nn::ConvTranspose2dOptions{8, 6, nn::square_window(3, 2, 1), {0, 0}, 2, true});
    up->set_weight(test::random_tensor(up->weight().shape(), 8, 0.4f));
    up->set_bias(test::random_tensor(Shape(6), 9));
    const auto model = traced(test::make_model({{"grouped", unevenly(make_conv(4, 8, 3, 1, 1, 2))},
                                                {"up", up},
                                                {"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(3, 3))},
                                                {"again", unevenly(make_conv(6, 6, 3, 2, 1, 3))},
                                                {"fc", test::make_linear(96, 10, 4)},
                                                {"head", test::make_linear(10, 3, 5)}},
                                               [](test::LambdaModel& m, nn::Arguments x) {
                                                   nn::Value y =
                                                       nn::relu(m.call("up", nn::relu(m.call("grouped", x[0]))));
                                                   y = nn::flatten(m.call("again", m.call("pool", y)), 1);
                                                   return m.call("head", nn::relu(m.call("fc", y)));
                                               }));
    const Tensor x = test::random_tensor(Shape(2, 4, 7, 7), 3);
    const Tensor before = (*model)(x).tensor();
    const improve::EqualizationReport report = improve::equalize(*model);
    CHECK(report.pairs.size() == 4);
    CHECK(test::largest_difference((*model)(x).tensor(), before) < 5e-6 * magnitude(before));
    // fc reads 16 pixels of each of 6 channels.
    const auto weight = dynamic_cast<const nn::Weighted&>(model->find("fc")).weight();
    std::vector<double> columns(6);
    for (index_t o = 0; o < 10; ++o)
        for (index_t i = 0; i < 96; ++i)
            columns[static_cast<std::size_t>(i / 16)] =
                std::max(columns[static_cast<std::size_t>(i / 16)],
                         std::abs(static_cast<double>(weight.view<float, 2>()(o, i))));
    check_equal(channel_ranges(model->find("again"), true), columns);
}

TEST_CASE("Equalization stops, and says why, where a factor a channel would change the function") {
    const auto shared = make_conv(4, 4, 3, 1);
    const auto body = [](test::LambdaModel& m, nn::Arguments x) {
        nn::Value y = m.call("b", nn::relu6(m.call("a", x[0])));
        y = m.call("norm", y);
        y = m.call("shared", m.call("shared", m.call("c", y)));
        const nn::Value z = nn::sigmoid(m.call("d", y));
        return m.call("f", z + m.call("e", z));
    };
    const auto model = traced(test::make_model({{"a", make_conv(4, 4, 3, 1)},
                                                {"b", make_conv(4, 4, 3, 2)},
                                                {"norm", test::make_batch_norm<nn::BatchNorm2d>(4, 3)},
                                                {"c", make_conv(4, 4, 3, 4)},
                                                {"shared", shared},
                                                {"d", make_conv(4, 4, 3, 5)},
                                                {"e", make_conv(4, 4, 3, 6)},
                                                {"f", make_conv(4, 4, 3, 7)}},
                                               body));
    const Tensor weight = shared->weight().clone();
    const improve::EqualizationReport report = improve::equalize(*model);
    CHECK(report.pairs.empty());
    CHECK_THAT(reason_for(report, "a"), Contains("relu6"));
    CHECK_THAT(reason_for(report, "b"), Contains("batch_norm2d"));
    CHECK_THAT(reason_for(report, "c"), Contains("called twice"));
    CHECK_THAT(reason_for(report, "shared"), Contains("called twice"));
    CHECK_THAT(reason_for(report, "d"), Contains("sigmoid"));
    CHECK_THAT(reason_for(report, "e"), Contains("add"));
    CHECK(test::largest_difference(shared->weight(), weight) == 0.0);
}

TEST_CASE("A fused model is equalized, then prepared; a prepared one is refused; a dead channel stays") {
    const auto first = unevenly(make_conv(3, 6, 3, 1));
    Tensor weight = first->weight().clone();
    for (std::size_t i = 0; i < 27; ++i) weight.flat<float>()[i] = 0.0f;
    first->set_weight(weight);
    const auto model = test::stubbed({{"first", first},
                                      {"norm", test::make_batch_norm<nn::BatchNorm2d>(6, 7)},
                                      {"second", make_conv(6, 4, 3, 2)},
                                      {"third", make_conv(4, 4, 1, 3)}},
                                     [](test::LambdaModel& m, nn::Arguments x) {
                                         const nn::Value y =
                                             m.call("second", nn::relu(m.call("norm", m.call("first", x[0]))));
                                         return m.call("third", nn::relu(y));
                                     });
    const auto fused = fuse_fx(*model);
    const Tensor x = test::random_tensor(Shape(2, 3, 7, 6), 3);
    const Tensor before = (*fused)(x).tensor();
    const auto report = improve::equalize(*fused);
    CHECK(report.pairs.size() == 2);
    CHECK(test::largest_difference((*fused)(x).tensor(), before) < 2e-6 * magnitude(before));
    const auto prepared = prepare_calibration_fx(*fused, get_default_qconfig_mapping(), march::bayes::policy);
    calibrate(*prepared, x, 2);
    CHECK(test::largest_difference((*prepared)(x).tensor(), before) < 0.1 * magnitude(before));
    CHECK_THAT(message_of<Error>([&] { improve::equalize(*prepared); }), Contains("first: the model is prepared"));
}

TEST_CASE("Each operator that lets the factors of channels through does so to the bit; the table names no other") {
    const Tensor x = test::random_tensor(Shape(2, 4, 6, 6), 3);
    const auto scaled = [](const Tensor& tensor, index_t each) {  // by powers of two, so that nothing rounds
        Tensor result = tensor.contiguous().clone();
        for (index_t i = 0; i < result.size(); ++i)
            result.flat<float>()[static_cast<std::size_t>(i)] *=
                std::ldexp(1.0f, static_cast<int>(i / each % 4) * 2 - 3);
        return result;
    };
    nn::InterpolateOptions twice;
    twice.scale_factor = {2.0, 2.0};
    twice.rule = arith::Resize::half_pixel;
    const std::map<std::string, nn::ModulePtr> cases{
        {"relu", std::make_shared<nn::ReLU>()},
        {"leaky_relu", std::make_shared<nn::LeakyReLU>(0.3)},
        {"identity", std::make_shared<nn::Identity>()},
        {"dropout", std::make_shared<nn::Dropout>()},
        {"max_pool2d", std::make_shared<nn::MaxPool2d>(nn::square_window(3, 1, 1))},
        {"avg_pool2d", std::make_shared<nn::AvgPool2d>(nn::square_window(3, 1, 1))},
        {"adaptive_avg_pool2d", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{2, 4})},
        {"interpolate", std::make_shared<nn::Upsample>(twice)},
        {"flatten", std::make_shared<nn::Flatten>()}};
    std::size_t found = 0;
    for (const QuantizedOperator* row : quantized_operators()) {
        if (row->channel_factors == ChannelFactors::lost) continue;
        CAPTURE(row->name);
        REQUIRE(cases.count(std::string(row->name)) == 1);
        ++found;
        nn::Module& module = *cases.at(std::string(row->name));
        module.eval();
        const Tensor y = module(x).tensor();
        CHECK(test::largest_difference(module(scaled(x, 36)).tensor(), scaled(y, y.size() / 8)) == 0.0);
        // On any axis only what takes each element for itself.
        const bool is_elementwise = row->channel_factors == ChannelFactors::anywhere;
        const Tensor from_other = module(scaled(x, 1)).tensor();
        CHECK((from_other.shape() == x.shape() && test::largest_difference(from_other, scaled(y, 1)) == 0.0) ==
              is_elementwise);
    }
    CHECK(found == cases.size());
    const auto rows = quantized_operators();
    const auto relu6 = std::find_if(rows.begin(), rows.end(), [](const auto* row) { return row->name == "relu6"; });
    REQUIRE(relu6 != rows.end());
    CHECK((*relu6)->channel_factors == ChannelFactors::lost);
}

TEST_CASE("Equalization passes a leaky_relu, and a pool of images but not of rows") {
    const auto model = traced(test::make_model({{"a", unevenly(make_conv(3, 4, 3, 1))},
                                                {"leaky", std::make_shared<nn::LeakyReLU>(0.3)},
                                                {"pool", std::make_shared<nn::AvgPool2d>(nn::square_window(2, 2))},
                                                {"b", make_conv(4, 4, 3, 2)},
                                                {"fc", test::make_linear(4, 4, 3)},
                                                {"rows", std::make_shared<nn::AvgPool2d>(nn::square_window(1, 1))},
                                                {"head", test::make_linear(4, 2, 4)}},
                                               [](test::LambdaModel& m, nn::Arguments x) {
                                                   nn::Value y = m.call("leaky", m.call("a", x[0]));
                                                   y = m.call("b", m.call("pool", y));
                                                   y = m.call("fc", y);
                                                   return m.call("head", m.call("rows", y));
                                               }));
    const Tensor x = test::random_tensor(Shape(2, 3, 8, 8), 3);
    const Tensor before = (*model)(x).tensor();
    const improve::EqualizationReport report = improve::equalize(*model);
    REQUIRE(report.pairs.size() == 1);
    CHECK(report.pairs[0].second == "b");
    CHECK_THAT(reason_for(report, "b"), Contains("channels are not those"));
    CHECK_THAT(reason_for(report, "fc"), Contains("avg_pool2d"));
    CHECK(test::largest_difference((*model)(x).tensor(), before) < 5e-6 * magnitude(before));
}

TEST_CASE("A batch norm that a layer keeps stops equalization behind the layer, and not in front of it") {
    const auto model = test::make_model({{"first", make_conv(3, 6, 3, 1)},
                                         {"second", unevenly(make_conv(6, 6, 3, 2))},
                                         {"norm", test::make_batch_norm<nn::BatchNorm2d>(6, 7)},
                                         {"third", make_conv(6, 4, 1, 3)}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            const nn::Value y = m.call("second", nn::relu(m.call("first", x[0])));
                                            return m.call("third", nn::relu(m.call("norm", y)));
                                        });
    model->eval();
    FuseOptions options;
    options.keep_batch_norm = true;
    const auto fused = fuse_fx(*model, options);
    REQUIRE(fused->find("second").has_child("bn"));
    const Tensor x = test::random_tensor(Shape(2, 3, 7, 6), 3);
    const Tensor before = (*fused)(x).tensor();
    const improve::EqualizationReport report = improve::equalize(*fused);
    REQUIRE(report.pairs.size() == 1);
    CHECK(report.pairs[0].second == "second");
    CHECK(reason_for(report, "second") == "its batch norm is not folded");
    CHECK(test::largest_difference((*fused)(x).tensor(), before) < 2e-6 * magnitude(before));
}

// --- bias correction -------------------------------------------------------------------------------------------------

namespace {

/// Weights of few bits with one scale a tensor.
QConfigMapping coarse_weights(int bits) {
    QConfig qconfig = get_default_calib_qconfig(DType::int8, DType::int8);
    qconfig.weight->options.observer = observer_factory<MinMaxObserver>();
    ObserverOptions& weight = qconfig.weight->options.observer_options;
    weight.ch_axis = -1;
    weight.quant_min = -(1 << (bits - 1));
    weight.quant_max = (1 << (bits - 1)) - 1;
    return QConfigMapping().set_global(qconfig);
}

/// Samples that are mixtures of few images, none of mean 0, as those of a camera are.
Tensor natural_images(index_t count, index_t channels, index_t size) {
    const Tensor parts = test::random_tensor(Shape(6, channels, size, size), 31),
                 share = test::random_tensor(Shape(count, 6), 32), noise = test::random_tensor(Shape(count), 33);
    Tensor images = Tensor::empty(Shape(count, channels, size, size));
    const auto pixels = static_cast<std::size_t>(channels * size * size);
    for (std::size_t i = 0; i < images.flat<float>().size(); ++i) {
        const std::size_t n = i / pixels;
        float value = 0.7f + 0.1f * noise.flat<float>()[n];
        for (std::size_t k = 0; k < 6; ++k)
            value += 0.3f * share.flat<float>()[n * 6 + k] * parts.flat<float>()[k * pixels + i % pixels];
        images.flat<float>()[i] = value;
    }
    return images;
}

nn::ModulePtr small_network() {
    return test::stubbed({{"a", make_conv(3, 6, 3, 1, 1, 1, false)},
                          {"b", make_conv(6, 6, 3, 2, 1, 6)},
                          {"c", make_conv(6, 4, 1, 3)},
                          {"fc", test::make_linear(4, 3, 4)}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             const nn::Value y = nn::relu(m.call("b", nn::relu(m.call("a", x[0]))));
                             return m.call("fc", nn::mean(m.call("c", y), {2, 3}));
                         });
}

/// Means over all but the last axis, or all but axis 1 of images.
std::vector<double> means_of(const Tensor& y) {
    const index_t channels = y.extent(1), inner = y.size() / y.extent(0) / channels;
    std::vector<double> means(static_cast<std::size_t>(channels));
    for (index_t i = 0; i < y.size(); ++i)
        means[static_cast<std::size_t>(i / inner % channels)] +=
            static_cast<double>(y.flat<float>()[static_cast<std::size_t>(i)]) * static_cast<double>(channels) /
            static_cast<double>(y.size());
    return means;
}

double largest_mean_error(const Tensor& a, const Tensor& b) {
    const auto x = means_of(a), y = means_of(b);
    double largest = 0;
    for (std::size_t c = 0; c < x.size(); ++c) largest = std::max(largest, std::abs(x[c] - y[c]));
    return largest;
}

}  // namespace

TEST_CASE("Bias correction: the mean error of every channel falls to nothing, and the network is nearer to float") {
    const auto model = small_network();
    const Tensor images = natural_images(48, 3, 7);
    const auto prepared = prepare_calibration_fx(*model, coarse_weights(4), march::bayes::policy);
    calibrate(*prepared, images, 16);
    const Tensor exact = (*model)(images).tensor(), before = (*prepared)(images).tensor();
    const auto report = improve::correct_bias(*prepared, batches_of(images, 20));
    REQUIRE(report.layers.size() == 4);
    CHECK(report.skipped.empty());
    for (const auto& layer : report.layers) {
        INFO(layer.layer);
        CHECK(layer.largest > 1e-3);
        CHECK(layer.largest_after < 1e-5);
    }
    // fc gives its accumulator: nothing stands between its mean and the model's.
    const Tensor after = (*prepared)(images).tensor();
    CHECK(largest_mean_error(before, exact) > 1e-2);
    CHECK(largest_mean_error(after, exact) < 1e-5);
    CHECK(training::mse_loss(after, exact).value < training::mse_loss(before, exact).value);
    CHECK(dynamic_cast<const nn::Weighted&>(prepared->find("a")).has_bias());
    CHECK_FALSE(dynamic_cast<const nn::Weighted&>(model->find("a")).has_bias());
    CHECK(convert_fx(*prepared).nodes.size() > 5);
}

TEST_CASE("Bias correction counts the operand of a fused add, and leaves a shared layer alone") {
    const auto model =
        test::stubbed({{"a", make_conv(3, 3, 3, 1)}, {"shared", make_conv(3, 3, 1, 2)}, {"b", make_conv(3, 3, 3, 3)}},
                      [](test::LambdaModel& m, nn::Arguments x) {
                          const nn::Value y = nn::relu(m.call("a", x[0]) + x[0]);
                          return m.call("b", m.call("shared", m.call("shared", y)));
                      });
    const Tensor images = natural_images(24, 3, 6);
    const auto prepared = prepare_calibration_fx(*model, coarse_weights(3), march::bayes::policy);
    CHECK_THAT(message_of<Error>([&] { improve::correct_bias(*prepared, batches_of(images, 8)); }),
               Contains("saw no data"));
    calibrate(*prepared, images, 8);
    CHECK_THAT(message_of<Error>([&] { improve::correct_bias(*prepared, {}); }), Contains("there is no data"));
    const auto report = improve::correct_bias(*prepared, batches_of(images, 8));
    REQUIRE(report.layers.size() == 2);
    CHECK(report.layers[0].largest > 1e-3);
    CHECK(report.layers[0].largest_after < 1e-5);
    REQUIRE(report.skipped.size() == 1);
    CHECK(report.skipped[0].layer == "shared");
    CHECK_THAT(report.skipped[0].reason, Contains("called 2 times"));
}

// --- AdaRound --------------------------------------------------------------------------------------------------------

TEST_CASE("The rectified sigmoid, its inverse and its gradient agree with each other; so does the cost's gradient") {
    for (int i = -60; i <= 60; ++i) {
        const double v = 0.0431 * i, e = 1e-6;
        const double slope = (improve::rectified_sigmoid(v + e) - improve::rectified_sigmoid(v - e)) / (2 * e);
        CHECK(std::abs(improve::rectified_sigmoid_gradient(v) - slope) < 1e-8);
        const double h = improve::rectified_sigmoid(v);
        if (h > 0.0 && h < 1.0) CHECK(std::abs(improve::rectified_sigmoid_inverse(h) - v) < 1e-9);
    }
    CHECK(improve::rectified_sigmoid(0.0) == 0.5);
    CHECK(improve::rectified_sigmoid(-3.0) == 0.0);
    CHECK(improve::rectified_sigmoid_gradient(3.0) == 0.0);
    for (const double beta : {20.0, 7.5, 2.0})
        for (int i = 0; i <= 20; ++i) {
            const double h = 0.05 * i, e = 1e-6;
            const auto cost = [&](double at) { return 1.0 - std::pow(std::abs(2.0 * at - 1.0), beta); };
            const double slope = (cost(h + e) - cost(h - e)) / (2 * e);
            CHECK(std::abs(improve::rounding_cost_gradient(h, beta) - slope) < 1e-4 * std::abs(slope) + 1e-5);
        }
}

namespace {

improve::AdaRoundOptions quick_rounding() {
    improve::AdaRoundOptions options;
    options.iterations = 300;
    options.rate = 0.03;
    options.batch_size = 16;
    return options;
}

}  // namespace

TEST_CASE("AdaRound: each layer's error is below that of rounding to nearest, and no weight moves by a step") {
    const auto model = small_network();
    const Tensor images = natural_images(64, 3, 6);
    const auto prepared = prepare_calibration_fx(*model, coarse_weights(4), march::bayes::policy);
    calibrate(*prepared, images, 16);
    const Tensor exact = (*model)(images).tensor(), before = (*prepared)(images).tensor();
    std::map<std::string, intq::OwnedQParams> grids;
    for (const char* name : {"a", "b", "c", "fc"})
        grids[name] = dynamic_cast<PreparedWeight&>(prepared->find(name)).weight_fake_quant().qparams();
    const auto report = improve::adaround(*prepared, batches_of(images, 24), quick_rounding());
    REQUIRE(report.layers.size() == 4);
    index_t changed = 0;
    for (const auto& layer : report.layers) {
        INFO(layer.layer << ": " << layer.nearest_error << " to " << layer.error);
        CHECK(layer.error < layer.nearest_error);
        changed += layer.changed;
        const Tensor was = dynamic_cast<const nn::Weighted&>(model->find(layer.layer)).weight(),
                     is = dynamic_cast<const nn::Weighted&>(prepared->find(layer.layer)).weight();
        const double step = static_cast<double>(grids.at(layer.layer).scale());
        for (std::size_t i = 0; i < was.flat<float>().size(); ++i) {
            const double code = static_cast<double>(is.flat<float>()[i]) / step;
            const double steps = static_cast<double>(was.flat<float>()[i]) / step;
            CHECK(std::abs(code - std::round(code)) < 1e-5);
            CHECK(code > -8.5);
            CHECK(code < 7.5);
            if (steps < 7.0) CHECK(std::abs(code - steps) < 1.0);
        }
    }
    CHECK(changed > 10);
    CHECK(training::mse_loss((*prepared)(images).tensor(), exact).value <
          0.5 * training::mse_loss(before, exact).value);

    // The error of the first layer, without the library's means: its input is that of the model, rounded by the stub.
    const auto& layer = dynamic_cast<const nn::Conv2d&>(prepared->find("a"));
    Tensor seen;
    improve::run_and_visit(
        *prepared, images, {"a"},
        [&](const graph::Node&, std::span<const nn::Value> inputs, const nn::Value&) { seen = inputs[0].tensor(); });
    const Tensor weight = dynamic_cast<const nn::Weighted&>(model->find("a")).weight();
    const auto give = [&](const Tensor& x, const Tensor& w) {
        return nn::float_operators::relu(nn::float_operators::conv2d(x, w, {}, layer.options().window, 1));
    };
    Tensor nearest = weight.clone();
    const double step = static_cast<double>(grids.at("a").scale());
    for (float& w : nearest.flat<float>())
        w = static_cast<float>(step * std::clamp(std::nearbyint(static_cast<double>(w) / step), -8.0, 7.0));
    const Tensor wanted = give(images, weight);
    CHECK(training::mse_loss(give(seen, layer.weight()), wanted).value <
          0.8 * training::mse_loss(give(seen, nearest), wanted).value);
}

TEST_CASE("AdaRound comes near to the best of all roundings of a layer that is small enough to try them") {
    const auto model = small_network();
    const Tensor images = natural_images(64, 3, 6);
    const auto prepared = prepare_calibration_fx(*model, coarse_weights(4), march::bayes::policy);
    calibrate(*prepared, images, 16);
    Tensor x, wanted;
    const auto reference = improve::float_copy(*prepared);
    improve::run_and_visit(*reference, images, {"c"},
                           [&](const graph::Node&, auto, const nn::Value& output) { wanted = output.tensor(); });
    const auto& layer = dynamic_cast<const nn::Weighted&>(prepared->find("c"));
    const Tensor weight = layer.weight().clone();
    const double step =
        static_cast<double>(dynamic_cast<PreparedWeight&>(prepared->find("c")).weight_fake_quant().qparams().scale());
    improve::AdaRoundOptions options = quick_rounding();
    options.iterations = 1500;
    options.layers = {"c"};
    const auto report = improve::adaround(*prepared, batches_of(images, 64), options);
    improve::run_and_visit(*prepared, images, {"c"},
                           [&](const graph::Node&, std::span<const nn::Value> inputs, const nn::Value&) {
                               x = inputs[0].tensor().contiguous();
                           });

    // An output channel has six weights of its own: 64 roundings, each tried on all pixels.
    double best = 0;
    const auto in = std::as_const(x).view<float, 4>(), out = std::as_const(wanted).view<float, 4>();
    for (index_t o = 0; o < 4; ++o) {
        double least = HUGE_VAL;
        for (unsigned bits = 0; bits < 64; ++bits) {
            std::array<double, 6> w{};
            for (std::size_t c = 0; c < 6; ++c) {
                const double code =
                    std::floor(static_cast<double>(weight.flat<float>()[static_cast<std::size_t>(o) * 6 + c]) / step);
                w[c] = step * std::clamp(code + (bits >> c & 1), -8.0, 7.0);
            }
            double error = 0;
            for (index_t n = 0; n < x.extent(0); ++n)
                for (index_t i = 0; i < x.extent(2); ++i)
                    for (index_t j = 0; j < x.extent(3); ++j) {
                        double y = static_cast<double>(layer.bias().flat<float>()[static_cast<std::size_t>(o)]) -
                                   static_cast<double>(out(n, o, i, j));
                        for (index_t c = 0; c < 6; ++c)
                            y += w[static_cast<std::size_t>(c)] * static_cast<double>(in(n, c, i, j));
                        error += y * y;
                    }
            least = std::min(least, error);
        }
        best += least;
    }
    best /= static_cast<double>(wanted.size());
    REQUIRE(report.layers.size() == 1);
    INFO("nearest " << report.layers[0].nearest_error << ", learnt " << report.layers[0].error << ", best " << best);
    CHECK(report.layers[0].error >= best * (1 - 1e-5));
    CHECK(report.layers[0].error - best < 0.25 * (report.layers[0].nearest_error - best));
}

TEST_CASE(
    "AdaRound's codes are those of the converted model; the same seed gives the same, and a layer can be chosen") {
    const auto model = small_network();
    const Tensor images = natural_images(32, 3, 6);
    const auto prepared = prepare_calibration_fx(*model, coarse_weights(4), march::bayes::policy);
    calibrate(*prepared, images, 16);
    const auto again = std::dynamic_pointer_cast<PreparedModel>(nn::clone(static_cast<const nn::Module&>(*prepared)));
    improve::AdaRoundOptions options = quick_rounding();
    options.layers = {"c"};
    const auto report = improve::adaround(*prepared, batches_of(images, 32), options);
    REQUIRE(report.layers.size() == 1);
    CHECK(report.layers[0].changed > 0);
    improve::adaround(*again, batches_of(images, 32), options);
    const Tensor weight = dynamic_cast<const nn::Weighted&>(prepared->find("c")).weight();
    CHECK(test::largest_difference(weight, dynamic_cast<const nn::Weighted&>(again->find("c")).weight()) == 0.0);
    CHECK(test::largest_difference(dynamic_cast<const nn::Weighted&>(prepared->find("a")).weight(),
                                   dynamic_cast<const nn::Weighted&>(model->find("a")).weight()) == 0.0);

    int found = 0;
    for (const QuantizedNode& node : convert_fx(*prepared).nodes) {
        const auto* step = node.as<WeightedStep>();
        if (step == nullptr || node.module != "c") continue;
        ++found;
        const Tensor real = dequantize(step->weight, step->weight_qparams);
        CHECK(test::largest_difference(real, weight) == 0.0);
    }
    CHECK(found == 1);
    options.layers = {"c", "sea"};
    CHECK_THAT(message_of<Error>([&] { improve::adaround(*prepared, batches_of(images, 32), options); }),
               Contains("\"sea\""));
}

TEST_CASE("AdaRound passes over a layer of whose operator training has no gradient, and says so") {
    const auto up = std::make_shared<nn::ConvTranspose2d>(
        nn::ConvTranspose2dOptions{3, 2, nn::square_window(2, 2), {0, 0}, 1, true});
    up->set_weight(test::random_tensor(up->weight().shape(), 8, 0.4f));
    const auto model =
        test::stubbed({{"a", make_conv(3, 3, 1, 1)}, {"up", up}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("up", nn::relu(m.call("a", x[0]))); });
    const Tensor images = natural_images(16, 3, 4);
    const auto prepared = prepare_calibration_fx(*model, coarse_weights(4), march::bayes::policy);
    calibrate(*prepared, images, 16);
    improve::AdaRoundOptions options = quick_rounding();
    options.iterations = 20;
    const auto report = improve::adaround(*prepared, batches_of(images, 16), options);
    const auto rows = training::all_gradient_rows();
    const bool has_gradient = training::find_gradient(rows, "conv_transpose2d", nullptr) != nullptr;
    CHECK(report.layers.size() == (has_gradient ? 2 : 1));
    REQUIRE(report.skipped.size() == (has_gradient ? 0 : 1));
    if (!has_gradient) CHECK_THAT(report.skipped[0].reason, Contains("no gradient of conv_transpose2d"));
}

TEST_CASE("A layer that keeps a batch norm, and a weight that is not rounded, are refused by name") {
    const auto model = test::stubbed(
        {{"a", make_conv(3, 4, 3, 1)}, {"norm", test::make_batch_norm<nn::BatchNorm2d>(4, 7)}},
        [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("norm", m.call("a", x[0]))); });
    const Tensor images = natural_images(16, 3, 4);
    improve::AdaRoundOptions options = quick_rounding();
    options.iterations = 5;
    for (const QATMode mode : {QATMode::with_bn, QATMode::with_bn_reverse_fold}) {
        PrepareOptions keeping;
        keeping.qat_mode = mode;
        const auto prepared = prepare_calibration_fx(*model, coarse_weights(4), march::bayes::policy, keeping);
        calibrate(*prepared, images, 16);
        for (const std::string& message :
             {message_of<Error>([&] { improve::adaround(*prepared, batches_of(images, 16), options); }),
              message_of<Error>([&] { improve::correct_bias(*prepared, batches_of(images, 16)); })})
            CHECK_THAT(message, Contains("a: ") && Contains("fold_batch_norms() first"));
        CHECK(fold_batch_norms(*prepared) == 1);
        CHECK(improve::adaround(*prepared, batches_of(images, 16), options).layers.size() == 1);
    }

    QConfig qconfig = get_default_calib_qconfig(DType::int8, DType::int8);
    qconfig.weight->fake_quantize = fake_quantize_factory<CalibFakeQuantize>();
    const auto prepared = prepare_calibration_fx(*model, QConfigMapping().set_global(qconfig), march::bayes::policy);
    calibrate(*prepared, images, 16);
    CHECK_THAT(message_of<Error>([&] { improve::adaround(*prepared, batches_of(images, 16), options); }),
               Contains("a: ") && Contains("CalibFakeQuantize does not round"));
}
