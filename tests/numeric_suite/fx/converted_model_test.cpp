// SPDX-License-Identifier: MIT
//
// ConvertedModel: its values are those that the instructions of the program wrote.
#include "intq/numeric_suite/fx/converted_model.hpp"

#include "intq/arith/bpu.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/numeric_suite/fx/add_loggers.hpp"
#include "intq/numeric_suite/fx/extract_weights.hpp"
#include "intq/numeric_suite/fx/results.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/quantized_model.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/kept_tensors.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
using numeric_suite::fx::ConvertedModel;
using test::message_of;

namespace {

std::shared_ptr<PreparedModel> prepared_net(const kernels::KernelTable& table, const Tensor& x) {
    const auto prepared = prepare_calibration_fx(test::ResidualNet(), get_default_qconfig_mapping(), table.policy());
    calibrate(*prepared, x, x.extent(0));
    return prepared;
}

bool same_bits(const Tensor& a, const Tensor& b) {
    const Tensor x = a.contiguous(), y = b.contiguous();
    return x.size() == y.size() && x.dtype() == y.dtype() &&
           std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.bytes())) == 0;
}

/// The values of a run by the names of nodes.
std::map<std::string, nn::Value> values_of(ConvertedModel& model, const Tensor& x) {
    std::map<std::string, nn::Value> values;
    const nn::Value input = x;
    model.run(std::span(&input, 1),
              [&](const graph::Node& node, const nn::Value& value) { values[node.name()] = value; });
    return values;
}

}  // namespace

TEST_CASE("The values of a converted model are those of the program's instructions and of exact simulation") {
    for (const char* target : {"bayes", "tflite", "fp32"}) {
        INFO(target);
        const auto& table = test::scalar_table(target);
        const Tensor x = test::random_tensor(Shape(5, 3, 8, 8), 3);
        const auto prepared = prepared_net(table, x);
        const QuantizedGraph quantized = convert_fx(*prepared);
        // Batches of 2, 2 and 1 are one run.
        ConvertedModel model(quantized, lower(quantized, table, 2));
        const auto values = values_of(model, x);
        CHECK(same_bits(values.at("output").tensor(), lower(quantized, table, 5).run(x)));

        ExactSimulation simulation(*prepared, table, 5);
        simulation.run(std::span(&x, 1));
        const auto written = test::run_and_keep(lower(quantized, table, 5), x);
        int compared = 0, instructions = 0;
        for (const graph::Node* node : model.graph().nodes()) {
            const auto* step = numeric_suite::fx::step_of(*node, model);
            if (step == nullptr) continue;
            INFO(node->name());
            const Tensor value = values.at(node->name()).tensor();
            CHECK(same_bits(value, simulation.tensor(step->node().output)));
            CHECK(value.shape()[0] == 5);
            if (value.dtype() != DType::float32) CHECK(value.qparams() == step->output().qparams);
            ++compared;
            const auto& name = step->node().module;
            if (step->weight().defined() && written.count(name) != 0) {
                CHECK(same_bits(value, written.at(name)));
                ++instructions;
            }
        }
        CHECK(compared == static_cast<int>(quantized.nodes.size()));
        CHECK(instructions >= 6);
    }
}

TEST_CASE("What is logged is what the given program computes, not what the converted model would") {
    const auto& table = test::scalar_table("bayes");
    const Tensor x = test::random_tensor(Shape(2, 3, 8, 8), 3);
    const QuantizedGraph quantized = convert_fx(*prepared_net(table, x));
    const auto lowered = lower(quantized, table, 2);
    for (const QuantizedNode& node : quantized.nodes)  // the program has a copy of the weight
        if (node.module == "stem") {
            Tensor weight = node.step_as<WeightedStep>().weight;
            std::memset(weight.data(), 0, static_cast<std::size_t>(weight.bytes()));
        }
    ConvertedModel model(quantized, lowered);
    const auto values = values_of(model, x);
    CHECK(same_bits(values.at("output").tensor(), lowered.run(x)));
    ConvertedModel step_by_step(quantized, table);
    CHECK(!same_bits(values_of(step_by_step, x).at("stem").tensor(), values.at("stem").tensor()));
}

TEST_CASE("A model with parts in float runs step by step, to the same bits") {
    const auto& table = test::scalar_table("fp32");
    const Tensor x = test::random_tensor(Shape(2, 3, 8, 8), 3);
    const QuantizedGraph quantized = convert_fx(*prepared_net(table, x));
    ConvertedModel whole(quantized, lower(quantized, table, 2)), steps(quantized, table);
    const auto of_whole = values_of(whole, x), of_steps = values_of(steps, x);
    CHECK(of_whole.size() == of_steps.size());
    for (const auto& [name, value] : of_whole) CHECK(same_bits(value.tensor(), of_steps.at(name).tensor()));
    // A second run, and a clone, give the same.
    CHECK(same_bits(values_of(whole, x).at("output").tensor(), of_steps.at("output").tensor()));
    const auto copy = nn::clone(static_cast<const nn::Module&>(whole));
    CHECK(same_bits((*copy)(x).tensor(), of_steps.at("output").tensor()));
}

