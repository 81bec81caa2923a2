// SPDX-License-Identifier: MIT
//
// Expanded codes, and tensors of the model that are repeated for the samples, from the first call to the program.
#include <memory>
#include <string>
#include <vector>

#include "intq/interop/onnx/import.hpp"
#include "intq/interop/quantized_onnx/import_quantized.hpp"
#include "intq/interop/quantized_onnx/internal/quantized_export.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantize_model.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::LambdaModel;
using test::message_of;

namespace {

constexpr index_t tokens = 5, width = 6;

using Body = nn::Value (*)(LambdaModel&, const nn::Value&);

/// A model of tokens with a class token and positions.
std::shared_ptr<LambdaModel> model_of(Body body) {
    auto model = test::make_model(
        {}, [body](LambdaModel& m, nn::Arguments x) { return m.call("dequant", body(m, m.call("quant", x[0]))); });
    model->add_child("quant", std::make_shared<nn::QuantStub>());
    model->add_child("dequant", std::make_shared<nn::DeQuantStub>());
    model->add_child("linear", test::make_linear(width, 4, 2));
    model->add_parameter("token", test::random_tensor(Shape(1, 1, width), 3));
    model->add_parameter("row", test::random_tensor(Shape(1, width), 5));
    model->add_parameter("positions", test::random_tensor(Shape(1, tokens + 1, width), 4));
    model->eval();
    return model;
}

nn::Value with_class_token(LambdaModel& m, const nn::Value& x) {
    const nn::Value token = nn::expand(m.tensor("token"), {nn::size(x, 0), nn::Value(-1), nn::Value(-1)});
    return m.call("linear", nn::add(nn::cat({token, x}, 1), m.tensor("positions")));
}

/// The program of a model on a table and its simulation give the same bytes; they are near the float model.
void check(Body body, const intq::Tensor& x, const intq::Tensor& more) {
    for (const kernels::KernelTable* table : test::scalar_tables().tables) {
        INFO(table->policy().name);
        const auto model = model_of(body);
        const auto prepared = prepare_calibration_fx(
            *model, get_default_qconfig_mapping(table->policy(), DType::int8, DType::int8), table->policy());
        CHECK(prepared->report().fallbacks.empty());
        calibrate(*prepared, more, more.extent(0));
        calibrate(*prepared, x, x.extent(0));
        ExactSimulation simulation(*prepared, *table, more.extent(0));
        const intq::Tensor simulated = simulation.run({&more, 1})[0].contiguous();
        const intq::Tensor y = lower(simulation.quantized(), *table, more.extent(0)).run(more).contiguous();
        CHECK(test::same_bytes(y, simulated));
        const intq::Tensor expected = (*model)(nn::Value(more)).tensor();
        CHECK(test::sqnr(expected, y) > 28.0);
        const intq::Tensor reference = (*make_reference(simulation.quantized()))(nn::Value(more)).tensor();
        CHECK(test::sqnr(reference, y) > 40.0);
    }
}

}  // namespace

TEST_CASE("A class token is one of each sample, for any number of samples") {
    const auto one = test::random_tensor(Shape(1, tokens, width), 7);
    const auto three = test::random_tensor(Shape(3, tokens, width), 8);
    check(&with_class_token, three, three);
    check(&with_class_token, three, one);
    check(&with_class_token, one, three);
}

TEST_CASE("Codes are repeated along axes, and along new axes where they are a tensor of the model") {
    const auto x = test::random_tensor(Shape(3, tokens, width), 9);
    check([](LambdaModel&, const nn::Value& v) { return nn::expand(nn::slice(v, 1, 2, 3), {-1, 7, -1}); }, x, x);
    check(
        [](LambdaModel& m, const nn::Value& v) {
            const nn::Value row = nn::expand(nn::reshape(m.tensor("row"), {1, 2, 3}), {nn::size(v, 0), 2, 2, 3});
            return nn::add(nn::reshape(nn::slice(v, 1, 0, 2), {-1, 2, 2, 3}), row);
        },
        x, x);
    check(
        [](LambdaModel& m, const nn::Value& v) {
            return nn::cat({v, nn::expand(nn::permute(m.tensor("token"), {0, 1, 2}), {nn::size(v, 0), 2, -1})}, 1);
        },
        x, x);
}

