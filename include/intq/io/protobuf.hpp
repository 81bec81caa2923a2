// SPDX-License-Identifier: MIT
//
// The wire format of protocol buffers, without meaning: one message, field by field. Layer: io.
//
// protozero checks lengths and numbers; this adds that a field has the wire type that its reader expects, which
// protozero only asserts. Where INTQ_WITH_PROTOZERO is 0, the class is only declared.
#ifndef INTQ_IO_PROTOBUF_HPP
#define INTQ_IO_PROTOBUF_HPP

#include "intq/core/abi.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {
class ProtobufReader;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#if INTQ_WITH_PROTOZERO

#    include <cstddef>
#    include <cstdint>
#    include <span>
#    include <string>
#    include <string_view>
#    include <vector>

#    include <protozero/exception.hpp>
#    include <protozero/pbf_reader.hpp>

#    include "intq/io/error.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// Walks over the fields of one message.
///
///     for (ProtobufReader fields(bytes, "Point"); fields.next();)
///         if (fields.number() == 1) point.x = fields.integer();
///
/// next() steps over a field that was not read. All functions throw protozero::exception for a damaged message and
/// Error, which names message and field, for one of another wire type.
class ProtobufReader {
public:
    /// @param message  the message's name, for errors; must outlive the reader
    ProtobufReader(std::span<const std::byte> bytes, std::string_view message);

    bool next();

    /// The number of the present field.
    std::uint32_t number() const noexcept { return reader_.tag(); }
    /// The name of the message.
    std::string_view name() const noexcept { return message_; }

    std::int64_t integer();
    float float32();
    std::string_view bytes();
    std::string text();
    ProtobufReader message(std::string_view name);

    /// Appends the values of a repeated field, packed or single.
    void append_to(std::vector<std::int64_t>& values);
    void append_to(std::vector<float>& values);
    void append_to(std::vector<double>& values);

private:
    ProtobufReader(protozero::data_view view, std::string_view message) : reader_(view), message_(message) {}

    // Marks the present field as read.
    protozero::pbf_reader& expect_type(protozero::pbf_wire_type type);

    bool is_packed();

    template <class Range, class T> static void append_range(const Range& range, std::vector<T>& values) {
        for (const auto value : range) values.push_back(static_cast<T>(value));
    }

    protozero::pbf_reader reader_;
    std::string_view message_;
    bool unread_ = false;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#    if INTQ_DEFINES(io)

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE ProtobufReader::ProtobufReader(std::span<const std::byte> bytes, std::string_view message)
    : ProtobufReader(protozero::data_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), message) {}

INTQ_INLINE bool ProtobufReader::next() {
    if (unread_) reader_.skip();
    unread_ = reader_.next();
    return unread_;
}

INTQ_INLINE std::int64_t ProtobufReader::integer() { return expect_type(protozero::pbf_wire_type::varint).get_int64(); }

INTQ_INLINE float ProtobufReader::float32() { return expect_type(protozero::pbf_wire_type::fixed32).get_float(); }

INTQ_INLINE std::string_view ProtobufReader::bytes() {
    const protozero::data_view view = expect_type(protozero::pbf_wire_type::length_delimited).get_view();
    return {view.data(), view.size()};
}

INTQ_INLINE std::string ProtobufReader::text() { return std::string(bytes()); }

INTQ_INLINE ProtobufReader ProtobufReader::message(std::string_view name) {
    return {expect_type(protozero::pbf_wire_type::length_delimited).get_view(), name};
}

INTQ_INLINE void ProtobufReader::append_to(std::vector<std::int64_t>& values) {
    if (!is_packed()) return values.push_back(integer());
    append_range(reader_.get_packed_int64(), values);
}

INTQ_INLINE void ProtobufReader::append_to(std::vector<float>& values) {
    if (!is_packed()) return values.push_back(float32());
    append_range(reader_.get_packed_float(), values);
}

INTQ_INLINE void ProtobufReader::append_to(std::vector<double>& values) {
    if (!is_packed()) return values.push_back(expect_type(protozero::pbf_wire_type::fixed64).get_double());
    append_range(reader_.get_packed_double(), values);
}

INTQ_INLINE protozero::pbf_reader& ProtobufReader::expect_type(protozero::pbf_wire_type type) {
    if (reader_.wire_type() != type)
        throw Error("field " + std::to_string(number()) + " of " + std::string(message_) + " has wire type " +
                    std::to_string(static_cast<int>(reader_.wire_type())) + ", expected " +
                    std::to_string(static_cast<int>(type)));
    unread_ = false;
    return reader_;
}

INTQ_INLINE bool ProtobufReader::is_packed() {
    const bool packed = reader_.wire_type() == protozero::pbf_wire_type::length_delimited;
    if (packed) unread_ = false;
    return packed;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#    endif  // INTQ_DEFINES(io)
#endif      // INTQ_WITH_PROTOZERO
#endif      // INTQ_IO_PROTOBUF_HPP
