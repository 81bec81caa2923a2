// SPDX-License-Identifier: MIT
//
// Batch norm in quantization-aware training: folded, kept, folded in reverse; frozen; and what is deployed of each.
#include "intq/arith/fp32.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "intq/nn/model/tape.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/modules/fold_batch_norm.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/training/autograd.hpp"
#include "reference/float_layers.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/golden_tensor.hpp"
#include "support/small_models.hpp"
#include "training/gradient_check.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using intq::Tensor;
using test::golden_floats;
using test::golden_tensor;
using test::Numbers;
using test::numbers_of;
using test::relative_error;

namespace {

Tensor vector_of(const std::vector<float>& values) {
    return Tensor::from(Shape(static_cast<index_t>(values.size())), values);
}

std::shared_ptr<nn::BatchNorm2d> make_norm(const std::vector<float>& gamma, const std::vector<float>& beta,
                                           const std::vector<float>& mean, const std::vector<float>& variance) {
    auto norm = std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{static_cast<index_t>(gamma.size())});
    norm->tensor("weight") = vector_of(gamma);
    norm->tensor("bias") = vector_of(beta);
    norm->tensor("running_mean") = vector_of(mean);
    norm->tensor("running_var") = vector_of(variance);
    return norm;
}

/// A convolution whose weight passes a quantizer, with its batch norm kept.
std::shared_ptr<PreparedConv2d> prepared_conv(nn::Conv2d conv, const std::shared_ptr<nn::BatchNorm2d>& norm,
                                              QATMode mode, const FakeQuantizeOptions& options) {
    conv.add_child("bn", norm);
    const auto prepared = std::make_shared<PreparedConv2d>(conv, nn::Fusion{}, std::make_shared<FakeQuantize>(options),
                                                           target::fp32::policy);
    prepared->set_qat_mode(mode);
    return prepared;
}

/// conv-bn-relu and a transposed convolution with batch norm; among the gammas one that is negative and one that is 0.
nn::ModulePtr network() {
    const auto up = std::make_shared<nn::ConvTranspose2d>(
        nn::ConvTranspose2dOptions{4, 6, {{2, 2}, {2, 2}, {}, {1, 1}}, {0, 0}, 2, true});
    up->set_weight(test::random_tensor(up->weight().shape(), 5, 0.4f));
    return test::stubbed({{"conv", test::make_conv(2, 4, 3, 1)},
                          {"bn", make_norm({0.7f, -1.2f, 0.0f, 2.0f}, {0.1f, 0.4f, 0.5f, -0.3f},
                                           {0.2f, -0.5f, 0.0f, 1.0f}, {0.5f, 1.5f, 1.0f, 3.0f})},
                          {"up", up},
                          {"bn2", test::make_batch_norm<nn::BatchNorm2d>(6, 8)},
                          {"head", test::make_conv(6, 2, 1, 9)}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             const nn::Value y = nn::relu(m.call("bn", m.call("conv", x[0])));
                             return m.call("head", m.call("bn2", m.call("up", y)));
                         });
}

std::shared_ptr<PreparedModel> prepare(const nn::Module& model, QATMode mode,
                                       const QConfig& qconfig = get_default_qat_qconfig()) {
    PrepareOptions options;
    options.qat_mode = mode;
    return prepare_qat_fx(model, QConfigMapping().set_global(qconfig), target::fp32::policy, options);
}

/// A few steps of training by hand, so that statistics, scales and parameters move; then a pass that only observes, so
/// that the scales are those of the last weights.
void train(PreparedModel& model, const Tensor& x) {
    training::Autograd autograd(model);
    for (int step = 0; step < 3; ++step) {
        const Tensor y = autograd.forward(x).tensor();
        const auto gradients = autograd.backward(test::random_tensor(y.shape(), 3, 0.01f));
        for (const auto& parameter : model.named_parameters())
            if (const auto found = gradients.parameters.find(parameter.name); found != gradients.parameters.end())
                for (std::size_t i = 0; i < parameter.value->flat<float>().size(); ++i)
                    if (float& value = parameter.value->flat<float>()[i]; value != 0.0f)  // a gamma of 0 stays
                        value -= 0.05f * found->second.flat<float>()[i];
    }
    freeze_bn_stats(model);
    model(x);
    model.eval();
    set_fake_quantize(model, FakeQuantState::validation);
}

