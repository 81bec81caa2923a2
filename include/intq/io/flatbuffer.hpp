// SPDX-License-Identifier: MIT
//
// The wire format of FlatBuffers, without meaning: tables, vectors and strings of a file in memory. Layer: io.
//
// Every file is treated as hostile: every offset is checked against the file before it is followed, and numbers are
// read byte by byte, so that alignment does not matter. Nothing is copied, so the cost of tables that share bytes, or
// of a cycle of offsets, depends on their reader.
//
// Source   https://flatbuffers.dev/internals
#ifndef INTQ_IO_FLATBUFFER_HPP
#define INTQ_IO_FLATBUFFER_HPP

#include <bit>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "intq/core/abi.hpp"
#include "intq/io/error.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// The bytes of a file, read at checked positions.
class FlatBytes {
public:
    FlatBytes() = default;
    explicit FlatBytes(std::span<const std::byte> file) : file_(file) {}

    std::size_t size() const noexcept { return file_.size(); }
    /// @throws Error where the bytes do not lie in the file
    std::span<const std::byte> part(std::uint64_t first, std::uint64_t count) const;
    /// A little-endian number.
    template <class T> T number(std::uint64_t at) const {
        static_assert(std::is_arithmetic_v<T>, "a number of a flatbuffer");
        const auto bytes = part(at, sizeof(T));
        T value;
        if constexpr (std::endian::native == std::endian::little) {
            std::memcpy(&value, bytes.data(), sizeof(T));
        } else {
            std::byte turned[sizeof(T)];
            for (std::size_t i = 0; i < sizeof(T); ++i) turned[i] = bytes[sizeof(T) - 1 - i];
            std::memcpy(&value, turned, sizeof(T));
        }
        return value;
    }
    /// The position that the offset at `at` leads to, which lies behind it.
    std::uint64_t follow(std::uint64_t at) const;

private:
    std::span<const std::byte> file_;
};

/// A vector of numbers.
template <class T> class FlatVector {
public:
    FlatVector() = default;
    FlatVector(const FlatBytes& bytes, std::uint64_t first, std::uint32_t count)
        : bytes_(bytes), first_(first), count_(count) {}
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    /// @throws Error beyond the end
    T operator[](std::size_t i) const {
        if (i >= count_) throw Error("a vector of the file has " + std::to_string(count_) + " elements");
        return bytes_.number<T>(first_ + i * sizeof(T));
    }

private:
    FlatBytes bytes_;
    std::uint64_t first_ = 0;
    std::uint32_t count_ = 0;
};

class FlatTables;

/// One table. A field that the file does not hold has its default; a default-made table holds none.
class FlatTable {
public:
    FlatTable() = default;
    /// @throws Error where the table or its list of fields does not lie in the file
    FlatTable(const FlatBytes& bytes, std::uint64_t at);

    bool has(int field) const { return position(field) != 0; }
    template <class T> T number(int field, T otherwise) const {
        const std::uint64_t at = position(field);
        return at == 0 ? otherwise : bytes_.number<T>(at);
    }
    bool flag(int field, bool otherwise = false) const { return number<std::uint8_t>(field, otherwise ? 1 : 0) != 0; }
    std::string_view text(int field) const;
    std::span<const std::byte> bytes(int field) const;
    template <class T> FlatVector<T> numbers(int field) const {
        const auto [first, count] = vector(field, sizeof(T));
        return {bytes_, first, count};
    }
    /// A table that the file does not hold has no fields.
    FlatTable table(int field) const;
    FlatTables tables(int field) const;

private:
    friend class FlatTables;
    struct Vector {
        std::uint64_t first;
        std::uint32_t count;
    };
    std::uint64_t position(int field) const;
    Vector vector(int field, std::size_t element) const;

    FlatBytes bytes_;
    std::uint64_t at_ = 0, fields_ = 0;
    std::uint16_t fields_size_ = 0, table_size_ = 0;
};

