// SPDX-License-Identifier: MIT
//
// Quantization-aware training in the target's integers: every code of the forward pass is that of the program.
#include "intq/training/exact_forward.hpp"

#include <cstring>
#include <iostream>

#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/operators/internal/lowering.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/tensor/quantize.hpp"
#include "intq/training/trainer.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/kept_tensors.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;

namespace {

/// Convolutions with batch norm, depthwise and transposed among them, an add, pools, a clamp on codes, a classifier.
nn::ModulePtr small_network() {
    const auto up = std::make_shared<nn::ConvTranspose2d>(
        nn::ConvTranspose2dOptions{4, 4, {{2, 2}, {2, 2}, {}, {1, 1}}, {0, 0}, 1, true});
    up->set_weight(test::random_tensor(up->weight().shape(), 9, 0.4f));
    up->set_bias(intq::Tensor::zeros(Shape(4)));
    return test::stubbed({{"stem", test::make_conv(2, 4, 3, 1, 1, 1, false)},
                          {"bn", test::make_batch_norm<nn::BatchNorm2d>(4, 2)},
                          {"depthwise", test::make_conv(4, 4, 3, 3, 2, 4)},
                          {"bn2", test::make_batch_norm<nn::BatchNorm2d>(4, 12)},
                          {"up", up},
                          {"mix", test::make_conv(4, 4, 3, 5)},
                          {"bn3", test::make_batch_norm<nn::BatchNorm2d>(4, 22)},
                          {"max", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                          {"avg", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1})},
                          {"fc", test::make_linear(4, 3, 7)}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             const nn::Value a = nn::relu(m.call("bn", m.call("stem", x[0])));
                             const nn::Value b = nn::relu6(m.call("bn2", m.call("depthwise", a)));
                             const nn::Value c = nn::relu(m.call("bn3", m.call("mix", m.call("up", b))) + a);
                             const nn::Value d = nn::relu6(m.call("max", c));
                             return m.call("fc", nn::flatten(m.call("avg", d), 1));
                         });
}

struct Count {
    index_t layers = 0, codes = 0, differ = 0;
};

/// Counts the codes of the last recorded pass that are not those of the program that the model is converted to now.
void count_codes(PreparedModel& model, const training::Autograd& autograd, const kernels::KernelTable& table,
                 const intq::Tensor& x, Count& count) {
    const QuantizedGraph quantized = convert_fx(model);
    const LoweredModel lowered = lower(quantized, table, x.extent(0));
    const auto executed = test::run_and_keep(lowered, x);
    for (const graph::Node* node : model.graph().nodes()) {
        const auto known = quantized.values.find(node->name());
        if (known == quantized.values.end() || autograd.value_of(*node) == nullptr) continue;
        const QuantizedTensor& tensor = quantized.tensor(known->second);
        if (tensor.dtype != DType::int8 && tensor.dtype != DType::int16) continue;
        // An operator's own real value becomes codes in the quantizer behind it.
        const nn::Value& value = *autograd.value_of(*node);
        if (!value.is_tensor() || !value.tensor().qparams()) continue;
        // So does that of a clip, which still carries the grid of its input.
        if (!(*value.tensor().qparams() == tensor.qparams)) continue;
        for (const QuantizedNode& made : quantized.nodes) {
            if (made.output != known->second) continue;
            const auto found = executed.find(Lowering::layer(made).name);
            if (found == executed.end()) continue;  // a flatten that a linear layer reads through
            INFO(node->name());
            const intq::Tensor codes = quantize(value.tensor(), tensor.qparams, table.policy().quantize).contiguous();
            REQUIRE(codes.shape() == found->second.shape());
            REQUIRE(codes.dtype() == DType::int8);
            for (std::size_t i = 0; i < codes.flat<std::int8_t>().size(); ++i)
                count.differ += codes.flat<std::int8_t>()[i] != found->second.flat<std::int8_t>()[i] ? 1 : 0;
            ++count.layers;
            count.codes += codes.size();
        }
    }
}

/// After an exact pass that gave y: no code and no bit of the output differs.
void compare(PreparedModel& model, const training::Autograd& autograd, const kernels::KernelTable& table,
             const intq::Tensor& x, const intq::Tensor& y, Count& count) {
    count_codes(model, autograd, table, x, count);
    CHECK(count.differ == 0);
    const intq::Tensor program = lower(convert_fx(model), table, x.extent(0)).run(x);
    REQUIRE(program.shape() == y.shape());
    CHECK(std::memcmp(program.contiguous().data(), y.contiguous().data(), static_cast<std::size_t>(y.bytes())) == 0);
}

training::TrainerOptions trainer_options(std::int64_t epochs) {
    training::TrainerOptions options;
    options.epochs = epochs;
    options.batch_size = 4;
    options.progress = io::ShowProgress::never;
    options.rate = training::constant_rate(0.02);
    return options;
}

