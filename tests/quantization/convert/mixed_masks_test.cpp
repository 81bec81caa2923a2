// SPDX-License-Identifier: MIT
//
// Masks of scores beside changes of type, and masks that a model computes from inputs: no grid has the mask's number.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "intq/nn.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::LambdaModel;

namespace {

constexpr index_t samples = 4, heads = 2, tokens = 6;

/// Attention over x with scores that `mask_scores` makes of the products and of the second input.
using MaskScores = std::function<nn::Value(LambdaModel&, const nn::Value& scores, const nn::Value& mask)>;

std::shared_ptr<LambdaModel> attention(const MaskScores& mask_scores) {
    auto model = test::make_model({},
                                  [mask_scores](LambdaModel& m, nn::Arguments in) {
                                      const nn::Value x = m.call("quant", in[0]);
                                      const nn::Value products = nn::matmul(x, nn::transpose(x, -1, -2));
                                      const nn::Value scores = mask_scores(m, products, m.call("quant_mask", in[1]));
                                      return m.call("dequant", nn::matmul(m.call("softmax", scores), x));
                                  },
                                  {"x", "mask"});
    for (const char* stub : {"quant", "quant_mask"}) model->add_child(stub, std::make_shared<nn::QuantStub>());
    model->add_child("dequant", std::make_shared<nn::DeQuantStub>());
    model->add_child("softmax", std::make_shared<nn::Softmax>(-1));
    Tensor future = Tensor::zeros(Shape(1, 1, tokens, tokens), DType::uint8);
    Tensor past = Tensor::zeros(Shape(1, 1, tokens, tokens));
    for (index_t i = 0; i < tokens; ++i)
        for (index_t j = 0; j < tokens; ++j) {
            future.flat<std::uint8_t>()[static_cast<std::size_t>(i * tokens + j)] = j > i;
            past.flat<float>()[static_cast<std::size_t>(i * tokens + j)] = j <= i ? 1.0f : 0.0f;
        }
    model->add_child("masked", std::make_shared<nn::MaskedFill>(future, -1e9));
    model->add_buffer("past", past);
    model->eval();
    return model;
}

/// 1 for the tokens that are there, or 0; and `absent` for the others.
Tensor given_tokens(float present, float absent) {
    Tensor mask = Tensor::zeros(Shape(samples, 1, 1, tokens));
    for (float& value : mask.flat<float>()) value = present;
    for (const std::size_t at : {5, 10, 11, 17, 22, 23}) mask.flat<float>()[at] = absent;
    return mask;
}

/// The program is the simulation's byte for byte, and `least` dB from float.
///
/// @param named  what computes in int16
void check(const nn::Module& model, const Tensor& mask, const kernels::KernelTable& table,
           const std::vector<std::string>& named, double least) {
    const std::vector<std::vector<Tensor>> batches{{test::random_tensor(Shape(samples, heads, tokens, 4), 1), mask}};
    QConfigMapping mapping = get_default_qconfig_mapping(table.policy());
    for (const std::string& name : named) mapping.set_module_name(name, get_default_calib_qconfig(DType::int16));
    const auto prepared = prepare_calibration_fx(model, mapping, table.policy());
    calibrate(*prepared, batches);
    ExactSimulation simulation(*prepared, table, samples);
    const Tensor y = lower(simulation.quantized(), table, samples).run(batches[0])[0];
    CHECK(test::same_bytes(y, simulation.run(batches[0])[0]));
    nn::ModulePtr in_float = nn::clone(model);
    CHECK(test::sqnr((*in_float)(nn::Value(batches[0][0]), nn::Value(mask)).tensor(), y) > least);
}

void for_each_table(const std::vector<std::string>& targets,
                    const std::function<void(const kernels::KernelTable&)>& f) {
    for (const kernels::KernelTable* table : test::scalar_tables().tables)
        for (const std::string& target : targets)
            if (table->policy().name == target) {
                INFO(target);
                f(*table);
            }
}

}  // namespace

