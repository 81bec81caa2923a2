// SPDX-License-Identifier: MIT
#include "intq/io/safetensors.hpp"
#include "intq/io/json_text.hpp"

#include <array>
#include <random>
#include <string>

#include "intq/io/file.hpp"
#include "intq/io/json_text.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;

namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return {bytes.begin(), bytes.end()};
}

// A file as the format's description says, put together apart from the writer.
std::vector<std::byte> file_of(const std::string& header, std::string_view data) {
    std::string text;
    for (int i = 0; i < 8; ++i) text += static_cast<char>((header.size() >> (8 * i)) % 256);
    return bytes_of(text + header + std::string(data));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

io::Safetensors parse(const std::vector<std::byte>& file) { return io::parse_safetensors(file, "x.safetensors"); }

// What safetensors 0.8.0 for Python writes for {"a.weight": float32 [[1.5, -2, 0.25]], "b": int16 [1, -2],
// "zé": int64 7} with the metadata {"kind": "tést"}.
std::vector<std::byte> python_file() {
    return file_of(R"({"__metadata__":{"kind":"tést"},"zé":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                   R"("a.weight":{"dtype":"F32","shape":[1,3],"data_offsets":[8,20]},)"
                   R"("b":{"dtype":"I16","shape":[2],"data_offsets":[20,24]}}   )",
                   std::string_view("\7\0\0\0\0\0\0\0\0\0\xc0\x3f\0\0\0\xc0\0\0\x80\x3e\1\0\xfe\xff", 24));
}

template <class T> io::NamedArray named(const std::string& name, std::vector<index_t> shape, std::vector<T> values) {
    return {name, io::make_npy<T>(std::move(shape), values)};
}

}  // namespace

TEST_CASE("A file that Python's package wrote is read") {
    const io::Safetensors content = parse(python_file());
    CHECK(content.metadata == std::map<std::string, std::string>{{"kind", "tést"}});
    REQUIRE(content.arrays.size() == 3);
    CHECK(content.at("zé").shape.empty());
    CHECK(content.at("zé").as<std::int64_t>()[0] == 7);
    CHECK(content.at("a.weight").shape == std::vector<index_t>{1, 3});
    CHECK(content.at("a.weight").as<float>()[1] == -2.0f);
    CHECK(content.at("b").as<std::int16_t>()[1] == -2);
    CHECK_THROWS_WITH(content.at("c"), Contains("no array \"c\""));
}

TEST_CASE("The writer gives the bytes that Python's package gives") {
    io::Safetensors content;
    content.arrays = {named<std::int16_t>("b", {2}, {1, -2}), named<std::int64_t>("zé", {}, {7}),
                      named<float>("a.weight", {1, 3}, {1.5f, -2.0f, 0.25f})};
    content.metadata["kind"] = "tést";
    CHECK(io::serialize_safetensors(content) == python_file());
}

TEST_CASE("Every dtype goes out and comes back, also empty and without any array") {
    const test::TemporaryFolder folder;
    io::Safetensors content;
    content.arrays = {named<double>("f64", {2}, {1e300, -0.0}), named<std::int64_t>("i64", {1}, {INT64_MIN}),
                      named<float>("f32", {0, 4}, {}),          named<std::int32_t>("i32", {1}, {INT32_MIN}),
                      named<std::int16_t>("i16", {1}, {-3}),    named<std::int8_t>("i8", {3}, {-128, 0, 127}),
                      named<std::uint8_t>("u8", {1}, {255})};
    content.metadata["odd \"text\"\n"] = std::string("\x01 \\ / \xf0\x9f\x98\x80", 10);
    io::write_safetensors(folder / "a", content);
    const io::Safetensors back = io::read_safetensors(folder / "a");
    CHECK(back.metadata == content.metadata);
    REQUIRE(back.arrays.size() == content.arrays.size());
    for (const io::NamedArray& item : content.arrays) {
        CHECK(back.at(item.name).dtype == item.array.dtype);
        CHECK(back.at(item.name).shape == item.array.shape);
        CHECK(back.at(item.name).bytes == item.array.bytes);
    }
    CHECK(parse(io::serialize_safetensors({})).arrays.empty());
    CHECK(folder.count() == 1);
}