/// Which of three bands of the image is brightest.
training::LossFunction task_loss(const intq::Tensor& images) {
    return [images](const intq::Tensor& logits, std::span<const index_t> chosen) {
        std::vector<index_t> labels;
        const index_t size = images.size() / images.extent(0);
        for (const index_t sample : chosen) {
            double sums[3] = {};
            for (index_t i = 0; i < size; ++i)
                sums[i * 3 / size] +=
                    static_cast<double>(images.flat<float>()[static_cast<std::size_t>(sample * size + i)]);
            labels.push_back(std::max_element(sums, sums + 3) - sums);
        }
        return training::cross_entropy(logits, labels);
    };
}

}  // namespace

TEST_CASE("Every code of the training's forward pass is the program's, step after step, on any target") {
    const intq::Tensor images = test::random_tensor(Shape(8, 2, 8, 8), 31);
    Count count, in_float;
    int runs = 0;
    for (const kernels::KernelTable* table : test::scalar_tables().tables)
        for (const QATMode mode : {QATMode::fuse_bn, QATMode::with_bn, QATMode::with_bn_reverse_fold}) {
            INFO(table->policy().name << " " << name_of(mode));
            PrepareOptions prepare;
            prepare.qat_mode = mode;
            const auto qat =
                prepare_qat_fx(*small_network(), get_default_qconfig_mapping(DType::int8), table->policy(), prepare);
            training::ExactForward exact(*qat, *table);
            training::SGD sgd({0.9, 0.0, 0.0, false});
            training::TrainerOptions options = trainer_options(2);
            options.forward = [&](training::Autograd& autograd, std::span<const nn::Value> batch) {
                const nn::Value y = exact(autograd, batch);
                compare(*qat, autograd, *table, batch[0].tensor(), y.tensor(), count);
                return y;
            };
            training::Trainer trainer(*qat, sgd, options);
            trainer.fit(images, task_loss(images));
            CHECK(trainer.position().step == 4);
            ++runs;
            // Validation: what the trained model gives is what is deployed.
            qat->eval();
            set_fake_quantize(*qat, FakeQuantState::validation);
            training::Autograd autograd(*qat);
            const intq::Tensor y = exact(autograd, images).tensor();
            compare(*qat, autograd, *table, images, y, count);
            autograd.forward(images);  // the ordinary simulation, in float
            count_codes(*qat, autograd, *table, images, in_float);
        }
    CHECK(runs == 21);
    CHECK(in_float.differ > 0);
    CHECK(count.layers >= 21 * 5 * 8);
    std::cout << "exact training: " << count.layers << " layers, " << count.codes << " codes, " << count.differ
              << " differ; in float simulation " << in_float.differ << " of " << in_float.codes << "\n";
}

TEST_CASE("Training in the target's integers learns, and only its own passes move observers and statistics") {
    const intq::Tensor images = test::random_tensor(Shape(16, 2, 8, 8), 41);
    const kernels::KernelTable& table = *test::scalar_tables().tables[4];
    PrepareOptions prepare;
    prepare.qat_mode = QATMode::with_bn_reverse_fold;
    const auto make = [&] {
        return prepare_qat_fx(*small_network(), get_default_qconfig_mapping(DType::int8), table.policy(), prepare);
    };
    const auto qat = make(), plain = make();
    training::ExactForward exact(*qat, table);
    training::Autograd autograd(*qat);
    const intq::Tensor first = images.batch(0, 4);
    exact(autograd, first);
    (*plain)(first);
    const auto buffers = qat->named_buffers(), expected = plain->named_buffers();
    REQUIRE(buffers.size() == expected.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        INFO(buffers[i].name);
        REQUIRE(buffers[i].value->bytes() == expected[i].value->bytes());
        if (!buffers[i].value->defined()) continue;
        CHECK(std::memcmp(buffers[i].value->data(), expected[i].value->data(),
                          static_cast<std::size_t>(buffers[i].value->bytes())) == 0);
    }
    for (const auto& [name, quantizer] : quantization::detail::fake_quantizers(*qat))
        CHECK(quantizer->observer_enabled());

    std::vector<double> losses;
    training::Adam adam;
    training::TrainerOptions options = trainer_options(12);
    options.forward = std::ref(exact);
    options.on_epoch = [&](const training::EpochReport& report) { losses.push_back(report.mean_loss); };
    training::Trainer(*qat, adam, options).fit(images, task_loss(images));
    CHECK(losses.back() < 0.6 * losses.front());
}

TEST_CASE("An active Dropout between quantizers is refused by its node; switched off, it does not matter") {
    const auto model = test::stubbed({{"conv", test::make_conv(2, 3, 3, 1)},
                                      {"dropout", std::make_shared<nn::Dropout>(0.5, 3)},
                                      {"fc", test::make_conv(3, 2, 1, 2)}},
                                     [](test::LambdaModel& m, nn::Arguments x) {
                                         return m.call("fc", m.call("dropout", nn::relu(m.call("conv", x[0]))));
                                     });
    const kernels::KernelTable& table = *test::scalar_tables().tables[4];
    const auto qat = prepare_qat_fx(*model, get_default_qconfig_mapping(DType::int8), table.policy());
    training::ExactForward exact(*qat, table);
    training::Autograd autograd(*qat);
    const intq::Tensor x = test::random_tensor(Shape(2, 2, 5, 5), 3);
    CHECK_THROWS_WITH(exact(autograd, x), Contains("call_module[dropout]") && Contains("no place in exact simulation"));
    const auto other = nn::clone(qat);
    training::Autograd of_other(*other);
    CHECK_THROWS_WITH(exact(of_other, x), Contains("belongs to another model"));
    qat->find("dropout").eval();
    Count count;
    const intq::Tensor y = exact(autograd, x).tensor();
    compare(*qat, autograd, table, x, y, count);
    CHECK(count.layers >= 2);
}

