// SPDX-License-Identifier: MIT
//
// A file whose number of samples is open gives what the model gives, for any number: each operator that is written,
// float and quantized, is read again and run with two others than that of the example.
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "interop/quantized_onnx/exported_zoo.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/graph/operators.hpp"
#include "intq/interop/onnx/export/internal/export_graph.hpp"
#include "intq/interop/onnx/export/internal/rows.hpp"
#include "intq/interop/onnx/read/read.hpp"
#include "intq/interop/onnx/write/write.hpp"
#include "intq/interop/quantized_onnx/export_to_onnx.hpp"
#include "intq/interop/quantized_onnx/import_quantized.hpp"
#include "intq/interop/quantized_onnx/internal/quantized_export.hpp"
#include "intq/nn/float_operators/unary.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/fuse/fuse_fx.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace onnx = interop::onnx;
using Catch::Matchers::Contains;
using test::ExportedModel;
using test::message_of;

namespace {

constexpr index_t example = 3;
constexpr std::array<index_t, 2> others{1, 5};

std::vector<nn::Value> values_of(const std::vector<intq::Tensor>& tensors) { return {tensors.begin(), tensors.end()}; }

intq::Tensor run(nn::Module& model, const std::vector<intq::Tensor>& inputs) {
    const std::vector<nn::Value> values = values_of(inputs);
    return model.dispatch("forward", values).tensor();
}

onnx::Model export_open(const ExportedModel& one, graph::GraphModule& model) {
    const auto x = one.inputs(example, 20);
    return onnx::export_graph(model, x, test::open_batch(one.names(), run(model, x).rank()));
}

std::shared_ptr<graph::GraphModule> read_back(const onnx::Model& file) {
    return onnx::import_model(onnx::parse_model(onnx::serialize_model(file), "written.onnx"));
}

/// What export_graph() says of a model of one input whose first axis is open, and of the image axes if asked.
std::string refusal(const test::LambdaModel::Forward& body, const Shape& sample, bool opens_height = false,
                    std::optional<std::int64_t> opset = {}) {
    const ExportedModel one{"m", test::make_model({}, body), sample};
    const auto x = one.inputs(example, 20);
    onnx::ExportOptions options = test::open_batch(one.names(), 1);
    if (opens_height) options.dynamic_axes["x"][2] = "height";
    options.opset_version = opset;
    return message_of<Error>([&] { onnx::export_model(*one.model, x, options); });
}

}  // namespace

TEST_CASE("An open batch stays open in every operator of a float model") {
    std::set<std::string> written;
    for (const ExportedModel& one : test::exported_zoo()) {
        INFO(one.name);
        const auto traced = quantization::traced_clone(*one.model);
        for (const graph::Node* node : traced->graph().nodes()) written.insert(graph::operator_of(*node, *traced));
        const auto again = read_back(export_open(one, *traced));
        for (const index_t samples : others) {
            const auto x = one.inputs(samples, 30);
            const intq::Tensor expected = run(*one.model, x), given = run(*again, x);
            REQUIRE(given.shape() == expected.shape());
            CHECK(test::largest_difference(given, expected) <= 1e-5);
        }
    }
    // No operator is left out.
    for (const onnx::ExportRow& row : onnx::export_rows) {
        INFO(row.op);
        CHECK(written.count(std::string(row.op)) == 1);
    }
    for (const auto& row : nn::float_operators::unary_rows) {
        INFO(row.name);
        CHECK(written.count(std::string(row.name)) == 1);
    }
}

TEST_CASE("An open batch stays open in every operator of a converted model, in both forms") {
    const kernels::KernelTable& table = program::best_table<target::fp32>();
    std::vector<test::ZooModel> zoo = test::quantized_zoo();
    zoo.push_back({"resize_bilinear",
                   test::stubbed({},
                                 [](auto&, nn::Arguments a) {
                                     return nn::interpolate(a[0], nn::Value::Tuple{9, 16}, {}, "bilinear");
                                 }),
                   test::random_tensor(Shape(3, 4, 6, 6), 3)});
    for (const test::ZooModel& one : zoo) {
        const auto model = quantization::convert_fx(*test::calibrated(*one.model, target::fp32::policy, one.x));
        for (const auto form : {onnx::QuantizedForm::qdq, onnx::QuantizedForm::operators}) {
            INFO(one.name << (form == onnx::QuantizedForm::qdq ? ", QDQ" : ", operators"));
            onnx::ExportOptions options = test::open_batch({model.tensor(model.inputs[0]).name}, 1);
            options.form = form;
            const onnx::Model file = onnx::export_quantized(model, options);
            for (const index_t samples : others) {
                Shape shape = one.x.shape();
                shape[0] = samples;
                const bool takes_ids = one.x.dtype() == DType::int64;
                const intq::Tensor x = takes_ids ? test::random_ids(shape, 30, 7) : test::random_tensor(shape, 30);
                onnx::QuantizedImportOptions reading;
                reading.example_inputs = {x};
                const auto again =
                    onnx::import_quantized(onnx::parse_model(onnx::serialize_model(file), "written.onnx"), reading);
                const intq::Tensor expected = quantization::lower(model, table, samples).run(x);
                const intq::Tensor given = quantization::lower(again, table, samples).run(x);
                REQUIRE(given.shape() == expected.shape());
                // A linear resize that was read is that of ONNX Runtime, within one code.
                const bool is_linear = one.name == "resize_bilinear";
                const double step = is_linear ? double{model.output(model.nodes.front()).qparams.scale()} : 0.0;
                CHECK(test::largest_difference(given, expected) <= 1.001 * step);
            }
        }
    }
}

