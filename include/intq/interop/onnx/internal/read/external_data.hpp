// SPDX-License-Identifier: MIT
//
// Tensors whose bytes are in a file beside the model: model.onnx.data. Layer: interop.
//
// A model names these files, so a name that leads out of the model's folder is refused before anything is opened.
// Source   https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
#ifndef INTQ_INTEROP_ONNX_INTERNAL_READ_EXTERNAL_DATA_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_READ_EXTERNAL_DATA_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// The entries of a tensor's external_data, key and value.
using ExternalEntries = std::vector<std::pair<std::string, std::string>>;

/// Reads the files beside one model.
///
/// A location is a path below the model's folder: relative, without "..", and without a symbolic link that leads out
/// of the folder. It must name a regular file. All tensors together may read a file max_external_reads times over.
class ExternalData {
public:
    /// @param folder  the model's; none for a model in memory, which cannot have files beside it
    explicit ExternalData(std::optional<std::filesystem::path> folder = std::nullopt) : folder_(std::move(folder)) {}

    /// The bytes of a tensor.
    ///
    /// @param size  as many as its dims and its dtype say
    /// @throws Error that does not name the tensor: a model in memory; no location, or one outside the folder; a file
    ///         that is missing, not regular or too short; an offset or a length that is not a number; a length other
    ///         than `size`; more bytes in total than a file may be read for
    std::vector<std::byte> read(const ExternalEntries& entries, std::size_t size);

private:
    struct File {
        std::filesystem::path path;
        std::uint64_t size = 0, read = 0;
    };
    File& open(const std::string& location);

    std::optional<std::filesystem::path> folder_;
    std::map<std::string, File, std::less<>> files_;
};

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_read)

#    include <algorithm>
#    include <charconv>
#    include <system_error>

#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

INTQ_INLINE std::uint64_t external_number(const std::string& key, const std::string& text) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, reason] = std::from_chars(text.data(), end, value);
    if (text.empty() || stopped != end || reason != std::errc())
        throw Error("its external data has the " + key + " " + in_quotes(text) + ", expected a number of bytes");
    return value;
}

/// Whether a path names something below the folder that it is taken from, as far as the path itself says.
INTQ_INLINE bool stays_below(const std::filesystem::path& location) {
    return location.is_relative() && !location.has_root_path() &&
           std::none_of(location.begin(), location.end(),
                        [](const std::filesystem::path& part) { return part == ".."; });
}

/// Whether `path` lies below `folder`; both canonical.
INTQ_INLINE bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
    return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

INTQ_INLINE ExternalData::File& ExternalData::open(const std::string& location) {
    if (const auto known = files_.find(location); known != files_.end()) return known->second;
    if (!folder_)
        throw Error("its data lies in the file " + in_quotes(location) +
                    ", and a model in memory has no files beside it; read the model from its folder, or save it with "
                    "its data inside");
    // An embedded zero would end the name for the system, but not for the check.
    const std::filesystem::path relative(location);
    if (location.empty() || location.find('\0') != std::string::npos || !stays_below(relative))
        throw Error("its data lies in the file " + in_quotes(location) +
                    ", expected a relative path below the model's folder, without \"..\"");
    std::error_code reason;
    const std::filesystem::path folder = std::filesystem::canonical(folder_->empty() ? "." : *folder_, reason);
    const std::filesystem::path path =
        reason ? std::filesystem::path() : std::filesystem::canonical(folder / relative, reason);
    if (reason) throw Error("its data lies in the file " + in_quotes(location) + ": " + reason.message());
    if (!is_below(path, folder))
        throw Error("its data lies in the file " + in_quotes(location) +
                    ", which is a symbolic link out of the model's folder");
    const bool is_regular = std::filesystem::is_regular_file(path, reason);
    const std::uintmax_t size = is_regular ? std::filesystem::file_size(path, reason) : 0;
    if (!is_regular || reason) throw Error("its data lies in " + in_quotes(location) + ", which is not a regular file");
    return files_.emplace(location, File{path, size, 0}).first->second;
}

INTQ_INLINE std::vector<std::byte> ExternalData::read(const ExternalEntries& entries, std::size_t size) {
    std::string location;
    std::uint64_t offset = 0, length = size;
    for (const auto& [key, value] : entries) {
        if (key == "location") location = value;
        if (key == "offset") offset = external_number(key, value);
        if (key == "length") length = external_number(key, value);
    }
    if (length != size)
        throw Error("its external data has the length " + std::to_string(length) + ", the dims need " +
                    std::to_string(size));
    File& file = open(location);
    if (offset > file.size || size > file.size - offset)
        throw Error("its data are " + std::to_string(size) + " bytes from byte " + std::to_string(offset) + " of " +
                    in_quotes(location) + ", which has " + std::to_string(file.size));
    if ((file.read += size) > max_external_reads * file.size)
        throw Error("the tensors up to here read " + in_quotes(location) + " more than " +
                    std::to_string(max_external_reads) + " times over");
    return io::read_part(file.path, offset, size);
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_read)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_READ_EXTERNAL_DATA_HPP
