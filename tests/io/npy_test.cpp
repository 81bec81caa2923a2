// SPDX-License-Identifier: MIT
#include "intq/io/npy.hpp"
#include "intq/io/file.hpp"
#include "intq/io/npz.hpp"

#include <array>
#include <random>
#include <string>

#include "intq/io/file.hpp"
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
std::vector<std::byte> npy_file(const std::string& header, std::string_view data, int major = 1) {
    std::string text = std::string("\x93NUMPY") + static_cast<char>(major) + '\0';
    text += static_cast<char>(header.size() % 256);
    text += static_cast<char>(header.size() / 256);
    if (major == 2) text += std::string(2, '\0');
    return bytes_of(text + header + std::string(data));
}

std::string header_of(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
    return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

io::NpyArray parse(const std::vector<std::byte>& file) { return io::parse_npy(file, "x.npy"); }

template <class T> void check_round_trip(const std::vector<T>& values, std::vector<index_t> shape) {
    const test::TemporaryFolder folder;
    const io::NpyArray array = io::make_npy<T>(shape, values);
    io::write_npy(folder / "a.npy", array);
    const io::NpyArray back = io::read_npy(folder / "a.npy");
    CHECK(back.dtype == dtype_of<T>);
    CHECK(back.shape == shape);
    CHECK(back.bytes == array.bytes);
    const auto span = back.as<T>();
    CHECK(std::vector<T>(span.begin(), span.end()) == values);
    CHECK(folder.count() == 1);
}

}  // namespace

TEST_CASE("A file that NumPy wrote is read") {
    // numpy.save(file, numpy.array([[1, 2, 3], [4, 5, 6]], dtype=numpy.int16)), NumPy 1.24
    const std::string data("\1\0\2\0\3\0\4\0\5\0\6\0", 12);
    const std::string dictionary = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
    const io::NpyArray array = parse(npy_file(dictionary + std::string(117 - dictionary.size(), ' ') + "\n", data));
    CHECK(array.dtype == DType::int16);
    CHECK(array.shape == std::vector<index_t>{2, 3});
    CHECK(array.size() == 6);
    CHECK(array.as<std::int16_t>()[5] == 6);
    CHECK_THROWS_WITH(array.as<float>(), Contains("dtype int16, expected float32"));
}

TEST_CASE("The writer gives the bytes that NumPy gives") {
    const std::array<std::int16_t, 6> values{1, 2, 3, 4, 5, 6};
    const std::string dictionary = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
    const auto numpy = npy_file(dictionary + std::string(117 - dictionary.size(), ' ') + "\n",
                                std::string_view("\1\0\2\0\3\0\4\0\5\0\6\0", 12));
    CHECK(io::serialize_npy(io::make_npy<std::int16_t>({2, 3}, values)) == numpy);
}

TEST_CASE("Every dtype and rank goes out and comes back") {
    check_round_trip<float>({1.5f, -2.25f, 0.0f}, {3});
    check_round_trip<double>({1e300, -0.0}, {1, 2, 1});
    check_round_trip<std::int8_t>({-128, 127}, {2});
    check_round_trip<std::int16_t>({-32768, 32767}, {2, 1});
    check_round_trip<std::int32_t>({INT32_MIN, INT32_MAX, 0, 1}, {2, 2});
    check_round_trip<std::int64_t>({INT64_MIN}, {});
    check_round_trip<std::uint8_t>({255}, {1, 1, 1, 1, 1, 1, 1});
    check_round_trip<float>({}, {4, 0, 5});
}

TEST_CASE("A shipped file of NumPy is read and written back to the same bytes") {
    const std::filesystem::path path = std::string(INTQ_EXAMPLES_DIR) + "/digits/data/test_images.npy";
    const std::vector<std::byte> file = io::read_file(path);
    CHECK(io::serialize_npy(io::parse_npy(file, "test_images.npy")) == file);
}

TEST_CASE("Version 2.0 and other spacings and orders of the keys are read") {
    CHECK(parse(npy_file(header_of("|u1", "(2,)"), "ab", 2)).as<std::uint8_t>()[1] == 'b');
    CHECK(parse(npy_file("{\"shape\":(2,),'fortran_order':False,'descr':'|u1'}", "ab")).size() == 2);
    CHECK(parse(npy_file(header_of("|i1", "()"), "a")).shape.empty());
}

TEST_CASE("Fortran order becomes C order") {
    // numpy.asfortranarray([[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]): index i of the file's bytes
    const io::NpyArray array =
        parse(npy_file(header_of("|u1", "(2, 3, 2)", "True"), std::string_view("\0\6\2\10\4\12\1\7\3\11\5\13", 12)));
    for (std::uint8_t i = 0; i < 12; ++i) CHECK(array.as<std::uint8_t>()[i] == i);
    CHECK(parse(npy_file(header_of("<f4", "(0, 1152921504606846976, 0)", "True"), "")).size() == 0);
}

TEST_CASE("What is not an array of ours is refused with a sentence") {
    CHECK_THROWS_WITH(parse(bytes_of("")), Contains("x.npy: not a .npy file"));
    CHECK_THROWS_WITH(parse(bytes_of("PK\3\4 an archive")), Contains("not a .npy file"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("<f4", "(1,)"), "abcd", 3)), Contains("version 3.0"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("<c8", "(1,)"), "abcdefgh")), Contains("\"<c8\" is not supported"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("|O", "(1,)"), "abcdefgh")), Contains("\"|O\" is not supported"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("|f4", "(1,)"), "abcd")), Contains("\"|f4\" is not supported"));
    CHECK_THROWS_WITH(parse(npy_file(header_of(">f4", "(1,)"), "abcd")),
                      Contains("byte order") && Contains("astype('<f4')"));
    CHECK_THROWS_WITH(parse(npy_file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "abcd")),
                      Contains("records"));
}

