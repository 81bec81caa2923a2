// SPDX-License-Identifier: MIT
//
// Converted models as ONNX files: the same bytes after an import, the same codes from the program of the imported one.
#include <cstring>
#include <set>
#include <string>

#include "interop/quantized_onnx/quantized_zoo.hpp"
#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/litert.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/interop/onnx/read/read.hpp"
#include "intq/interop/onnx/write/write.hpp"
#include "intq/interop/quantized_onnx/export_to_onnx.hpp"
#include "intq/interop/quantized_onnx/import_quantized.hpp"
#include "intq/interop/quantized_onnx/internal/quantized_export.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/fuse/fuse_fx.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/float_step.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace onnx = interop::onnx;
using Catch::Matchers::Contains;
using onnx::QuantizedForm;
using quantization::QuantizedGraph;
using test::message_of;
using Bytes = std::vector<std::byte>;

namespace {

constexpr arith::PolicyRecord fp32 = target::fp32::policy;

const kernels::KernelTable& table_of(const arith::PolicyRecord& target) {
    for (const kernels::KernelTable* table :
         {&program::best_table<target::fp32>(), &program::best_table<target::tflite<>>(),
          &program::best_table<target::litert>(), &program::best_table<target::bpu<march::bayes>>()})
        if (std::string_view(table->policy().name) == target.name) return *table;
    throw Error(std::string("no table of ") + target.name);
}

Bytes bytes_of(const QuantizedGraph& model, QuantizedForm form) {
    onnx::ExportOptions options;
    options.form = form;
    return onnx::serialize_model(onnx::export_quantized(model, options));
}

QuantizedGraph read_back(const Bytes& bytes, const arith::PolicyRecord& target = fp32) {
    return onnx::import_quantized(onnx::parse_model(bytes, "written.onnx"), {.target = target});
}

std::set<std::string> operators_of(const Bytes& bytes) {
    std::set<std::string> names;
    for (const onnx::Node& node : onnx::parse_model(bytes, "m").graph.nodes) names.insert(node.op_type);
    return names;
}

bool same_results(const QuantizedGraph& a, const QuantizedGraph& b, const intq::Tensor& x) {
    const kernels::KernelTable& table = table_of(a.target);
    const intq::Tensor p = quantization::lower(a, table, 3).run(x).contiguous(),
                       q = quantization::lower(b, table, 3).run(x).contiguous();
    return p.shape() == q.shape() && std::memcmp(p.data(), q.data(), static_cast<std::size_t>(p.bytes())) == 0;
}

bool same_hybrid_results(const QuantizedGraph& a, const QuantizedGraph& b, const intq::Tensor& x) {
    const kernels::KernelTable& table = table_of(a.target);
    return test::largest_difference(quantization::HybridModel(a, table, 3).run(x),
                                    quantization::HybridModel(b, table, 3).run(x)) == 0;
}

/// Whether the modules of these names, or those in them, are steps in float, and there is one.
bool is_in_float(const QuantizedGraph& model, const std::vector<std::string>& names) {
    int found = 0;
    for (const quantization::QuantizedNode& node : model.nodes)
        for (const std::string& name : names)
            if (node.module == name || node.module.starts_with(name + ".")) {
                if (node.as<quantization::FloatStep>() == nullptr) return false;
                ++found;
            }
    return found != 0;
}

/// What stands between QuantizeLinear and DequantizeLinear.
std::set<std::string> float_operators_of(const Bytes& bytes) {
    std::set<std::string> names = operators_of(bytes);
    names.erase("QuantizeLinear"), names.erase("DequantizeLinear");
    return names;
}

}  // namespace

TEST_CASE("Export, import, export gives the same bytes, and the imported model's program the same results") {
    for (const test::ZooModel& one : test::quantized_zoo())
        for (const QuantizedForm form : {QuantizedForm::qdq, QuantizedForm::operators}) {
            INFO(one.name << (form == QuantizedForm::qdq ? ", QDQ" : ", operators"));
            const QuantizedGraph model = quantization::convert_fx(*test::calibrated(*one.model, fp32, one.x));
            const Bytes written = bytes_of(model, form);
            const QuantizedGraph again = read_back(written);
            CHECK(bytes_of(again, form) == written);
            CHECK(same_results(model, again, one.x));
        }
}

