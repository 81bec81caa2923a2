// SPDX-License-Identifier: MIT
//
// What is written as ONNX reads back, gives the same outputs and the same bytes, and what cannot be written is refused.
#include "intq/interop/onnx/write/write.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "interop/one_node.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/interop/onnx/export/internal/export_graph.hpp"
#include "intq/interop/onnx/export/internal/finish_model.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/interop/onnx/read/read.hpp"
#include "intq/io/file.hpp"
#include "intq/nn.hpp"
#include "intq/tensor/npy.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
namespace onnx = interop::onnx;
using Catch::Matchers::Contains;
using test::message_of;
using Bytes = std::vector<std::byte>;

namespace {

const std::filesystem::path models = std::string(INTQ_TESTS_DIR) + "/golden/models";

Bytes bytes_of(const graph::GraphModule& model, const intq::Tensor& x, const onnx::ExportOptions& options = {}) {
    return onnx::serialize_model(onnx::export_graph(model, std::span(&x, 1), options));
}

std::shared_ptr<graph::GraphModule> read_back(const Bytes& bytes) {
    return onnx::import_model(onnx::parse_model(bytes, "written.onnx"));
}

std::shared_ptr<graph::GraphModule> traced(const nn::ModulePtr& model) { return graph::symbolic_trace(model); }

/// A model of one module, on an input.
onnx::Model export_module(const nn::ModulePtr& module, const intq::Tensor& x, const onnx::ExportOptions& options = {}) {
    const auto model =
        test::make_model({{"act", module}}, [](auto& m, nn::Arguments a) { return m.call("act", a[0]); });
    return onnx::export_graph(*traced(model), std::span(&x, 1), options);
}

std::string refusal(const nn::ModulePtr& module, const intq::Tensor& x, const onnx::ExportOptions& options = {}) {
    return message_of<Error>([&] { export_module(module, x, options); });
}

}  // namespace

TEST_CASE("Every small model that is exported reads back to the same outputs, and to the same bytes") {
    std::ifstream manifest(models / "manifest.txt");
    std::string line;
    int exported = 0, same = 0;
    while (std::getline(manifest, line)) {
        std::istringstream words(line);
        std::string name, input, output;
        REQUIRE(words >> name >> input >> output);
        INFO(name);
        const auto model = onnx::import_file(models / (name + ".onnx"));
        const intq::Tensor x = intq::load_npy(models / input);
        Bytes written;
        try {
            written = bytes_of(*model, x);
        } catch (const Error& error) {
            // Of what the import reads, these alone have no form in the opset that is asked for.
            CHECK_THAT(error.what(), Contains("softmax over several axes"));
            continue;
        }
        ++exported;
        const auto again = read_back(written);
        CHECK(test::largest_difference((*again)(x).tensor(), (*model)(x).tensor()) <= 1e-6);
        const bool is_same = bytes_of(*again, x) == written;
        CHECK(is_same);
        same += is_same ? 1 : 0;
    }
    CHECK(exported >= 185);
    CHECK(same == exported);
}

TEST_CASE("A model that was traced is exported under the names of its modules") {
    test::ResidualNet net(4);
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 6, 6), 5);
    const auto model = traced(nn::clone(net));
    const onnx::Model file =
        onnx::export_graph(*model, std::span(&x, 1), {.input_names = {"image"}, .output_names = {"logits"}});
    REQUIRE(file.graph.inputs.size() == 1);
    CHECK(file.graph.inputs[0].name == "image");
    CHECK(file.graph.inputs[0].shape == std::vector<index_t>{2, 3, 6, 6});
    CHECK(file.graph.outputs[0].name == "logits");
    CHECK(file.opset == 11);
    CHECK(file.ir_version == 6);
    std::string types;
    for (const onnx::Node& node : file.graph.nodes) types += node.name + ":" + node.op_type + " ";
    CHECK_THAT(types, Contains("stem:Conv bn:BatchNormalization relu:Relu layer1.0.conv1:Conv layer1.0.bn1:") &&
                          Contains("layer1.0.skip_add:Add") &&
                          Contains("pool:GlobalAveragePool flatten:Flatten fc:Gemm"));
    const auto again = read_back(onnx::serialize_model(file));
    CHECK(test::largest_difference((*again)(x).tensor(), net(x).tensor()) <= 1e-5);
    CHECK(bytes_of(*again, x, {.output_names = {"logits"}}) == onnx::serialize_model(file));
}

