// SPDX-License-Identifier: MIT
//
// Arrays in NumPy's .npy format, versions 1.0 and 2.0. Layer: io.
//
// The reader treats every file as hostile: it checks every size before it allocates memory, and refuses anything
// unknown with a sentence.
#ifndef INTQ_IO_NPY_HPP
#define INTQ_IO_NPY_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/io/error.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Throws the Error of an array whose elements have another dtype than asked for.
void require_dtype(DType given, DType asked);

}  // namespace detail

/// An array as a file stores it: row-major (C order), in the machine's byte order.
struct NpyArray {
    DType dtype = DType::none;
    std::vector<index_t> shape;
    std::vector<std::byte> bytes;

    /// Number of elements.
    index_t size() const noexcept {
        return dtype == DType::none ? 0 : static_cast<index_t>(bytes.size()) / size_of(dtype);
    }

    /// The elements.
    /// @throws Error when the dtype is another one
    template <class T> std::span<const T> as() const {
        detail::require_dtype(dtype, dtype_of<T>);
        return {reinterpret_cast<const T*>(bytes.data()), static_cast<std::size_t>(size())};
    }
};

namespace detail {

inline constexpr std::size_t max_npy_rank = 32;  // as in NumPy 1

/// Bytes of an array. Throws when they, or the number of elements, do not fit in index_t.
index_t checked_byte_count(const std::vector<index_t>& shape, DType dtype, std::string_view name);

/// An array of `count` values.
NpyArray make_npy(DType dtype, std::vector<index_t> shape, std::span<const std::byte> bytes, std::size_t count);

}  // namespace detail

/// An array of the given shape and values.
/// @throws Error when the shape does not have as many elements
template <class T> NpyArray make_npy(std::vector<index_t> shape, std::span<const T> values) {
    return detail::make_npy(dtype_of<T>, std::move(shape), std::as_bytes(values), values.size());
}

/// Reads a .npy file. Fortran order is turned into C order.
///
/// @throws Error naming the file: not .npy, an unknown version, dtype or byte order, a shape that overflows, or a
///         length of data that does not match the shape
NpyArray read_npy(const std::filesystem::path& path);

/// The same from memory.
/// @param name  replaces the path in messages
NpyArray parse_npy(std::span<const std::byte> file, std::string_view name);

/// Writes a version 1.0 file; nothing is left behind when that fails.
/// @throws Error as write_file(), and when the bytes do not match dtype and shape
void write_npy(const std::filesystem::path& path, const NpyArray& array);

/// The bytes of such a file.
std::vector<std::byte> serialize_npy(const NpyArray& array);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <algorithm>
#    include <bit>
#    include <charconv>
#    include <cstring>
#    include <iterator>
#    include <string>

#    include "intq/io/file.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr std::string_view npy_magic("\x93NUMPY", 6);

struct NpyType {
    std::string_view name;  // without the byte order
    DType dtype;
};
inline constexpr NpyType npy_types[] = {{"f4", DType::float32}, {"f8", DType::float64}, {"i1", DType::int8},
                                        {"i2", DType::int16},   {"i4", DType::int32},   {"i8", DType::int64},
                                        {"u1", DType::uint8}};
inline constexpr char native_order = std::endian::native == std::endian::little ? '<' : '>';

struct NpyHeader {
    DType dtype = DType::none;
    bool fortran_order = false;
    std::vector<index_t> shape;
};

INTQ_INLINE index_t checked_byte_count(const std::vector<index_t>& shape, DType dtype, std::string_view name) {
    // A 0 must not hide extents that overflow without it.
    index_t bytes = size_of(dtype);
    bool empty = false, overflow = false;
    for (const index_t extent : shape) {
        if (extent < 0) throw Error(name, "the shape " + describe_shape(shape, false) + " has a negative extent");
        if (extent == 0) {
            empty = true;
        } else {
            overflow = overflow || __builtin_mul_overflow(bytes, extent, &bytes);
        }
    }
    if (overflow) throw Error(name, "the shape " + describe_shape(shape) + " has more elements than memory has bytes");
    return empty ? 0 : bytes;
}