TEST_CASE("So it is for the targets whose integers ONNX does not know") {
    for (const arith::PolicyRecord& target : {target::tflite<>::policy, target::bpu<march::bayes>::policy}) {
        INFO(target.name);
        const auto x = test::random_tensor(Shape(3, 3, 6, 6), 7);
        const QuantizedGraph model = quantization::convert_fx(*test::calibrated(test::ResidualNet(4), target, x));
        const Bytes written = bytes_of(model, QuantizedForm::qdq);
        const QuantizedGraph again = read_back(written, target);
        CHECK(bytes_of(again, QuantizedForm::qdq) == written);
        CHECK(same_results(model, again, x));
    }
}

TEST_CASE("int16 layers with a bias come back with the same sums, for every target that has them") {
    const auto x = test::random_tensor(Shape(3, 3, 6, 6), 7);
    for (const arith::PolicyRecord& target :
         {fp32, target::tflite<>::policy, target::litert::policy, target::bpu<march::bayes>::policy}) {
        INFO(target.name);
        const auto prepared = quantization::prepare_calibration_fx(
            test::ResidualNet(4), quantization::get_default_qconfig_mapping(target, DType::int16), target);
        quantization::calibrate(*prepared, x, 3);
        const QuantizedGraph model = quantization::convert_fx(*prepared);
        const Bytes written = bytes_of(model, QuantizedForm::qdq);
        const QuantizedGraph again = read_back(written, target);
        CHECK(bytes_of(again, QuantizedForm::qdq) == written);
        CHECK(same_results(model, again, x));
    }
}

TEST_CASE("A number beside codes is the same operand behind a file") {
    const auto x = test::random_tensor(Shape(3, 3, 6, 6), 7);
    using Binary = nn::Value (*)(const nn::Value&, const nn::Value&);
    const std::pair<const char*, Binary> functions[] = {{"add", &nn::add}, {"sub", &nn::sub}, {"mul", &nn::mul}};
    for (const arith::PolicyRecord& target :
         {target::tflite<>::policy, target::litert::policy, target::bpu<march::bayes>::policy})
        for (const DType dtype : {DType::int8, DType::int16})
            for (const auto& [name, function] : functions)
                for (const double number : {0.0, 0.3, -0.3, 0.5, 2.0}) {
                    if (number == 0.0 && name == std::string("mul")) continue;  // tflite has no int16 product with 0
                    INFO(target.name << ", " << name_of(dtype) << ", " << name << " " << number);
                    const auto model = test::stubbed(
                        {}, [&, f = function](auto&, nn::Arguments a) { return f(a[0], nn::Value(number)); });
                    const auto prepared = quantization::prepare_calibration_fx(
                        *model, quantization::get_default_qconfig_mapping(target, dtype), target);
                    quantization::calibrate(*prepared, x, 3);
                    const QuantizedGraph first = quantization::convert_fx(*prepared);
                    const QuantizedGraph again = read_back(bytes_of(first, QuantizedForm::qdq), target);
                    CHECK(same_results(first, again, x));
                }
}

TEST_CASE("A layer of one channel has one scale, in the first file as in the second") {
    const auto x = test::random_tensor(Shape(3, 3, 6, 6), 7);
    const auto model = test::stubbed({{"one", test::make_conv(3, 1, 3, 1)}},
                                     [](auto& m, nn::Arguments a) { return m.call("one", a[0]); });
    for (const QuantizedForm form : {QuantizedForm::qdq, QuantizedForm::operators}) {
        const Bytes written = bytes_of(quantization::convert_fx(*test::calibrated(*model, fp32, x)), form);
        CHECK(bytes_of(read_back(written), form) == written);
    }
}