/// A vector of tables.
class FlatTables {
public:
    FlatTables() = default;
    FlatTables(const FlatBytes& bytes, std::uint64_t first, std::uint32_t count)
        : bytes_(bytes), first_(first), count_(count) {}
    std::size_t size() const noexcept { return count_; }
    FlatTable operator[](std::size_t i) const;

private:
    FlatBytes bytes_;
    std::uint64_t first_ = 0;
    std::uint32_t count_ = 0;
};

/// The root table of a file.
/// @param identifier  the four letters behind the first offset
/// @throws Error for a file without them
FlatTable flatbuffer_root(std::span<const std::byte> file, std::string_view identifier);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <string>

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::span<const std::byte> FlatBytes::part(std::uint64_t first, std::uint64_t count) const {
    if (first > file_.size() || count > file_.size() - first)
        throw Error("damaged, or cut off: " + std::to_string(count) + " bytes at " + std::to_string(first) +
                    " do not lie in the file, which has " + std::to_string(file_.size()));
    return file_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

INTQ_INLINE std::uint64_t FlatBytes::follow(std::uint64_t at) const {
    return at + number<std::uint32_t>(at);  // at lies in the file, so this is a number of 64 bits
}

INTQ_INLINE FlatTable::FlatTable(const FlatBytes& bytes, std::uint64_t at) : bytes_(bytes), at_(at) {
    const std::int64_t fields = static_cast<std::int64_t>(at) - bytes.number<std::int32_t>(at);
    if (fields < 0) throw Error("damaged: a table at " + std::to_string(at) + " has its fields before the file");
    fields_ = static_cast<std::uint64_t>(fields);
    fields_size_ = bytes.number<std::uint16_t>(fields_);
    table_size_ = bytes.number<std::uint16_t>(fields_ + 2);
    static_cast<void>(bytes.part(fields_, fields_size_));
    static_cast<void>(bytes.part(at_, table_size_));
}

// The list of fields begins with two sizes; a field that the table does not hold has the offset 0.
INTQ_INLINE std::uint64_t FlatTable::position(int field) const {
    const int entry = 4 + 2 * field;
    if (field < 0 || entry + 2 > fields_size_) return 0;
    const auto offset = bytes_.number<std::uint16_t>(fields_ + static_cast<std::uint64_t>(entry));
    if (offset == 0) return 0;
    if (offset >= table_size_) throw Error("damaged: a field of a table lies outside of it");
    return at_ + offset;
}

INTQ_INLINE FlatTable::Vector FlatTable::vector(int field, std::size_t element) const {
    const std::uint64_t at = position(field);
    if (at == 0) return {0, 0};
    const std::uint64_t vector = bytes_.follow(at);
    const auto count = bytes_.number<std::uint32_t>(vector);
    static_cast<void>(bytes_.part(vector + 4, std::uint64_t{count} * element));
    return {vector + 4, count};
}

INTQ_INLINE std::span<const std::byte> FlatTable::bytes(int field) const {
    const auto [first, count] = vector(field, 1);
    return bytes_.part(first, count);
}

INTQ_INLINE std::string_view FlatTable::text(int field) const {
    const auto all = bytes(field);
    return {reinterpret_cast<const char*>(all.data()), all.size()};
}

INTQ_INLINE FlatTable FlatTable::table(int field) const {
    const std::uint64_t at = position(field);
    return at == 0 ? FlatTable() : FlatTable(bytes_, bytes_.follow(at));
}

INTQ_INLINE FlatTables FlatTable::tables(int field) const {
    const auto [first, count] = vector(field, 4);
    return {bytes_, first, count};
}

INTQ_INLINE FlatTable FlatTables::operator[](std::size_t i) const {
    if (i >= count_) throw Error("a vector of the file has " + std::to_string(count_) + " tables");
    return {bytes_, bytes_.follow(first_ + 4 * i)};
}

INTQ_INLINE FlatTable flatbuffer_root(std::span<const std::byte> file, std::string_view identifier) {
    const FlatBytes bytes(file);
    if (file.size() < 8 || std::string_view(reinterpret_cast<const char*>(file.data()) + 4, 4) != identifier)
        throw Error("not a flatbuffer with the identifier \"" + std::string(identifier) + "\"");
    return {bytes, bytes.follow(0)};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_FLATBUFFER_HPP
