// SPDX-License-Identifier: MIT
//
// Named arrays and text in the safetensors format. Layer: io.
//
// The reader treats every file as hostile: it checks every size before it allocates memory, and refuses anything
// unknown with a sentence.
#ifndef INTQ_IO_SAFETENSORS_HPP
#define INTQ_IO_SAFETENSORS_HPP

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "intq/io/npy.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// An array of a file, with its name there.
struct NamedArray {
    std::string name;
    NpyArray array;
};

/// The contents of a safetensors file.
struct Safetensors {
    std::vector<NamedArray> arrays;               // in the order of the file's data
    std::map<std::string, std::string> metadata;  // "__metadata__"

    /// @throws Error that names the array when there is none
    const NpyArray& at(std::string_view name) const;
};

/// Reads a safetensors file.
///
/// @throws Error naming the file, and the array if an array is at fault. Faults are a header that is not JSON of this
///         format, a name that comes twice, an unknown dtype, a shape that overflows or does not match the bytes
///         between its offsets, and data that overlaps, has a hole or is cut off
Safetensors read_safetensors(const std::filesystem::path& path);

/// The same from memory.
/// @param name  replaces the path in messages
Safetensors parse_safetensors(std::span<const std::byte> file, std::string_view name);

/// Writes such a file; nothing is left behind, and the former file stays, when that fails.
/// @throws Error as write_file() and serialize_safetensors()
void write_safetensors(const std::filesystem::path& path, const Safetensors& content);

/// The bytes of such a file: wide elements first, so that every array is aligned to its element.
/// @throws Error for a name that comes twice or is reserved, text that is not UTF-8, and bytes that do not match dtype
///         and shape
std::vector<std::byte> serialize_safetensors(const Safetensors& content);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <algorithm>
#    include <bit>
#    include <cstdint>
#    include <set>
#    include <tuple>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"
#    include "intq/io/json_text.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr std::string_view metadata_key = "__metadata__";
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;  // of the format

struct SafetensorsType {
    std::string_view name;
    DType dtype;
};
inline constexpr SafetensorsType safetensors_types[] = {
    {"F32", DType::float32}, {"F64", DType::float64}, {"I8", DType::int8}, {"I16", DType::int16},
    {"I32", DType::int32},   {"I64", DType::int64},   {"U8", DType::uint8}};

/// One entry of the header; the offsets count from the end of the header.
struct SafetensorsEntry {
    std::string name;
    DType dtype = DType::none;
    std::vector<index_t> shape;
    index_t begin = 0, end = 0;
};

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> entries;
    std::map<std::string, std::string> metadata;
};

class SafetensorsHeaderParser {
public:
    SafetensorsHeaderParser(std::string_view text, std::string_view name) : text_(text, name), name_(name) {}

    SafetensorsHeader parse() {
        SafetensorsHeader header;
        std::set<std::string> names;
        text_.for_each_member([&](std::string key) {
            if (!names.insert(key).second) text_.fail("the name " + in_quotes(key) + " comes twice");
            if (key == metadata_key) {
                parse_metadata(header.metadata);
            } else {
                header.entries.push_back(parse_entry(std::move(key)));
            }
        });
        text_.expect_end();
        return header;
    }

private:
    void parse_metadata(std::map<std::string, std::string>& metadata) {
        text_.for_each_member([&](std::string key) {
            std::string value = text_.parse_string();
            if (!metadata.emplace(key, std::move(value)).second)
                text_.fail("the metadata " + in_quotes(key) + " comes twice");
        });
    }

    SafetensorsEntry parse_entry(std::string array) {
        SafetensorsEntry entry;
        entry.name = std::move(array);
        bool seen[3] = {};
        text_.for_each_member([&](const std::string& key) {
            const int index = key == "dtype" ? 0 : key == "shape" ? 1 : key == "data_offsets" ? 2 : 3;
            if (index == 3 || seen[index]) text_.fail("unexpected key " + in_quotes(key));
            seen[index] = true;
            if (index == 0) entry.dtype = parse_dtype(entry.name);
            if (index == 1) entry.shape = parse_extents(max_npy_rank);
            if (index == 2) {
                const std::vector<index_t> offsets = parse_extents(2);
                if (offsets.size() != 2) text_.fail("data_offsets must be two numbers");
                entry.begin = offsets[0];
                entry.end = offsets[1];
            }
        });
        if (!seen[0] || !seen[1] || !seen[2])
            text_.fail(in_quotes(entry.name) + " lacks one of the keys dtype, shape and data_offsets");
        return entry;
    }