TEST_CASE("Scores that change their type in front of a softmax keep their mask") {
    const auto model = attention(
        [](LambdaModel& m, const nn::Value& scores, const nn::Value& mask) { return m.call("masked", scores + mask); });
    for_each_table({"fp32", "meta", "tflite"}, [&](const kernels::KernelTable& table) {
        check(*model, given_tokens(0.0f, -1e9f), table, {"softmax"}, 25.0);
        check(*model, given_tokens(0.0f, -1e9f), table, {"masked"}, 25.0);
    });
}

TEST_CASE("A mask that changes its type in front of a sum keeps its number") {
    const auto model =
        attention([](LambdaModel&, const nn::Value& scores, const nn::Value& mask) { return scores + mask; });
    for_each_table({"fp32", "tflite", "litert", "meta"}, [&](const kernels::KernelTable& table) {
        check(*model, given_tokens(0.0f, -1e9f), table, {"quant_mask"}, 25.0);
        check(*model, given_tokens(0.0f, -1e9f), table, {"quant", "softmax"}, 25.0);
    });
}

TEST_CASE("A mask that is computed from inputs and constants costs the scores no range") {
    const auto from_tables = attention([](LambdaModel& m, const nn::Value& scores, const nn::Value& mask) {
        return scores + (nn::Value(1.0) - mask * m.tensor("past")) * -1e9;
    });
    const auto from_pairs = attention([](LambdaModel&, const nn::Value& scores, const nn::Value& mask) {
        return scores + (nn::Value(1.0) - mask * nn::transpose(mask, -1, -2)) * -1e9;
    });
    for_each_table({"fp32", "tflite", "litert", "bayes", "meta"}, [&](const kernels::KernelTable& table) {
        check(*from_tables, given_tokens(1.0f, 0.0f), table, {}, 25.0);
        check(*from_pairs, given_tokens(1.0f, 0.0f), table, {}, 25.0);
    });
}

TEST_CASE("A table of masks that ids choose from costs the scores no range") {
    auto model = test::make_model({},
                                  [](LambdaModel& m, nn::Arguments in) {
                                      const nn::Value x = m.call("quant", in[0]);
                                      const nn::Value scores = nn::matmul(x, nn::transpose(x, -1, -2));
                                      const nn::Value masked = scores + m.call("masks", in[1]);
                                      return m.call("dequant", nn::matmul(nn::softmax(masked, -1), x));
                                  },
                                  {"x", "rows"});
    model->add_child("quant", std::make_shared<nn::QuantStub>());
    model->add_child("dequant", std::make_shared<nn::DeQuantStub>());
    auto masks =
        std::make_shared<nn::Embedding>(nn::EmbeddingOptions{.num_embeddings = tokens, .embedding_dim = tokens});
    Tensor table = Tensor::zeros(Shape(tokens, tokens));
    for (index_t i = 0; i < tokens; ++i)
        for (index_t j = i + 1; j < tokens; ++j) table.flat<float>()[static_cast<std::size_t>(i * tokens + j)] = -1e9f;
    masks->tensor("weight") = table;
    model->add_child("masks", masks);
    model->eval();
    Tensor rows = Tensor::zeros(Shape(samples, tokens), DType::int32);
    for (std::size_t i = 0; i < rows.flat<std::int32_t>().size(); ++i)
        rows.flat<std::int32_t>()[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(tokens));
    const std::vector<std::vector<Tensor>> batches{{test::random_tensor(Shape(samples, tokens, 4), 1), rows}};
    for_each_table({"fp32", "tflite", "litert"}, [&](const kernels::KernelTable& kernels) {
        const auto prepared =
            prepare_calibration_fx(*model, get_default_qconfig_mapping(kernels.policy()), kernels.policy());
        calibrate(*prepared, batches);
        ExactSimulation simulation(*prepared, kernels, samples);
        const Tensor y = lower(simulation.quantized(), kernels, samples).run(batches[0])[0];
        CHECK(test::sqnr((*model)(nn::Value(batches[0][0]), nn::Value(rows)).tensor(), y) > 25.0);
    });
}