/// What a node of one input is given when the model runs.
std::vector<nn::Value> inputs_of(PreparedModel& model, const std::string& name, const Tensor& x) {
    const graph::Node* const source = model.graph().find(name)->inputs().at(0);
    std::vector<nn::Value> found;
    const nn::Value input(x);
    model.run(std::span(&input, 1), [&](const graph::Node& node, const nn::Value& value) {
        if (&node == source) found.push_back(value);
    });
    return found;
}

std::vector<const WeightedStep*> weighted_steps(const QuantizedGraph& graph) {
    std::vector<const WeightedStep*> result;
    for (const QuantizedNode& node : graph.nodes)
        if (const auto* step = node.as<WeightedStep>()) result.push_back(step);
    return result;
}

}  // namespace

TEST_CASE("Reverse folding is PyTorch's QAT ConvBn2d: a step of training, its statistics, and the evaluation behind") {
    int cases = 0;
    for (const auto& row : test::golden_cases("folding")) {
        if (row.at("kind") != "qat_conv_bn") continue;
        INFO(row.at("name"));
        const bool has_bias = !row.at("bias").is_null();
        nn::Conv2d conv({2, 3, nn::square_window(2), 1, has_bias});
        conv.set_weight(golden_tensor(row.at("weight")));
        if (has_bias) conv.set_bias(vector_of(golden_floats(row.at("bias"))));
        FakeQuantizeOptions options;
        options.compatibility = Compatibility::torch;
        const auto prepared =
            prepared_conv(conv,
                          make_norm(golden_floats(row.at("gamma")), golden_floats(row.at("beta")),
                                    golden_floats(row.at("running_mean")), golden_floats(row.at("running_var"))),
                          QATMode::with_bn_reverse_fold, options);
        CHECK(prepared->type_name() == "qat.ConvBn2d");
        const Tensor x = golden_tensor(row.at("x"));
        CHECK(relative_error(numbers_of((*prepared)(x).tensor()), numbers_of(golden_tensor(row.at("y_train")))) < 1e-5);
        CHECK(static_cast<double>(prepared->weight_fake_quant().qparams().scale()) ==
              Approx(static_cast<double>(test::golden_float(row.at("weight_scale")))).epsilon(1e-6));
        for (const char* name : {"running_mean", "running_var"})
            CHECK(relative_error(numbers_of(prepared->norm()->tensor(name)),
                                 numbers_of(vector_of(golden_floats(row.at(name + std::string("_after")))))) < 1e-5);
        prepared->eval();
        CHECK(relative_error(numbers_of((*prepared)(x).tensor()), numbers_of(golden_tensor(row.at("y_eval")))) < 1e-5);
        ++cases;
    }
    CHECK(cases == 2);
}

TEST_CASE("A kept batch norm without rounding is the layer and the norm one after the other, gradients too") {
    const auto make = [] {
        const auto model = test::make_model({{"conv", test::make_conv(2, 4, 3, 1)},
                                             {"bn", test::make_batch_norm<nn::BatchNorm2d>(4, 3)},
                                             {"fc", test::make_linear(4, 5, 6)},
                                             {"bn1", test::make_batch_norm<nn::BatchNorm1d>(5, 7)}},
                                            [](test::LambdaModel& m, nn::Arguments x) {
                                                const nn::Value y = m.call("bn", m.call("conv", x[0])) + x[1];
                                                return m.call("bn1", m.call("fc", nn::mean(nn::relu(y), {2, 3})));
                                            },
                                            {"x", "z"});
        model->train();
        return model;
    };
    FuseOptions options;
    options.keep_batch_norm = true;
    FuseReport report;
    const auto fused = fuse_fx(*make(), options, &report);
    CHECK(fused->find("conv").type_name() == "ConvBnAddReLU2d");
    CHECK(fused->find("fc").type_name() == "LinearBn1d");
    const auto plain = graph::symbolic_trace(make());
    const std::vector<nn::Value> inputs{test::random_tensor(Shape(3, 2, 5, 5), 8),
                                        test::random_tensor(Shape(3, 4, 5, 5), 9)};
    training::Autograd a(*fused, {{}, true, {}}), b(*plain, {{}, true, {}});
    const Tensor y = a.forward(inputs).tensor(), expected = b.forward(inputs).tensor();
    CHECK(numbers_of(y) == numbers_of(expected));
    const Tensor dy = test::random_tensor(y.shape(), 10);
    const auto found = a.backward(dy), wanted = b.backward(dy);
    REQUIRE(found.parameters.size() == wanted.parameters.size());
    for (const auto& [name, gradient] : wanted.parameters) {
        const std::string own = name.starts_with("bn.")    ? "conv." + name
                                : name.starts_with("bn1.") ? "fc.bn" + name.substr(3)
                                                           : name;
        INFO(own);
        CHECK(numbers_of(found.parameters.at(own)) == numbers_of(gradient));
    }
    for (std::size_t i = 0; i < 2; ++i) CHECK(numbers_of(found.inputs[i]) == numbers_of(wanted.inputs[i]));
    CHECK(numbers_of(*fused->find_tensor("conv.bn.running_var")) == numbers_of(*plain->find_tensor("bn.running_var")));
}

