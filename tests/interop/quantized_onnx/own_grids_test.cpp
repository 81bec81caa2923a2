// SPDX-License-Identifier: MIT
//
// Operators between two grids of a quantized file, with every int8 code: the codes of ONNX Runtime. A few models are
// stored; interop/check_onnx.cmake lets golden/make_quantized_models.py make many.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "interop/onnx_builder.hpp"
#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/litert.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/interop/quantized_onnx/import_quantized.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/tensor/npy.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
namespace fs = std::filesystem;
namespace onnx = interop::onnx;
using quantization::QuantizedGraph;

namespace {

struct Model {
    std::string family, name, dtype;
    double scale = 1;
    int zero_point = 0;
};

std::vector<Model> read_models(const fs::path& folder) {
    std::vector<Model> models;
    std::ifstream file(folder / "manifest.txt");
    std::string scale;
    for (Model one; file >> one.family >> one.name >> one.dtype >> scale >> one.zero_point;) {
        one.scale = std::strtod(scale.c_str(), nullptr);
        models.push_back(one);
    }
    return models;
}

struct Count {
    std::size_t models = 0, codes = 0, differing = 0;
    double largest = 0;
    std::set<std::string> refusals{}, differ{};
};
using Counts = std::map<std::string, Count>;

/// Codes of a program, or of its exact simulation, beside those that are expected.
void compare(const intq::Tensor& given, const intq::Tensor& expected, const Model& model, Count& count) {
    REQUIRE(given.size() == expected.size());
    const intq::Tensor a = given.contiguous(), b = expected.contiguous();
    for (index_t i = 0; i < a.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double steps = std::fabs(std::round(static_cast<double>(a.flat<float>()[at]) / model.scale) -
                                       std::round(static_cast<double>(b.flat<float>()[at]) / model.scale));
        ++count.codes;
        count.differing += steps > 0 ? 1 : 0;
        count.largest = std::max(count.largest, steps);
        if (steps > 0) count.differ.insert(model.name);
    }
}

template <class Target> Counts run_models(const fs::path& folder) {
    Counts counts;
    const kernels::KernelTable& table = program::best_table<Target>();
    for (const Model& model : read_models(folder)) {
        INFO(model.name);
        Count& count = counts[model.family];
        const intq::Tensor x = intq::load_npy(folder / (model.name + "_x.npy")),
                           y = intq::load_npy(folder / (model.name + "_y.npy"));
        onnx::QuantizedImportOptions options;
        options.target = Target::policy;
        try {
            const QuantizedGraph quantized = onnx::import_quantized_file(folder / (model.name + ".onnx"), options);
            const intq::Tensor given = quantization::lower(quantized, table).run(x);
            quantization::ExactSimulation simulation(quantized, table, 1);
            const intq::Tensor simulated = simulation.run(std::span(&x, 1)).at(0);
            Count same;
            compare(simulated, given, model, same);
            CHECK(same.differing == 0);
            compare(given, y, model, count);
            ++count.models;
        } catch (const Error& error) {
            count.refusals.insert(model.name + ": " + error.what());
        }
    }
    return counts;
}

std::string describe(const Counts& counts) {
    std::ostringstream text;
    for (const auto& [family, count] : counts) {
        text << family << ": " << count.models << " models, " << count.differing << " of " << count.codes
             << " codes differ, by at most " << count.largest;
        for (const std::string& name : count.differ) text << ' ' << name;
        text << '\n';
        for (const std::string& refusal : count.refusals) text << "    " << refusal << '\n';
    }
    return text.str();
}

/// What ONNX Runtime adds in float in an order of its own, or multiplies twice where the target does once: next to the
/// middle of two codes the other one may come out. int16 codes have no table.
bool may_differ(const std::string& family, bool is_int8) {
    static const std::set<std::string> families{"average",        "global_average", "coded_constant",
                                                "float_constant", "float_weight",   "without_zero_point",
                                                "clipped_codes"};
    return !is_int8 || families.count(family) != 0;
}

void check_fp32(const fs::path& folder, const Counts& counts) {
    INFO(describe(counts));
    const bool is_int8 = read_models(folder).at(0).dtype == "int8";
    for (const auto& [family, count] : counts) {
        INFO(family);
        CHECK(count.refusals.empty());
        CHECK(count.models > 0);
        CHECK(count.largest <= (may_differ(family, is_int8) ? 1 : 0));
    }
}

/// Other targets are as near as their rounding lets them.
template <class Target> void check_other(const fs::path& folder) {
    const Counts counts = run_models<Target>(folder);
    INFO(Target::policy.name << '\n' << describe(counts));
    std::size_t models = 0;
    for (const auto& [family, count] : counts) {
        INFO(family);
        CHECK(count.largest <= 1);
        models += count.models;
        for (const std::string& refusal : count.refusals) {
            INFO(refusal);
            const auto says = [&](const char* text) { return refusal.find(text) != std::string::npos; };
            CHECK((says("zero point") || says("is not supported by the target") || says("the rows of")));
        }
    }
    CHECK(models > 0);
}

const fs::path stored = std::string(INTQ_TESTS_DIR) + "/golden/quantized";

}  // namespace