TEST_CASE("Spaces, another order of keys and escapes are read") {
    const io::Safetensors content = parse(file_of(
        "{ \"\\u00e9\\ud83d\\ude00\\n\" : {\"shape\" : [ 2 ] ,\"data_offsets\":[0, 2],\"dtype\":\"U8\"} }  ", "ab"));
    CHECK(content.at("é\xf0\x9f\x98\x80\n").as<std::uint8_t>()[1] == 'b');
}

TEST_CASE("What is not such a file is refused with a sentence") {
    CHECK_THROWS_WITH(parse(bytes_of("")), Contains("x.safetensors: not a safetensors file"));
    CHECK_THROWS_WITH(parse(bytes_of("\x93NUMPY\1\2\3\4")), Contains("its header would have"));
    CHECK_THROWS_WITH(parse(bytes_of(std::string("\5\0\0\0\0\0\0\0{}", 10))), Contains("truncated inside"));
    CHECK_THROWS_WITH(parse(bytes_of(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8))), Contains("would have"));
    CHECK_THROWS_WITH(parse(file_of("", "")), Contains("does not start with {"));
    CHECK_THROWS_WITH(parse(file_of(" {}", "")), Contains("does not start with {"));
    for (const char* header : {"{", "{}{}", "{\"a\"}", "{\"a\":1}", "{\"a\":{}", "{\"a\":{},}", "{\"a", "{\"a\\x\":{}}",
                               "{\"\\ud800\":{}}", "{\"\\u12\":{}}", "{\"a\x01\":{}}", "{\"\xff\":{}}", "{\"a\":[]}"}) {
        INFO(header);
        CHECK_THROWS_WITH(parse(file_of(header, "")), Contains("damaged JSON"));
    }
    CHECK_THROWS_WITH(parse(file_of(std::string(100000, '{'), "")), Contains("damaged JSON"));
}

TEST_CASE("An entry that makes no sense is refused, naming the array") {
    const auto with = [](const std::string& text) { return file_of("{\"w\":" + text + "}", "abcd"); };
    CHECK(parse(with(entry("F32", "[1]", "[0,4]"))).arrays.size() == 1);
    CHECK_THROWS_WITH(parse(with(entry("F16", "[2]", "[0,4]"))), Contains("\"w\" has dtype \"F16\""));
    CHECK_THROWS_WITH(parse(with(entry("F32", "[2]", "[0,4]"))), Contains("\"w\" has 4 bytes of data, expected 8"));
    CHECK_THROWS_WITH(parse(with(entry("F32", "[1]", "[1,5]"))), Contains("\"w\" has the offsets 1 to 5"));
    CHECK_THROWS_WITH(parse(with(entry("F32", "[1]", "[4,0]"))), Contains("\"w\" has the offsets 4 to 0"));
    CHECK_THROWS_WITH(parse(with(entry("U8", "[3]", "[0,3]"))), Contains("holds 4 bytes of data, its arrays take 3"));
    CHECK_THROWS_WITH(parse(with(entry("U8", "[3]", "[1,4]"))), Contains("\"w\" starts at byte 1"));
    CHECK_THROWS_WITH(parse(with(entry("U8", "[4294967296,4294967296]", "[0,4]"))), Contains("more elements"));
    CHECK_THROWS_WITH(parse(with(entry("U8", "[4294967296,0,4294967296]", "[0,0]"))), Contains("more elements"));
    CHECK_THROWS_WITH(parse(with(entry("F32", "[99999999999999999999]", "[0,4]"))), Contains("overflows"));
    CHECK_THROWS_WITH(parse(with(entry("F32", "[-1]", "[0,4]"))), Contains("a count expected"));
    CHECK_THROWS_WITH(parse(with(entry("F32", "[1.5]", "[0,4]"))), Contains("damaged JSON"));
    CHECK_THROWS_WITH(parse(with(entry("F32", "[01]", "[0,4]"))), Contains("a count expected"));
    CHECK_THROWS_WITH(parse(with(entry("F32", "[1]", "[0,4,8]"))), Contains("more than 2 numbers"));
    CHECK_THROWS_WITH(parse(with(entry("F32", "[1]", "[0]"))), Contains("must be two numbers"));
    CHECK_THROWS_WITH(parse(with(R"({"dtype":"F32","shape":[1]})")), Contains("\"w\" lacks one of the keys"));
    CHECK_THROWS_WITH(parse(with(R"({"dtype":"F32","shape":[1],"shape":[1]})")), Contains("unexpected key \"shape\""));
    CHECK_THROWS_WITH(parse(with(R"({"dtype":"F32","stride":[1]})")), Contains("unexpected key \"stride\""));
    std::string deep = "[1";
    for (int i = 0; i < 32; ++i) deep += ",1";
    CHECK_THROWS_WITH(parse(with(entry("F32", deep + "]", "[0,4]"))), Contains("more than 32 numbers"));
}

