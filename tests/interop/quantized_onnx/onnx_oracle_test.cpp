// SPDX-License-Identifier: MIT
//
// What ONNX's and ONNX Runtime's Python packages are asked about: files for them to run, and ONNX's own node tests.
// interop/check_onnx.cmake names the folders and reads what is printed.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "interop/quantized_onnx/exported_zoo.hpp"
#include "interop/quantized_onnx/quantized_zoo.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/interop/onnx/internal/operators.hpp"
#include "intq/interop/onnx/read/read.hpp"
#include "intq/interop/quantized_onnx/export_to_onnx.hpp"
#include "intq/interop/quantized_onnx/import_quantized.hpp"
#include "intq/interop/quantized_onnx/internal/quantized_export.hpp"
#include "intq/interop/quantized_onnx/internal/quantized_exporter.hpp"
#include "intq/io/npy.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/quantized_model.hpp"
#include "intq/quantization/fuse/fuse_fx.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace onnx = interop::onnx;
namespace fs = std::filesystem;
using quantization::QuantizedGraph;

namespace {

const kernels::KernelTable& fp32_table() { return program::best_table<target::fp32>(); }

void save(const fs::path& path, const intq::Tensor& tensor) {
    io::write_npy(path, intq::to_array(tensor.contiguous()));
}

/// Writes the two forms of a model, and the codes of all its values on x.
void write_files(const fs::path& folder, std::ofstream& manifest, const std::string& name, const QuantizedGraph& model,
                 const intq::Tensor& x) {
    quantization::ExactSimulation simulation(model, fp32_table(), x.extent(0));
    const intq::Tensor result = simulation.run(std::span(&x, 1)).at(0);
    save(folder / (name + "_x.npy"), x);
    save(folder / (name + "_result.npy"), result);
    for (const auto form : {onnx::QuantizedForm::qdq, onnx::QuantizedForm::operators}) {
        const std::string file = name + (form == onnx::QuantizedForm::qdq ? "_qdq.onnx" : "_operators.onnx");
        onnx::ExportOptions options;
        options.form = form;
        const std::string input = model.tensor(model.inputs[0]).name;
        options.dynamic_axes = {{input, {{0, "batch"}}}, {"output", {{0, "batch"}}}};
        const onnx::Model written = onnx::export_quantized(model, options);
        onnx::write_model(written, folder / file);
        std::set<std::string> values;
        for (const onnx::Node& node : written.graph.nodes) values.insert(node.outputs[0]);
        manifest << file << ' ' << name << "_x.npy " << name << "_result.npy";
        for (const quantization::QuantizedNode& node : model.nodes) {
            const DType dtype = model.output(node).dtype;
            if (dtype != DType::int8 && dtype != DType::int16) continue;
            const std::string base = onnx::name_of_step(node);
            const bool is_between = values.count(base + "_quantize_output") != 0;
            const std::string value = base + (is_between ? "_quantize_output" : "_output");
            REQUIRE(values.count(value) == 1);
            const std::string codes = name + "_" + std::to_string(node.output) + ".npy";
            save(folder / codes, simulation.tensor(node.output));
            manifest << ' ' << value << '=' << codes;
        }
        manifest << '\n';
    }
}

/// Writes a float model, and what it gives.
void write_float_file(const fs::path& folder, std::ofstream& manifest, const std::string& name, nn::Module& model,
                      const std::string& x_of, const intq::Tensor& x) {
    onnx::export_to_onnx(model, x, folder / (name + ".onnx"));
    save(folder / (name + ".npy"), model(x).tensor());
    manifest << name << ".onnx " << x_of << "_x.npy " << name << ".npy\n";
}

/// Writes a float model whose number of samples is open, and what it gives for two others than that of the file.
void write_open_file(const fs::path& folder, std::ofstream& manifest, const test::ExportedModel& one) {
    const std::string name = "open_" + one.name;
    const auto run = [&](const std::vector<intq::Tensor>& inputs) {
        const std::vector<nn::Value> values(inputs.begin(), inputs.end());
        return one.model->dispatch("forward", values).tensor();
    };
    const std::vector<intq::Tensor> example = one.inputs(3, 20);
    onnx::export_to_onnx(*one.model, example, folder / (name + ".onnx"),
                         test::open_batch(one.names(), run(example).rank()));
    for (const index_t samples : {1, 5}) {
        const std::string prefix = name + "_" + std::to_string(samples);
        const std::vector<intq::Tensor> inputs = one.inputs(samples, 30);
        std::string files;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const std::string file = prefix + "_x" + std::to_string(i) + ".npy";
            save(folder / file, inputs[i]);
            files += (i == 0 ? "" : ",") + file;
        }
        save(folder / (prefix + ".npy"), run(inputs));
        manifest << name << ".onnx " << files << ' ' << prefix << ".npy\n";
    }
}

