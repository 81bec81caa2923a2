// SPDX-License-Identifier: MIT
//
// TFLite files of random weights as programs for target::litert: every operator gives the bytes of LiteRT's reference
// kernels, and what a program cannot compute is refused by name. golden/tflite holds a few files; the environment
// variable INTQ_TFLITE_MODELS names a folder with all of golden/make_tflite_models.py, which interop/litert_models
// makes where LiteRT is installed.
#include <cstdlib>
#include <map>
#include <regex>

#include "interop/tflite/litert_models.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/deploy/program_writer.hpp"
#include "intq/io/file.hpp"
#include "intq/program/backends/best_table.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using Catch::Matchers::Contains;
namespace tflite = interop::tflite;

constexpr std::size_t litert = 6;  // in the order of kernels::AllTargets

struct Count {
    std::size_t models = 0, tensors = 0, bytes = 0, differing = 0;
    std::set<std::string> operators;
};

Count compare(const std::filesystem::path& folder, const kernels::KernelTable& table) {
    const nlohmann::json answers = test::read_answers(folder);
    Count count;
    for (const auto& answer : answers.at("models")) {
        INFO(answer.at("name").get<std::string>());
        const test::ModelCount model = test::compare_model(folder, answer, table);
        CHECK(model.wrong == std::vector<std::string>());
        ++count.models;
        count.tensors += model.tensors;
        count.bytes += model.bytes;
        count.differing += model.differing;
        count.operators.insert(model.operators.begin(), model.operators.end());
    }
    WARN(folder.string() << ", LiteRT " << answers.at("litert").get<std::string>() << ": " << count.models
                         << " models, " << count.tensors << " tensors, " << count.bytes << " bytes, " << count.differing
                         << " differ");
    return count;
}

std::filesystem::path stored() { return std::filesystem::path(INTQ_TESTS_DIR) / "golden" / "tflite"; }

