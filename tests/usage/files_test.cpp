// SPDX-License-Identifier: MIT
//
// Misuses of files: arrays, tensors, calibrations and ONNX models; and of thread pools.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/io/npy.hpp"
#include "intq/io/safetensors.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/calibration_file.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"
#include "intq/tensor/npy.hpp"
#include "intq/tensor/thread_pool.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"
#include "usage/misuse.hpp"

namespace {

using namespace intq;
using intq::Tensor;
using test::make_conv;
using test::random_tensor;
using test::refusal;

const std::filesystem::path models = std::filesystem::path(INTQ_TESTS_DIR) / "golden" / "models";

void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

/// What a reader says of a file with these bytes.
template <class Read> std::string read_with(const std::filesystem::path& path, const std::string& text, Read&& read) {
    write(path, text);
    return refusal([&] { read(path); });
}

/// The first `count` bytes of a file that the library wrote.
std::string beginning_of(const std::filesystem::path& path, std::size_t count) {
    std::ifstream file(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    return text.substr(0, count);
}

/// A convolution between stubs, calibrated.
std::shared_ptr<quantization::PreparedModel> calibrated(index_t channels) {
    const auto model = test::stubbed({{"conv", make_conv(channels, 2, 3, 1)}},
                                     [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]); });
    auto prepared =
        quantization::prepare_calibration_fx(*model, quantization::get_default_qconfig_mapping(), target::fp32::policy);
    quantization::calibrate(*prepared, random_tensor(Shape(2, channels, 5, 5), 1), 1);
    return prepared;
}

}  // namespace

TEST_CASE("bad usage: arrays and tensors in files") {
    const test::TemporaryFolder folder;
    const auto npy = [](const std::filesystem::path& path) { load_npy(path); };
    const auto tensors = [](const std::filesystem::path& path) { io::read_safetensors(path); };
    io::write_npy(folder / "good.npy", to_array(random_tensor(Shape(2, 3), 1)));
    io::write_safetensors(folder / "good.safetensors",
                          {{{"conv.weight", to_array(random_tensor(Shape(2, 3), 1))}}, {}});
    test::check_misuses({
        {"an array that does not exist",
         [&] { return refusal([&] { load_npy(folder / "images.npy"); }); },
         {"images.npy", "No such file"}},
        {"a folder instead of an array",
         [&] { return refusal([&] { load_npy(std::filesystem::path(INTQ_TESTS_DIR)); }); },
         {"tests", "directory"}},
        {"a text file instead of an array",
         [&] { return read_with(folder / "text.npy", "1 2 3\n", npy); },
         {"text.npy", "npy"}},
        {"an empty file instead of an array",
         [&] { return read_with(folder / "empty.npy", "", npy); },
         {"empty.npy", "0 bytes"}},
        {"an array that was copied half",
         [&] { return read_with(folder / "half.npy", beginning_of(folder / "good.npy", 140), npy); },
         {"half.npy", "24", "12"}},
        {"an array with a negative extent",
         [&] {
             std::string text = beginning_of(folder / "good.npy", 1000);
             text.replace(text.find("(2, 3)"), 6, "(-1,3)");
             return read_with(folder / "negative.npy", text, npy);
         },
         {"negative.npy", "(-1, 3)", "negative extent"}},
        {"an array of complex numbers",
         [&] {
             std::string text = beginning_of(folder / "good.npy", 1000);
             text.replace(text.find("<f4"), 3, "<c8");
             return read_with(folder / "complex.npy", text, npy);
         },
         {"complex.npy", "c8", "float32"}},
        {"an array of Python objects",
         [&] {
             std::string text = beginning_of(folder / "good.npy", 1000);
             text.replace(text.find("<f4"), 3, "|O8");
             return read_with(folder / "objects.npy", text, npy);
         },
         {"objects.npy", "O"}},
        {"a name that a file does not hold",
         [&] { return refusal([&] { io::read_safetensors(folder / "good.safetensors").at("conv.weigth"); }); },
         {"conv.weigth", "conv.weight"}},
        {"a PyTorch pickle instead of safetensors",
         [&] { return read_with(folder / "model.pt", "PK\x03\x04" + std::string(60, 'x'), tensors); },
         {"model.pt", "safetensors"}},
        {"safetensors that were copied half",
         [&] { return read_with(folder / "half.safetensors", beginning_of(folder / "good.safetensors", 70), tensors); },
         {"half.safetensors"}},
        {"a write into a folder that does not exist",
         [&] {
             return refusal([&] { io::write_npy(folder / "nowhere" / "x.npy", to_array(Tensor::zeros(Shape(1)))); });
         },
         {"nowhere", "No such file"}},
        {"a tensor that was never made is written",
         [&] { return refusal([&] { io::write_npy(folder / "x.npy", to_array(Tensor())); }); },
         {"undefined"}},
    });
}