TEST_CASE("The shipped network goes to ONNX and back, in both forms") {
    const QuantizedGraph model = test::shipped_network(fp32);
    const std::string folder = INTQ_EXAMPLES_DIR "/digits/data/";
    const intq::Tensor images = intq::load_npy(folder + "test_images.npy").batch(0, 6);
    for (const QuantizedForm form : {QuantizedForm::qdq, QuantizedForm::operators}) {
        const Bytes written = bytes_of(model, form);
        const QuantizedGraph again = read_back(written);
        CHECK(bytes_of(again, form) == written);
        CHECK(same_results(model, again, images));
    }
}

TEST_CASE("Layers in float are written beside codes, and come back with the same bytes and results") {
    std::vector<test::ZooModel> models = test::partly_in_float();
    for (const test::ZooModel& one : test::volumes_in_float()) models.push_back(one);
    for (const arith::PolicyRecord& target :
         {target::fp32::policy, target::tflite<>::policy, target::bpu<march::bayes>::policy})
        for (const test::ZooModel& one : models)
            for (const QuantizedForm form : {QuantizedForm::qdq, QuantizedForm::operators}) {
                INFO(one.name << ", " << target.name << (form == QuantizedForm::qdq ? ", QDQ" : ", operators"));
                const QuantizedGraph model =
                    quantization::convert_fx(*test::calibrated(*one.model, target, one.x, one.in_float));
                CHECK(is_in_float(model, one.in_float));
                const Bytes written = bytes_of(model, form);
                const QuantizedGraph again = read_back(written, target);
                CHECK(is_in_float(again, one.in_float));
                CHECK(bytes_of(again, form) == written);
                CHECK(same_hybrid_results(model, again, one.x));
            }
}

TEST_CASE("A float layer with all that is fused into it is written as its operators") {
    const auto operators = [](const std::string& name, const arith::PolicyRecord& target) {
        for (const auto& zoo : {test::partly_in_float(), test::volumes_in_float()})
            for (const test::ZooModel& one : zoo)
                if (one.name == name)
                    return float_operators_of(
                        bytes_of(quantization::convert_fx(*test::calibrated(*one.model, target, one.x, one.in_float)),
                                 QuantizedForm::qdq));
        throw Error("no model " + name);
    };
    using Names = std::set<std::string>;
    CHECK(operators("float_conv", fp32) == Names{"Conv", "Mul"});
    CHECK(operators("float_conv_relu", fp32) == Names{"Conv", "Relu", "Mul"});
    CHECK(operators("float_conv1d_relu6", fp32) == Names{"Conv", "Clip", "Mul"});
    CHECK(operators("float_add_relu", fp32) == Names{"Conv", "Add", "Relu", "Mul"});
    CHECK(operators("float_linear_rows_relu", fp32) == Names{"MatMul", "Add", "Relu", "Mul"});
    CHECK(operators("float_norm1d_relu", fp32) == Names{"BatchNormalization", "Relu", "Mul"});
    CHECK(operators("float_conv3d", fp32) == Names{"Conv", "Relu", "Mul"});
    CHECK(operators("float_conv_transpose3d", fp32) == Names{"ConvTranspose", "Relu", "Mul"});
    CHECK(operators("float_norm3d", fp32) == Names{"BatchNormalization", "Relu", "Mul"});
    CHECK(operators("float_layer_norm", fp32) == Names{"LayerNormalization", "Relu", "Mul"});
}

TEST_CASE("A float model is written in the same way when it is fused") {
    for (const auto& zoo : {test::partly_in_float(), test::volumes_in_float()})
        for (const test::ZooModel& one : zoo) {
            INFO(one.name);
            const auto fused = quantization::fuse_fx(*one.model);
            const onnx::Model file = onnx::export_model(*fused, std::span(&one.x, 1));
            const nn::ModulePtr again = onnx::import_model(onnx::parse_model(onnx::serialize_model(file), "fused"));
            CHECK(test::largest_difference((*again)(one.x).tensor(), (*fused)(one.x).tensor()) == 0);
        }
}

