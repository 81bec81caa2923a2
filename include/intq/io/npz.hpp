// SPDX-License-Identifier: MIT
//
// Several arrays in one file: NumPy's .npz, a ZIP archive of .npy files that are stored as they are (numpy.savez).
// Layer: io.
//
// The reader treats every file as hostile: it reads only the central directory, checks every place and size before it
// looks there, and compares the checksum of each array.
// Source   https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#ifndef INTQ_IO_NPZ_HPP
#define INTQ_IO_NPZ_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "intq/io/npy.hpp"
#include "intq/io/safetensors.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// Reads a .npz file; names are without ".npy".
///
/// @throws Error naming the file, and the array if an array is at fault: not a ZIP archive or cut off, a compressed
///         array (numpy.savez_compressed), one whose checksum is wrong, a name that comes twice, an entry that is not a
///         .npy
std::vector<NamedArray> read_npz(const std::filesystem::path& path);

/// The same from memory.
/// @param name  replaces the path in messages
std::vector<NamedArray> parse_npz(std::span<const std::byte> file, std::string_view name);

/// Writes such a file, in the order of the arrays; nothing is left behind, and the former file stays, when that fails.
/// @throws Error as write_file() and serialize_npz()
void write_npz(const std::filesystem::path& path, std::span<const NamedArray> arrays);

/// The bytes of such a file; the same arrays produce the same bytes.
/// @throws Error for a name that is empty or comes twice, an archive of 4 GiB or more, or of 65,535 arrays or more
std::vector<std::byte> serialize_npz(std::span<const NamedArray> arrays);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <algorithm>
#    include <set>
#    include <string>
#    include <utility>

#    include "intq/core/checksum.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr std::uint32_t zip_local_header = 0x04034B50, zip_entry = 0x02014B50, zip_end = 0x06054B50;
inline constexpr std::uint64_t zip_local_size = 30, zip_entry_size = 46, zip_end_size = 22;
inline constexpr std::uint64_t zip_largest = 0xFFFFFFFF;  // means "in another field" with 64 bits

/// Appends numbers, low byte first.
class ZipBytes {
public:
    /// @pre bytes <= 8
    void put(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) data.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xFF));
    }
    void put(std::span<const std::byte> bytes) { data.insert(data.end(), bytes.begin(), bytes.end()); }
    void put(std::string_view text) { put(std::as_bytes(std::span(text.data(), text.size()))); }
    std::vector<std::byte> data{};
};

/// The fields that a local header and an entry of the directory share, from the version on.
INTQ_INLINE void put_entry(ZipBytes& zip, std::uint32_t sum, std::uint64_t size, std::size_t name_size) {
    zip.put(20, 2);       // version
    zip.put(1 << 11, 2);  // names are UTF-8
    zip.put(0, 2);        // stored
    zip.put(0, 2);        // 1980-01-01, so that the bytes do not depend on the time
    zip.put((1 << 5) | 1, 2);
    zip.put(sum, 4);
    zip.put(size, 4);
    zip.put(size, 4);
    zip.put(name_size, 2);
    zip.put(0, 2);  // no extra field
}

/// The places of a file, each checked.
class ZipReader {
public:
    explicit ZipReader(std::span<const std::byte> file) : file_(file) {}

    std::uint64_t number(std::uint64_t at, int bytes) const {
        const auto place = part(at, static_cast<std::uint64_t>(bytes));
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < place.size(); ++i) value |= std::to_integer<std::uint64_t>(place[i]) << (8 * i);
        return value;
    }
    std::span<const std::byte> part(std::uint64_t at, std::uint64_t size) const {
        if (at > file_.size() || size > file_.size() - at) throw Error("it is cut off");
        return file_.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
    }
    std::string text(std::uint64_t at, std::uint64_t size) const {
        const auto bytes = part(at, size);
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }

    /// The end of the directory comes last, before a comment of any text.
    std::uint64_t find_end() const {
        const std::uint64_t longest_comment = 0xFFFF;
        if (file_.size() < zip_end_size) throw Error("not a ZIP archive");
        const std::uint64_t last = file_.size() - zip_end_size;
        for (std::uint64_t back = 0; back <= (std::min)(last, longest_comment); ++back)
            if (number(last - back, 4) == zip_end && number(last - back + 20, 2) == back) return last - back;
        throw Error("not a ZIP archive, cut off, or followed by other bytes");
    }

private:
    std::span<const std::byte> file_;
};

/// One array of the archive, by its entry in the directory.
struct ZipEntry {
    std::string name;
    std::uint64_t method = 0, sum = 0, packed = 0, size = 0, offset = 0, next = 0;
};

INTQ_INLINE ZipEntry read_zip_entry(const ZipReader& zip, std::uint64_t at) {
    if (zip.number(at, 4) != zip_entry) throw Error("its directory is damaged");
    ZipEntry entry;
    entry.method = zip.number(at + 10, 2);
    entry.sum = zip.number(at + 16, 4);
    entry.packed = zip.number(at + 20, 4);
    entry.size = zip.number(at + 24, 4);
    const std::uint64_t name_size = zip.number(at + 28, 2), more = zip.number(at + 30, 2);
    entry.offset = zip.number(at + 42, 4);
    entry.name = zip.text(at + zip_entry_size, name_size);
    entry.next = at + zip_entry_size + name_size + more + zip.number(at + 32, 2);
    // Sizes and places that do not fit 32 bits are in an extra field, in this order.
    std::uint64_t field = at + zip_entry_size + name_size;
    for (const std::uint64_t end = field + more; field + 4 <= end; field += 4 + zip.number(field + 2, 2)) {
        if (zip.number(field, 2) != 1) continue;
        std::uint64_t wide = field + 4;
        for (std::uint64_t* value : {&entry.size, &entry.packed, &entry.offset})
            if (*value == zip_largest) *value = zip.number(std::exchange(wide, wide + 8), 8);
        break;
    }
    return entry;
}