TEST_CASE("The gradients of both kinds are those of the surrogate whose rounding residue is held constant") {
    const Shape x_shape(3, 2, 4, 4), w_shape(3, 2, 2, 2);
    const Numbers variance{0.5, 1.5, 3.0}, mean{0.25, -0.5, 1.0};
    for (const QATMode mode : {QATMode::with_bn, QATMode::with_bn_reverse_fold}) {
        INFO(name_of(mode));
        const bool reverse = mode == QATMode::with_bn_reverse_fold;
        nn::Conv2d conv({2, 3, nn::square_window(2), 1, true});
        conv.set_weight(test::random_tensor(w_shape, 4, 0.5f));
        conv.set_bias(test::random_tensor(Shape(3), 5));
        FakeQuantizeOptions options;
        options.observer_options.quant_min = -8;
        options.observer_options.quant_max = 7;
        const auto prepared = prepared_conv(
            conv, make_norm({1.5f, -0.5f, 0.75f}, {0.5f, 0.25f, -1.0f}, {0.25f, -0.5f, 1.0f}, {0.5f, 1.5f, 3.0f}), mode,
            options);
        const float scale = 0.1f;  // clamps some
        prepared->weight_fake_quant().set_qparams(scale);
        const auto model = graph::symbolic_trace(test::make_model(
            {{"conv", prepared}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]); }));
        model->train();
        const Tensor x = test::random_tensor(x_shape, 6);
        std::vector<Numbers> leaves{numbers_of(x)};
        for (const char* name : {"weight", "bias"}) leaves.push_back(numbers_of(prepared->tensor(name)));
        for (const char* name : {"weight", "bias"}) leaves.push_back(numbers_of(prepared->norm()->tensor(name)));

        const auto factor = [&](double gamma, std::size_t c) {
            return reverse ? gamma / std::sqrt(variance[c] + 1e-5) : 1.0;
        };
        const auto s = static_cast<double>(scale);
        std::size_t clamped = 0;
        for (std::size_t i = 0; i < 24; ++i) {
            const double steps = std::nearbyint(leaves[1][i] * factor(leaves[3][i / 8], i / 8) / s);
            clamped += steps < -8 || steps > 7 ? 1 : 0;
        }
        CHECK(clamped > 0);
        CHECK(clamped < 20);
        const auto surrogate = [&, held = leaves](const std::vector<Numbers>& now) {
            intq_reference::Image image(3, 2, 4, 4), weight(3, 2, 2, 2);
            image.values = now[0];
            for (std::size_t i = 0; i < 24; ++i) {
                const std::size_t c = i / 8;
                const double k = factor(now[3][c], c), before = held[1][i] * factor(held[3][c], c);
                const double steps = std::nearbyint(before / s), rounded = std::clamp(steps, -8.0, 7.0) * s;
                const bool passes = steps >= -8 && steps <= 7;
                weight.values[i] = (passes ? now[1][i] * k + (rounded - before) : rounded) / k;
            }
            const auto product = float_conv2d(image, weight, now[2], intq_reference::Window{2, 2}, 1);
            return float_batch_norm(product, now[3], now[4], 1e-5).values;
        };
        training::Autograd autograd(*model, {{}, true, {}});
        const Tensor y = autograd.forward(x).tensor();
        CHECK(relative_error(numbers_of(y), surrogate(leaves)) < 1e-4);
        const Tensor dy = test::random_tensor(y.shape(), 7);
        const auto gradients = autograd.backward(dy);
        const std::vector<Numbers> found{
            numbers_of(gradients.inputs.at(0)), numbers_of(gradients.parameters.at("conv.weight")),
            numbers_of(gradients.parameters.at("conv.bias")), numbers_of(gradients.parameters.at("conv.bn.weight")),
            numbers_of(gradients.parameters.at("conv.bn.bias"))};
        for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
            INFO("leaf " << leaf);
            if (leaf == 2) {  // batch norm takes away what the bias adds
                for (const double value : found[leaf]) CHECK(std::fabs(value) < 1e-4);
            } else {
                CHECK(relative_error(found[leaf], test::differences(surrogate, leaves, leaf, numbers_of(dy))) < 1e-3);
            }
        }
    }
}

