// SPDX-License-Identifier: MIT
//
// The preset that keeps the residual stream of a transformer in int16.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "intq/nn.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/transformer_mapping.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;

namespace {

constexpr index_t tokens = 6, width = 8;

/// Two blocks of a norm, a mixing linear layer and a skip, behind an embedding and positions.
std::shared_ptr<test::LambdaModel> make_encoder() {
    auto model = test::make_model({{"embed", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{20, width})},
                                   {"norm1", std::make_shared<nn::LayerNorm>(Shape(width))},
                                   {"norm2", std::make_shared<nn::RMSNorm>(Shape(width))},
                                   {"up1", test::make_linear(width, 16, 1)},
                                   {"down1", test::make_linear(16, width, 2)},
                                   {"up2", test::make_linear(width, 16, 3)},
                                   {"down2", test::make_linear(16, width, 4)},
                                   {"skip", std::make_shared<nn::FloatFunctional>()},
                                   {"head", test::make_linear(width, 5, 6)},
                                   {"dequant", std::make_shared<nn::DeQuantStub>()}},
                                  [](test::LambdaModel& m, nn::Arguments ids) {
                                      nn::Value x = nn::add(m.call("embed", ids[0]), m.tensor("positions"));
                                      const nn::Value first =
                                          m.call("down1", nn::gelu(m.call("up1", m.call("norm1", x))));
                                      x = nn::call_add(m, "skip", x, first);
                                      // A square beside its root is no residual add: no layer is between.
                                      const nn::Value up = m.call("up2", m.call("norm2", x));
                                      x = nn::add(m.call("down2", nn::add(up, nn::mul(up, nn::sigmoid(up)))), x);
                                      return m.call("dequant", m.call("head", nn::slice(x, 1, 0, 1)));
                                  },
                                  {"ids"});
    // The first token, which alone is read, is small beside the others, as a class token is.
    intq::Tensor positions = test::random_tensor(Shape(1, tokens, width), 8, 20.0f);
    for (index_t i = 0; i < width; ++i) positions.flat<float>()[static_cast<std::size_t>(i)] *= 0.01f;
    model->add_parameter("positions", positions);
    model->child("embed")->tensor("weight") = test::random_tensor(Shape(20, width), 9, 0.2f);
    model->eval();
    return model;
}

intq::Tensor make_ids(index_t samples) {
    intq::Tensor ids = intq::Tensor::empty(Shape(samples, tokens), DType::int64);
    for (std::size_t i = 0; i < ids.flat<std::int64_t>().size(); ++i)
        ids.flat<std::int64_t>()[i] = static_cast<std::int64_t>(i * 7 % 20);
    return ids;
}

double sqnr_with(const QConfigMapping& mapping, const kernels::KernelTable& table) {
    const auto model = make_encoder();
    const auto prepared = prepare_calibration_fx(*model, mapping, table.policy());
    CHECK(prepared->report().fallbacks.empty());
    const intq::Tensor ids = make_ids(12);
    calibrate(*prepared, ids, 12);
    ExactSimulation simulation(*prepared, table, 12);
    const intq::Tensor simulated = simulation.run({&ids, 1})[0], y = lower(simulation.quantized(), table, 12).run(ids);
    CHECK(test::same_bytes(y, simulated));
    return test::sqnr((*model)(nn::Value(ids)).tensor(), y);
}

}  // namespace

TEST_CASE("The residual stream is its adds, norms and sources, each with its reason") {
    const auto layers = residual_stream(*make_encoder(), target::fp32::policy);
    std::vector<std::string> given;
    for (const StreamLayer& layer : layers) given.push_back(layer.name + ": " + layer.reason);
    CHECK(given == std::vector<std::string>{"embed: source of the stream", "add: source of the stream", "norm1: norm",
                                            "skip: residual add", "norm2: norm", "add_2: residual add"});
    const auto of_bayes = residual_stream(*make_encoder(), target::bpu<march::bayes>::policy);
    CHECK(of_bayes.size() == layers.size() - 2);  // no norm of int16
    CHECK(message_of<Error>([] {
              residual_stream(*make_encoder(), target::bpu<march::bernoulli2>::policy);
          }).find("the target bernoulli2 has no add of int16 codes") != std::string::npos);
}