TEST_CASE("Each function of one element is written as the operator that reads back as it") {
    const intq::Tensor x = test::random_tensor(Shape(2, 3), 1, 4.0f);
    const std::vector<nn::ModulePtr> modules{
        std::make_shared<nn::Sigmoid>(),    std::make_shared<nn::Tanh>(),        std::make_shared<nn::Hardsigmoid>(),
        std::make_shared<nn::Hardswish>(),  std::make_shared<nn::Hardtanh>(),    std::make_shared<nn::LeakyReLU>(0.25),
        std::make_shared<nn::ELU>(1.5),     std::make_shared<nn::SiLU>(),        std::make_shared<nn::GELU>("tanh"),
        std::make_shared<nn::Softplus>(),   std::make_shared<nn::Softplus>(0.5), std::make_shared<nn::Mish>(),
        std::make_shared<nn::SELU>(),       std::make_shared<nn::CELU>(0.75),    std::make_shared<nn::Softsign>(),
        std::make_shared<nn::Tanhshrink>(), std::make_shared<nn::GELU>(),        std::make_shared<nn::ReLU6>(),
        std::make_shared<nn::Softmax>(1)};
    for (const nn::ModulePtr& module : modules) {
        INFO(module->type_name());
        const onnx::Model file = export_module(module, x);
        const auto again = onnx::import_model(file);
        CHECK(test::largest_difference((*again)(x).tensor(), (*module)(x).tensor()) <= 1e-6);
    }
    CHECK(export_module(std::make_shared<nn::Hardswish>(), x).opset == 14);
    CHECK(export_module(std::make_shared<nn::GELU>(), x).opset == 20);
    CHECK(export_module(std::make_shared<nn::Mish>(), x).opset == 18);
}

TEST_CASE("An opset that is too low is refused with the operator that needs more") {
    const intq::Tensor x = test::random_tensor(Shape(2, 3), 1);
    CHECK_THAT(refusal(std::make_shared<nn::GELU>(), x, {.opset_version = 13}),
               Contains("opset_version 13 is too low for Gelu of %act (GELU), which needs opset 20"));
    CHECK_THAT(refusal(std::make_shared<nn::ReLU>(), x, {.opset_version = 9}), Contains("expected 11 to 28"));
    CHECK(export_module(std::make_shared<nn::ReLU>(), x, {.opset_version = 17}).opset == 17);
}

TEST_CASE("Arguments of an export do what the documents say, or are refused") {
    const intq::Tensor x = test::random_tensor(Shape(2, 3), 1);
    const auto linear = test::make_linear(3, 4, 7);
    const onnx::Model open =
        export_module(linear, x, {.dynamic_axes = {{"x", {{0, "batch"}}}, {"output", {{0, "batch"}}}}});
    CHECK(open.graph.inputs[0].shape == std::vector<index_t>{-1, 3});
    CHECK(open.graph.inputs[0].names[0] == "batch");
    const intq::Tensor more = test::random_tensor(Shape(5, 3), 2);
    CHECK(test::largest_difference((*onnx::import_model(open))(more).tensor(), (*linear)(more).tensor()) <= 1e-6);

    CHECK(export_module(linear, x).graph.inputs.size() == 1);
    CHECK(export_module(linear, x, {.keep_initializers_as_inputs = true}).graph.inputs.size() == 3);
    const onnx::Model untrained = export_module(linear, x, {.export_params = false});
    CHECK(untrained.graph.inputs.size() == 3);
    CHECK(untrained.graph.initializers.empty());
    const onnx::Model with_domain = export_module(linear, x, {.custom_opsets = {{"my.domain", 3}}});
    CHECK(with_domain.other_opsets == std::vector<onnx::OpsetImport>{{"my.domain", 3}});
    CHECK(onnx::parse_model(onnx::serialize_model(with_domain), "m").other_opsets == with_domain.other_opsets);

    CHECK_THAT(refusal(linear, x, {.custom_opsets = {{"my.domain", 0}}}), Contains("\"my.domain\" with version 0"));
    CHECK_THAT(refusal(linear, x, {.input_names = {"\xff"}}), Contains("is not UTF-8"));
    CHECK_THAT(refusal(linear, x, {.dynamic_axes = {{"y", {{0, "n"}}}}}),
               Contains("names \"y\", which is no input or"));
    CHECK_THAT(refusal(linear, x, {.dynamic_axes = {{"x", {{2, "n"}}}}}), Contains("axis 2 of \"x\""));
    CHECK_THAT(refusal(linear, x, {.dynamic_axes = {{"x", {{-1, "n"}}}}}),
               Contains("dynamic_axes names axis -1 of \"x\"") && Contains("counted from the front"));
    CHECK_THAT(refusal(linear, x, {.custom_opsets = {{"ai.onnx", 17}}}),
               Contains("custom_opsets names \"ai.onnx\"") && Contains("opset_version"));
    CHECK_THAT(refusal(linear, x, {.form = static_cast<onnx::QuantizedForm>(7)}),
               Contains("form has the number 7, which is no QuantizedForm"));
    CHECK_THAT(refusal(linear, x, {.input_names = {"a", "b"}}), Contains("2 input_names are given, the model has 1"));
    CHECK_THAT(refusal(linear, x, {.output_names = {"x"}}), Contains("the name \"x\" was given to two"));
    // preserve is evaluation where the model is in it.
    CHECK_THAT(refusal(linear, x, {.training = onnx::TrainingMode::training}), Contains("TrainingMode::eval"));
    const auto graph =
        traced(test::make_model({{"act", linear}}, [](auto& m, nn::Arguments a) { return m.call("act", a[0]); }));
    graph->train();
    CHECK_THAT(message_of<Error>([&] { bytes_of(*graph, x, {.training = onnx::TrainingMode::preserve}); }),
               Contains("preserve") && Contains("in training") && Contains("eval()"));
    graph->eval();
    CHECK(bytes_of(*graph, x, {.training = onnx::TrainingMode::preserve}) == bytes_of(*graph, x));
    CHECK_THAT(refusal(std::make_shared<nn::LSTM>(nn::LSTMOptions{3, 4}), test::random_tensor(Shape(2, 1, 3), 1)),
               Contains("has no ONNX operator"));
    CHECK_THAT(message_of<Error>([&] {
                   const auto model = test::make_model({{"act", linear}},
                                                       [](auto& m, nn::Arguments a) { return m.call("act", a[0]); });
                   onnx::export_graph(*traced(model), {});
               }),
               Contains("takes 1 inputs, given 0 arguments"));
}