/// The header of a .npy file is a Python dictionary with the keys descr, fortran_order and shape.
class NpyHeaderParser {
public:
    NpyHeaderParser(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

    NpyHeader parse() {
        NpyHeader header;
        bool seen[3] = {};
        expect('{');
        while (!accept('}')) {
            const std::string_view key = parse_string();
            expect(':');
            const int index = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : 3;
            if (index == 3 || seen[index]) fail("unexpected key " + in_quotes(key));
            seen[index] = true;
            if (index == 0) header.dtype = parse_dtype();
            if (index == 1) header.fortran_order = parse_bool();
            if (index == 2) header.shape = parse_shape();
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skip_spaces();
        if (!rest_.empty()) fail("text after the closing brace");
        if (!seen[0] || !seen[1] || !seen[2]) fail("one of the keys descr, fortran_order and shape is missing");
        return header;
    }

private:
    [[noreturn]] void fail(const std::string& what) const { throw Error(name_, "damaged .npy header: " + what); }

    void skip_spaces() {
        const auto first = rest_.find_first_not_of(" \t\n");
        rest_.remove_prefix((std::min)(first, rest_.size()));
    }
    bool accept(char c) {
        skip_spaces();
        if (rest_.empty() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }
    void expect(char c) {
        if (!accept(c)) fail(std::string("'") + c + "' expected at " + in_quotes(rest_, 20));
    }
    bool accept_word(std::string_view word) {
        skip_spaces();
        if (!rest_.starts_with(word)) return false;
        rest_.remove_prefix(word.size());
        return true;
    }

    std::string_view parse_string() {
        const char quote = accept('\'') ? '\'' : '"';
        if (quote == '"') expect('"');
        const auto length = rest_.find(quote);
        if (length == std::string_view::npos) fail("a string does not end");
        const std::string_view text = rest_.substr(0, length);
        rest_.remove_prefix(length + 1);
        return text;
    }

    DType parse_dtype() {
        skip_spaces();
        if (!rest_.starts_with('\'') && !rest_.starts_with('"'))
            throw Error(name_, "an array of records is not supported; expected a numeric dtype such as '<f4'");
        const std::string_view text = parse_string();
        for (const NpyType& type : npy_types) {
            if (text.size() != 3 || text.substr(1) != type.name) continue;
            const char order = text.front();
            if (order == native_order || order == '=' || (order == '|' && size_of(type.dtype) == 1)) return type.dtype;
            if (order == '<' || order == '>')
                throw Error(name_, "dtype " + in_quotes(text) +
                                       " has the byte order of another machine; convert it with " + "array.astype('" +
                                       native_order + std::string(type.name) + "')");
        }
        throw Error(name_, "dtype " + in_quotes(text) +
                               " is not supported; expected float32, float64, int8, int16, int32, int64 or uint8");
    }

    bool parse_bool() {
        if (accept_word("True")) return true;
        if (!accept_word("False")) fail("True or False expected at " + in_quotes(rest_, 20));
        return false;
    }

    std::vector<index_t> parse_shape() {
        std::vector<index_t> shape;
        expect('(');
        while (!accept(')')) {
            skip_spaces();
            index_t extent = 0;
            const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
            if (error == std::errc::result_out_of_range) fail("an extent of the shape overflows");
            if (error != std::errc()) fail("an extent expected at " + in_quotes(rest_, 20));
            rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
            if (shape.size() == max_npy_rank) fail("more than 32 axes");
            shape.push_back(extent);
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return shape;
    }

    std::string_view rest_, name_;
};

/// Splits the file into header text and data.
struct NpyParts {
    std::string_view header;
    std::span<const std::byte> data;
};
INTQ_INLINE NpyParts split_npy(std::span<const std::byte> file, std::string_view name) {
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    if (text.empty()) throw Error(name, "not a .npy file: it has 0 bytes");
    if (text.substr(0, 6) != npy_magic) throw Error(name, "not a .npy file: it does not start with \\x93NUMPY");
    const auto byte_at = [&](std::size_t index) -> std::size_t {
        if (index >= file.size()) throw Error(name, "truncated inside the .npy header");
        return std::to_integer<std::size_t>(file[index]);
    };
    const std::size_t major = byte_at(6), minor = byte_at(7);
    if ((major != 1 && major != 2) || minor != 0)
        throw Error(name, ".npy version " + std::to_string(major) + "." + std::to_string(minor) +
                              " is not supported; expected 1.0 or 2.0");
    std::size_t length = byte_at(8) + byte_at(9) * 256;
    if (major == 2) length += (byte_at(10) + byte_at(11) * 256) * 65536;
    const std::size_t start = major == 1 ? 10 : 12;
    if (length > file.size() - start) throw Error(name, "truncated inside the .npy header");
    return {text.substr(start, length), file.subspan(start + length)};
}

/// Reorders elements whose first axis is contiguous into row-major order.
INTQ_INLINE std::vector<std::byte> from_fortran_order(std::span<const std::byte> data,
                                                      const std::vector<index_t>& shape, std::size_t element) {
    std::vector<std::byte> result(data.size());
    std::vector<index_t> index(shape.size(), 0), step(shape.size(), 1);
    for (std::size_t axis = 1; axis < shape.size(); ++axis) step[axis] = step[axis - 1] * shape[axis - 1];
    index_t from = 0;
    for (std::size_t to = 0; to < data.size(); to += element) {
        std::memcpy(result.data() + to, data.data() + static_cast<std::size_t>(from) * element, element);
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            from += step[axis];
            if (++index[axis] < shape[axis]) break;
            from -= step[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    return result;
}

}  // namespace detail

INTQ_INLINE NpyArray parse_npy(std::span<const std::byte> file, std::string_view name) {
    const detail::NpyParts parts = detail::split_npy(file, name);
    detail::NpyHeader header = detail::NpyHeaderParser(parts.header, name).parse();
    const index_t expected = detail::checked_byte_count(header.shape, header.dtype, name);
    if (static_cast<index_t>(parts.data.size()) != expected)
        throw Error(name, "the file holds " + std::to_string(parts.data.size()) + " bytes of data, expected " +
                              std::to_string(expected) + " for shape " + describe_shape(header.shape) + " of " +
                              name_of(header.dtype));
    const auto element = static_cast<std::size_t>(size_of(header.dtype));
    return {header.dtype, header.shape,
            header.fortran_order ? detail::from_fortran_order(parts.data, header.shape, element)
                                 : std::vector<std::byte>(parts.data.begin(), parts.data.end())};
}

INTQ_INLINE NpyArray read_npy(const std::filesystem::path& path) { return parse_npy(read_file(path), path.string()); }

INTQ_INLINE std::vector<std::byte> serialize_npy(const NpyArray& array) {
    const auto* const type = std::find_if(std::begin(detail::npy_types), std::end(detail::npy_types),
                                          [&](const detail::NpyType& row) { return row.dtype == array.dtype; });
    if (type == std::end(detail::npy_types))
        throw Error("npy: an undefined array, which has no dtype, cannot be written");
    if (array.shape.size() > detail::max_npy_rank)
        throw Error("npy: the array has " + std::to_string(array.shape.size()) + " axes, at most " +
                    std::to_string(detail::max_npy_rank) + " are written");
    if (detail::checked_byte_count(array.shape, array.dtype, "npy") != static_cast<index_t>(array.bytes.size()))
        throw Error("npy: " + std::to_string(array.bytes.size()) + " bytes are not what shape " +
                    describe_shape(array.shape) + " of " + name_of(array.dtype) + " takes");
    std::string shape = describe_shape(array.shape);
    if (array.shape.size() == 1) shape.insert(shape.size() - 1, ",");
    std::string header = std::string("{'descr': '") + (size_of(array.dtype) == 1 ? '|' : detail::native_order) +
                         std::string(type->name) + "', 'fortran_order': False, 'shape': " + shape + ", }";
    // The data starts at a multiple of 64 bytes, and the header ends with a line break.
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';

    std::vector<std::byte> file(10 + header.size() + array.bytes.size());
    std::memcpy(file.data(), detail::npy_magic.data(), 6);
    file[6] = std::byte{1};
    file[8] = static_cast<std::byte>(header.size() % 256);
    file[9] = static_cast<std::byte>(header.size() / 256);
    std::memcpy(file.data() + 10, header.data(), header.size());
    std::copy(array.bytes.begin(), array.bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(10 + header.size()));
    return file;
}

INTQ_INLINE void write_npy(const std::filesystem::path& path, const NpyArray& array) {
    std::vector<std::byte> bytes;
    try {
        bytes = serialize_npy(array);
    } catch (const Error& error) {
        throw Error(path.string(), error);
    }
    write_file(path, bytes);
}

namespace detail {

INTQ_INLINE void require_dtype(DType given, DType asked) {
    if (given != asked)
        throw Error({StatusCode::dtype_mismatch, OpKind::none, Field::tensor, static_cast<std::int64_t>(given),
                     static_cast<std::int64_t>(asked)});
}

INTQ_INLINE NpyArray make_npy(DType dtype, std::vector<index_t> shape, std::span<const std::byte> bytes,
                              std::size_t count) {
    NpyArray array{dtype, std::move(shape), {bytes.begin(), bytes.end()}};
    if (checked_byte_count(array.shape, array.dtype, "npy") != static_cast<index_t>(bytes.size()))
        throw Error("npy: " + std::to_string(count) + " values do not fill the shape " + describe_shape(array.shape));
    return array;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_NPY_HPP