INTQ_INLINE NamedArray read_zip_array(const ZipReader& zip, const ZipEntry& entry, std::string_view file) {
    constexpr std::string_view ending = ".npy";
    if (!std::string_view(entry.name).ends_with(ending)) throw Error("it is no .npy file");
    if (entry.method != 0 || entry.packed != entry.size)
        throw Error("it is compressed, which is not supported; write the file with numpy.savez");
    if (zip.number(entry.offset, 4) != zip_local_header) throw Error("its place in the file is damaged");
    const std::uint64_t start =
        entry.offset + zip_local_size + zip.number(entry.offset + 26, 2) + zip.number(entry.offset + 28, 2);
    const auto bytes = zip.part(start, entry.size);
    if (crc32(bytes) != entry.sum) throw Error("its checksum does not match its bytes");
    return {entry.name.substr(0, entry.name.size() - ending.size()),
            parse_npy(bytes, std::string(file) + ": " + entry.name)};
}

}  // namespace detail

INTQ_INLINE std::vector<NamedArray> parse_npz(std::span<const std::byte> file, std::string_view name) {
    std::vector<NamedArray> arrays;
    std::set<std::string> names;
    std::string where(name);
    try {
        const detail::ZipReader zip(file);
        const std::uint64_t end = zip.find_end(), count = zip.number(end + 10, 2);
        std::uint64_t at = zip.number(end + 16, 4), total = 0;
        if (count == 0xFFFF || at == detail::zip_largest) throw Error("archives of 4 GiB and more are not supported");
        for (std::uint64_t i = 0; i < count; ++i) {
            where = name;
            const detail::ZipEntry entry = detail::read_zip_entry(zip, at);
            where += ": " + in_quotes(entry.name);
            // Stored arrays lie apart, so that together they are no larger than the file.
            if (entry.size > file.size() || (total += entry.size) > file.size())
                throw Error("the arrays up to here are larger than the file");
            arrays.push_back(detail::read_zip_array(zip, entry, name));
            if (!names.insert(entry.name).second) throw Error("the name comes twice");
            at = entry.next;
        }
        where = name;
        if (at != end) throw Error("its directory does not end where it says, or lists fewer arrays than it holds");
    } catch (const Error& error) {
        const std::string message = error.what();
        if (message.starts_with(std::string(name) + ": ")) throw;  // of an array, which names the file
        throw Error(where, message);
    }
    return arrays;
}

INTQ_INLINE std::vector<NamedArray> read_npz(const std::filesystem::path& path) {
    return parse_npz(read_file(path), path.string());
}

INTQ_INLINE std::vector<std::byte> serialize_npz(std::span<const NamedArray> arrays) {
    detail::ZipBytes zip, directory;
    std::set<std::string> names;
    for (const NamedArray& item : arrays) {
        if (item.name.empty() || !names.insert(item.name).second)
            throw Error("the name " + in_quotes(item.name) + " of an array is empty or comes twice");
        std::vector<std::byte> bytes;
        try {
            bytes = serialize_npy(item.array);
        } catch (const Error& error) {
            throw Error("the array " + in_quotes(item.name), error);
        }
        const std::string name = item.name + ".npy";
        if (name.size() > 0xFFFF)
            throw Error("the name of an array has " + std::to_string(item.name.size()) +
                        " bytes, more than the 65531 that a .npz file holds");
        const std::uint32_t sum = crc32(bytes);
        const std::uint64_t offset = zip.data.size();
        if (offset + bytes.size() + name.size() + detail::zip_local_size >= detail::zip_largest)
            throw Error("the arrays have 4 GiB or more, which one .npz file does not hold here");
        zip.put(detail::zip_local_header, 4);
        detail::put_entry(zip, sum, bytes.size(), name.size());
        zip.put(name);
        zip.put(bytes);
        directory.put(detail::zip_entry, 4);
        directory.put(20, 2);  // the version that wrote it
        detail::put_entry(directory, sum, bytes.size(), name.size());
        directory.put(0, 4);  // no comment, disk 0
        directory.put(0, 6);  // no attributes
        directory.put(offset, 4);
        directory.put(name);
    }
    if (arrays.size() >= 0xFFFF || zip.data.size() + directory.data.size() >= detail::zip_largest)
        throw Error(std::to_string(arrays.size()) + " arrays are too many for one .npz file");
    const std::uint64_t start = zip.data.size();
    zip.put(directory.data);
    zip.put(detail::zip_end, 4);
    zip.put(0, 4);  // disks
    zip.put(arrays.size(), 2);
    zip.put(arrays.size(), 2);
    zip.put(directory.data.size(), 4);
    zip.put(start, 4);
    zip.put(0, 2);  // no comment
    return zip.data;
}

INTQ_INLINE void write_npz(const std::filesystem::path& path, std::span<const NamedArray> arrays) {
    std::vector<std::byte> bytes;
    try {
        bytes = serialize_npz(arrays);
    } catch (const Error& error) {
        throw Error(path.string(), error);
    }
    write_file(path, bytes);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_NPZ_HPP