TEST_CASE("Large tensors go into a file beside the model, and come back") {
    const test::TemporaryFolder folder;
    const auto linear = test::make_linear(64, 64, 7);
    const intq::Tensor x = test::random_tensor(Shape(1, 64), 1);
    const onnx::Model file = export_module(linear, x);
    onnx::write_model(file, folder / "small.onnx");
    CHECK_FALSE(std::filesystem::exists(folder / "small.onnx.data"));
    onnx::write_model(file, folder / "large.onnx", {.external_above = 1000});
    CHECK(std::filesystem::file_size(folder / "large.onnx.data") == 64 * 64 * 4);
    CHECK(std::filesystem::file_size(folder / "large.onnx") < 4096);
    const auto from_small = onnx::import_file(folder / "small.onnx"),
               from_large = onnx::import_file(folder / "large.onnx");
    CHECK(test::largest_difference((*from_small)(x).tensor(), (*from_large)(x).tensor()) == 0.0);
    CHECK_THAT(message_of<Error>([&] { onnx::write_model(file, folder / "no/m.onnx"); }), Contains("no/m.onnx"));
}

TEST_CASE("The check of a model names what ONNX's own checker would") {
    const intq::Tensor x = test::random_tensor(Shape(2, 3), 1);
    const onnx::Model good = export_module(test::make_linear(3, 4, 7), x);
    onnx::check_model(good);
    const auto message = [&](const auto& damage) {
        onnx::Model model = good;
        damage(model.graph);
        return message_of<Error>([&] { onnx::check_model(model); });
    };
    CHECK_THAT(message([](onnx::Graph& g) { g.nodes[0].inputs[1] = "no"; }), Contains("its input \"no\" is not there"));
    CHECK_THAT(message([](onnx::Graph& g) { g.outputs[0].name = "no"; }), Contains("\"no\" is made by no node"));
    CHECK_THAT(message([](onnx::Graph& g) { g.initializers[1].name = "act_weight"; }),
               Contains("two values have the name \"act_weight\""));
    CHECK_THAT(message([](onnx::Graph& g) { g.initializers[0].dims = {1}; }), Contains("need 4"));
    CHECK_THAT(message([](onnx::Graph& g) { g.nodes[0].domain = "d"; }), Contains("does not import its domain \"d\""));
    CHECK_THAT(message([](onnx::Graph& g) { g.nodes.push_back(g.nodes[0]); }), Contains("another node has its name"));
}
