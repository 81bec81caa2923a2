// SPDX-License-Identifier: MIT
//
// Batch norms that no layer takes, in quantization-aware training: in front of a convolution, behind a pool, a relu, an
// add or a cat, or called twice. What they are in training, in evaluation, and when they are deployed.
#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/quantization/check/check_qat_model.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/modules/batch_norm_conv.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/training/exact_forward.hpp"
#include "intq/training/trainer.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/golden_tensor.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"
#include "training/gradient_check.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using intq::Tensor;
using nlohmann::json;
using nn::Value;
using test::golden_tensor;
using test::LambdaModel;
using test::Numbers;
using test::numbers_of;
using test::relative_error;
using test::same_bytes;

namespace {

constexpr QATMode keeping_modes[] = {QATMode::with_bn, QATMode::with_bn_reverse_fold};

const kernels::KernelTable& bayes() { return *test::scalar_tables().tables[4]; }

// --- the networks of golden/make_batch_norm_goldens.py ----------------------------------------------------------------

nn::ModulePtr conv(index_t in, index_t out, index_t kernel = 3, bool bias = true) {
    return test::make_conv(in, out, kernel, 1, 1, 1, bias);
}
nn::ModulePtr norm(index_t channels) { return test::make_batch_norm<nn::BatchNorm2d>(channels, 1); }

nn::ModulePtr front() {
    return test::make_model({{"norm", norm(3)},
                             {"conv", conv(3, 4)},
                             {"bn", norm(4)},
                             {"norm2", norm(4)},
                             {"conv2", conv(4, 3, 1, false)},
                             {"bn2", norm(3)}},
                            [](LambdaModel& m, nn::Arguments x) {
                                const Value y = nn::relu(m.call("bn", m.call("conv", m.call("norm", x[0]))));
                                return m.call("bn2", m.call("conv2", nn::relu(m.call("norm2", y))));
                            });
}

nn::ModulePtr pools() {
    return test::make_model({{"conv", conv(2, 4, 3, false)},
                             {"bn", norm(4)},
                             {"max", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                             {"norm", norm(4)},
                             {"conv2", conv(4, 4)},
                             {"norm2", norm(4)},
                             {"average", std::make_shared<nn::AvgPool2d>(nn::square_window(2, 2))},
                             {"norm3", norm(4)},
                             {"conv3", conv(4, 3, 1)}},
                            [](LambdaModel& m, nn::Arguments x) {
                                const Value y = nn::relu(m.call("bn", m.call("conv", x[0])));
                                const Value z = m.call("conv2", m.call("norm", m.call("max", y)));
                                const Value average = m.call("average", nn::relu(m.call("norm2", nn::relu(z))));
                                return m.call("conv3", m.call("norm3", average));
                            });
}

nn::ModulePtr adds() {
    return test::make_model({{"conv", conv(3, 3)},
                             {"bn", norm(3)},
                             {"norm", norm(3)},
                             {"conv2", conv(3, 3, 1)},
                             {"norm2", norm(3)},
                             {"last", conv(3, 2)}},
                            [](LambdaModel& m, nn::Arguments x) {
                                const Value sum = m.call("bn", m.call("conv", x[0])) + x[0];
                                const Value y = nn::relu(m.call("norm", sum));
                                return m.call("last", m.call("norm2", m.call("conv2", y) + y));
                            });
}

nn::ModulePtr cats() {
    return test::make_model({{"conv", conv(3, 3, 3, false)},
                             {"bn", norm(3)},
                             {"part", norm(3)},
                             {"norm", norm(6)},
                             {"conv2", conv(6, 2, 1, false)},
                             {"norm2", norm(8)},
                             {"last", conv(8, 2, 1)}},
                            [](LambdaModel& m, nn::Arguments x) {
                                const Value first = m.call("bn", m.call("conv", x[0]));
                                const Value y = nn::cat({first, m.call("part", x[0])}, 1);
                                const Value more = m.call("conv2", nn::relu(m.call("norm", y)));
                                return m.call("last", m.call("norm2", nn::cat({y, more}, 1)));
                            });
}

nn::ModulePtr twice() {
    return test::make_model(
        {{"norm", norm(3)}, {"stem", conv(3, 3, 1)}, {"bn", norm(3)}, {"conv", conv(3, 3)}, {"last", conv(3, 2, 1)}},
        [](LambdaModel& m, nn::Arguments x) {
            const Value y = nn::relu(m.call("bn", m.call("stem", m.call("norm", x[0]))));
            return m.call("last", m.call("norm", m.call("conv", y) + y));
        });
}

/// Behind one of two calls of a convolution, which PyTorch fuses into both calls.
nn::ModulePtr shared() {
    return test::make_model({{"conv", conv(3, 3)}, {"behind", norm(3)}, {"last", conv(3, 2, 1)}},
                            [](LambdaModel& m, nn::Arguments x) {
                                const Value y = m.call("behind", m.call("conv", x[0]));
                                return m.call("last", y + m.call("conv", x[0]));
                            });
}

struct Network {
    const char* name;
    nn::ModulePtr (*make)();
    std::vector<std::string> alone;  // the nodes of batch norms that no layer takes
    index_t channels;
};

const Network networks[] = {{"Front", &front, {"norm", "norm2"}, 3}, {"Pools", &pools, {"norm", "norm2", "norm3"}, 2},
                            {"Adds", &adds, {"norm", "norm2"}, 3},   {"Cats", &cats, {"part", "norm", "norm2"}, 3},
                            {"Twice", &twice, {"norm"}, 3},          {"Shared", &shared, {"behind"}, 3}};

const Network& network_of(const std::string& name) {
    for (const Network& network : networks)
        if (name == network.name) return network;
    throw std::runtime_error("no network " + name);
}

QATMode mode_of(const std::string& name) {
    for (const QATMode mode : {QATMode::fuse_bn, QATMode::with_bn, QATMode::with_bn_reverse_fold})
        if (name == name_of(mode)) return mode;
    throw std::runtime_error("no mode " + name);
}

/// The network with the numbers of a golden case.
nn::ModulePtr golden_network(const json& golden) {
    const nn::ModulePtr model = network_of(golden.at("name")).make();
    const json& state = golden.at("state");
    for (const auto& parameter : model->named_parameters()) *parameter.value = golden_tensor(state.at(parameter.name));
    for (const auto& buffer : model->named_buffers()) *buffer.value = golden_tensor(state.at(buffer.name));
    return model;
}

/// The quantizers of the script.
QConfigMapping golden_mapping() {
    QConfig qconfig = get_default_qat_qconfig();
    for (auto* part : {&qconfig.weight, &qconfig.output}) {
        (*part)->options.observer_options.quant_min = -127;
        (*part)->options.observer_options.quant_max = 127;
    }
    return QConfigMapping().set_global(qconfig);
}

std::shared_ptr<PreparedModel> as_torch(const nn::Module& model, QATMode mode) {
    PrepareOptions options;
    options.compatibility = Compatibility::torch;
    options.qat_mode = mode;
    return prepare_qat_fx(model, golden_mapping(), target::tflite<>::policy, options);
}

/// A bias in front of a batch norm has the gradient 0, but for rounding.
void check_gradient_of(const std::string& name, const Numbers& found, const Numbers& wanted) {
    INFO(name);
    const auto largest = [](const Numbers& values) {
        double result = 0;
        for (const double value : values) result = std::max(result, std::fabs(value));
        return result;
    };
    if (largest(wanted) < 1e-4)
        CHECK(largest(found) < 1e-4);
    else
        CHECK(relative_error(found, wanted) < 1e-3);
}

// --- what a user does -------------------------------------------------------------------------------------------------

std::shared_ptr<graph::GraphModule> with_stubs(const nn::ModulePtr& model) {
    const auto traced = graph::symbolic_trace(nn::clone(model));
    add_stubs(*traced);
    return traced;
}

std::shared_ptr<PreparedModel> prepare(const nn::Module& model, QATMode mode, const arith::PolicyRecord& target,
                                       const char* kind = "fake_quant") {
    PrepareOptions options;
    options.qat_mode = mode;
    options.high_precision_output = false;
    const QConfig qconfig = get_default_qat_qconfig({.activation_fake_quant = kind, .weight_fake_quant = kind});
    return prepare_qat_fx(model, QConfigMapping().set_global(qconfig), target, options);
}

/// A few epochs, with a decay of all parameters.
void train(graph::GraphModule& model, const Tensor& images) {
    training::SGD sgd({0.9, 0.0, 0.01, false});
    training::TrainerOptions options;
    options.epochs = 2;
    options.batch_size = 4;
    options.seed = 3;
    options.rate = training::constant_rate(0.02);
    options.progress = io::ShowProgress::never;
    training::Trainer(model, sgd, options).fit(images, [](const Tensor& y, std::span<const index_t>) {
        return training::mse_loss(y, Tensor::full(y.shape(), 0.5f));
    });
}

void validate(nn::Module& model) {
    model.eval();
    set_fake_quantize(model, FakeQuantState::validation);
}

/// The program's codes are those of the validated model, but for roundings at ties.
void check_program(PreparedModel& qat, const kernels::KernelTable& table, const Tensor& x) {
    const graph::Node& last = *qat.graph().find("dequant")->inputs().at(0);
    const float step = dynamic_cast<const FakeQuantize&>(*graph::module_of(last, qat)).qparams().scale();
    const Tensor given = lower(convert_fx(qat), table, x.extent(0)).run(x), y = qat(x).tensor().contiguous();
    REQUIRE(given.shape() == y.shape());
    index_t count = 0;
    for (std::size_t i = 0; i < y.flat<float>().size(); ++i) {
        const float steps = std::fabs(given.flat<float>()[i] - y.flat<float>()[i]) / step;
        CHECK(steps < 2.01f);
        count += steps > 0.5f ? 1 : 0;
    }
    // bernoulli2 rounds down behind every layer.
    if (std::string(table.policy().name) != "bernoulli2") CHECK(count <= y.size() / 20);
}

}  // namespace

TEST_CASE("QAT of networks with batch norms in every position is PyTorch's: outputs, gradients and statistics") {
    int cases = 0;
    for (const json& golden : test::golden_cases("batch_norm_qat")) {
        INFO(golden.at("name") << " " << golden.at("mode"));
        const QATMode mode = mode_of(golden.at("mode"));
        const auto qat = as_torch(*golden_network(golden), mode);
        training::Autograd autograd(*qat, {{}, true, {}});
        autograd.forward(golden_tensor(golden.at("inputs").at(0)));
        const Tensor y = autograd.forward(golden_tensor(golden.at("inputs").at(1))).tensor();
        CHECK(relative_error(numbers_of(y), numbers_of(golden_tensor(golden.at("y")))) < 1e-4);
        const training::Gradients gradients = autograd.backward(golden_tensor(golden.at("dy")));
        check_gradient_of("dx", numbers_of(gradients.inputs.at(0)), numbers_of(golden_tensor(golden.at("dx"))));
        CHECK(gradients.parameters.size() == golden.at("gradients").size());
        for (const auto& [name, wanted] : golden.at("gradients").items())
            check_gradient_of(name, numbers_of(gradients.parameters.at(name)), numbers_of(golden_tensor(wanted)));
        int statistics = 0;
        for (const auto& buffer : qat->named_buffers()) {
            if (buffer.name.find("running_") == std::string::npos) continue;
            INFO(buffer.name);
            CHECK(relative_error(numbers_of(*buffer.value),
                                 numbers_of(golden_tensor(golden.at("running").at(buffer.name)))) < 1e-5);
            ++statistics;
        }
        CHECK(statistics == static_cast<int>(golden.at("running").size()));
        ++cases;
    }
    CHECK(cases == 15);
}

TEST_CASE("The report names the batch norms that no layer takes, and says which are frozen") {
    for (const Network& network : networks)
        for (const QATMode mode : {QATMode::fuse_bn, QATMode::with_bn, QATMode::with_bn_reverse_fold}) {
            INFO(network.name << " " << name_of(mode));
            const auto qat = prepare(*with_stubs(network.make()), mode, bayes().policy());
            std::vector<std::string> named;
            for (const LoneBatchNorm& norm : qat->report().batch_norms) {
                named.push_back(norm.node);
                CHECK_THAT(norm.type, Contains("BN") || Contains("BatchNorm2d"));
                CHECK_THAT(norm.treatment, mode == QATMode::fuse_bn ? Contains("its statistics are frozen")
                                                                    : Contains("trained on batch statistics"));
            }
            CHECK(named == network.alone);
        }
    // One behind a layer is none of them.
    const auto fused = test::stubbed({{"conv", conv(2, 2)}, {"norm", norm(2)}}, [](LambdaModel& m, nn::Arguments x) {
        return m.call("norm", m.call("conv", x[0]));
    });
    for (const QATMode mode : {QATMode::fuse_bn, QATMode::with_bn})
        CHECK(prepare(*fused, mode, bayes().policy())->report().batch_norms.empty());
}

TEST_CASE("Without rounding a model that keeps such batch norms is the float model, in training and in evaluation") {
    for (const Network& network : networks)
        for (const QATMode mode : keeping_modes) {
            INFO(network.name << " " << name_of(mode));
            const nn::ModulePtr model = network.make();
            model->train();  // and prepare asks for no eval()
            const auto real = graph::symbolic_trace(nn::clone(model));
            const auto qat = prepare(*with_stubs(model), mode, target::fp32::policy);
            CHECK(qat->training());
            set_fake_quantize(*qat, FakeQuantState::float_);
            const Tensor x = test::random_tensor(Shape(4, network.channels, 4, 4), 5, 2.0f);
            for (const bool training : {true, false}) {
                qat->train(training);
                real->train(training);
                training::Autograd a(*qat, {{}, true, {}}), b(*real, {{}, true, {}});
                const Tensor y = a.forward(x).tensor(), wanted_y = b.forward(x).tensor();
                CHECK(relative_error(numbers_of(y), numbers_of(wanted_y)) < 1e-6);
                const Tensor dy = test::random_tensor(y.shape(), 6);
                const auto found = a.backward(dy), wanted = b.backward(dy);
                CHECK(relative_error(numbers_of(found.inputs.at(0)), numbers_of(wanted.inputs.at(0))) < 1e-5);
                CHECK(found.parameters.size() == wanted.parameters.size());
                for (const auto& buffer : real->named_buffers())
                    for (const std::string& alone : network.alone)
                        if (buffer.name.starts_with(alone + ".")) {
                            const std::string own = alone + ".bn" + buffer.name.substr(alone.size());
                            INFO(own);
                            CHECK(relative_error(numbers_of(*qat->find_tensor(own)), numbers_of(*buffer.value)) < 1e-6);
                        }
            }
        }
}

TEST_CASE("The statistics of such a batch norm move in training, and stay where they are frozen") {
    const Tensor x = test::random_tensor(Shape(4, 3, 4, 4), 5, 2.0f);
    for (const QATMode mode : keeping_modes) {
        const auto qat = prepare(*with_stubs(front()), mode, target::fp32::policy);
        const auto mean = [&] { return numbers_of(*qat->find_tensor("norm2.bn.running_mean")); };
        const Numbers before = mean();
        (*qat)(x);
        const Numbers moved = mean();
        CHECK(moved != before);
        freeze_bn_stats(*qat);
        training::Autograd autograd(*qat);
        const Tensor y = autograd.forward(x).tensor();
        CHECK(autograd.backward(test::random_tensor(y.shape(), 6)).parameters.count("norm2.bn.weight") == 1);
        CHECK(mean() == moved);
        update_bn_stats(*qat);
        (*qat)(x);
        CHECK(mean() != moved);
        validate(*qat);
        const Numbers last = mean();
        (*qat)(x);
        CHECK(mean() == last);
    }
}

TEST_CASE("In evaluation such a batch norm is the depthwise convolution that is deployed, to the bit") {
    const Tensor images = test::random_tensor(Shape(8, 3, 4, 4), 7, 2.0f),
                 x = test::random_tensor(Shape(3, 3, 4, 4), 8);
    int raised = 0;  // by mode and kind, for each target that has no wider accumulators
    for (const kernels::KernelTable* table : test::scalar_tables().tables)
        for (const QATMode mode : keeping_modes)
            for (const char* kind : {"fake_quant", "lsq", "pact"}) {
                INFO(table->policy().name << " " << name_of(mode) << " " << kind);
                const auto qat = prepare(*with_stubs(front()), mode, table->policy(), kind);
                for (const auto& parameter : qat->named_parameters()) CHECK(parameter.name != "norm.weight");
                train(*qat, images);
                // A bias for which the target raises the scale, so that the factor has few codes.
                qat->find_tensor("norm2.bn.weight")->flat<float>()[0] = 3e-6f;
                qat->find_tensor("norm2.bn.bias")->flat<float>()[0] = 50.0f;
                validate(*qat);
                const QuantizedGraph graph = convert_fx(*qat);
                std::map<std::string, Tensor> outputs;
                const Value input(x);
                qat->run(std::span(&input, 1), [&](const graph::Node& node, const Value& value) {
                    outputs[node.name()] = value.is_tensor() ? value.tensor() : Tensor();
                });
                int layers = 0;
                for (const QuantizedNode& node : graph.nodes) {
                    const auto* step = node.as<WeightedStep>();
                    if (step == nullptr || (node.name != "norm" && node.name != "norm2")) continue;
                    const graph::Node& call = *qat->graph().find(node.name);
                    const Tensor& given = outputs.at(call.inputs().at(0)->name());
                    CHECK(same_bytes((*step->layer)(given).tensor(), outputs.at(node.name)));
                    if (node.name == "norm2") raised += std::abs(step->weight.flat<std::int8_t>()[0]) < 100 ? 1 : 0;
                    ++layers;
                }
                CHECK(layers == 2);
                check_program(*qat, *table, x);
            }
    CHECK(raised >= 6);
}

TEST_CASE("Among modules such a batch norm trains and deploys to the bits of the graph's way") {
    const kernels::KernelTable& table = bayes();
    const Tensor images = test::random_tensor(Shape(8, 2, 6, 6), 7, 2.0f),
                 held_out = test::random_tensor(Shape(3, 2, 6, 6), 8);
    const auto model =
        test::stubbed({{"norm", norm(2)},
                       {"conv", conv(2, 4)},
                       {"max", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                       {"norm2", norm(4)},
                       {"last", conv(4, 3, 1)}},
                      [](LambdaModel& m, nn::Arguments x) {
                          return m.call("last", m.call("norm2", m.call("max", m.call("conv", m.call("norm", x[0])))));
                      });
    const QConfigMapping mapping = QConfigMapping().set_global(get_default_qat_qconfig());
    for (const QATMode mode : keeping_modes) {
        INFO(name_of(mode));
        PrepareModulesOptions options;
        options.qat_mode = mode;
        PrepareOptions on_graph;
        on_graph.qat_mode = mode;
        on_graph.high_precision_output = false;
        model->train();  // it need not be in evaluation
        const nn::ModulePtr eager = prepare_qat(model, mapping, table.policy(), options);
        const auto fx = prepare_qat_fx(*model, mapping, table.policy(), on_graph);
        const auto traced = graph::symbolic_trace(eager);
        train(*traced, images);
        train(*fx, images);
        for (const char* name : {"norm.bn.running_mean", "norm2.bn.running_var", "norm.bn.weight", "norm2.bn.bias"}) {
            INFO(name);
            CHECK(same_bytes(*eager->find_tensor(name), *fx->find_tensor(name)));
            CHECK_FALSE(same_bytes(*eager->find_tensor(name),
                                   *model->find_tensor(std::string(name).erase(std::string(name).find(".bn"), 3))));
        }
        validate(*eager);
        validate(*fx);
        CHECK(same_bytes((*eager)(held_out).tensor(), (*fx)(held_out).tensor()));
        CHECK(same_bytes((*convert(eager, table))(held_out).tensor(), lower(convert_fx(*fx), table, 3).run(held_out)));
    }
    // Folded it is frozen, which the check of the model says; and in evaluation only.
    const auto frozen_in = [&](QATMode mode) {
        PrepareModulesOptions options;
        options.qat_mode = mode;
        std::vector<std::string> names;
        for (const auto& row : inspect_qat_model(*prepare_qat(model, mapping, table.policy(), options)).unusual)
            if (row.message == "Batch norm that no layer takes is frozen") names.push_back(row.name);
        return names;
    };
    CHECK_THROWS_WITH(frozen_in(QATMode::fuse_bn),
                      Contains("norm: it becomes a layer with weights in evaluation only"));
    model->eval();
    CHECK(frozen_in(QATMode::fuse_bn) == std::vector<std::string>{"norm", "norm2"});
    CHECK(frozen_in(QATMode::with_bn).empty());
}

TEST_CASE("Such a batch norm is folded in the middle of a training, and its weight trains from then on") {
    const Tensor images = test::random_tensor(Shape(8, 3, 4, 4), 7, 2.0f),
                 x = test::random_tensor(Shape(3, 3, 4, 4), 8);
    for (const QATMode mode : keeping_modes) {
        const auto qat = prepare(*with_stubs(front()), mode, bayes().policy());
        train(*qat, images);
        validate(*qat);
        const Tensor before = (*qat)(x).tensor();
        CHECK(fold_batch_norms(*qat) == 4);
        CHECK_FALSE(qat->find("norm").has_child("bn"));
        const Tensor zero = Tensor::zeros(before.shape());
        CHECK(test::largest_difference((*qat)(x).tensor(), before) < 0.05 * test::largest_difference(before, zero));
        qat->train();
        set_fake_quantize(*qat, FakeQuantState::qat);
        training::Autograd autograd(*qat);
        const Tensor y = autograd.forward(x).tensor();
        const auto gradients = autograd.backward(test::random_tensor(y.shape(), 6)).parameters;
        CHECK(gradients.count("norm.weight") == 1);
        CHECK(gradients.count("norm.bias") == 1);
        validate(*qat);
        check_program(*qat, bayes(), x);
    }
}

TEST_CASE("A state with a weight in front of a kept batch norm that is not 1 is refused") {
    const auto qat = prepare(*with_stubs(front()), QATMode::with_bn, bayes().policy());
    nn::StateDict state = nn::state_dict(*qat);
    nn::load_state_dict(*qat, state);
    for (auto& entry : state)
        if (entry.name == "norm.weight") entry.value = Tensor::full(entry.value.shape(), 0.5f);
    CHECK_THROWS_WITH(nn::load_state_dict(*qat, state), Contains("its weight is 1 in front of the batch norm"));
}

TEST_CASE("A calibration in another mode is refused, since the weight of such a batch norm was another") {
    const Tensor images = test::random_tensor(Shape(4, 3, 4, 4), 7, 2.0f);
    const auto calibrated = [&](QATMode mode) {
        PrepareOptions options;
        options.qat_mode = mode;
        options.high_precision_output = false;
        const QConfigMapping mapping = QConfigMapping().set_global(get_default_calib_qconfig(DType::int8, DType::int8));
        const auto model = prepare_calibration_fx(*with_stubs(front()), mapping, target::fp32::policy, options);
        (*model)(images);
        return model;
    };
    const auto qat = prepare(*with_stubs(front()), QATMode::with_bn_reverse_fold, target::fp32::policy, "lsq");
    CHECK_THROWS_WITH(load_calibration(*qat, *calibrated(QATMode::fuse_bn)),
                      Contains("norm: load_calibration") && Contains("calibrate in the same QATMode"));
    CHECK_FALSE(qat->find_tensor("norm.weight_fake_quant.scale")->defined());
    load_calibration(*qat, *calibrated(QATMode::with_bn_reverse_fold));
    for (const float scale : qat->find_tensor("norm.weight_fake_quant.scale")->flat<float>())
        CHECK(scale == 1.0f / 127);
}

TEST_CASE(
    "An exact forward pass of a model with such batch norms gives the program's values, and their statistics move") {
    const Tensor images = test::random_tensor(Shape(4, 3, 4, 4), 7, 2.0f);
    for (const QATMode mode : keeping_modes) {
        const auto qat = prepare(*with_stubs(twice()), mode, bayes().policy());
        training::Autograd autograd(*qat);
        training::ExactForward exact(*qat, bayes());
        const Numbers before = numbers_of(*qat->find_tensor("norm.bn.running_mean"));
        const Tensor y = exact(autograd, images).tensor();
        const auto gradients = autograd.backward(test::random_tensor(y.shape(), 6)).parameters;
        CHECK(gradients.count("norm.bn.weight") == 1);
        CHECK(numbers_of(*qat->find_tensor("norm.bn.running_mean")) != before);
        CHECK(same_bytes(exact.simulation()->value_of("dequant")->contiguous(), y));
    }
}