TEST_CASE("bad usage: calibrations, lists and models in files") {
    const test::TemporaryFolder folder;
    const auto onnx = [](const std::filesystem::path& path) { interop::onnx::import_file(path); };
    quantization::save_calibration(folder / "good", *calibrated(3), 2);
    io::write_safetensors(folder / "weights.safetensors",
                          {{{"conv.weight", to_array(random_tensor(Shape(2, 3), 1))}}, {}});
    std::filesystem::create_directory(folder / "empty");
    test::check_misuses({
        {"a folder without batches",
         [&] { return refusal([&] { quantization::npy_batches(folder / "empty"); }); },
         {"empty", ".npy"}},
        {"a folder of batches that does not exist",
         [&] { return refusal([&] { quantization::npy_batches(folder / "batches"); }); },
         {"batches", "No such file"}},
        {"weights instead of a calibration",
         [&] {
             return refusal([&] { quantization::load_calibration(folder / "weights.safetensors", *calibrated(3)); });
         },
         {"weights.safetensors", "calibration"}},
        {"a calibration loaded into a model that is not prepared",
         [&] { return refusal([&] { quantization::load_calibration(folder / "good", *make_conv(3, 2, 3, 1)); }); },
         {"good", "prepare"}},
        {"a sensitivity list with other columns",
         [&] {
             write(folder / "sensitive.txt", "name metric\nconv1 0.5\n");
             return refusal([&] { quantization::read_sensitivity_list(folder / "sensitive.txt"); });
         },
         {"sensitive.txt", "op_name"}},
        {"a model that does not exist",
         [&] { return refusal([&] { onnx(folder / "resnet.onnx"); }); },
         {"resnet.onnx", "No such file"}},
        {"a text file instead of a model",
         [&] { return read_with(folder / "text.onnx", "model: resnet\n", onnx); },
         {"text.onnx", "ONNX"}},
        {"an empty file instead of a model",
         [&] { return read_with(folder / "empty.onnx", "", onnx); },
         {"empty.onnx"}},
        {"a model with an operator that is not imported",
         [&] { return refusal([&] { onnx(models / "unsupported_op.onnx"); }); },
         {"unsupported_op.onnx", "node", "Cos", "gather rows of a constant table of cosines and sines"}},
        {"a model without one of its weights",
         [&] { return refusal([&] { onnx(models / "missing_initializer.onnx"); }); },
         {"missing_initializer.onnx", "node"}},
        {"a model that was copied half",
         [&] { return refusal([&] { onnx(models / "truncated.onnx"); }); },
         {"truncated.onnx"}},
    });
}

TEST_CASE("bad usage: threads") {
    test::check_misuses({
        {"a pool of no thread", [] { return refusal([] { ThreadPool(0); }); }, {"ThreadPool", "0", "1"}},
        {"a pool of as many threads as the type holds",
         [] { return refusal([] { ThreadPool(2147483647); }); },
         {"ThreadPool", "4096", "2147483647"}},
        {"a task that throws",
         [] {
             return refusal([] {
                 ThreadPool pool(2);
                 pool.executor()(8, [](index_t i) {
                     if (i == 5) throw Error("task 5 has no data");
                 });
             });
         },
         {"task 5 has no data"}},
    });
}
