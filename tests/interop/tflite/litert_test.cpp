// SPDX-License-Identifier: MIT
//
// TFLite files of random weights as programs for target::litert: every operator gives the bytes of LiteRT's reference
// kernels, and what a program cannot compute is refused by name. golden/tflite holds a few files; the environment
// variable INTQ_TFLITE_MODELS names a folder with all of golden/make_tflite_models.py, which interop/litert_models
// makes where LiteRT is installed.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <regex>

#include "interop/tflite/litert_models.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/deploy/generate_cpp.hpp"
#include "intq/deploy/program_writer.hpp"
#include "intq/interop/tflite/internal/read/names.hpp"
#include "intq/io/file.hpp"
#include "intq/io/flatbuffer.hpp"
#include "intq/program/backends/best_table.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using Catch::Matchers::Contains;
namespace tflite = interop::tflite;

constexpr std::size_t tflite_double = 1, litert = 6;  // in the order of kernels::AllTargets

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
    CHECK(models >= 6);
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
    CHECK(refused >= 48);
}

/// Models with 32-bit sums, which only bounds of their codes keep in 32 bits. On litert, linear layers have more.
void check_bounded(const std::filesystem::path& folder, std::size_t least) {
    const kernels::KernelTable& table = *test::scalar_tables().tables[litert];
    const nlohmann::json answers = test::read_answers(folder);
    std::size_t models = 0;
    for (const auto& answer : answers.at("bounded")) {
        const std::filesystem::path file = folder / (answer.at("name").get<std::string>() + ".tflite");
        INFO(file);
        const test::ModelCount count = test::compare_model(folder, answer, table);
        CHECK(count.wrong == std::vector<std::string>());
        CHECK(count.bytes > 0);
        const std::string said = refusal(file, *test::scalar_tables().tables[tflite_double]);
        INFO(said);
        CHECK(
            std::regex_search(said, std::regex("operator 1 of [0-9] \\((FULLY_CONNECTED|CONV_2D) \"t.*could reach "
                                               "[0-9]{10}, the largest that fits is 2147483647; ways out: .*bounds of "
                                               "the codes of \"t0\".*relies on the data")));
        const auto& bounds = answer.at("bounds");
        for (const auto& [name, most] : bounds.items()) {
            // The bounds are those that the codes reach, so a run holds a code outside of narrower ones.
            const auto options = test::options_of(answer, name, 1);
            const auto imported = tflite::import_file(file, table, options);
            const Tensor x = test::input_of_bytes(imported.inputs.at(0), test::bytes_of_text(answer.at("input")));
            const std::string bound = std::to_string(most.get<int>());
            CHECK_THROWS_WITH(imported.program->run(std::span<const Tensor>(&x, 1)),
                              Contains("the tensor \"" + name + "\" holds the code ") && Contains(bound + ", and the"));
        }
        ++models;
    }
    CHECK(models >= least);
}

/// The codes of a constant, or of an input of the model.
template <class Code> std::vector<std::int64_t> elements(const tflite::FileTensor& tensor) {
    const io::FlatBytes bytes(tensor.data);
    std::vector<std::int64_t> result;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(tensor.size()); ++i)
        result.push_back(bytes.number<Code>(sizeof(Code) * i));
    return result;
}

