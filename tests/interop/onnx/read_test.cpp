// SPDX-License-Identifier: MIT
//
// The reader of ONNX files: what it reads, and what it refuses.
#include "intq/interop/onnx/read/read.hpp"
#include "intq/io/file.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>

#include "interop/onnx_builder.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace onnx = interop::onnx;
using Catch::Matchers::Contains;

namespace {

const std::filesystem::path models = std::string(INTQ_TESTS_DIR) + "/golden/models";

onnx::Model parse(const test::Message& message) { return onnx::parse_model(message.bytes(), "m.onnx"); }

onnx::Model with_initializer(const test::Message& tensor) { return parse(test::model({.initializers = {tensor}})); }

onnx::FileTensor read_back(const test::Message& tensor) { return with_initializer(tensor).graph.initializers.at(0); }

std::string raw(std::size_t bytes) { return std::string(bytes, '\1'); }

/// The most bytes that this process held so far.
std::size_t memory_peak() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

TEST_CASE("A model of an exporter is read with its nodes, attributes, tensors and shapes") {
    const onnx::Model model = onnx::read_model(models / "small_cnn.onnx");
    CHECK(model.opset == 17);
    CHECK(model.ir_version > 0);
    CHECK(model.producer_name == "make_small_models.py");
    REQUIRE(model.graph.nodes.size() == 22);
    const onnx::Node& conv = model.graph.nodes[0];
    CHECK(conv.op_type == "Conv");
    CHECK(conv.name == "/conv1");
    CHECK(conv.position == 0);
    CHECK(conv.inputs == std::vector<std::string>{"x", "conv1.weight"});
    CHECK(onnx::describe_node(conv, 22) == "node 1 of 22 (Conv \"/conv1\")");
    const auto strides = std::find_if(conv.attributes.begin(), conv.attributes.end(),
                                      [](const onnx::Attribute& attribute) { return attribute.name == "strides"; });
    REQUIRE(strides != conv.attributes.end());
    CHECK(std::get<std::vector<std::int64_t>>(strides->value) == std::vector<std::int64_t>{2, 2});
    const auto& tensors = model.graph.initializers;
    const auto weight = std::find_if(tensors.begin(), tensors.end(),
                                     [](const onnx::FileTensor& tensor) { return tensor.name == "conv1.weight"; });
    REQUIRE(weight != tensors.end());
    CHECK(weight->dims == std::vector<index_t>{8, 3, 3, 3});
    CHECK(weight->as<float>().size() == 216);
    REQUIRE(model.graph.inputs.size() == 1);
    CHECK(model.graph.inputs[0].dtype == DType::float32);
    CHECK(model.graph.inputs[0].shape == std::vector<index_t>{-1, 3, 9, 7});
}

TEST_CASE("Every kind of attribute is read, also without the field that says which it is") {
    const auto value_of = [](const test::Message& attribute) {
        return parse(test::model({.nodes = {test::node("Op", {}, {}, {attribute})}}))
            .graph.nodes.at(0)
            .attributes.at(0)
            .value;
    };
    using Integers = std::vector<std::int64_t>;
    CHECK(std::get<float>(value_of(test::attribute("a", 0.5f))) == 0.5f);
    CHECK(std::get<std::int64_t>(value_of(test::attribute("a", -3))) == -3);
    CHECK(std::get<std::string>(value_of(test::attribute("a", std::string("SAME")))) == "SAME");
    CHECK(std::get<Integers>(value_of(test::attribute("a", Integers{1, -1}))) == Integers{1, -1});
    CHECK(std::get<Integers>(value_of(test::attribute("a", Integers{}))).empty());
    CHECK(std::get<Integers>(value_of(test::Message().text(1, "a").integer(8, 4).integer(8, 5))) == Integers{4, 5});
    CHECK(std::get<std::vector<float>>(value_of(test::Message().text(1, "a").floats(7, {1, 2}))) ==
          std::vector<float>{1, 2});
    CHECK(std::get<std::vector<std::string>>(value_of(test::Message().text(1, "a").text(9, "b"))) ==
          std::vector<std::string>{"b"});
    CHECK(
        std::get<onnx::FileTensor>(value_of(test::tensor_attribute("a", test::tensor("t", {1}, {2})))).as<float>()[0] ==
        2);
    CHECK(std::get<std::int64_t>(value_of(test::Message().text(1, "a").integer(20, 2))) == 0);
    CHECK(std::get<float>(value_of(test::Message().text(1, "a").integer(20, 1))) == 0.0f);
    CHECK(value_of(test::Message().text(1, "a").message(6, test::Message().text(2, "a subgraph")).integer(20, 5))
              .index() == 0);
    CHECK_THROWS_WITH(value_of(test::Message().text(1, "a").integer(3, 1).integer(20, 1)),
                      Contains("another kind of value"));
    CHECK_THROWS_WITH(value_of(test::Message().text(1, "a").text(21, "b")), Contains("functions are not supported"));
}

TEST_CASE("Tensors are read from raw and from typed data") {
    const auto typed = [](int type, const std::vector<std::int64_t>& values) {
        return read_back(test::Message().integer(1, 2).integer(2, type).integers(5, values).text(8, "t"));
    };
    CHECK(typed(test::int8, {-128, 127}).as<std::int8_t>()[0] == -128);
    CHECK(typed(test::uint8, {0, 255}).as<std::uint8_t>()[1] == 255);
    CHECK(typed(test::int16, {-32768, 1}).as<std::int16_t>()[0] == -32768);
    CHECK(typed(test::int32, {-1, INT32_MAX}).as<std::int32_t>()[1] == INT32_MAX);
    CHECK(typed(test::boolean, {0, 1}).as<std::uint8_t>()[1] == 1);
    CHECK(read_back(test::int64_tensor("t", {0, -1})).as<std::int64_t>()[1] == -1);
    CHECK(read_back(test::Message().integer(2, test::float32).number(4, 0.5f)).as<float>()[0] == 0.5f);
    const onnx::FileTensor tensor =
        read_back(test::Message().integers(1, {2, 1}).integer(2, test::float64).text(9, raw(16)));
    CHECK(tensor.dims == std::vector<index_t>{2, 1});
    CHECK(tensor.as<double>().size() == 2);
    CHECK(read_back(test::Message().integers(1, {3, 0}).integer(2, test::float32)).size() == 0);
    CHECK_THROWS_WITH(tensor.as<float>(), Contains("dtype float64, expected float32"));
}

TEST_CASE("A tensor whose data is not what its dims say is refused with both") {
    const auto message = [](std::vector<std::int64_t> dims, int type = test::float32) {
        return test::Message().integers(1, dims).integer(2, type).text(8, "w");
    };
    CHECK_THROWS_WITH(with_initializer(message({2}).text(9, raw(7))),
                      Contains("m.onnx: tensor \"w\": raw_data has 7 bytes, the dims need 8"));
    CHECK_THROWS_WITH(with_initializer(message({2}).text(9, raw(9))), Contains("raw_data has 9 bytes"));
    CHECK_THROWS_WITH(with_initializer(message({2}).floats(4, {1, 2, 3})),
                      Contains("float_data has 3 values, the dims need 2"));
    CHECK_THROWS_WITH(with_initializer(message({2})), Contains("float_data has 0 values"));
    CHECK_THROWS_WITH(with_initializer(message({1}, test::int8).integers(5, {128})), Contains("holds 128"));
    CHECK_THROWS_WITH(with_initializer(message({1}, test::uint8).integers(5, {-1})), Contains("holds -1"));
    CHECK_THROWS_WITH(with_initializer(message({1}, test::int32).integers(5, {INT64_MAX})),
                      Contains("which its dtype does not"));
    CHECK_THROWS_WITH(with_initializer(message({1}, test::boolean).integers(5, {2})), Contains("neither 0 nor 1"));
    CHECK_THROWS_WITH(with_initializer(message({1}).floats(4, {1}).text(9, raw(4))), Contains("two fields"));
    CHECK_THROWS_WITH(with_initializer(message({-1}).text(9, raw(4))), Contains("negative"));
    CHECK_THROWS_WITH(with_initializer(message({INT64_MAX, 2}).text(9, raw(4))), Contains("more elements than memory"));
    CHECK_THROWS_WITH(with_initializer(message({std::int64_t{1} << 32, std::int64_t{1} << 32}).text(9, raw(0))),
                      Contains("more elements"));
    CHECK_THROWS_WITH(with_initializer(message(std::vector<std::int64_t>(33, 1)).text(9, raw(4))), Contains("33 dims"));
    CHECK_THROWS_WITH(with_initializer(message({std::int64_t{1} << 40}).text(9, raw(4))), Contains("the dims need"));
}

TEST_CASE("Dtypes and ways of storage that are not supported are named") {
    const auto message = [](int type) {
        return test::Message().integer(1, 1).integer(2, type).text(8, "w").text(9, raw(2));
    };
    CHECK_THROWS_WITH(with_initializer(message(test::float16)), Contains("dtype float16 (code 10) is not supported"));
    CHECK_THROWS_WITH(with_initializer(message(8)), Contains("dtype string"));
    CHECK_THROWS_WITH(with_initializer(message(99)), Contains("dtype of an unknown code (code 99)"));
    CHECK_THROWS_WITH(with_initializer(message(-1)), Contains("(code -1)"));
    CHECK_THROWS_WITH(with_initializer(message(test::int16).integer(14, 2)),
                      Contains("a location of the unknown code 2"));
    CHECK_THROWS_WITH(with_initializer(message(test::int16).integer(14, 1)), Contains("two fields"));
    CHECK_THROWS_WITH(with_initializer(message(test::int16).message(13, test::Message().text(1, "location"))),
                      Contains("says that it has its data inside"));
    CHECK_THROWS_WITH(with_initializer(message(test::int16).message(3, test::Message())), Contains("segments"));
    CHECK_THROWS_WITH(parse(test::model(test::Message().message(15, test::Message()), 17)), Contains("sparse"));
}

TEST_CASE("Data may lie in a file of the model's folder, and nowhere else") {
    const test::TemporaryFolder folder;
    const std::filesystem::path inside = folder / "inside";
    std::filesystem::create_directories(inside / "below");
    const std::string bytes("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12);  // 0, 1, 2
    for (const auto& path : {folder / "outside.data", inside / "m.data", inside / "below" / "m.data"})
        io::write_file(path, bytes);
    std::filesystem::create_symlink(folder / "outside.data", inside / "link.data");
    std::filesystem::create_directory_symlink("..", inside / "up");
    std::filesystem::create_symlink("m.data", inside / "own.data");

    using Entries = std::vector<std::pair<std::string, std::string>>;
    const auto model_of = [](const Entries& entries, std::int64_t elements) {
        test::Message tensor =
            test::Message().integer(1, elements).integer(2, test::float32).text(8, "w").integer(14, 1);
        for (const auto& [key, value] : entries) tensor.message(13, test::Message().text(1, key).text(2, value));
        return test::model({.initializers = {tensor}});
    };
    const auto read = [&](const Entries& entries, std::int64_t elements = 2) {
        io::write_file(inside / "m.onnx", model_of(entries, elements).data());
        return onnx::read_model(inside / "m.onnx").graph.initializers.at(0);
    };
    const auto refusal = [&](const Entries& entries, std::int64_t elements = 2) {
        try {
            read(entries, elements);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("not refused");
    };
    for (const char* location : {"m.data", "./m.data", "below/m.data", "own.data"}) {
        const onnx::FileTensor tensor = read({{"location", location}, {"offset", "4"}, {"length", "8"}});
        CHECK(tensor.as<float>()[0] == 1.0f);
        CHECK(tensor.as<float>()[1] == 2.0f);
    }
    CHECK(read({{"location", "m.data"}, {"checksum", "0"}}, 3).as<float>()[2] == 2.0f);
    CHECK(read({{"location", "m.data"}, {"offset", "12"}}, 0).size() == 0);

    CHECK_THAT(refusal({{"location", "../outside.data"}}),
               Contains("m.onnx: tensor \"w\": its data lies in the file \"../outside.data\", expected a relative path "
                        "below the model's folder"));
    CHECK_THAT(refusal({{"location", "below/../m.data"}}), Contains("without \"..\""));
    CHECK_THAT(refusal({{"location", (folder / "outside.data").string()}}), Contains("expected a relative path"));
    CHECK_THAT(refusal({{"location", (inside / "m.data").string()}}), Contains("expected a relative path"));
    CHECK_THAT(refusal({{"location", ""}}), Contains("expected a relative path"));
    CHECK_THAT(refusal({}), Contains("expected a relative path"));
    CHECK_THAT(refusal({{"location", std::string("m.data\0x", 8)}}), Contains("expected a relative path"));
    for (const char* link : {"link.data", "up/outside.data"})
        CHECK_THAT(refusal({{"location", link}}), Contains("a symbolic link out of the model's folder"));
    CHECK_THAT(refusal({{"location", "absent.data"}}), Contains("No such file"));
    CHECK_THAT(refusal({{"location", "below"}}), Contains("not a regular file"));
    CHECK_THAT(refusal({{"location", "m.data"}, {"offset", "8"}}),
               Contains("its data are 8 bytes from byte 8 of \"m.data\", which has 12"));
    CHECK_THAT(refusal({{"location", "m.data"}, {"offset", "18446744073709551615"}}), Contains("which has 12"));
    CHECK_THAT(refusal({{"location", "m.data"}}, std::int64_t{1} << 40), Contains("which has 12"));
    for (const char* number : {"-4", "4 ", "0x4", "", "18446744073709551616"})
        CHECK_THAT(refusal({{"location", "m.data"}, {"offset", number}}), Contains("expected a number of bytes"));
    CHECK_THAT(refusal({{"location", "m.data"}, {"length", "12"}}), Contains("the length 12, the dims need 8"));
    CHECK_THAT(refusal(Entries(17, {"location", "m.data"})), Contains("more than 16 entries"));
    CHECK_THROWS_WITH(parse(model_of({{"location", "m.data"}}, 2)),
                      Contains("a model in memory has no files beside it"));

    // Tensors may share bytes, but not let a small file fill the memory.
    test::ModelParts many;
    for (int i = 0; i < 5; ++i)
        many.initializers.push_back(test::Message()
                                        .integer(1, 3)
                                        .integer(2, test::float32)
                                        .text(8, "w" + std::to_string(i))
                                        .integer(14, 1)
                                        .message(13, test::Message().text(1, "location").text(2, "m.data")));
    io::write_file(inside / "m.onnx", test::model(many).data());
    CHECK_THROWS_WITH(onnx::read_model(inside / "m.onnx"),
                      Contains("tensor \"w4\": the tensors up to here read \"m.data\" more than 4 times over"));
    many.initializers.pop_back();
    io::write_file(inside / "m.onnx", test::model(many).data());
    CHECK(onnx::read_model(inside / "m.onnx").graph.initializers.size() == 4);
}

TEST_CASE("Only opsets whose operators are known are accepted") {
    const auto with_opset = [](std::int64_t opset) { return parse(test::model({.opset = opset})); };
    for (std::int64_t opset = onnx::oldest_opset; opset <= onnx::newest_opset; ++opset)
        CHECK(with_opset(opset).opset == opset);
    CHECK_THROWS_WITH(with_opset(10), Contains("opset 10 is not supported; expected 11 to"));
    CHECK_THROWS_WITH(with_opset(onnx::newest_opset + 1), Contains("is not supported"));
    CHECK_THROWS_WITH(with_opset(-5), Contains("opset -5"));
    CHECK_THROWS_WITH(parse(test::Message().integer(1, 8).message(7, test::Message())),
                      Contains("does not say its opset; expected 11 to"));
    const auto import = [](const std::string& domain, int version) {
        return test::Message().text(1, domain).integer(2, version);
    };
    CHECK(parse(test::Message()
                    .integer(1, 8)
                    .message(7, {})
                    .message(8, import("ai.onnx.ml", 3))
                    .message(8, import("ai.onnx", 13)))
              .opset == 13);
    CHECK_THROWS_WITH(
        parse(
            test::Message().integer(1, 8).message(7, {}).message(8, import("", 12)).message(8, import("ai.onnx", 13))),
        Contains("twice"));
}

TEST_CASE("What is not an ONNX model is refused with a sentence that names the file") {
    const auto refuse = [](std::string_view text) {
        onnx::parse_model(std::as_bytes(std::span(text.data(), text.size())), "m.onnx");
    };
    CHECK_THROWS_WITH(refuse(""), Contains("m.onnx: not an ONNX model"));
    CHECK_THROWS_WITH(refuse("This is text.\n"), Contains("m.onnx: not an ONNX model, or damaged"));
    CHECK_THROWS_WITH(refuse("\x89PNG\r\n\x1a\n"), Contains("not an ONNX model"));
    CHECK_THROWS_WITH(refuse("\x93NUMPY\x01\0v"), Contains("not an ONNX model"));
    CHECK_THROWS_WITH(refuse("\x08\x08"), Contains("it holds no graph"));
    CHECK_THROWS_WITH(onnx::read_model(models / "not_onnx.onnx"), Contains("not_onnx.onnx: not an ONNX model"));
    CHECK_THROWS_WITH(onnx::read_model(models / "truncated.onnx"),
                      Contains("truncated.onnx: not an ONNX model, or cut off"));
    CHECK_THROWS_WITH(onnx::read_model(models / "absent.onnx"), Contains("absent.onnx: cannot be opened"));
    CHECK_THROWS_WITH(onnx::read_model(models), Contains("cannot be read"));
    CHECK_THROWS_WITH(parse(test::model({}).message(7, {})), Contains("two graphs"));
}

TEST_CASE("A field of another wire type than the format's is refused by name") {
    CHECK_THROWS_WITH(parse(test::Message().text(1, "8")),
                      Contains("field 1 of ModelProto has wire type 2, expected 0"));
    CHECK_THROWS_WITH(parse(test::Message().integer(7, 1)),
                      Contains("field 7 of ModelProto has wire type 0, expected 2"));
    CHECK_THROWS_WITH(parse(test::model(test::Message().message(1, test::Message().number(4, 1.0f)), 17)),
                      Contains("node 1: field 4 of NodeProto has wire type 5"));
    CHECK_THROWS_WITH(with_initializer(test::Message().integer(2, test::float32).integer(4, 1)),
                      Contains("field 4 of TensorProto"));
}

TEST_CASE("Fields that are not known are stepped over") {
    CHECK(parse(test::model({}).integer(99, 1).text(100, "later").number(101, 1.0f)).opset == 17);
}

TEST_CASE("A file with more items than any model has is refused before it fills the memory") {
    // Two bytes an item, 2 MB in all: empty nodes, attributes, initializers, inputs.
    const auto refusal = [](const char* field, const std::string& around) {
        std::string items;
        for (int i = 0; i < (1 << 20) - 16; ++i) items += std::string(field, 2);
        const test::Message inside = around.empty() ? test::Message() : test::Message().text(1, items);
        test::Message file;
        file.integer(1, 8).message(8, test::Message().integer(2, 17));
        file.text(7, around.empty() ? items : inside.data());
        const std::size_t before = memory_peak();
        std::string message = "not refused";
        try {
            onnx::parse_model(file.bytes(), "m.onnx");
        } catch (const Error& error) {
            message = error.what();
        }
        CHECK(memory_peak() - before < std::size_t{80} << 20);
        return message;
    };
    CHECK_THAT(refusal("\x0a\0", ""), Contains("more than 16384 nodes"));
    CHECK_THAT(refusal("\x2a\0", "node"), Contains("more than 262144 items"));
    CHECK_THAT(refusal("\x5a\0", ""), Contains("more than 262144 items"));
}

TEST_CASE("A name is as long as a name; where one is longer, the message says which") {
    const std::string longest(4096, 'a'), longer(4097, 'a');
    CHECK(parse(test::model({.nodes = {test::node("Relu", {"x"}, {"y"}, {}, longest)}})).graph.nodes[0].name ==
          longest);
    const auto refusal = [](const test::ModelParts& parts) {
        try {
            parse(test::model(parts));
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("not refused");
    };
    CHECK_THAT(refusal({.nodes = {test::node("Relu", {"x"}, {"y"}, {}, longer)}}),
               Contains("node 1: field 3 of NodeProto is a name of 4097 bytes, expected 4096 at most"));
    CHECK_THAT(refusal({.nodes = {test::node("Relu", {longer}, {"y"})}}), Contains("field 1 of NodeProto"));
    CHECK_THAT(refusal({.nodes = {test::node("Relu", {"x"}, {longer})}}), Contains("field 2 of NodeProto"));
    CHECK_THAT(refusal({.nodes = {test::node(longer, {"x"}, {"y"})}}), Contains("field 4 of NodeProto"));
    CHECK_THAT(refusal({.nodes = {test::node("Relu", {"x"}, {"y"}, {test::attribute(longer, 1)})}}),
               Contains("field 1 of AttributeProto"));
    CHECK_THAT(refusal({.initializers = {test::filled(longer, {1})}}), Contains("field 8 of TensorProto"));
    CHECK_THAT(refusal({.inputs = {test::value_info(longer, {1})}}), Contains("field 1 of ValueInfoProto"));
}

TEST_CASE("A shape of the graph's input with more axes than a tensor has, or a negative extent, is refused") {
    CHECK_THROWS_WITH(parse(test::model({.inputs = {test::value_info("x", std::vector<std::int64_t>(33, 1))}})),
                      Contains("32 axes"));
    const auto dims = test::Message().message(1, test::Message().integer(1, -2));
    const auto type = test::Message().message(1, test::Message().integer(1, 1).message(2, dims));
    CHECK_THROWS_WITH(parse(test::model({.inputs = {test::Message().text(1, "x").message(2, type)}})),
                      Contains("negative"));
}

TEST_CASE("A model that ends too early is refused at every length, and never read behind its end") {
    const std::vector<std::byte> whole = io::read_file(models / "chain_opset17.onnx");
    int refused = 0;
    for (std::size_t length = 0; length < whole.size(); ++length) {
        const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
        INFO(length << " of " << whole.size() << " bytes");
        CHECK_THROWS_AS(onnx::parse_model(part, "m.onnx"), Error);
        ++refused;
    }
    CHECK(refused > 500);
}

TEST_CASE("A damaged model is either refused or read to tensors that keep their promises") {
    const std::vector<std::byte> whole = io::read_file(models / "chain_opset17.onnx");
    constexpr unsigned seed = 20240608;
    std::mt19937 random(seed);
    int refused = 0, read = 0;
    for (int round = 0; round < 20000; ++round) {
        auto damaged = whole;
        for (int i = 0; i < 1 + round % 3; ++i) damaged[random() % damaged.size()] = static_cast<std::byte>(random());
        INFO("seed " << seed << ", round " << round);
        try {
            const onnx::Model model = onnx::parse_model(damaged, "m.onnx");
            for (const onnx::FileTensor& tensor : model.graph.initializers) {
                index_t expected = size_of(tensor.dtype);
                for (const index_t dim : tensor.dims) expected *= dim;
                REQUIRE(static_cast<index_t>(tensor.data.size()) == expected);
            }
            ++read;
        } catch (const Error&) {
            ++refused;
        }
    }
    CHECK(refused > 1000);
    CHECK(read > 1000);
}