TEST_CASE("Folding in the middle of a training with reverse folding changes neither the model nor what is deployed") {
    const Tensor x = test::random_tensor(Shape(3, 2, 6, 6), 11);
    const auto qat = prepare(*network(), QATMode::with_bn_reverse_fold);
    CHECK(qat->find("conv").type_name() == "qat.ConvBnReLU2d");
    CHECK(qat->find("up").type_name() == "qat.ConvTransposeBn2d");
    train(*qat, x);
    CHECK(qat->find_tensor("conv.bn.weight")->flat<float>()[2] == 0.0f);
    const Tensor before = (*qat)(x).tensor();
    const QuantizedGraph kept = convert_fx(*qat);
    CHECK(fold_batch_norms(*qat) == 2);
    CHECK(fold_batch_norms(*qat) == 0);
    CHECK(qat->find("conv").type_name() == "qat.ConvReLU2d");
    CHECK(test::largest_difference((*qat)(x).tensor(), before) < 1e-4);
    const QuantizedGraph folded = convert_fx(*qat);
    const auto a = weighted_steps(kept), b = weighted_steps(folded);
    REQUIRE(a.size() == 3);
    REQUIRE(b.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(a[i]->weight_qparams == b[i]->weight_qparams);
        const auto codes = a[i]->weight.flat<std::int8_t>(), others = b[i]->weight.flat<std::int8_t>();
        CHECK(std::equal(codes.begin(), codes.end(), others.begin(), others.end()));
        CHECK(test::same_bits(std::vector<float>(a[i]->bias.flat<float>().begin(), a[i]->bias.flat<float>().end()),
                              std::vector<float>(b[i]->bias.flat<float>().begin(), b[i]->bias.flat<float>().end())));
    }
}