    DType parse_dtype(const std::string& array) {
        const std::string text = text_.parse_string();
        for (const SafetensorsType& type : safetensors_types)
            if (type.name == text) return type.dtype;
        throw Error(name_, "the array " + in_quotes(array) + " has dtype " + in_quotes(text) +
                               ", which is not supported; expected F32, F64, I8, I16, I32, I64 or U8");
    }

    std::vector<index_t> parse_extents(std::size_t most) {
        std::vector<index_t> numbers;
        text_.for_each_element([&] {
            if (numbers.size() == most) text_.fail("more than " + std::to_string(most) + " numbers in a list");
            numbers.push_back(text_.parse_count());
        });
        return numbers;
    }

    JsonText text_;
    std::string_view name_;
};

/// Sorts the entries by their data, and refuses entries that do not fill it exactly.
INTQ_INLINE void check_entries(SafetensorsHeader& header, index_t data_size, std::string_view name) {
    for (const SafetensorsEntry& entry : header.entries) {
        const auto refuse = [&](const std::string& what) {
            throw Error(name, "the array " + in_quotes(entry.name) + " " + what);
        };
        if (entry.begin > entry.end || entry.end > data_size)
            refuse("has the offsets " + std::to_string(entry.begin) + " to " + std::to_string(entry.end) +
                   ", the file holds " + std::to_string(data_size) + " bytes of data");
        const index_t expected = checked_byte_count(entry.shape, entry.dtype, name);
        if (entry.end - entry.begin != expected)
            refuse("has " + std::to_string(entry.end - entry.begin) + " bytes of data, expected " +
                   std::to_string(expected) + " for shape " + describe_shape(entry.shape) + " of " +
                   name_of(entry.dtype));
    }
    std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    index_t filled = 0;
    for (const SafetensorsEntry& entry : header.entries) {
        if (entry.begin != filled)
            throw Error(name, "the array " + in_quotes(entry.name) + " starts at byte " + std::to_string(entry.begin) +
                                  " of the data, expected " + std::to_string(filled) +
                                  ": arrays must neither overlap nor leave holes");
        filled = entry.end;
    }
    if (filled != data_size)
        throw Error(name, "the file holds " + std::to_string(data_size) + " bytes of data, its arrays take " +
                              std::to_string(filled));
}

INTQ_INLINE std::uint64_t read_little_endian(std::span<const std::byte> bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value * 256 + std::to_integer<std::uint64_t>(bytes[i]);
    return value;
}

/// The elements of every dtype lie in little-endian order; other machines swap.
INTQ_INLINE std::vector<std::byte> swap_if_big_endian(std::span<const std::byte> bytes, std::size_t element) {
    std::vector<std::byte> result(bytes.begin(), bytes.end());
    if (std::endian::native == std::endian::big)
        for (auto first = result.begin(); first != result.end(); first += static_cast<std::ptrdiff_t>(element))
            std::reverse(first, first + static_cast<std::ptrdiff_t>(element));
    return result;
}

INTQ_INLINE std::string_view safetensors_name(const NamedArray& item) {
    for (const SafetensorsType& type : safetensors_types)
        if (type.dtype == item.array.dtype) return type.name;
    throw Error("safetensors", "the array " + in_quotes(item.name) + " has no dtype and cannot be written");
}

INTQ_INLINE void check_arrays(const Safetensors& content) {
    std::set<std::string_view> names;
    for (const NamedArray& item : content.arrays) {
        if (item.name == metadata_key || !names.insert(item.name).second)
            throw Error("safetensors", "the name " + in_quotes(item.name) +
                                           (item.name == metadata_key ? " is reserved" : " comes twice"));
        safetensors_name(item);
        const index_t expected = checked_byte_count(item.array.shape, item.array.dtype, "safetensors");
        if (expected != static_cast<index_t>(item.array.bytes.size()))
            throw Error("safetensors", "the array " + in_quotes(item.name) + " has " +
                                           std::to_string(item.array.bytes.size()) + " bytes, expected " +
                                           std::to_string(expected) + " for shape " + describe_shape(item.array.shape));
    }
}