TEST_CASE("A model of which the program lacks channels has all of them in the suites") {
    const auto& table = test::scalar_table("fp32");
    const Tensor x = test::random_tensor(Shape(2, 3, 7, 7), 3);
    const auto prepared =
        prepare_calibration_fx(test::HalfDeadNet(), get_default_qconfig_mapping(table.policy()), table.policy());
    calibrate(*prepared, x, 2);
    const QuantizedGraph quantized = convert_fx(*prepared);
    const LoweredModel lowered = lower(quantized, table, 2);
    REQUIRE_FALSE(lowered.program().program().dropped.empty());
    ConvertedModel whole(quantized, lowered), steps(quantized, table);
    const auto of_whole = values_of(whole, x), of_steps = values_of(steps, x);
    for (const auto& [name, value] : of_steps) CHECK(same_bits(value.tensor(), of_whole.at(name).tensor()));
}

TEST_CASE("A model that runs step by step takes a batch beside a constant, to the same bits") {
    for (const char* name : {"add_row", "sub_from_constant"}) {
        INFO(name);
        const auto& table = test::scalar_table("fp32");
        const auto net =
            interop::onnx::import_file(std::string(INTQ_TESTS_DIR "/golden/models/") + name + "_opset13.onnx");
        net->eval();
        add_stubs(*net);
        const Tensor x = test::random_tensor(Shape(3, 4, 6, 5), 3);
        const auto prepared = prepare_calibration_fx(*net, get_default_qconfig_mapping(table.policy()), table.policy());
        calibrate(*prepared, x, 3);
        const QuantizedGraph quantized = convert_fx(*prepared);
        ConvertedModel whole(quantized, lower(quantized, table, 3)), steps(quantized, table);
        const Tensor expected = values_of(whole, x).at("output").tensor();
        CHECK(expected.extent(0) == 3);
        CHECK(same_bits(values_of(steps, x).at("output").tensor(), expected));
    }
}

TEST_CASE("The suite takes what convert_fx with kernels gives, whether a program runs it or a HybridModel") {
    namespace ns = numeric_suite::fx;
    const auto& table = test::scalar_table("fp32");
    const Tensor x = test::random_tensor(Shape(2, 3, 8, 8), 3);
    const auto results_of = [&](PreparedModel& prepared, auto& converted) {
        const auto [a, b] = ns::add_loggers("simulated", prepared, "int8", converted);
        (*a)(x), (*b)(x);
        ns::NSResults results = ns::extract_logger_info(*a, *b, "int8");
        return ns::to_json(results, numeric_suite::TensorJson::data) +
               ns::to_json(ns::extract_weights("simulated", prepared, "int8", converted),
                           numeric_suite::TensorJson::data);
    };
    const auto prepared = prepared_net(table, x);
    const auto model = convert_fx(*prepared, table);
    REQUIRE(model->lowered() != nullptr);
    ConvertedModel by_hand(*model->quantized(), *model->lowered());
    const std::string expected = results_of(*prepared, by_hand);
    CHECK(results_of(*prepared, *model) == expected);
    CHECK(expected.find("\"stem\"") != std::string::npos);
    CHECK(same_bits((*model)(x).tensor(), values_of(by_hand, x).at("output").tensor()));

    const QuantizedModel hybrid(HybridModel(*model->quantized(), table, 2));
    CHECK(results_of(*prepared, hybrid) == expected);
    CHECK(message_of<Error>([&] { ConvertedModel(QuantizedModel(*model->lowered())); }).find("a program alone") !=
          std::string::npos);
}

TEST_CASE("A program of another model is refused") {
    const auto& table = test::scalar_table("fp32");
    const Tensor x = test::random_tensor(Shape(1, 3, 8, 8), 3);
    const QuantizedGraph quantized = convert_fx(*prepared_net(table, x));
    const auto lowered = lower(quantized, table);
    CHECK(message_of<Error>([&] {
              ConvertedModel(quantized, LoweredModel(lowered.shared_program(), lowered.tail()));
          }).find("give what lower() made of this converted model") != std::string::npos);
    // One of the same form, too; a copy is the same model.
    const QuantizedGraph other = convert_fx(*prepared_net(table, x)), copy = quantized;
    CHECK(message_of<Error>([&] {
              ConvertedModel(quantized, lower(other, table));
          }).find("give what lower() made of this converted model") != std::string::npos);
    CHECK_NOTHROW(ConvertedModel(copy, lowered));
}