// --- node tests ------------------------------------------------------------------------------------------------------

struct NodeTest {
    std::string name, kind, operators;
    int form = 0;
    double rtol = 0, atol = 0;
    std::vector<std::string> outputs, inputs;

    bool is_quantized() const { return kind == "quantized"; }
};

std::vector<NodeTest> read_manifest(const fs::path& folder) {
    std::vector<NodeTest> tests;
    std::ifstream file(folder / "manifest.txt");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        NodeTest one;
        REQUIRE(words >> one.name >> one.form >> one.kind >> one.rtol >> one.atol >> one.operators);
        std::string outputs;
        words >> outputs;
        std::istringstream names(outputs);
        for (std::string output; std::getline(names, output, ',');) one.outputs.push_back(output);
        for (std::string input; words >> input;) one.inputs.push_back(input);
        tests.push_back(std::move(one));
    }
    return tests;
}

/// Whether the import has a row for each operator of a test.
bool is_claimed(const NodeTest& test) {
    std::istringstream operators(test.operators);
    for (std::string name; std::getline(operators, name, ',');)
        if (std::none_of(std::begin(onnx::onnx_operators), std::end(onnx::onnx_operators),
                         [&](const onnx::OnnxOperator& row) { return name == row.op_type; }))
            return false;
    return true;
}

/// "" where the results are those that were expected.
std::string difference(const intq::Tensor& given, const intq::Tensor& expected, const NodeTest& test) {
    if (!(given.shape() == expected.shape()))
        return "shape " + to_string(given.shape()) + ", expected " + to_string(expected.shape());
    const intq::Tensor a = given.contiguous(), b = expected.contiguous();
    const auto x = a.flat<float>(), y = b.flat<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double p = static_cast<double>(x[i]), q = static_cast<double>(y[i]);
        if (std::isnan(q) ? std::isnan(p) : p == q) continue;
        if (!(std::fabs(p - q) <= test.atol + test.rtol * std::fabs(q)))
            return "element " + std::to_string(i) + " is " + std::to_string(p) + ", expected " + std::to_string(q);
    }
    return "";
}

struct NodeResult {
    bool passed = false, as_program = false;
    std::string refusal, wrong, no_program;
};

NodeResult run_test(const fs::path& folder, const NodeTest& test) {
    NodeResult result;
    const fs::path file = folder / (test.name + "_" + std::to_string(test.form) + ".onnx");
    std::shared_ptr<graph::GraphModule> model;
    std::vector<nn::Value> inputs;
    try {
        model = onnx::import_file(file);
        for (const std::string& input : test.inputs) inputs.emplace_back(intq::load_npy(folder / input));
        if (test.inputs.empty()) throw Error("a test without data was imported");
        const std::vector<intq::Tensor> given = nn::tensors_of(model->run(inputs, {}));
        REQUIRE(given.size() == test.outputs.size());
        for (std::size_t i = 0; i < given.size() && result.wrong.empty(); ++i)
            result.wrong = difference(given[i], intq::load_npy(folder / test.outputs[i]), test);
        result.passed = result.wrong.empty();
    } catch (const Error& error) {
        result.refusal = error.what();
        return result;
    }
    if (!test.is_quantized()) return result;
    try {
        onnx::QuantizedImportOptions options;
        for (const nn::Value& input : inputs) options.example_inputs.push_back(input.tensor());
        const QuantizedGraph quantized = onnx::import_quantized_file(file, options);
        const intq::Tensor x = inputs.at(0).tensor();
        const quantization::LoweredModel program = quantization::lower(quantized, fp32_table(), x.extent(0));
        result.wrong = difference(program.run(x), intq::load_npy(folder / test.outputs.at(0)), test);
        result.as_program = result.wrong.empty();
        if (!result.as_program) result.wrong = "its program: " + result.wrong;
    } catch (const Error& error) {
        result.no_program = error.what();  // it runs in float between its codes
    }
    return result;
}

}  // namespace