TEST_CASE("Operators between two grids of a file have the codes of ONNX Runtime") {
    const Counts counts = run_models<target::fp32>(stored);
    CHECK(counts.size() >= 36);
    check_fp32(stored, counts);
}

TEST_CASE("On other targets operators between two grids of a file are within one code") {
    check_other<target::tflite<>>(stored);
    check_other<target::litert>(stored);
    check_other<target::bpu<march::bayes>>(stored);
}

TEST_CASE("A number of an operator's own that no quantizer rounds stays in float: a relu6 at the end of a file") {
    // 6 lies half a step from the codes of x.
    const test::ModelParts parts{.nodes = {test::node("QuantizeLinear", {"x", "s", "z"}, {"q"}),
                                           test::node("DequantizeLinear", {"q", "s", "z"}, {"r"}),
                                           test::node("Clip", {"r", "low", "high"}, {"y"})},
                                 .initializers = {test::tensor("s", {}, {4.0f}), test::tensor("low", {}, {0.0f}),
                                                  test::tensor("high", {}, {6.0f}), test::codes_tensor("z", {}, {0})},
                                 .inputs = {test::value_info("x", {1, 4})}};
    const QuantizedGraph read = onnx::import_quantized(onnx::parse_model(test::model(parts).bytes(), "m.onnx"));
    const auto lowered = quantization::lower(read, program::best_table<target::fp32>());
    const intq::Tensor y = lowered.run(intq::Tensor::from(Shape(1, 4), {-4.0f, 4.0f, 8.0f, 100.0f}));
    CHECK(std::vector<float>(y.flat<float>().begin(), y.flat<float>().end()) ==
          std::vector<float>{0.0f, 4.0f, 6.0f, 6.0f});
}

TEST_CASE("An operator in float at the end that reads the input of the file is refused by its name") {
    const test::ModelParts parts{.nodes = {test::node("QuantizeLinear", {"x", "s", "z"}, {"q"}),
                                           test::node("DequantizeLinear", {"q", "s", "z"}, {"r"}),
                                           test::node("Add", {"x", "r"}, {"y"}, {}, "join")},
                                 .initializers = {test::tensor("s", {}, {4.0f}), test::codes_tensor("z", {}, {0})},
                                 .inputs = {test::value_info("x", {1, 4})}};
    const QuantizedGraph read = onnx::import_quantized(onnx::parse_model(test::model(parts).bytes(), "m.onnx"));
    CHECK_THAT(test::message_of<Error>([&] { quantization::lower(read, program::best_table<target::fp32>()); }),
               Catch::Matchers::Contains("lower: join (") && Catch::Matchers::Contains("it stays in float"));
}

TEST_CASE("Many quantized models have the codes of ONNX Runtime") {
    const char* const path = std::getenv("INTQ_QUANTIZED_MODELS");
    if (path == nullptr) SUCCEED("interop/onnx_own_grids names the folder");
    if (path == nullptr) return;
    const Counts counts = run_models<target::fp32>(path);
    WARN(describe(counts));
    check_fp32(path, counts);
    if (read_models(path).at(0).dtype != "int8") return;  // 16-bit multipliers of other targets round by more
    check_other<target::tflite<>>(path);
    check_other<target::bpu<march::bayes>>(path);
}