TEST_CASE("The quantizer of a tensor of the model is before its moves") {
    const auto& table = *test::scalar_tables().tables[0];
    const auto prepared = prepare_calibration_fx(
        *model_of(&with_class_token), get_default_qconfig_mapping(table.policy(), DType::int8), table.policy());
    const graph::Node* const expand = prepared->graph().find("expand");
    REQUIRE(expand != nullptr);
    CHECK(quantizer_of(*expand->args()[0].node(), *prepared) != nullptr);
    for (const graph::Node* user : expand->users()) CHECK(quantizer_of(*user, *prepared) == nullptr);
}

TEST_CASE("A converted class token is written to ONNX with the samples open, and read again") {
    const auto& table = *test::scalar_tables().tables[0];
    const auto x = test::random_tensor(Shape(2, tokens, width), 10);
    const auto prepared = prepare_calibration_fx(
        *model_of(&with_class_token), get_default_qconfig_mapping(table.policy(), DType::int8), table.policy());
    calibrate(*prepared, x, 2);
    const QuantizedGraph quantized = convert_fx(*prepared);
    interop::onnx::ExportOptions options;
    options.dynamic_axes = {{"x", {{0, "n"}}}};
    const auto model = interop::onnx::export_quantized(quantized, options);
    const auto again = interop::onnx::import_model(model);
    const auto more = test::random_tensor(Shape(5, tokens, width), 11);
    const intq::Tensor expected = (*make_reference(quantized))(nn::Value(more)).tensor();
    interop::onnx::QuantizedImportOptions reading;
    reading.example_inputs = {more};
    const QuantizedGraph given = interop::onnx::import_quantized(model, reading);
    CHECK(test::same_bytes(lower(given, table, 5).run(more), lower(quantized, table, 5).run(more)));
    // The file holds the bias as codes of the accumulator.
    CHECK(test::largest_difference((*again)(nn::Value(more)).tensor(), expected) < 1e-3);
}

TEST_CASE("Samples are not expanded, and extents must exist") {
    const auto& table = *test::scalar_tables().tables[0];
    const auto prepared = [&](Body body) {
        return message_of<Error>([&] {
            PrepareOptions options;
            options.example_inputs = {test::random_tensor(Shape(1, tokens, width), 1)};
            prepare_calibration_fx(*model_of(body), get_default_qconfig_mapping(table.policy(), DType::int8),
                                   table.policy(), options);
        });
    };
    CHECK(prepared([](LambdaModel&, const nn::Value& v) {
              return nn::expand(v, {8, -1, -1});
          }).find("a program keeps axis 0, the samples, given (1, 5, 6) to (8, 5, 6)") != std::string::npos);
    CHECK(prepared([](LambdaModel& m, const nn::Value& v) {
              return nn::cat({nn::expand(m.tensor("token"), {8, -1, -1}), v}, 1);
          }) != "");
    CHECK(prepared([](LambdaModel&, const nn::Value& v) {
              return nn::expand(v, {-1, 5, -2});
          }).find("expand: an extent must be 0 or more, or -1; given -2") != std::string::npos);
    CHECK(message_of<Error>([&] {
              nn::expand(nn::Value(test::random_tensor(Shape(2, 3), 1)), {4, 3});
          }).find("expand: the shape (2, 3) cannot be expanded to (4, 3)") != std::string::npos);
    CHECK(message_of<Error>([&] {
              nn::expand(nn::Value(test::random_tensor(Shape(2, 3), 1)), {-1, 2, 3});
          }).find("whose axis 0 is a new one") != std::string::npos);
}
