// SPDX-License-Identifier: MIT
//
// Event files, read back by a reader of their own: frames with their checksums, and the fields of each event.
#include "intq/analysis/internal/report/event_file.hpp"

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "analysis/models.hpp"
#include "intq/analysis/model_profiler.hpp"
#include "intq/core/checksum.hpp"
#include "intq/io/file.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
using namespace intq::analysis;
using Catch::Matchers::Contains;
using test::text_of_file;

namespace {

/// CRC-32C bit by bit, as its definition says.
std::uint32_t crc32c_by_bits(const std::string& bytes) {
    std::uint32_t sum = 0xffffffffu;
    for (const char c : bytes) {
        sum ^= static_cast<unsigned char>(c);
        for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1u) != 0 ? 0x82f63b78u : 0u);
    }
    return ~sum;
}
std::uint32_t masked(std::uint32_t sum) { return ((sum >> 15) | (sum << 17)) + 0xa282ead8u; }

template <class T> T number_at(const std::string& bytes, std::size_t at) {
    T value{};
    REQUIRE(at + sizeof value <= bytes.size());
    std::memcpy(&value, bytes.data() + at, sizeof value);  // the tests run on little-endian machines
    return value;
}

/// The records of a file, whose checksums are right.
std::vector<std::string> records_of(const std::string& file) {
    std::vector<std::string> records;
    for (std::size_t at = 0; at < file.size();) {
        const auto length = static_cast<std::size_t>(number_at<std::uint64_t>(file, at));
        REQUIRE(number_at<std::uint32_t>(file, at + 8) == masked(crc32c_by_bits(file.substr(at, 8))));
        records.push_back(file.substr(at + 12, length));
        REQUIRE(number_at<std::uint32_t>(file, at + 12 + length) == masked(crc32c_by_bits(records.back())));
        at += 16 + length;
    }
    return records;
}

/// The fields of a message by number: bytes of a field with a length, else of its number.
std::multimap<std::uint64_t, std::string> fields_of(const std::string& message) {
    std::multimap<std::uint64_t, std::string> fields;
    std::size_t at = 0;
    const auto varint = [&] {
        std::uint64_t value = 0;
        for (int shift = 0;; shift += 7) {
            const auto byte = static_cast<unsigned char>(message.at(at++));
            value |= std::uint64_t{byte & 0x7fu} << shift;
            if (byte < 0x80) return value;
        }
    };
    while (at < message.size()) {
        const std::uint64_t key = varint(), kind = key & 7;
        std::size_t size = kind == 1 ? 8 : 4;
        if (kind == 0) {
            fields.emplace(key >> 3, std::to_string(varint()));
            continue;
        }
        if (kind == 2) size = static_cast<std::size_t>(varint());
        fields.emplace(key >> 3, message.substr(at, size));
        at += size;
    }
    return fields;
}
std::string field(const std::multimap<std::uint64_t, std::string>& fields, std::uint64_t number) {
    REQUIRE(fields.count(number) == 1);
    return fields.find(number)->second;
}
std::vector<double> doubles_of(const std::string& bytes) {
    std::vector<double> values;
    for (std::size_t at = 0; at < bytes.size(); at += 8) values.push_back(number_at<double>(bytes, at));
    return values;
}

}  // namespace

TEST_CASE("crc32c gives the values of RFC 3720") {
    const auto crc = [](const std::string& text) { return crc32c(std::as_bytes(std::span(text))); };
    CHECK(crc("123456789") == 0xe3069283u);
    CHECK(crc(std::string(32, '\0')) == 0x8a9136aau);
    CHECK(crc(std::string(32, '\xff')) == 0x62a8ab43u);
}

TEST_CASE("An event file holds its version, numbers, and histograms without gaps") {
    EventFile events;
    events.add_scalar("loss", 3, 0.25);
    events.add_histogram("weights", 300, {-2.0, 4.0, 5.0, 21.0, 6, {{-2.0, -1.0, 2}, {1.0, 2.0, 3}, {2.0, 4.0, 1}}});
    const auto records = records_of(events.bytes());
    REQUIRE(records.size() == 3);
    CHECK(field(fields_of(records[0]), 3) == "brain.Event:2");
    const auto scalar = fields_of(records[1]), value = fields_of(field(fields_of(field(scalar, 5)), 1));
    CHECK(field(scalar, 2) == "3");
    CHECK(field(value, 1) == "loss");
    CHECK(number_at<float>(field(value, 2), 0) == 0.25f);
    const auto histogram = fields_of(field(fields_of(field(fields_of(field(fields_of(records[2]), 5)), 1)), 5));
    CHECK(field(fields_of(records[2]), 2) == "300");
    CHECK(doubles_of(field(histogram, 6)) == std::vector<double>{-1.0, 1.0, 2.0, 4.0});
    CHECK(doubles_of(field(histogram, 7)) == std::vector<double>{2.0, 0.0, 3.0, 1.0});
    CHECK(doubles_of(field(histogram, 3)) == std::vector<double>{6.0});
    CHECK(doubles_of(field(histogram, 5)) == std::vector<double>{21.0});
}

TEST_CASE("A profiler writes its numbers for TensorBoard") {
    const test::TemporaryFolder folder;
    const auto linear = std::make_shared<nn::Linear>(nn::LinearOptions{2, 2});
    linear->set_weight(Tensor::from<float>(Shape(2, 2), {1, 2, -3, 0.5f}));
    linear->set_bias(Tensor::from<float>(Shape(2), {0.25f, 0}));
    const auto net =
        test::make_model({{"fc", linear}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("fc", x[0]); });
    ModelProfiler profiler(net, folder / "profile", {{.histograms = true, .channels = true}, false});
    CHECK_THROWS_WITH(profiler.get_info_manager().tensorboard(), Contains("was not run"));
    profiler(Tensor::from<float>(Shape(1, 2), {1, -1}));
    profiler.get_info_manager().tensorboard({}, {}, {}, true);
    std::map<std::string, std::string> values;
    const std::string file = text_of_file(folder / "profile" / "tensorboard" / "events.out.tfevents.intq");
    for (const std::string& record : records_of(file)) {
        const auto event = fields_of(record);
        if (event.count(5) == 0) continue;
        const auto value = fields_of(field(fields_of(field(event, 5)), 1));
        values[field(value, 1)] = value.count(2) != 0 ? field(value, 2) : field(value, 5);
    }
    CHECK(number_at<float>(values.at("fc/weight/min"), 0) == -3.0f);
    CHECK(number_at<float>(values.at("fc/output/max"), 0) == -0.75f);  // 1 - 2 + 0.25
    CHECK(doubles_of(field(fields_of(values.at("fc/weight")), 4)) == std::vector<double>{0.5});
    CHECK(values.count("fc/weight/channel_1") == 1);
    CHECK_THROWS_WITH(profiler.get_info_manager().tensorboard({}, {"fd"}), Contains("fc"));
    ModelProfiler without(net, folder / "without", {{.histograms = false}, false});
    without(Tensor::from<float>(Shape(1, 2), {1, -1}));
    CHECK_THROWS_WITH(without.get_info_manager().tensorboard(), Contains("KeptNumbers::histograms"));
    io::write_file(folder / "a_file", "text");
    ModelProfiler nowhere(net, folder / "a_file");
    nowhere(Tensor::from<float>(Shape(1, 2), {1, -1}));
    CHECK_THROWS_WITH(nowhere.get_info_manager().tensorboard(), Contains((folder / "a_file").string()));
    CHECK(text_of_file(folder / "a_file") == "text");
}