TEST_CASE("Sizes for any number of samples are those of two axes, or a whole factor") {
    const auto file = [](index_t height, index_t width) {
        const ExportedModel one{"m",
                                test::make_model({},
                                                 [=](auto&, nn::Arguments a) {
                                                     return nn::interpolate(a[0], nn::Value::Tuple{height, width});
                                                 }),
                                Shape(4, 6, 6)};
        return export_open(one, *quantization::traced_clone(*one.model));
    };
    CHECK(file(12, 18).opset == 13);
    const onnx::Model sizes = file(9, 16);
    CHECK(sizes.opset == 18);
    REQUIRE(sizes.graph.nodes.size() == 1);
    CHECK(sizes.graph.nodes[0].attributes[0].name == "axes");
    REQUIRE(sizes.graph.initializers.size() == 1);
    CHECK(sizes.graph.initializers[0].dims == std::vector<index_t>{2});
    CHECK_THAT(refusal(
                   [](auto&, nn::Arguments a) {
                       return nn::interpolate(a[0], nn::Value::Tuple{9, 16});
                   },
                   Shape(4, 6, 6), false, 17),
               Contains("opset_version 17 is too low for the size of a Resize for any number of samples of "
                        "%interpolate (interpolate), which needs opset 18"));
}

TEST_CASE("An operator that would hold an extent that stays open is refused by name") {
    const Shape image(4, 6, 6);
    CHECK_THAT(refusal([](auto&, nn::Arguments a) { return nn::slice(a[0], 1, 0, nn::size(a[0], 0)); }, image),
               Contains("(slice): its argument 4 is computed from an extent that dynamic_axes leaves open"));
    CHECK_THAT(refusal(
                   [](auto&, nn::Arguments a) {
                       return nn::reshape(
                           a[0], {nn::Value(2), nn::size(a[0], 0) * nn::Value(2), nn::size(a[0], 0) * nn::Value(12)});
                   },
                   image),
               Contains("(reshape): two extents of its target"));
    // Height and width that stay open are sizes of two axes, and are not those of windows.
    const auto to_size = [](auto&, nn::Arguments a) { return nn::interpolate(a[0], nn::Value::Tuple{12, 18}); };
    CHECK_THAT(refusal(to_size, image, true, 13), Contains("which needs opset 18"));
    CHECK_THAT(refusal(
                   [](auto&, nn::Arguments a) {
                       return nn::interpolate(a[0], nn::Value::Tuple{nn::size(a[0], 2) * nn::Value(2), nn::Value(12)});
                   },
                   image, true),
               Contains("its argument 2 is computed from an extent"));
    const ExportedModel quarters{"m",
                                 test::make_model({{"act", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{2, 2})}},
                                                  [](auto& m, nn::Arguments a) { return m.call("act", a[0]); }),
                                 image};
    onnx::ExportOptions options = test::open_batch({"x"}, 1);
    options.dynamic_axes["x"][3] = "width";
    const auto x = quarters.inputs(example, 20);
    CHECK_THAT(message_of<Error>([&] { onnx::export_model(*quarters.model, x, options); }),
               Contains("%act (AdaptiveAvgPool2d): its windows follow from the size of the image"));
}

TEST_CASE("What has no ONNX operator here is refused by name, and no file is there") {
    const test::TemporaryFolder folder;
    const intq::Tensor rows = test::random_tensor(Shape(2, 3, 4), 1);
    const auto refused = [&](const nn::ModulePtr& module, const intq::Tensor& x) {
        const auto model =
            test::make_model({{"act", module}}, [](auto& m, nn::Arguments a) { return m.call("act", a[0]); });
        const std::string message =
            message_of<Error>([&] { onnx::export_to_onnx(*model, x, folder / "refused.onnx"); });
        CHECK_FALSE(std::filesystem::exists(folder / "refused.onnx"));
        return message;
    };
    CHECK_THAT(refused(std::make_shared<nn::LSTM>(nn::LSTMOptions{4, 5}), rows),
               Contains("%act (LSTM): the operator lstm has no ONNX operator that the library writes"));
}
