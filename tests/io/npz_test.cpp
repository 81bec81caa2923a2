// SPDX-License-Identifier: MIT
#include "intq/io/npz.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "intq/io/file.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using Bytes = std::vector<std::byte>;

namespace {

Bytes of_hex(std::string_view text) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    Bytes bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
    return bytes;
}

// numpy 2.4.6: savez(file, a=int16 [1, -2], b=float32 0.5)
constexpr std::string_view numpy_file =
    "504b03042d000000000000002100a1738eafffffffffffffffff05001400612e6e7079010010008400000000000000840000"
    "0000000000934e554d5059010076007b276465736372273a20273c6932272c2027666f727472616e5f6f72646572273a2046"
    "616c73652c20277368617065273a2028322c292c207d20202020202020202020202020202020202020202020202020202020"
    "20202020202020202020202020202020202020202020202020202020202020200a0100feff504b03042d0000000000000021"
    "006bc41c96ffffffffffffffff05001400622e6e70790100100084000000000000008400000000000000934e554d50590100"
    "76007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c2027736861706527"
    "3a2028292c207d20202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "202020202020202020202020202020202020200a0000003f504b01022d032d000000000000002100a1738eaf840000008400"
    "0000050000000000000000000000800100000000612e6e7079504b01022d032d0000000000000021006bc41c968400000084"
    "0000000500000000000000000000008001bb000000622e6e7079504b0506000000000200020066000000760100000000";

template <class T> io::NamedArray named(const std::string& name, std::vector<index_t> shape, std::vector<T> values) {
    return {name, io::make_npy<T>(std::move(shape), values)};
}

std::string refusal(const Bytes& file) {
    try {
        io::parse_npz(file, "x.npz");
    } catch (const Error& error) {
        return error.what();
    }
    return "not refused";
}

}  // namespace

TEST_CASE("A file of numpy.savez is read") {
    const auto arrays = io::parse_npz(of_hex(numpy_file), "x.npz");
    REQUIRE(arrays.size() == 2);
    CHECK(arrays[0].name == "a");
    CHECK(arrays[0].array.shape == std::vector<index_t>{2});
    CHECK(arrays[0].array.as<std::int16_t>()[1] == -2);
    CHECK(arrays[1].name == "b");
    CHECK(arrays[1].array.shape.empty());
    CHECK(arrays[1].array.as<float>()[0] == 0.5f);
}

TEST_CASE("What is written as npz is read again, and the same arrays give the same bytes") {
    const std::vector<io::NamedArray> arrays{named<float>("layer/weight", {2, 2}, {1.5f, -2.0f, 0.0f, 4.0f}),
                                             named<std::int8_t>("codes", {3}, {-128, 0, 127}),
                                             named<std::int64_t>("empty", {0}, {})};
    const test::TemporaryFolder folder;
    io::write_npz(folder / "x.npz", arrays);
    CHECK(io::read_file(folder / "x.npz") == io::serialize_npz(arrays));
    const auto again = io::read_npz(folder / "x.npz");
    REQUIRE(again.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(again[i].name == arrays[i].name);
        CHECK(again[i].array.shape == arrays[i].array.shape);
        CHECK(again[i].array.bytes == arrays[i].array.bytes);
    }
    const std::vector<io::NamedArray> twice{arrays[1], arrays[1]};
    CHECK_THROWS_WITH(io::serialize_npz(twice), Contains("\"codes\" of an array is empty or comes twice"));
    const std::vector<io::NamedArray> longest{{std::string(65531, 'a'), arrays[0].array}};
    CHECK(io::parse_npz(io::serialize_npz(longest), "longest").front().name.size() == 65531);
    const std::vector<io::NamedArray> beyond{{std::string(65532, 'a'), arrays[0].array}};
    CHECK_THROWS_WITH(io::serialize_npz(beyond), Contains("65532 bytes, more than the 65531"));
}

TEST_CASE("A damaged npz file is refused, wherever it is cut and whichever bit is wrong") {
    const Bytes good = of_hex(numpy_file);
    for (std::size_t size = 0; size < good.size(); ++size)
        CHECK(refusal(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))).starts_with("x.npz"));
    Bytes data = good;
    const auto at = std::search(data.begin(), data.end(), good.begin(), good.begin() + 4) + 170;
    *at ^= std::byte{1};
    CHECK_THAT(refusal(data), Contains("x.npz: \"a.npy\": its checksum does not match its bytes"));
    for (std::size_t i = 0; i < good.size(); ++i)
        for (const int bit : {0, 3, 7}) {
            Bytes wrong = good;
            wrong[i] ^= static_cast<std::byte>(1 << bit);
            const std::string message = refusal(wrong);  // of a byte that nobody reads: not refused
            CHECK((message == "not refused" || message.starts_with("x.npz")));
        }
}

TEST_CASE("A directory that lists fewer arrays than it holds, and bytes behind the end, are refused") {
    const std::vector<io::NamedArray> arrays{named<std::int8_t>("a", {3}, {1, 2, 3}),
                                             named<std::int8_t>("b", {2}, {4, 5})};
    const Bytes good = io::serialize_npz(arrays);
    for (const std::byte count : {std::byte{0}, std::byte{1}}) {
        Bytes fewer = good;
        fewer[fewer.size() - 12] = count;  // of the end record
        CHECK_THAT(refusal(fewer), Contains("x.npz: ") && Contains("lists fewer arrays"));
    }
    Bytes longer = good;
    longer.resize(good.size() + 100);
    CHECK_THAT(refusal(longer), Contains("followed by other bytes"));
}

TEST_CASE("A compressed array and arrays that share bytes are refused") {
    const std::vector<io::NamedArray> arrays{named<std::int8_t>("a", {3}, {1, 2, 3})};
    Bytes file = io::serialize_npz(arrays);
    const std::uint32_t entry = 0x02014B50;
    const auto bytes = std::as_bytes(std::span(&entry, 1));
    const auto directory = std::search(file.begin(), file.end(), bytes.begin(), bytes.end());
    Bytes compressed = file;
    compressed[static_cast<std::size_t>(directory - file.begin()) + 10] = std::byte{8};
    CHECK_THAT(refusal(compressed), Contains("it is compressed") && Contains("numpy.savez"));

    // One array that the directory lists three times.
    const Bytes one(directory, file.end() - 22);
    Bytes several = file;
    const auto end = static_cast<std::ptrdiff_t>(file.size()) - 22;
    for (int i = 0; i < 2; ++i) several.insert(several.begin() + end, one.begin(), one.end());
    several[several.size() - 12] = std::byte{3};
    CHECK_THAT(refusal(several), Contains("larger than the file") || Contains("the name comes twice"));
}