TEST_CASE("The operator form has an operator on codes for each step that ONNX Runtime computes in the same way") {
    auto zoo = test::quantized_zoo();
    const intq::Tensor image = test::random_tensor(Shape(3, 4, 6, 6), 3);
    zoo.push_back(
        {"sum", test::stubbed({}, [](auto&, nn::Arguments a) { return nn::add(a[0], nn::relu(a[0])); }), image});
    // A reader of codes: the average is no accumulator.
    zoo.push_back({"squared_average",
                   test::stubbed({{"pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1})}},
                                 [](auto& m, nn::Arguments a) {
                                     const nn::Value y = m.call("pool", a[0]);
                                     return nn::mul(y, y);
                                 }),
                   image});
    const auto operators = [&](const std::string& name, QuantizedForm form) {
        for (const test::ZooModel& one : zoo)
            if (one.name == name)
                return operators_of(
                    bytes_of(quantization::convert_fx(*test::calibrated(*one.model, fp32, one.x)), form));
        throw Error("no model " + name);
    };
    const std::vector<std::pair<std::string, std::string>> expected{
        {"conv", "QLinearConv"},
        {"linear", "QGemm"},
        {"matmul", "QLinearMatMul"},
        {"sum", "QLinearAdd"},
        {"mul", "QLinearMul"},
        {"cat", "QLinearConcat"},
        {"average_pool", "QLinearAveragePool"},
        {"squared_average", "QLinearGlobalAveragePool"},
        {"sigmoid", "QLinearSigmoid"},
        {"leaky_relu", "QLinearLeakyRelu"},
        {"softmax", "QLinearSoftmax"},
        {"residual", "QLinearConv"},
        {"global_average", "GlobalAveragePool"}};  // its sum is the output
    for (const auto& [name, op_type] : expected) {
        INFO(name);
        CHECK(operators(name, QuantizedForm::operators).count(op_type) == 1);
        CHECK(operators(name, QuantizedForm::qdq).count("QuantizeLinear") == 1);
        if (op_type.starts_with("Q")) CHECK(operators(name, QuantizedForm::qdq).count(op_type) == 0);
    }
}

TEST_CASE("A file says target, march and grids, and needs no higher opset than its codes") {
    const intq::Tensor x = test::random_tensor(Shape(3, 3, 6, 6), 7);
    const auto prepared = test::calibrated(test::ResidualNet(4), target::bpu<march::bayes>::policy, x);
    const onnx::Model file = onnx::export_model(*prepared, {});
    CHECK(file.opset == 13);
    REQUIRE(file.metadata.size() == 3);
    CHECK(file.metadata[0] == onnx::Property{"intq.target", "bpu"});
    CHECK(file.metadata[1] == onnx::Property{"intq.march", "bayes"});
    CHECK_THAT(file.metadata[2].value, Contains("quant int8 "));
    const onnx::Model read = onnx::parse_model(onnx::serialize_model(file), "m");
    CHECK(read.metadata == file.metadata);

    onnx::ExportOptions low;
    low.opset_version = 11;
    CHECK_THAT(message_of<Error>([&] { onnx::export_model(*prepared, {}, low); }),
               Contains("opset_version 11 is too low for a scale for each channel of \"stem_weight"));
    const auto wide = quantization::prepare_calibration_fx(
        test::ResidualNet(4), quantization::get_default_qconfig_mapping(fp32, DType::int16), fp32);
    quantization::calibrate(*wide, x, 3);
    CHECK(onnx::export_model(*wide, {}).opset == 21);
}

TEST_CASE("Bias codes of a file are taken as they are") {
    const intq::Tensor x = test::random_tensor(Shape(3, 8), 5);
    const auto model = test::stubbed({{"first", test::make_linear(8, 6, 1)}, {"second", test::make_linear(6, 3, 2)}},
                                     [](auto& m, nn::Arguments a) { return m.call("second", m.call("first", a[0])); });
    onnx::Model file = onnx::export_quantized(quantization::convert_fx(*test::calibrated(*model, fp32, x)), {});
    const std::int32_t beyond_float = (1 << 24) + 1;
    for (onnx::FileTensor& tensor : file.graph.initializers)
        if (tensor.name == "first_bias") std::memcpy(tensor.data.data(), &beyond_float, sizeof beyond_float);
    const QuantizedGraph read = onnx::import_quantized(file);
    for (const quantization::QuantizedNode& node : read.nodes)
        if (const auto* step = node.as<quantization::WeightedStep>(); step != nullptr && node.module == "first") {
            REQUIRE(step->bias_codes.size() == 6);
            CHECK(step->bias_codes[0] == beyond_float);
        }
    CHECK(onnx::serialize_model(onnx::export_quantized(read)) == onnx::serialize_model(file));
}

TEST_CASE("What a quantized file must not hold is refused by the node's name") {
    const intq::Tensor x = test::random_tensor(Shape(3, 4, 6, 6), 5);
    const auto model = test::stubbed({{"act", test::make_conv(4, 4, 1, 1)}, {"more", test::make_conv(4, 4, 1, 2)}},
                                     [](auto& m, nn::Arguments a) { return m.call("more", m.call("act", a[0])); });
    const auto converted = quantization::convert_fx(*test::calibrated(*model, fp32, x));
    const auto refusal = [&](const auto& damage) {
        onnx::Model file = onnx::export_quantized(converted, {});
        for (onnx::FileTensor& tensor : file.graph.initializers) damage(tensor);
        return message_of<Error>([&] { onnx::import_quantized(file); });
    };
    CHECK_THAT(refusal([](onnx::FileTensor& tensor) {
                   if (tensor.name == "act_weight_zero_point") tensor.data[0] = std::byte{3};
               }),
               Contains("%act: its weight has a zero point"));
    CHECK_THAT(refusal([](onnx::FileTensor& tensor) {
                   if (tensor.name == "quant_scale") std::memset(tensor.data.data(), 0, tensor.data.size());
               }),
               Contains("the scale holds 0.0") && Contains("QuantizeLinear \"quant\""));
    CHECK_THAT(refusal([](onnx::FileTensor& tensor) {
                   if (tensor.name == "act_weight_scale") tensor.dims = {2, 2};
               }),
               Contains("a scale for each block of elements"));
    QuantizedGraph narrow = converted;
    for (quantization::QuantizedTensor& tensor : narrow.tensors) tensor.qparams.quant_min = -127;
    CHECK_THAT(message_of<Error>([&] { onnx::export_quantized(narrow); }), Contains("lie between -127 and 127"));
}

TEST_CASE("export_to_onnx writes float, prepared and converted models") {
    const test::TemporaryFolder folder;
    test::ResidualNet net(4);
    const intq::Tensor x = test::random_tensor(Shape(3, 3, 6, 6), 7);
    onnx::export_to_onnx(net, x, folder / "float.onnx");
    const auto prepared = test::calibrated(net, fp32, x);
    onnx::export_to_onnx(*prepared, std::span<const intq::Tensor>(), folder / "prepared.onnx");
    const QuantizedGraph converted = quantization::convert_fx(*prepared);
    onnx::export_to_onnx(converted, folder / "converted.onnx");
    CHECK(io::read_file(folder / "prepared.onnx") == io::read_file(folder / "converted.onnx"));
    // What convert_fx() with kernels gives is written, too.
    const auto deployed = quantization::convert_fx(*prepared, table_of(fp32));
    onnx::export_to_onnx(*deployed, x, folder / "deployed.onnx", {.training = onnx::TrainingMode::preserve});
    CHECK(io::read_file(folder / "deployed.onnx") == io::read_file(folder / "converted.onnx"));
    quantization::QuantizedModel program(*deployed->lowered());
    CHECK_THROWS_WITH(onnx::export_to_onnx(program, x, folder / "none.onnx"),
                      Catch::Matchers::Contains("made of a program alone"));
    CHECK(test::largest_difference((*onnx::import_file(folder / "float.onnx"))(x).tensor(), net(x).tensor()) <= 1e-5);
    CHECK(same_results(onnx::import_quantized_file(folder / "prepared.onnx"), converted, x));
    // The imported float form rounds where the file does.
    const auto simulated = onnx::import_file(folder / "prepared.onnx");
    const double step = static_cast<double>(converted.output(converted.nodes.front()).qparams.scale());
    CHECK(test::largest_difference((*simulated)(x).tensor(), quantization::lower(converted, table_of(fp32), 3).run(x)) <
          10 * step);
}