TEST_CASE("Files are written for ONNX Runtime to run") {
    const char* const path = std::getenv("INTQ_ONNX_EXPORTS");
    if (path == nullptr) SUCCEED("interop/onnx_runtime names the folder");
    if (path == nullptr) return;
    const fs::path folder = path;
    std::ofstream manifest(folder / "manifest.txt");
    int files = 0;
    for (const auto& zoo : {test::quantized_zoo(), test::partly_in_float(), test::volumes_in_float()})
        for (const test::ZooModel& one : zoo) {
            INFO(one.name);
            const auto prepared = test::calibrated(*one.model, target::fp32::policy, one.x, one.in_float);
            write_files(folder, manifest, one.name, quantization::convert_fx(*prepared), one.x);
            write_float_file(folder, manifest, one.name + "_float", *one.model, one.name, one.x);
            write_float_file(folder, manifest, one.name + "_fused", *quantization::fuse_fx(*one.model), one.name,
                             one.x);
            files += 4;
        }
    const intq::Tensor images = intq::load_npy(INTQ_EXAMPLES_DIR "/digits/data/test_images.npy");
    write_files(folder, manifest, "shipped", test::shipped_network(target::fp32::policy), images);
    for (const test::ExportedModel& one : test::exported_zoo()) write_open_file(folder, manifest, one);
    CHECK(files >= 220);
}

TEST_CASE("ONNX's own node tests pass or are refused by name") {
    const char* const path = std::getenv("INTQ_ONNX_NODE_TESTS");
    if (path == nullptr) SUCCEED("interop/onnx_node_tests names the folder");
    if (path == nullptr) return;
    struct Of {
        bool passed = false, as_program = false, quantized = false;
        std::string refusal, no_program;
    };
    std::map<std::string, Of> tests;
    std::string wrong;
    for (const NodeTest& test : read_manifest(path)) {
        if (!test.is_quantized() && !is_claimed(test)) continue;
        const NodeResult result = run_test(path, test);
        Of& of = tests[test.name];
        of.quantized = test.is_quantized();
        of.passed = of.passed || result.passed;
        of.as_program = of.as_program || result.as_program;
        if (of.refusal.empty()) of.refusal = result.refusal;
        if (!result.no_program.empty()) of.no_program = result.no_program;
        if (!result.wrong.empty()) wrong += test.name + " " + std::to_string(test.form) + ": " + result.wrong + "\n";
    }
    CHECK(wrong == "");
    std::size_t passed[2] = {0, 0}, refused[2] = {0, 0}, programs = 0;
    std::ofstream report(fs::path(path) / "report.txt");
    for (const auto& [name, of] : tests) {
        const bool is_refused = !of.passed && !of.refusal.empty();
        ++(of.passed ? passed : refused)[of.quantized ? 1 : 0];
        programs += of.as_program ? 1 : 0;
        report << name
               << (!of.passed      ? " refused: " + of.refusal
                   : of.as_program ? " passed as a program"
                                   : " passed")
               << (of.no_program.empty() ? "" : ", no program: " + of.no_program) << '\n';
        CHECK((of.passed || is_refused));
    }
    WARN("node tests: " << passed[1] << " quantized passed, " << programs << " of them as programs, " << refused[1]
                        << " refused; " << passed[0] << " float passed, " << refused[0] << " refused");
    CHECK(passed[1] + refused[1] >= 45);
    CHECK(passed[1] >= 14);
    CHECK(programs >= 6);
    CHECK(passed[0] >= 240);
}