/// An int32 sum to a code, as TFLite Micro's 16x8 kernels of 32-bit biases do: a multiplier of 31 bits, rounded twice.
/// Written from MultiplyByQuantizedMultiplier's formula.
std::int16_t narrow_sum_code(std::int64_t sum, double real) {
    int shift = 0;
    auto multiplier = static_cast<std::int64_t>(std::llround(std::frexp(real, &shift) * 2147483648.0));
    if (multiplier == std::int64_t{1} << 31) multiplier /= 2, ++shift;
    const std::int64_t product = (sum << std::max(shift, 0)) * multiplier;
    // SRDHM: the quotient by 2^31 of the product and its nudge, towards zero.
    const std::int64_t high = (product + (product >= 0 ? 1 << 30 : 1 - (1 << 30))) / (std::int64_t{1} << 31);
    const int right = std::max(-shift, 0);
    const std::int64_t rest = high & ((std::int64_t{1} << right) - 1);
    const std::int64_t threshold = (((std::int64_t{1} << right) - 1) >> 1) + (high < 0 ? 1 : 0);
    const std::int64_t rounded = (high >> right) + (rest > threshold ? 1 : 0);
    return static_cast<std::int16_t>(std::clamp<std::int64_t>(rounded, -32768, 32767));
}

}  // namespace

TEST_CASE("Stored TFLite models give the bytes of LiteRT's reference kernels, operator by operator, on every backend") {
    for (const test::BackendTables& backend : test::usable_backend_tables()) {
        INFO(backend.name);
        const Count count = compare(stored(), *backend.tables[litert]);
        CHECK(count.models >= 30);
        CHECK(count.differing == 0);
    }
}

TEST_CASE("A file of uint8 codes becomes a program of int8 codes whose zero points are 128 less") {
    const auto model =
        tflite::import_file(stored() / "unsigned_net_uint8.tflite", *test::scalar_tables().tables[litert]);
    const tflite::Model file = tflite::read_model(stored() / "unsigned_net_uint8.tflite");
    const tflite::ProgramEnd& input = model.inputs.at(0);
    const tflite::FileTensor& in_file = file.tensors.at(static_cast<std::size_t>(file.inputs.at(0)));
    CHECK(in_file.dtype == DType::uint8);
    CHECK(input.is_uint8);
    CHECK(input.qparams.dtype == DType::int8);
    CHECK(input.qparams.zero_points.at(0) == in_file.zero_points[0] - 128);
    CHECK(model.program->program().tensor(model.program->program().inputs[0]).dtype == DType::int8);
    for (const tflite::ProgramEnd& output : model.outputs) CHECK(output.is_uint8 != output.is_real);
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
    if (folder == nullptr)
        INTQ_SKIP("INTQ_TFLITE_MODELS names no models; interop/litert_models makes some with LiteRT");
    const Count count = compare(folder, *test::scalar_tables().tables[litert]);
    CHECK(count.models >= 97);
    CHECK(count.differing == 0);
    for (const char* name : {"ADD",
                             "AVERAGE_POOL_2D",
                             "BATCH_MATMUL",
                             "BROADCAST_TO",
                             "CONCATENATION",
                             "CONV_2D",
                             "DEPTHWISE_CONV_2D",
                             "EMBEDDING_LOOKUP",
                             "FULLY_CONNECTED",
                             "GATHER",
                             "MAXIMUM",
                             "MAX_POOL_2D",
                             "MEAN",
                             "MINIMUM",
                             "MIRROR_PAD",
                             "MUL",
                             "PACK",
                             "PAD",
                             "PADV2",
                             "QUANTIZE",
                             "REVERSE_V2",
                             "RELU",
                             "RELU6",
                             "LEAKY_RELU",
                             "RESIZE_BILINEAR",
                             "RESIZE_NEAREST_NEIGHBOR",
                             "SELECT",
                             "SELECT_V2",
                             "SLICE",
                             "SOFTMAX",
                             "SPLIT",
                             "SPLIT_V",
                             "STRIDED_SLICE",
                             "SUB",
                             "UNPACK",
                             "TRANSPOSE",
                             "TRANSPOSE_CONV"})
        for (const char* type : {" int8", " int16"}) {
            INFO(name << type);
            CHECK(count.operators.count(std::string(name) + type) == 1);
        }
    for (const char* what : {"DEPTH_TO_SPACE int8",
                             "SPACE_TO_DEPTH int8",
                             "EXP int8",
                             "EXP int16",
                             "LOG int8",
                             "LOG int16",
                             "GELU int8",
                             "SQRT int8",
                             "RSQRT int8",
                             "RSQRT int16",
                             "ABS int8",
                             "ABS int16",
                             "NEG int8",
                             "HARD_SWISH int8",
                             "LOGISTIC int8",
                             "LOGISTIC int16",
                             "TANH int8",
                             "TANH int16",
                             "RELU_N1_TO_1 int8",
                             "LOG_SOFTMAX int8",
                             "SQUARED_DIFFERENCE int8",
                             "DEQUANTIZE float32"}) {
        INFO(what);
        CHECK(count.operators.count(what) == 1);
    }
    for (const char* what :
         {"CONV_2D uint8", "DEPTHWISE_CONV_2D uint8", "TRANSPOSE_CONV uint8", "FULLY_CONNECTED uint8", "ADD uint8",
          "SUB uint8", "MUL uint8", "MEAN uint8", "AVERAGE_POOL_2D uint8", "SOFTMAX uint8", "LOGISTIC uint8",
          "HARD_SWISH uint8", "QUANTIZE uint8", "SUM uint8"}) {
        INFO(what);
        CHECK(count.operators.count(what) == 1);
    }
    check_refusals(folder);
    check_reals(folder);
    check_bounded(folder, 2);
    const auto names = test::read_answers(folder).at("operators").get<std::vector<std::string>>();
    CHECK(names.size() >= 210);
    for (std::size_t code = 0; code < names.size(); ++code)
        // A newer schema may have more of them.
        if (code < std::size(tflite::detail::operator_names))
            CHECK(tflite::operator_name(static_cast<std::int32_t>(code)) == names[code]);
}