INTQ_INLINE std::string header_text(const std::vector<const NamedArray*>& order,
                                    const std::map<std::string, std::string>& metadata) {
    JsonObject header;
    if (!metadata.empty()) {
        JsonObject object;
        for (const auto& [key, value] : metadata) object.add_text(key, value);
        header.add(metadata_key, object.str());
    }
    const auto number = [](auto value) { return std::to_string(value); };
    std::size_t offset = 0;
    for (const NamedArray* item : order) {
        const std::size_t end = offset + item->array.bytes.size();
        header.add(item->name, JsonObject()
                                   .add_text("dtype", safetensors_name(*item))
                                   .add("shape", write_json_list(item->array.shape, number))
                                   .add("data_offsets", write_json_list(std::array{offset, end}, number))
                                   .str());
        offset = end;
    }
    return header.str();
}

}  // namespace detail

INTQ_INLINE const NpyArray& Safetensors::at(std::string_view name) const {
    for (const NamedArray& item : arrays)
        if (item.name == name) return item.array;
    std::vector<std::string> names;
    for (const NamedArray& item : arrays) names.push_back(item.name);
    throw Error("safetensors", "there is no array " + in_quotes(name) + "; the nearest are " +
                                   nearest_names(std::string(name), names));
}

INTQ_INLINE Safetensors parse_safetensors(std::span<const std::byte> file, std::string_view name) {
    constexpr std::size_t prefix = 8;
    if (file.size() < prefix) throw Error(name, "not a safetensors file: it has fewer than 8 bytes");
    const std::uint64_t length = detail::read_little_endian(file.first(prefix));
    if (length > detail::max_safetensors_header)
        throw Error(name, "not a safetensors file: its header would have " + std::to_string(length) + " bytes");
    if (length > file.size() - prefix) throw Error(name, "truncated inside the safetensors header");
    const auto size = static_cast<std::size_t>(length);
    const std::string_view text(reinterpret_cast<const char*>(file.data()) + prefix, size);
    if (!text.starts_with('{')) throw Error(name, "not a safetensors file: its header does not start with {");
    const std::span<const std::byte> data = file.subspan(prefix + size);

    detail::SafetensorsHeader header = detail::SafetensorsHeaderParser(text, name).parse();
    detail::check_entries(header, static_cast<index_t>(data.size()), name);
    Safetensors content;
    content.metadata = std::move(header.metadata);
    for (detail::SafetensorsEntry& entry : header.entries) {
        const auto bytes =
            data.subspan(static_cast<std::size_t>(entry.begin), static_cast<std::size_t>(entry.end - entry.begin));
        content.arrays.push_back({std::move(entry.name),
                                  {entry.dtype, std::move(entry.shape),
                                   detail::swap_if_big_endian(bytes, static_cast<std::size_t>(size_of(entry.dtype)))}});
    }
    return content;
}

INTQ_INLINE Safetensors read_safetensors(const std::filesystem::path& path) {
    return parse_safetensors(read_file(path), path.string());
}

INTQ_INLINE std::vector<std::byte> serialize_safetensors(const Safetensors& content) {
    detail::check_arrays(content);
    std::vector<const NamedArray*> order;
    for (const NamedArray& item : content.arrays) order.push_back(&item);
    // Elements of one size stay in the given order, which is the pointers' order.
    std::sort(order.begin(), order.end(), [](const NamedArray* a, const NamedArray* b) {
        const index_t first = size_of(a->array.dtype), second = size_of(b->array.dtype);
        return first != second ? first > second : a < b;
    });
    std::string header = detail::header_text(order, content.metadata);
    header.append((8 - header.size() % 8) % 8, ' ');
    std::vector<std::byte> file(8);
    for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<std::byte>((header.size() >> (8 * i)) % 256);
    const auto text = std::as_bytes(std::span(header.data(), header.size()));
    file.insert(file.end(), text.begin(), text.end());
    for (const NamedArray* item : order) {
        const auto bytes =
            detail::swap_if_big_endian(item->array.bytes, static_cast<std::size_t>(size_of(item->array.dtype)));
        file.insert(file.end(), bytes.begin(), bytes.end());
    }
    return file;
}

INTQ_INLINE void write_safetensors(const std::filesystem::path& path, const Safetensors& content) {
    write_file(path, serialize_safetensors(content));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_SAFETENSORS_HPP