TEST_CASE("Arrays that share bytes, leave a hole or have one name are refused") {
    const auto two = [](const std::string& first, const std::string& second, const char* other = "b") {
        return file_of("{\"a\":" + entry("U8", "[2]", first) + ",\"" + other + "\":" + entry("U8", "[2]", second) + "}",
                       "abcd");
    };
    CHECK(parse(two("[2,4]", "[0,2]")).arrays[0].name == "b");
    CHECK_THROWS_WITH(parse(two("[0,2]", "[1,3]")), Contains("\"b\" starts at byte 1 of the data, expected 2"));
    CHECK_THROWS_WITH(parse(two("[0,2]", "[0,2]")), Contains("overlap"));
    CHECK_THROWS_WITH(parse(two("[0,2]", "[2,4]", "a")), Contains("\"a\" comes twice"));
    CHECK_THROWS_WITH(parse(file_of(R"({"__metadata__":{"a":"1","a":"2"}})", "")), Contains("comes twice"));
    CHECK_THROWS_WITH(parse(file_of(R"({"__metadata__":{"a":1}})", "")), Contains("'\"' expected"));
    CHECK_THROWS_WITH(parse(file_of(R"({"__metadata__":{},"__metadata__":{}})", "")), Contains("comes twice"));
}

TEST_CASE("The writer refuses what a reader could not take, and leaves the former file") {
    const test::TemporaryFolder folder;
    io::Safetensors good;
    good.arrays = {named<float>("w", {1}, {2.0f})};
    io::write_safetensors(folder / "a", good);

    const auto refuse = [&](const io::Safetensors& content, const char* sentence) {
        CHECK_THROWS_WITH(io::write_safetensors(folder / "a", content), Contains(sentence));
        CHECK(io::read_safetensors(folder / "a").at("w").as<float>()[0] == 2.0f);
        CHECK(folder.count() == 1);
    };
    refuse({{good.arrays[0], good.arrays[0]}, {}}, "\"w\" comes twice");
    refuse({{{"__metadata__", good.arrays[0].array}}, {}}, "is reserved");
    refuse({{{"\xff", good.arrays[0].array}}, {}}, "not UTF-8");
    refuse({{{"w", {}}}, {}}, "no dtype");
    refuse({{{"w", {DType::float32, {2}, std::vector<std::byte>(4)}}}, {}}, "has 4 bytes, expected 8");
}

TEST_CASE("UTF-8 is told from what is not, at the borders of the table") {
    for (const char* good : {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                             "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
        CHECK(io::is_utf8(good));
    for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x7f", "\xe0\x9f\xbf", "\xe1\x80",
                            "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"})
        CHECK_FALSE(io::is_utf8(bad));
}

TEST_CASE("Damaged files are an Error or an array, never worse") {
    std::mt19937_64 random(11);
    const std::vector<std::byte> good = python_file();
    int refused = 0;
    for (int round = 0; round < 20000; ++round) {
        std::vector<std::byte> file = good;
        const auto edits = 1 + random() % 4;
        for (std::uint64_t edit = 0; edit < edits; ++edit) {
            const auto at = static_cast<std::ptrdiff_t>(random() % file.size());
            switch (random() % 3) {
                case 0:
                    file[static_cast<std::size_t>(at)] = static_cast<std::byte>(random() % 256);
                    break;
                case 1:
                    file.erase(file.begin() + at);
                    break;
                default:
                    file.insert(file.begin() + at, file[random() % file.size()]);
                    break;
            }
        }
        try {
            const io::Safetensors content = parse(file);
            REQUIRE(parse(io::serialize_safetensors(content)).arrays.size() == content.arrays.size());
        } catch (const Error& error) {
            REQUIRE_THAT(error.what(), Contains("x.safetensors: "));
            ++refused;
        }
    }
    CHECK(refused > 15000);
}