TEST_CASE(
    "Sums that could leave 32 bits are refused with the numbers, and bounds of codes that are stated are checked") {
    check_bounded(stored(), 1);
    const kernels::KernelTable& table = *test::scalar_tables().tables[tflite_double];
    const auto refused = [&](const char* name, std::int32_t lowest, std::int32_t highest) {
        try {
            tflite::import_file(stored() / "long_rows.tflite", table, {.bounds = {{name, {lowest, highest}}}});
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK_THAT(refused("t9", -9, 9), Contains("bounds are stated") && Contains("\"t9\""));
    CHECK_THAT(refused("t0", 1, 9), Contains("t0") && Contains("0 and the zero point 0 between"));
    CHECK_THAT(refused("t0", -9, 32768), Contains("t0") && Contains("no two codes of int16"));
    CHECK_THAT(refused("t0", -32768, 32767), Contains("could reach"));
    CHECK_THAT(refused("t1", -9, 9), Contains("could reach"));                              // the output
    CHECK_THAT(refused("t2", -9, 9), Contains("bounds are stated") && Contains("\"t2\""));  // the weight
    CHECK(refused("t0", -9000, 9000) == "");
}

TEST_CASE("Bounds that are stated go with a program into its file and its header") {
    const kernels::KernelTable& table = *test::scalar_tables().tables[litert];
    const nlohmann::json answer = test::read_answers(stored()).at("bounded").at(0);
    const auto imported = tflite::import_file(stored() / "long_rows.tflite", table, test::options_of(answer));
    const std::filesystem::path file = std::filesystem::temp_directory_path() / "intq_bounds_test.intq";
    deploy::write_program(file, *imported.program, deploy::record_golden_runs(*imported.program, {}));
    const deploy::ProgramOfFile read = deploy::read_program(file, table);
    std::filesystem::remove(file);
    Tensor x = test::input_of_bytes(imported.inputs.at(0), test::bytes_of_text(answer.at("input")));
    const std::span<const Tensor> inputs(&x, 1);
    CHECK(read.program->run(inputs).size() == 1);
    x.flat<std::int16_t>()[7] = 9001;
    CHECK_THROWS_WITH(read.program->run(inputs), Contains("\"t0\" holds the code 9001") && Contains("-9000 and 9000"));
    const std::string header = deploy::generate_cpp(read.program->program(), table);
    CHECK_THAT(header, Contains("[[nodiscard]] inline bool run(const std::int16_t* x0, std::int16_t* y0)") &&
                           Contains("if (!intq::runtime::check_bounds(program, arena, 0, 1)) return false;"));
}

TEST_CASE("The kernels of TFLite Micro and CMSIS-NN take the type of the bias for that of the sums") {
    // What LiteRT would read as int64.
    const kernels::KernelTable& table = *test::scalar_tables().tables[tflite_double];
    test::Draw draw(4);
    for (const int round : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
        for (const char* name : {"refused_hidden_bias_type", "refused_narrow_depthwise"}) {
            INFO(name << " " << round);
            const tflite::Model model = tflite::read_model(stored() / (std::string(name) + ".tflite"));
            const auto imported = tflite::import_program(model, table);
            const auto tensor = [&](std::int32_t index) { return model.tensors.at(static_cast<std::size_t>(index)); };
            const tflite::FileOperator& op = model.operators.at(0);
            const tflite::FileTensor in = tensor(op.inputs[0]), w = tensor(op.inputs[1]), out = tensor(op.outputs[0]);
            const auto weight = elements<std::int8_t>(w), bias = elements<std::int32_t>(tensor(op.inputs[2]));
            test::ByteList bytes;
            std::vector<std::int64_t> x;
            for (index_t i = 0; i < in.size(); ++i) {
                x.push_back(i == 0 ? -32768 : i == 1 ? 32767 : draw.between(-32768, 32767));
                bytes.push_back(static_cast<std::uint8_t>(x.back() & 255));
                bytes.push_back(static_cast<std::uint8_t>(x.back() >> 8 & 255));
            }
            const test::ByteList given = test::run_model(imported, bytes).at(std::string(out.name));
            const bool is_linear = w.dims.size() == 2;
            const index_t channels = static_cast<index_t>(bias.size());
            int wrong = 0;
            for (index_t i = 0; i < out.size(); ++i) {
                const index_t channel = i % channels;
                std::int64_t sum = bias[static_cast<std::size_t>(channel)];
                if (is_linear) {
                    for (index_t k = 0; k < w.dims[1]; ++k)
                        sum +=
                            x[static_cast<std::size_t>(k)] * weight[static_cast<std::size_t>(channel * w.dims[1] + k)];
                } else {
                    // 3 x 3 windows around each pixel of (1, H, W, C), with two outputs of each input channel.
                    const index_t pixel = i / channels, row = pixel / in.dims[2], column = pixel % in.dims[2];
                    for (index_t k = 0; k < 9; ++k) {
                        const index_t y = row + k / 3 - 1, z = column + k % 3 - 1;
                        if (y < 0 || y >= in.dims[1] || z < 0 || z >= in.dims[2]) continue;
                        sum += x[static_cast<std::size_t>((y * in.dims[2] + z) * in.dims[3] + channel / 2)] *
                               weight[static_cast<std::size_t>(k * channels + channel)];
                    }
                }
                const std::size_t scale = w.scales.size() > 1 ? static_cast<std::size_t>(channel) : 0;
                const double real = static_cast<double>(in.scales[0]) * static_cast<double>(w.scales[scale]) /
                                    static_cast<double>(out.scales[0]);
                const auto at = 2 * static_cast<std::size_t>(i);
                const auto code = static_cast<std::int16_t>(given.at(at) | given.at(at + 1) << 8);
                wrong += code != narrow_sum_code(sum, real);
            }
            CHECK(out.size() > 3);
            CHECK(wrong == 0);
        }
}

TEST_CASE("A SUM of int16 codes on target::tflite is the sum of the codes by one multiplier, as TFLite Micro's") {
    const tflite::Model model = tflite::read_model(stored() / "refused_bytewise_sum.tflite");
    const auto imported = tflite::import_program(model, *test::scalar_tables().tables[tflite_double]);
    const float s_in = imported.inputs.at(0).qparams.scale(), s_out = imported.outputs.at(0).qparams.scale();
    Tensor x = Tensor::zeros(tflite::program_shape({1, 7, 5}), DType::int16);
    x = x.to_layout(Layout::channels_last);
    auto* const codes = reinterpret_cast<std::int16_t*>(x.data());
    for (int i = 0; i < 35; ++i) codes[i] = static_cast<std::int16_t>(i * i * 977 % 24001 - 12000);
    const std::vector<Tensor> given = imported.program->run(std::span<const Tensor>(&x, 1));
    const auto* const y = reinterpret_cast<const std::int16_t*>(given.at(0).data());
    for (int column = 0; column < 5; ++column) {
        std::int64_t sum = 0;
        for (int row = 0; row < 7; ++row) sum += codes[5 * row + column];
        CHECK(y[column] == narrow_sum_code(sum, static_cast<double>(s_in) / static_cast<double>(s_out)));
    }
}

TEST_CASE("TFLite models of real numbers become graphs that give LiteRT's numbers") { check_reals(stored()); }

TEST_CASE("What a program cannot compute with LiteRT's bytes is refused by the operator's name and with its reason") {
    check_refusals(stored());
    CHECK_THAT(refusal(stored() / "sums_int16.tflite", program::best_table<target::fp32>()),
               Contains("needs kernels of the tflite family, given kernels for fp32"));
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

TEST_CASE("A BATCH_MATMUL that is no product of matrices is refused with its operands") {
    // The first one of the file: (2, 14, 24) times the exchanged (2, 1, 24), which two SLICEs write.
    const tflite::Model model = tflite::read_model(stored() / "products_int8.tflite");
    constexpr std::int32_t code = 126;
    const auto position = std::find_if(model.operators.begin(), model.operators.end(),
                                       [&](const tflite::FileOperator& op) { return op.code == code; }) -
                          model.operators.begin();
    const auto refused = [&](const auto& change) {
        tflite::Model changed = model;
        tflite::FileOperator& op = changed.operators.at(static_cast<std::size_t>(position));
        change(changed, op);
        try {
            tflite::import_program(changed, *test::scalar_tables().tables[litert]);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const auto with_operand = [&](std::size_t i, const auto& change) {
        return refused([&](tflite::Model& changed, tflite::FileOperator& op) {
            tflite::FileTensor tensor = changed.tensors.at(static_cast<std::size_t>(op.inputs.at(i)));
            change(tensor);
            op.inputs.at(i) = static_cast<std::int32_t>(changed.tensors.size());
            changed.tensors.push_back(tensor);
        });
    };
    const auto with_dims = [&](std::size_t i, const tflite::Dims& dims) {
        return with_operand(i, [&](tflite::FileTensor& tensor) { tensor.dims = dims; });
    };
    CHECK(refused([](tflite::Model&, tflite::FileOperator&) {}).empty());
    const auto check = [](const std::string& said, const char* what) {
        CHECK_THAT(said, Contains("(BATCH_MATMUL \"t7\")") && Contains(what));
    };
    check(refused([](tflite::Model&, tflite::FileOperator& op) { op.options = {}; }),
          "cannot be multiplied, given (2, 14, 24) and (2, 1, 24)");
    check(refused([](tflite::Model&, tflite::FileOperator& op) { op.inputs.pop_back(); }),
          "it has 1 inputs, expected 2");
    check(with_dims(0, {336}), "of shape (336) has 1 axes, expected 2 to 5");
    check(with_dims(1, {2, 1, 1, 1, 1, 24}), "of shape (2, 1, 1, 1, 1, 24) has 6 axes, expected 2 to 5");
    check(with_dims(1, {1, 2, 24}), "of shape (1, 2, 24) does not keep axis 0, the samples");
    check(with_dims(1, {2, 24}), "of shape (2, 24) does not keep axis 0, the samples");
    check(with_operand(0, [](tflite::FileTensor& tensor) { tensor.scales = {}; }), "the tensor \"t6\" has 0 scales");
    check(with_operand(1, [](tflite::FileTensor& tensor) { tensor.dtype = DType::int16; }),
          "have int8 and int16, expected one type");
    check(with_operand(1, [](tflite::FileTensor& tensor) { tensor.dtype = DType::int32; }),
          "expected codes of int8, uint8 or int16");
    check(with_dims(1, {2, 1, 24}), "is made by no operator before it");
    // A constant that differs from sample to sample.
    const std::vector<std::byte> zeros(48);
    check(with_operand(1, [&](tflite::FileTensor& tensor) { tensor.data = zeros; }),
          "of shape (2, 1, 24) is not the same for each sample");
    // Extents of 0 in a tensor that an operator writes.
    const std::string empty = refused([](tflite::Model& changed, tflite::FileOperator& op) {
        changed.tensors.at(static_cast<std::size_t>(op.inputs.at(1))).dims = {2, 0, 24};
    });
    CHECK_THAT(empty, Contains("(2, 0, 24) has no elements"));
}

TEST_CASE("Pieces and places that a file does not have are refused with the operator and the reason") {
    using Change = std::function<void(tflite::Model&, tflite::FileOperator&)>;
    // The first operator of a kind.
    const auto refused = [](const char* file, std::int32_t code, const Change& change) {
        tflite::Model changed = tflite::read_model(stored() / file);
        const auto op = std::find_if(changed.operators.begin(), changed.operators.end(),
                                     [&](const tflite::FileOperator& one) { return one.code == code; });
        REQUIRE(op != changed.operators.end());
        change(changed, *op);
        try {
            tflite::import_program(changed, *test::scalar_tables().tables[litert]);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    // With a tensor of the operator changed.
    const auto with_tensor = [](std::vector<std::int32_t> tflite::FileOperator::*list, std::size_t i,
                                const std::function<void(tflite::FileTensor&)>& change) {
        return [=](tflite::Model& model, tflite::FileOperator& op) {
            change(model.tensors.at(static_cast<std::size_t>((op.*list).at(i))));
        };
    };
    const auto with_integers = [&](std::size_t i, const std::vector<std::int32_t>& numbers) {
        return with_tensor(&tflite::FileOperator::inputs, i, [=](tflite::FileTensor& tensor) {
            auto bytes = std::make_shared<std::vector<std::byte>>(4 * numbers.size());
            if (!numbers.empty()) std::memcpy(bytes->data(), numbers.data(), bytes->size());
            tensor.data = *bytes;
            tensor.kept = bytes;
            tensor.dims = {static_cast<index_t>(numbers.size())};
        });
    };
    const auto with_output = [&](const tflite::Dims& dims) {
        return with_tensor(&tflite::FileOperator::outputs, 0, [=](tflite::FileTensor& tensor) { tensor.dims = dims; });
    };
    const auto same = [](tflite::Model&, tflite::FileOperator&) {};
    constexpr std::int32_t depth_to_space = 5, fully_connected = 9, gather = 36, split = 49, pack = 83, unpack = 88,
                           split_v = 102, reverse = 105, broadcast_to = 130;
    const char *const pieces = "pieces_int16.tflite", *const gathered = "gathered_int8.tflite";
    CHECK(refused(pieces, split, same).empty());
    CHECK(refused(gathered, gather, same).empty());
    CHECK(refused("blocks_int8.tflite", depth_to_space, same).empty());
    struct Case {
        const char* file;
        std::int32_t code;
        Change change;
        const char* said;
    };
    const Case cases[] = {
        {pieces, split, with_integers(0, {0}), "axis 0, the samples"},
        {pieces, split, with_integers(0, {4}), "no axis 4 among 4"},
        {pieces, split, with_integers(0, {1, 2}), "has 2 elements, expected the number of an axis"},
        {pieces, split, [](auto&, auto& op) { op.outputs.pop_back(); }, "it has 2 pieces and writes 1 tensors"},
        {pieces, split, [](auto&, auto& op) { op.outputs[1] = op.outputs[0]; }, "is written twice"},
        {pieces, split, [](auto&, auto& op) { op.outputs[1] = -1; }, "its output 1 is missing"},
        {pieces, split, [](auto&, auto& op) { op.options = {}; }, "it has 0 pieces"},
        {pieces, split, with_output({2, 4, 2, 3}), "has the shape (2, 4, 2, 3), but it produces (2, 4, 2, 2)"},
        {pieces, split, with_output({3, 4, 2, 2}), "does not keep axis 0"},
        {pieces, split_v, with_integers(1, {1, 5, 2}), "a piece of 5 elements does not fit an axis of 4"},
        {pieces, split_v, with_integers(1, {1, 1, 1}), "3 elements, and 0 sizes are left open, of an axis of 4"},
        {pieces, split_v, with_integers(1, {1, -1, -1}), "2 sizes are left open"},
        {pieces, split_v, with_integers(1, {-2, 3, 3}), "a piece of -2 elements"},
        {pieces, split_v, with_integers(1, {0, 2, 2}), "a piece of it has no elements"},
        {pieces, split_v, with_integers(1, {2, 2}), "makes 2 pieces and writes 3 tensors"},
        {pieces, unpack, [](auto&, auto& op) { op.outputs.pop_back(); }, "pieces of one size"},
        {pieces, unpack, [](auto&, auto& op) { op.options = {}; }, "axis 0, the samples"},
        {pieces, pack, [](auto&, auto& op) { op.inputs.pop_back(); }, "but it produces"},
        {pieces, pack, [](auto&, auto& op) { op.options = {}; }, "but it produces"},
        {pieces, fully_connected, [](auto&, auto& op) { op.outputs.push_back(op.outputs[0]); }, "it writes 2 tensors"},
        {gathered, gather, with_integers(1, {1, 3, 5, 9}), "no element 9 among 9"},
        {gathered, gather, with_integers(1, {1, 3, 5, -1}), "no element -1 among 9"},
        {gathered, gather, with_integers(1, {1, 3, 5}), "but it produces (2, 3, 5, 4)"},
        {gathered, gather, with_integers(1, {}), "must be a constant"},
        {gathered, gather, [](auto&, auto& op) { op.options = {}; }, "axis 0, the samples"},
        {gathered, reverse, with_integers(1, {1, 1}), "names an axis twice"},
        {gathered, reverse, with_integers(1, {0}), "the samples, in its order"},
        {gathered, reverse, with_integers(1, {-5}), "no axis -5 among 4"},
        {gathered, broadcast_to, with_integers(1, {2, 3, 2, 5}), "it is told another one"},
        {gathered, broadcast_to, with_output({2, 3, 2, 5}), "it is told another one"},
        {"blocks_int8.tflite", depth_to_space, [](auto&, auto& op) { op.options = {}; }, "a block of 0 cells"},
        {"blocks_int8.tflite", depth_to_space, with_output({2, 6, 9, 1}), "but it produces (2, 6, 9, 2)"},
    };
    for (const Case& each : cases) {
        const std::string said = refused(each.file, each.code, each.change);
        INFO(each.file << " " << each.said);
        CHECK_THAT(said, Contains("operator ") && Contains(each.said));
    }
}

TEST_CASE("An import keeps to its limits") {
    tflite::ImportOptions options;
    options.limits.tensor_bytes = 100;
    const tflite::Model model = tflite::read_model(stored() / "sums_int16.tflite");
    CHECK_THROWS_WITH(tflite::import_program(model, *test::scalar_tables().tables[litert], options),
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