TEST_CASE(
    "With batch norm kept, the codes deployed are those of the weight itself, and their scales take its factors") {
    const Tensor x = test::random_tensor(Shape(3, 2, 6, 6), 12);
    auto model = test::stubbed(
        {{"conv", test::make_conv(2, 4, 3, 1)},
         {"bn", make_norm({0.7f, -1.2f, 0.0f, 2.0f}, {0.1f, 0.4f, 0.5f, -0.3f}, {0.2f, -0.5f, 0.0f, 1.0f},
                          {0.5f, 1.5f, 1.0f, 3.0f})}},
        [](test::LambdaModel& m, nn::Arguments in) { return nn::relu(m.call("bn", m.call("conv", in[0]))); });
    const auto qat = prepare(*model, QATMode::with_bn);
    train(*qat, x);
    const auto& prepared = dynamic_cast<const PreparedConv2d&>(qat->find("conv"));
    const std::vector<float> factors = fold_factors(*prepared.norm());
    CHECK(factors[1] < 0.0f);
    CHECK(factors[2] == 0.0f);
    const QuantizedGraph graph = convert_fx(*qat);
    const WeightedStep& step = *weighted_steps(graph).at(0);
    const std::vector<nn::Value> inputs = inputs_of(*qat, "conv", x);
    const Tensor used = prepared.quantized_weight(nn::Arguments(inputs));
    const std::vector<float> scales = prepared.weight_fake_quant().qparams().scales;
    REQUIRE(scales.size() == 4);
    index_t same = 0;
    for (std::size_t i = 0; i < step.weight.flat<std::int8_t>().size(); ++i) {
        const std::size_t c = i / 18;
        const int code = step.weight.flat<std::int8_t>()[i];
        const float own = used.flat<float>()[i] / scales[c];
        if (factors[c] == 0.0f) {
            CHECK(code == 0);
        } else if (std::nearbyint(own) == -128.0f && factors[c] < 0.0f) {
            CHECK(code == 127);
        } else {
            CHECK(code == static_cast<int>(std::nearbyint(factors[c] < 0.0f ? -own : own)));
            ++same;
        }
        if (factors[c] != 0.0f)
            CHECK(step.weight_qparams.scales[c] == Approx(scales[c] * std::fabs(factors[c])).epsilon(1e-6));
    }
    CHECK(same > 50);
    // Its reference graph gives what the trained model gives, but for rounding at ties: one step of the output at most.
    const auto reference = make_reference(graph);
    const float output_step = graph.tensor(graph.nodes.at(1).output).qparams.scale();
    CHECK(graph.nodes.at(1).as<WeightedStep>() == &step);
    const Tensor executed = (*reference)(x).tensor(), trained = (*qat)(x).tensor();
    CHECK(test::largest_difference(executed, trained) < 1.01 * static_cast<double>(output_step));
    // The channel with the negative factor lost the code -128; in the others a code differs only where rounding does.
    index_t differ = 0;
    for (std::size_t i = 0; i < executed.flat<float>().size(); ++i)
        if (i / 36 % 4 != 1)
            differ += std::fabs(executed.flat<float>()[i] - trained.flat<float>()[i]) > 0.5f * output_step ? 1 : 0;
    CHECK(differ <= 2);
    // Groups of a transposed convolution share their scales, which the factors would part.
    CHECK(test::message_of<Error>([&] {
              const auto shared = prepare(*network(), QATMode::with_bn);
              (*shared)(x);
          }).find("use with_bn_reverse_fold or fuse_bn") != std::string::npos);
}

TEST_CASE("The weight that a layer with a kept batch norm says is the one that its product takes") {
    const Tensor x = test::random_tensor(Shape(3, 2, 6, 6), 12);
    for (const QATMode mode : {QATMode::with_bn, QATMode::with_bn_reverse_fold}) {
        INFO(name_of(mode));
        const bool reverse = mode == QATMode::with_bn_reverse_fold;
        const auto qat =
            prepare(*test::stubbed(
                        {{"conv", test::make_conv(2, 4, 3, 1)}, {"bn", test::make_batch_norm<nn::BatchNorm2d>(4, 3)}},
                        [](test::LambdaModel& m, nn::Arguments in) { return m.call("bn", m.call("conv", in[0])); }),
                    mode);
        train(*qat, x);
        auto& prepared = dynamic_cast<PreparedConv2d&>(qat->find("conv"));
        const std::vector<nn::Value> inputs = inputs_of(*qat, "conv", x);
        const auto said = [&] { return numbers_of(prepared.quantized_weight(nn::Arguments(inputs))); };
        const auto taken = [&] {
            nn::Tape tape;
            const nn::TapeScope recording(&tape);
            prepared(inputs[0]);
            const nn::KeptValues kept = tape.take(prepared);
            CHECK(kept.size() == (reverse ? 5 : 2));
            return numbers_of(kept.at("weight").tensor());
        };
        const Numbers before = said();
        CHECK(before == taken());
        CHECK(before != numbers_of(prepared.weight()));
        // It follows the layer without a call in between: the weight, and in reverse folding the batch norm.
        prepared.norm()->tensor("running_var") = Tensor::full(Shape(4), 0.3f);
        CHECK((said() != before) == reverse);
        CHECK(said() == taken());
        prepared.set_weight(test::random_tensor(prepared.weight().shape(), 30, 0.3f));
        CHECK(said() != before);
        CHECK(said() == taken());
    }
}

