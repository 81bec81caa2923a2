// SPDX-License-Identifier: MIT
//
// The reader of TFLite files: what it reads, and damaged files.
#include <cstring>
#include <filesystem>

#include "intq/interop/tflite/internal/read/model.hpp"
#include "intq/interop/tflite/internal/read/names.hpp"
#include "intq/io/file.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using Catch::Matchers::Contains;
namespace tflite = interop::tflite;

std::vector<std::byte> stored(const char* name) {
    return io::read_file(std::filesystem::path(INTQ_TESTS_DIR) / "golden" / "tflite" / (std::string(name) + ".tflite"));
}

std::string refusal(const std::vector<std::byte>& file) {
    try {
        tflite::parse_model(file, "a.tflite");
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("A TFLite file is read as its tensors and operators") {
    const tflite::Model model = tflite::parse_model(stored("convolutions_int8"), "convolutions");
    REQUIRE(model.operators.size() == 4);
    CHECK(model.inputs.size() == 1);
    CHECK(model.outputs.size() == 1);
    const tflite::FileOperator& first = model.operators[0];
    CHECK(first.code == 3);
    CHECK(first.options_type == tflite::fields::Conv2D::type);
    CHECK(first.options.number<std::int32_t>(tflite::fields::Conv2D::dilation_w, 1) == 2);
    CHECK(first.options.number<std::int32_t>(tflite::fields::Conv2D::stride_h, 0) == 1);
    REQUIRE(first.inputs.size() == 3);
    const tflite::FileTensor& weight = model.tensors[static_cast<std::size_t>(first.inputs[1])];
    CHECK(weight.dims == std::vector<index_t>{6, 3, 3, 4});
    CHECK(weight.dtype == DType::int8);
    CHECK(weight.scales.size() == 6);
    CHECK(weight.data.size() == 216);
    const tflite::FileTensor& x = model.tensors[static_cast<std::size_t>(model.inputs[0])];
    CHECK(x.dims == std::vector<index_t>{2, 9, 8, 4});
    CHECK(!x.is_constant());
}

TEST_CASE("What a TFLite file numbers has the names of the schema") {
    CHECK(tflite::operator_name(32) == "CUSTOM");
    CHECK(tflite::operator_name(42) == "DIV");
    CHECK(tflite::operator_name(74) == "SUM");
    CHECK(tflite::operator_name(127) == "PLACEHOLDER_FOR_GREATER_OP_CODES");
    CHECK(tflite::operator_name(150) == "GELU");
    CHECK(tflite::operator_name(206) == "STABLEHLO_COMPOSITE");
    CHECK(tflite::operator_name(100000) == "operator number 100000");
    CHECK(tflite::operator_name(-1) == "operator number -1");
    CHECK(tflite::element_name(1) == "float16");
    CHECK(tflite::element_name(17) == "int4");
    CHECK(tflite::element_name(-3) == "type number -3");
    CHECK(tflite::activation_name(4) == "TANH");
}

TEST_CASE("A file that is no TFLite model is refused") {
    CHECK_THAT(refusal({}), Contains("a.tflite: not a TFLite model"));
    CHECK_THAT(refusal(std::vector<std::byte>(100)), Contains("identifier \"TFL3\""));
    auto file = stored("sums_int16");
    file[5] = std::byte{'X'};
    CHECK_THAT(refusal(file), Contains("identifier"));
}

TEST_CASE("A TFLite file that is cut off anywhere is refused or read, and never read beyond its end") {
    const auto whole = stored("constants_int8");
    std::size_t refused = 0;
    for (std::size_t size = 0; size < whole.size(); ++size)
        refused += refusal({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}).empty() ? 0 : 1;
    CHECK(refused > whole.size() / 2);
}

TEST_CASE("A TFLite file with any word changed is refused or read, and never read beyond its end") {
    const auto whole = stored("constants_int8");
    std::size_t refused = 0;
    for (const std::uint32_t word : {0u, 1u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFF0u})
        for (std::size_t at = 0; at + 4 <= whole.size(); ++at) {
            auto file = whole;
            std::memcpy(file.data() + at, &word, 4);
            refused += refusal(file).empty() ? 0 : 1;
        }
    CHECK(refused > 100);
}