TEST_CASE("Norms that a target does not have in int16 are named as left out") {
    const auto names = [](const std::vector<StreamLayer>& layers) {
        std::string text;
        for (const StreamLayer& layer : layers) text += layer.name + " (" + layer.reason + ") ";
        return text;
    };
    const auto model = make_encoder();
    CHECK(names(norms_outside_stream(*model, target::bpu<march::bayes>::policy)) == "norm1 (norm) norm2 (norm) ");
    CHECK(names(norms_outside_stream(*model, target::bpu<march::meta>::policy)).empty());
    for (const StreamLayer& layer : residual_stream(*model, target::bpu<march::bayes>::policy))
        CHECK(std::string(layer.reason) != "norm");
}

TEST_CASE("A last layer behind a norm in int16 keeps its accumulator as output") {
    const auto& table = *test::scalar_tables().tables[0];
    const auto model = test::stubbed(
        {{"norm", std::make_shared<nn::LayerNorm>(Shape(width))}, {"head", test::make_linear(width, 5, 6)}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("head", m.call("norm", x[0])); });
    const intq::Tensor x = test::random_tensor(Shape(4, tokens, width), 3);
    const auto prepared =
        prepare_calibration_fx(*model, get_transformer_qconfig_mapping(*model, table.policy()), table.policy());
    calibrate(*prepared, x, 4);
    const QuantizedGraph quantized = convert_fx(*prepared);
    const auto& nodes = quantized.nodes;
    const auto head =
        std::find_if(nodes.begin(), nodes.end(), [](const QuantizedNode& node) { return node.layer() == "head"; });
    REQUIRE(head != nodes.end());
    CHECK(quantized.output(*head).dtype == DType::int32);
}

TEST_CASE("A relu behind a residual add carries the stream, fused or not") {
    const auto model = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                         {"conv", test::make_conv(3, 3, 3, 1)},
                                         {"skip", std::make_shared<nn::FloatFunctional>()},
                                         {"head", test::make_conv(3, 2, 1, 2)},
                                         {"dequant", std::make_shared<nn::DeQuantStub>()}},
                                        [](test::LambdaModel& m, nn::Arguments a) {
                                            const nn::Value x = m.call("quant", a[0]);
                                            const nn::Value y = nn::relu(nn::call_add(m, "skip", m.call("conv", x), x));
                                            return m.call("dequant", m.call("head", y));
                                        });
    model->eval();
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 5, 5), 1);
    for (const kernels::KernelTable* table : test::scalar_tables().tables) {
        if (std::string(table->policy().name) == "bernoulli2") continue;
        INFO(table->policy().name);
        const auto prepared =
            prepare_calibration_fx(*model, get_transformer_qconfig_mapping(*model, table->policy()), table->policy());
        calibrate(*prepared, x, 2);
        CHECK(test::sqnr((*model)(nn::Value(x)).tensor(), lower(convert_fx(*prepared), *table, 2).run(x)) > 30.0);
    }
}

TEST_CASE("With the stream in int16, an encoder is nearer to float by far, and its program is its simulation") {
    for (const kernels::KernelTable* table : test::scalar_tables().tables) {
        const std::string target(table->policy().name);
        if (target == "bernoulli2" || target == "bayes") continue;
        INFO(target);
        const double plain = sqnr_with(get_default_qconfig_mapping(table->policy(), DType::int8), *table),
                     preset = sqnr_with(get_transformer_qconfig_mapping(*make_encoder(), table->policy()), *table);
        CHECK(preset > plain + 3.0);
    }
}