TEST_CASE("Folding in the middle of a training with batch norm kept observes the folded weights anew") {
    const Tensor x = test::random_tensor(Shape(3, 2, 6, 6), 12);
    const std::vector<float> gamma{0.02f, -1.2f, 0.3f, 9.0f};
    auto model = test::stubbed(
        {{"conv", test::make_conv(2, 4, 3, 1)},
         {"bn", make_norm(gamma, {0.1f, 0.4f, 0.5f, -0.3f}, {0.2f, -0.5f, 0.0f, 1.0f}, {0.5f, 1.5f, 1.0f, 3.0f})}},
        [](test::LambdaModel& m, nn::Arguments in) { return nn::relu(m.call("bn", m.call("conv", in[0]))); });
    // An observer that follows the weight, and one that only widens.
    const bool follows = GENERATE(true, false);
    const QConfig qconfig = follows ? get_default_qat_qconfig() : get_default_calib_qconfig(DType::int8, DType::int8);
    const auto qat = prepare(*model, QATMode::with_bn, qconfig);
    train(*qat, x);
    const Tensor before = (*qat)(x).tensor();
    CHECK(fold_batch_norms(*qat) == 1);
    const auto& conv = dynamic_cast<const PreparedConv2d&>(qat->find("conv"));
    const auto check_scales = [&] {
        const std::vector<float> scales = conv.weight_fake_quant().qparams().scales;
        REQUIRE(scales.size() == 4);
        for (std::size_t c = 0; c < 4; ++c) {
            float largest = 0;
            for (const float w : conv.weight().flat<float>().subspan(c * 18, 18))
                largest = std::max(largest, std::fabs(w));
            CHECK(scales[c] == Approx(largest / 127).epsilon(1e-6));
        }
    };
    check_scales();
    // The outputs are made of other roundings of the same numbers.
    const Tensor after = (*qat)(x).tensor();
    const Tensor zero = Tensor::zeros(before.shape());
    CHECK(test::largest_difference(after, before) < 0.03 * test::largest_difference(before, zero));
    // A further step of training widens nothing.
    set_fake_quantize(*qat, FakeQuantState::qat);
    qat->train();
    (*qat)(x);
    check_scales();
}

TEST_CASE("Frozen statistics stay, in training too, until they are updated again") {
    const Tensor x = test::random_tensor(Shape(3, 2, 6, 6), 13);
    const auto qat = prepare(*network(), QATMode::with_bn_reverse_fold);
    (*qat)(x);
    freeze_bn_stats(*qat);
    qat->train();
    const Numbers mean = numbers_of(*qat->find_tensor("conv.bn.running_mean"));
    const Tensor one = (*qat)(x.batch(0, 1)).tensor(), all = (*qat)(x).tensor();
    CHECK(numbers_of(*qat->find_tensor("conv.bn.running_mean")) == mean);
    training::Autograd autograd(*qat);
    const Tensor y = autograd.forward(x).tensor();
    CHECK(autograd.backward(test::random_tensor(y.shape(), 3)).parameters.count("conv.bn.weight") == 1);
    CHECK(numbers_of(*qat->find_tensor("conv.bn.running_mean")) == mean);
    update_bn_stats(*qat);
    (*qat)(x);
    CHECK(numbers_of(*qat->find_tensor("conv.bn.running_mean")) != mean);
    // A norm that stands alone, too.
    const auto norm = test::make_batch_norm<nn::BatchNorm1d>(3, 4);
    freeze_bn_stats(*norm);
    norm->train();
    const Tensor rows = test::random_tensor(Shape(5, 3), 14);
    const Tensor frozen = (*norm)(rows).tensor();
    norm->eval();
    CHECK(numbers_of(frozen) == numbers_of((*norm)(rows).tensor()));
}

TEST_CASE("The mode of the process is what options that name none have") {
    CHECK(PrepareOptions().qat_mode == QATMode::fuse_bn);
    set_qat_mode("with_bn");
    CHECK(PrepareOptions().qat_mode == QATMode::with_bn);
    set_qat_mode(QATMode::fuse_bn);
    CHECK_THROWS_WITH(set_qat_mode("bn"), Contains("fuse_bn, with_bn and with_bn_reverse_fold") && Contains("\"bn\""));
    CHECK(get_qat_mode() == QATMode::fuse_bn);
    const auto folded = prepare(*network(), QATMode::fuse_bn);
    CHECK(folded->find("conv").type_name() == "qat.ConvReLU2d");
    CHECK_FALSE(folded->find("conv").has_child("bn"));
}