/// What import_file() says of a file; empty where it takes it.
std::string refusal(const std::filesystem::path& file, const kernels::KernelTable& table) {
    try {
        tflite::import_file(file, table);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

/// LiteRT sums floats in its own order.
void check_reals(const std::filesystem::path& folder) {
    std::size_t models = 0;
    const nlohmann::json answers = test::read_answers(folder);
    for (const auto& each : answers.at("float")) {
        INFO(each.at("name").get<std::string>());
        CHECK(test::compare_reals(folder, each) < 1e-5);
        ++models;
    }
    CHECK(models >= 3);
}

void check_refusals(const std::filesystem::path& folder) {
    const nlohmann::json answers = test::read_answers(folder);
    std::size_t refused = 0;
    for (const auto& each : answers.at("refused")) {
        const std::string name = each.at("name"),
                          said = refusal(folder / (name + ".tflite"), *test::scalar_tables().tables[litert]);
        INFO(name << ": " << said);
        CHECK(std::regex_search(said, std::regex(each.at("reason").get<std::string>())));
        ++refused;
    }
    CHECK(refused >= 18);
}

}  // namespace

TEST_CASE("Stored TFLite models give the bytes of LiteRT's reference kernels, operator by operator, on every backend") {
    for (const test::BackendTables& backend : test::usable_backend_tables()) {
        INFO(backend.name);
        const Count count = compare(stored(), *backend.tables[litert]);
        CHECK(count.models >= 10);
        CHECK(count.differing == 0);
    }
}

TEST_CASE("A mean is an average of a program, which has no weights") {
    const auto model = tflite::import_file(stored() / "mobilenet3_int8.tflite", *test::scalar_tables().tables[litert]);
    std::map<OpKind, int> count;
    for (const runtime::Instruction& instruction : model.program->program().instructions) {
        ++count[instruction.op];
        if (instruction.op != OpKind::avg_pool2d) continue;
        const auto& pool = *static_cast<const kernels::PoolParams*>(instruction.params.data);
        CHECK(pool.average.rule == arith::AverageRule::double_rounding_sum);
    }
    CHECK(count[OpKind::avg_pool2d] == 2);
    CHECK(count[OpKind::conv2d] == 2);
}

TEST_CASE("TFLite models that LiteRT was asked about now give its bytes") {
    const char* const folder = std::getenv("INTQ_TFLITE_MODELS");
    if (folder == nullptr) SUCCEED("interop/litert_models names such models");
    if (folder == nullptr) return;
    const Count count = compare(folder, *test::scalar_tables().tables[litert]);
    CHECK(count.models >= 40);
    CHECK(count.differing == 0);
    for (const char* name : {"ADD",
                             "AVERAGE_POOL_2D",
                             "CONCATENATION",
                             "CONV_2D",
                             "DEPTHWISE_CONV_2D",
                             "FULLY_CONNECTED",
                             "MAX_POOL_2D",
                             "MEAN",
                             "MUL",
                             "PAD",
                             "PADV2",
                             "QUANTIZE",
                             "RELU",
                             "RELU6",
                             "LEAKY_RELU",
                             "RESIZE_BILINEAR",
                             "RESIZE_NEAREST_NEIGHBOR",
                             "SLICE",
                             "SOFTMAX",
                             "STRIDED_SLICE",
                             "SUB",
                             "TRANSPOSE",
                             "TRANSPOSE_CONV"})
        for (const char* type : {" int8", " int16"}) {
            INFO(name << type);
            CHECK(count.operators.count(std::string(name) + type) == 1);
        }
    for (const char* what : {"HARD_SWISH int8", "LOGISTIC int8", "LOGISTIC int16", "TANH int8", "TANH int16",
                             "RELU_N1_TO_1 int8", "DEQUANTIZE float32"}) {
        INFO(what);
        CHECK(count.operators.count(what) == 1);
    }
    check_refusals(folder);
    check_reals(folder);
}

TEST_CASE("TFLite models of real numbers become graphs that give LiteRT's numbers") { check_reals(stored()); }

TEST_CASE("What a program cannot compute with LiteRT's bytes is refused by the operator's name and with its reason") {
    check_refusals(stored());
    CHECK_THAT(refusal(stored() / "sums_int16.tflite", program::best_table<target::fp32>()),
               Contains("needs kernels of the tflite family, given those of fp32"));
}

TEST_CASE("An imported program goes through its file, and gives the same bytes") {
    const kernels::KernelTable& table = *test::scalar_tables().tables[litert];
    const std::filesystem::path file = std::filesystem::temp_directory_path() / "intq_litert_test.intq";
    const nlohmann::json answers = test::read_answers(stored());
    for (const auto& answer : answers.at("models")) {
        const std::string name = answer.at("name");
        INFO(name);
        const auto imported = tflite::import_file(stored() / (name + ".tflite"), table);
        const Tensor x = test::input_of_bytes(imported.inputs.at(0), test::bytes_of_text(answer.at("input")));
        const std::span<const Tensor> inputs(&x, 1);
        deploy::write_program(file, *imported.program, deploy::record_golden_runs(*imported.program, {}));
        const deploy::ProgramOfFile read = deploy::read_program(file, table);
        const auto expected = imported.program->run(inputs), given = read.program->run(inputs);
        REQUIRE(given.size() == expected.size());
        for (std::size_t i = 0; i < given.size(); ++i)
            CHECK(std::memcmp(given[i].data(), expected[i].data(), static_cast<std::size_t>(given[i].bytes())) == 0);
    }
    std::filesystem::remove(file);
}

TEST_CASE("A model in other words than LiteRT's gives other bytes") {
    // The stored files see the difference between the targets of the family.
    const nlohmann::json answers = test::read_answers(stored());
    std::size_t differing = 0;
    for (const auto& answer : answers.at("models"))
        differing += test::compare_model(stored(), answer, *test::scalar_tables().tables[2]).differing;
    CHECK(differing > 0);
}

TEST_CASE("An import keeps to its limits") {
    tflite::Limits limits;
    limits.tensor_bytes = 100;
    const tflite::Model model = tflite::read_model(stored() / "sums_int16.tflite");
    CHECK_THROWS_WITH(tflite::import_program(model, *test::scalar_tables().tables[litert], limits),
                      Contains("more bytes than the limits of the import"));
}

TEST_CASE("Real numbers become the codes of LiteRT's QUANTIZE: a quotient, halves away from zero") {
    tflite::ProgramEnd end{"x", {1, 6}, OwnedQParams::per_tensor(0.5f, DType::int8), true};
    end.qparams.zero_points = {3};
    const auto x = intq::Tensor::from<float>(Shape(1, 6), {0.25f, -0.25f, 0.75f, 1000.0f, -1000.0f, std::nanf("")});
    const intq::Tensor quantized = tflite::quantize_input(x, end);
    const auto codes = quantized.flat<std::int8_t>();
    CHECK(std::vector<int>(codes.begin(), codes.end()) == std::vector<int>{4, 2, 5, 127, -128, 3});
    CHECK_THROWS_WITH(tflite::quantize_input(intq::Tensor::zeros(Shape(1, 5)), end),
                      Contains("x: ") && Contains("(1, 6), given (1, 5)"));
    end.dims = {1, 4, 6, 3};  // NHWC
    CHECK(tflite::quantize_input(intq::Tensor::zeros(Shape(2, 3, 4, 6)), end).shape() == Shape(2, 3, 4, 6));
    CHECK_THROWS_WITH(tflite::quantize_input(intq::Tensor::zeros(Shape(1, 4, 6, 3)), end), Contains("(1, 3, 4, 6)"));
}