TEST_CASE(
    "A batch with NaN is an error that names its node; parameters, quantizers and statistics are those before it") {
    intq::Tensor images = test::random_tensor(Shape(12, 2, 8, 8), 51);
    images.flat<float>()[9 * 128] = NAN;  // in the third batch
    const kernels::KernelTable& table = *test::scalar_tables().tables[4];
    PrepareOptions prepare;
    prepare.qat_mode = QATMode::with_bn;
    const auto qat =
        prepare_qat_fx(*small_network(), get_default_qconfig_mapping(DType::int8), table.policy(), prepare);
    training::ExactForward exact(*qat, table);
    training::Adam adam;
    training::TrainerOptions options = trainer_options(1);
    options.shuffle = false;
    const training::Trainer* running = nullptr;
    const auto state = [&] {
        return io::serialize_safetensors(training::make_checkpoint(*qat, adam, running->position()));
    };
    std::vector<std::byte> before;
    options.forward = [&](training::Autograd& autograd, std::span<const nn::Value> batch) {
        before = state();
        return exact(autograd, batch);
    };
    training::Trainer trainer(*qat, adam, options);
    running = &trainer;
    CHECK_THROWS_WITH(trainer.fit(images,
                                  [](const intq::Tensor& y, std::span<const index_t>) {
                                      return training::mse_loss(y, intq::Tensor::zeros(y.shape()));
                                  }),
                      Contains("epoch 1, batch 3") && Contains("call_module[activation_post_process_0] (%quant)"));
    CHECK(trainer.position().step == 2);
    CHECK(state() == before);
    for (const auto& [name, quantizer] : quantization::detail::fake_quantizers(*qat))
        CHECK(quantizer->observer_enabled());
}

TEST_CASE("Gradients pass straight through: clamped elements stop, others see the exact values") {
    const auto model =
        test::stubbed({{"conv", test::make_conv(2, 3, 1, 1)}, {"fc", test::make_conv(3, 2, 1, 2)}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("fc", m.call("conv", x[0])); });
    const kernels::KernelTable& table = *test::scalar_tables().tables[4];
    const auto qat = prepare_qat_fx(*model, get_default_qconfig_mapping(DType::int8), table.policy());
    const intq::Tensor x = test::random_tensor(Shape(2, 2, 5, 5), 3);
    (*qat)(x);
    // A scale that clamps part of what conv gives.
    auto& quantizer = dynamic_cast<FakeQuantize&>(qat->find("activation_post_process_1"));
    quantizer.set_qparams(0.01f);
    training::Autograd autograd(*qat, {{}, true, {}});
    training::ExactForward exact(*qat, table);
    const intq::Tensor y = exact(autograd, x).tensor(), dy = test::random_tensor(y.shape(), 4);
    const auto gradients = autograd.backward(dy);
    // The gradient of fc's bias is dy's sum; conv's that of what passes fc's weight and the clamp.
    const graph::Node& conv = *qat->graph().find("conv");
    const intq::Tensor real = autograd.value_of(conv)->tensor();
    const auto& fc = dynamic_cast<const PreparedWeight&>(qat->find("fc"));
    const std::vector<nn::Value> inputs{*autograd.value_of(*conv.users()[0])};
    const intq::Tensor weight = fc.quantized_weight(nn::Arguments(inputs));
    double expected[3] = {};
    index_t clamped = 0;
    for (index_t n = 0; n < 2; ++n)
        for (index_t c = 0; c < 3; ++c)
            for (index_t i = 0; i < 25; ++i) {
                const float steps =
                    std::nearbyint(real.flat<float>()[static_cast<std::size_t>((n * 3 + c) * 25 + i)] / 0.01f);
                if (steps < -128.0f || steps > 127.0f) {
                    ++clamped;
                    continue;
                }
                for (index_t o = 0; o < 2; ++o)
                    expected[c] +=
                        static_cast<double>(weight.flat<float>()[static_cast<std::size_t>(o * 3 + c)]) *
                        static_cast<double>(dy.flat<float>()[static_cast<std::size_t>((n * 2 + o) * 25 + i)]);
            }
    CHECK(clamped > 10);
    CHECK(clamped < 140);
    for (std::size_t c = 0; c < 3; ++c)
        CHECK(static_cast<double>(gradients.parameters.at("conv.bias").flat<float>()[c]) ==
              Approx(expected[c]).epsilon(1e-4));
}
