// SPDX-License-Identifier: MIT
//
// Token ids as an input of a program, from the first call to its file.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "intq/interop/onnx/export/internal/export_graph.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/interop/quantized_onnx/internal/quantized_export.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/convert/lower.hpp"
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
using test::message_of;

namespace {

constexpr index_t tokens = 5, width = 6, vocabulary = 40;

std::shared_ptr<test::LambdaModel> make_encoder() {
    auto model = test::make_model({{"embed", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{vocabulary, width})},
                                   {"linear", test::make_linear(width, 4, 2)}},
                                  [](test::LambdaModel& m, nn::Arguments x) {
                                      return m.call("linear", nn::add(m.call("embed", x[0]), m.tensor("positions")));
                                  },
                                  {"ids"});
    model->child("embed")->tensor("weight") = test::random_tensor(Shape(vocabulary, width), 3);
    model->child("embed")->tensor("weight").flat<float>()[vocabulary * width - 1] = 9.0f;  // of a token without data
    model->add_parameter("positions", test::random_tensor(Shape(1, tokens, width), 4));
    model->eval();
    return model;
}

template <class Id> intq::Tensor make_ids(index_t samples, std::int64_t highest = vocabulary - 2) {
    intq::Tensor ids = intq::Tensor::empty(Shape(samples, tokens), dtype_of<Id>);
    for (std::size_t i = 0; i < ids.flat<Id>().size(); ++i)
        ids.flat<Id>()[i] = static_cast<Id>(static_cast<std::int64_t>(i * 7 + i / 3) % (highest + 1));
    return ids;
}

std::shared_ptr<PreparedModel> calibrated(const kernels::KernelTable& table, DType dtype) {
    const auto graph = std::static_pointer_cast<graph::GraphModule>(traced_clone(*make_encoder()));
    add_stubs(*graph);
    auto qconfig = get_default_qconfig(table.policy(), dtype, DType::int8);
    qconfig.output->options.observer = observer_factory<MinMaxObserver>();
    const auto prepared = prepare_calibration_fx(*graph, QConfigMapping().set_global(qconfig), table.policy());
    calibrate(*prepared, make_ids<std::int64_t>(8), 4);
    return prepared;
}

/// Tables of the targets that have the operator.
std::vector<const kernels::KernelTable*> tables() {
    std::vector<const kernels::KernelTable*> result;
    for (const kernels::KernelTable* table : test::scalar_tables().tables)
        if (std::string(table->policy().name) != "bernoulli2") result.push_back(table);
    return result;
}

}  // namespace

TEST_CASE("A model of token ids is a program of integers, and runs as it was simulated") {
    for (const kernels::KernelTable* table : tables())
        for (const DType dtype : {DType::int8, DType::int16}) {
            INFO(table->policy().name << " in " << name_of(dtype));
            const auto prepared = calibrated(*table, dtype);
            CHECK(prepared->report().fallbacks.empty());
            ExactSimulation simulation(*prepared, *table, 3);
            const auto ids = make_ids<std::int64_t>(3, vocabulary - 1);
            const auto simulated = simulation.run({&ids, 1})[0];
            const LoweredModel lowered = lower(simulation.quantized(), *table, 3);
            check_deployable(simulation.quantized());
            CHECK(test::same_bytes(lowered.run(ids), simulated));
            CHECK(test::same_bytes(lowered.run(make_ids<std::int32_t>(3, vocabulary - 1)), simulated));
            const auto expected = (*make_encoder())(nn::Value(ids)).tensor();
            CHECK(test::sqnr(expected, simulated) > (dtype == DType::int8 ? 25.0 : 45.0));
        }
}

TEST_CASE("The grid of an embedding is that of all rows, also of those without data") {
    const auto& table = *tables().front();
    const QuantizedGraph quantized = convert_fx(*calibrated(table, DType::int8));
    const OwnedQParams& grid = quantized.tensor(quantized.values.at("embed")).qparams;
    CHECK(grid.scale() * static_cast<float>(127 - grid.view().zero_point()) > 8.9f);
}

TEST_CASE("An id without a row is refused by name, whatever the type of the ids") {
    const auto& table = *tables().front();
    const LoweredModel lowered = lower(convert_fx(*calibrated(table, DType::int8)), table, 2);
    for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{vocabulary}, INT64_MAX}) {
        auto ids = make_ids<std::int64_t>(2);
        ids.flat<std::int64_t>()[4] = id;
        CHECK(message_of<Error>([&] { lowered.run(ids); }) ==
              "the input \"ids\" holds " + std::to_string(id) + ", expected 0 to 39");
    }
    auto ids = make_ids<std::int32_t>(2);
    ids.flat<std::int32_t>()[4] = vocabulary;
    CHECK(message_of<Error>([&] { lowered.run(ids); }) == "the input \"ids\" holds 40, expected 0 to 39");
    CHECK(message_of<Error>([&] {
              lowered.run(test::random_tensor(Shape(2, tokens), 1));
          }).find("the program takes int32 of shape") == 0);
}

TEST_CASE("An embedding that is to stay in float is the host's part of a hybrid model") {
    const auto& table = *tables().front();
    const auto graph = std::static_pointer_cast<graph::GraphModule>(traced_clone(*make_encoder()));
    add_stubs(*graph);
    PrepareOptions options;
    options.hybrid = true;
    options.hybrid_dict.module_name = {"embed"};
    const auto prepared = prepare_calibration_fx(*graph, get_default_qconfig_mapping(table.policy(), DType::int8),
                                                 table.policy(), options);
    const auto ids = make_ids<std::int64_t>(4);
    calibrate(*prepared, ids, 4);
    const HybridModel hybrid(convert_fx(*prepared), table, 4);
    const auto expected = (*make_encoder())(nn::Value(ids)).tensor();
    CHECK(test::sqnr(expected, hybrid.run(ids)) > 25.0);
}

TEST_CASE("Models of token ids are written to ONNX and read again, in float and converted") {
    const auto& table = *tables().front();
    const auto ids = make_ids<std::int64_t>(3);
    const auto graph = std::static_pointer_cast<graph::GraphModule>(traced_clone(*make_encoder()));
    const auto file = interop::onnx::export_graph(*graph, {&ids, 1});
    CHECK(file.graph.inputs.at(0).dtype == DType::int64);
    const auto again = interop::onnx::import_model(file);
    CHECK(test::same_bytes((*again)(nn::Value(ids)).tensor(), (*graph)(nn::Value(ids)).tensor()));
    const QuantizedGraph quantized = convert_fx(*calibrated(table, DType::int8));
    const auto converted = interop::onnx::export_quantized(quantized);
    CHECK(converted.graph.inputs.at(0).dtype == DType::int64);
    const auto reference = (*make_reference(quantized))(nn::Value(ids)).tensor();
    CHECK(test::largest_difference((*interop::onnx::import_model(converted))(nn::Value(ids)).tensor(), reference) <
          1e-3);
}