TEST_CASE("A length of data that the shape does not say is refused") {
    CHECK_THROWS_WITH(parse(npy_file(header_of("<f4", "(2,)"), "abcdefg")), Contains("7 bytes of data, expected 8"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("<f4", "(2,)"), "abcdefghi")), Contains("9 bytes of data, expected 8"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("<f4", "(1000000000000,)"), "")), Contains("expected 4000000000000"));
}

TEST_CASE("Shapes that overflow or make no sense are refused") {
    CHECK_THROWS_WITH(parse(npy_file(header_of("<f8", "(9223372036854775807,)"), "")), Contains("more elements"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("|u1", "(4294967296, 4294967296)"), "")), Contains("more elements"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("|u1", "(4294967296, 0, 4294967296)"), "")), Contains("more elements"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("|u1", "(99999999999999999999,)"), "")), Contains("overflows"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("|u1", "(-1,)"), "")), Contains("negative"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("|u1", "(1.5,)"), "")), Contains("damaged .npy header"));
    std::string deep = "(";
    for (int i = 0; i < 33; ++i) deep += "1,";
    CHECK_THROWS_WITH(parse(npy_file(header_of("|u1", deep + ")"), "a")), Contains("more than 32 axes"));
}

TEST_CASE("A header without a key, with one twice or with one too many is refused") {
    CHECK_THROWS_WITH(parse(npy_file("{'descr': '|u1', 'shape': (1,)}", "a")), Contains("missing"));
    CHECK_THROWS_WITH(parse(npy_file("{'descr': '|u1', 'descr': '|u1'}", "a")), Contains("unexpected key \"descr\""));
    CHECK_THROWS_WITH(parse(npy_file("{'author': '|u1'}", "a")), Contains("unexpected key \"author\""));
    CHECK_THROWS_WITH(parse(npy_file(header_of("|u1", "(1,)") + "{", "a")), Contains("after the closing brace"));
    CHECK_THROWS_WITH(parse(npy_file(header_of("|u1", "(1,)", "false"), "a")), Contains("True or False"));
    CHECK_THROWS_WITH(parse(npy_file("", "")), Contains("'{' expected"));
}

TEST_CASE("A file that ends too early is refused at every length") {
    for (const int major : {1, 2}) {
        const auto whole = npy_file(header_of("<f4", "(2, 3)"), std::string(24, 'x'), major);
        REQUIRE_NOTHROW(parse(whole));
        for (std::size_t length = 0; length < whole.size(); ++length) {
            INFO(length << " of " << whole.size() << " bytes");
            // Exactly as long as the file, so that AddressSanitizer sees a read behind its end.
            const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
            const std::size_t end_of_header = whole.size() - 24;
            CHECK_THROWS_WITH(parse(part), Contains(length < 6               ? "not a .npy file"
                                                    : length < end_of_header ? "truncated inside the .npy header"
                                                                             : "bytes of data, expected 24"));
        }
    }
}

TEST_CASE("A damaged file is either refused or read to an array that keeps its promises") {
    const auto whole = npy_file(header_of("<f4", "(2, 3)"), std::string(24, 'x'));
    constexpr unsigned seed = 20240607;
    std::mt19937 random(seed);
    int refused = 0, read = 0;
    for (int round = 0; round < 20000; ++round) {
        auto damaged = whole;
        for (int i = 0; i < 1 + round % 3; ++i) damaged[random() % damaged.size()] = static_cast<std::byte>(random());
        INFO("seed " << seed << ", round " << round);
        try {
            const io::NpyArray array = parse(damaged);
            index_t expected = size_of(array.dtype);
            for (const index_t extent : array.shape) expected *= extent;
            REQUIRE(static_cast<index_t>(array.bytes.size()) == expected);
            ++read;
        } catch (const Error&) {
            ++refused;
        }
    }
    CHECK(refused > 1000);
    CHECK(read > 1000);
}

TEST_CASE("Nothing is written for an array whose bytes are not what its shape says") {
    const test::TemporaryFolder folder;
    CHECK_THROWS_AS(io::write_npy(folder / "a.npy", {DType::int8, {3}, {}}), Error);
    CHECK_THROWS_AS(io::write_npy(folder / "a.npy", {DType::none, {}, {}}), Error);
    const io::NpyArray deep{DType::int8, std::vector<index_t>(33, 1), std::vector<std::byte>(1)};
    CHECK_THROWS_WITH(io::write_npy(folder / "a.npy", deep),
                      Contains((folder / "a.npy").string()) && Contains("33 axes, at most 32"));
    CHECK_THROWS_WITH(io::write_npz(folder / "a.npz", std::vector<io::NamedArray>{{"deep", deep}}),
                      Contains((folder / "a.npz").string()) && Contains("\"deep\"") && Contains("33 axes"));
    const std::array<float, 2> values{};
    CHECK_THROWS_WITH(io::make_npy<float>({3}, values), Contains("2 values do not fill the shape (3)"));
    CHECK(folder.count() == 0);
}
