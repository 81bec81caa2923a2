// SPDX-License-Identifier: MIT
//
// Whole files in and out; a file that is written appears complete or not at all. Layer: io.
#ifndef INTQ_IO_FILE_HPP
#define INTQ_IO_FILE_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "intq/io/error.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// The bytes of a file.
///
/// A pipe is read to its end. A device has no end, and is not a file.
///
/// Memory   grows with the bytes really read; the file system's size is not trusted
/// @throws Error naming the path and the system's reason, a device, or more bytes than there is memory for
std::vector<std::byte> read_file(const std::filesystem::path& path);

/// `size` bytes of a file, from byte `offset` on.
///
/// @throws Error naming the path: with the system's reason, or that the file ends before
std::vector<std::byte> read_part(const std::filesystem::path& path, std::uint64_t offset, std::size_t size);

/// Writes a file so that a reader sees the former content or all of the new one, even when the program is interrupted.
/// The bytes go to a temporary file in the same folder, which is renamed when the disk holds them (fsync). A file that
/// is replaced keeps its permissions. A device or pipe (such as /dev/stdout) is written directly.
///
/// @throws Error naming the path and the system's reason; no temporary file is left
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file(const std::filesystem::path& path, std::string_view text);

/// Makes a folder and its parents, unless they exist; an empty path is the current folder.
///
/// @throws Error naming the path and the system's reason, also for a file of this name, and for a folder that exists
///         and in which no file can be written
void make_folder(const std::filesystem::path& folder);

/// The words of a line of text, between spaces and tabs.
std::vector<std::string> words_of(const std::string& line);

/// Throws the Error of a path with the system's reason, which is an errno.
[[noreturn]] void throw_system_error(const std::filesystem::path& path, const char* what, int reason);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <unistd.h>
#    include <algorithm>
#    include <cerrno>
#    include <cstdio>
#    include <memory>
#    include <new>
#    include <random>
#    include <system_error>
#    include <utility>

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using FileHandle = std::unique_ptr<std::FILE, CloseFile>;

INTQ_INLINE void write(std::FILE* file, std::span<const std::byte> bytes, const std::filesystem::path& path) {
    if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size())
        throw_system_error(path, "cannot be written", errno);
}

INTQ_INLINE void close(FileHandle file, const std::filesystem::path& path) {
    if (std::fclose(file.release()) != 0) throw_system_error(path, "cannot be written", errno);
}

/// Waits until the disk holds the written bytes.
INTQ_INLINE void flush_to_disk(std::FILE* file, const std::filesystem::path& path) {
    if (std::fflush(file) != 0) throw_system_error(path, "cannot be written", errno);
    if (::fsync(::fileno(file)) != 0 && errno != EINVAL && errno != ENOTSUP)
        throw_system_error(path, "cannot be written", errno);
}

/// A new file beside `target`, removed at the end unless it was renamed to it.
class TemporaryFile {
public:
    /// Files that others left do not stop it: the name is random.
    explicit TemporaryFile(const std::filesystem::path& target) : target_(target) {
        std::random_device random;
        for (int attempt = 0; file_ == nullptr; ++attempt) {
            path_ = target;
            path_ += ".tmp" + std::to_string(random());
            file_.reset(std::fopen(path_.c_str(), "wbx"));
            if (file_ == nullptr && (errno != EEXIST || attempt == 100))
                throw_system_error(target_, "cannot be created", errno);
        }
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() {
        std::error_code ignored;
        if (!path_.empty()) std::filesystem::remove(path_, ignored);
    }

    void write_and_rename(std::span<const std::byte> bytes) {
        write(file_.get(), bytes, target_);
        flush_to_disk(file_.get(), target_);
        close(std::move(file_), target_);
        std::error_code reason;
        const auto former = std::filesystem::status(target_, reason);
        if (std::filesystem::exists(former)) std::filesystem::permissions(path_, former.permissions(), reason);
        std::filesystem::rename(path_, target_, reason);
        if (reason) throw_system_error(target_, "cannot be replaced", reason.value());
        path_.clear();
    }

private:
    std::filesystem::path target_, path_;
    FileHandle file_;
};

}  // namespace detail

INTQ_INLINE void throw_system_error(const std::filesystem::path& path, const char* what, int reason) {
    throw Error(path.string(), std::string(what) + ": " + std::generic_category().message(reason));
}

namespace detail {

/// The bytes up to the end.
INTQ_INLINE std::vector<std::byte> read_all(std::FILE* file, const std::filesystem::path& path) {
    constexpr std::size_t chunk = std::size_t{1} << 20;
    std::vector<std::byte> bytes;
    for (std::size_t filled = 0;;) {
        bytes.resize(filled + chunk);
        const std::size_t count = std::fread(bytes.data() + filled, 1, chunk, file);
        filled += count;
        if (count < chunk) {
            if (std::ferror(file) != 0) throw_system_error(path, "cannot be read", errno);
            bytes.resize(filled);
            return bytes;
        }
    }
}

}  // namespace detail

INTQ_INLINE std::vector<std::byte> read_file(const std::filesystem::path& path) {
    std::error_code ignored;
    const auto status = std::filesystem::status(path, ignored);
    if (std::filesystem::is_character_file(status) || std::filesystem::is_block_file(status))
        throw Error(path.string(), "cannot be read: it is a device and not a file");
    const detail::FileHandle file(std::fopen(path.c_str(), "rb"));
    if (file == nullptr) throw_system_error(path, "cannot be opened", errno);
    try {
        return detail::read_all(file.get(), path);
    } catch (const std::bad_alloc&) {
        throw Error(path.string(), "cannot be read: it is larger than the memory");
    }
}

INTQ_INLINE std::vector<std::byte> read_part(const std::filesystem::path& path, std::uint64_t offset,
                                             std::size_t size) {
    const detail::FileHandle file(std::fopen(path.c_str(), "rb"));
    if (file == nullptr) throw_system_error(path, "cannot be opened", errno);
    std::vector<std::byte> bytes(size);
    if (::fseeko(file.get(), static_cast<::off_t>(offset), SEEK_SET) != 0)
        throw_system_error(path, "cannot be read", errno);
    if (std::fread(bytes.data(), 1, size, file.get()) == size) return bytes;
    if (std::ferror(file.get()) != 0) throw_system_error(path, "cannot be read", errno);
    throw Error(path.string(), "the file ends before byte " + std::to_string(offset + size));
}

INTQ_INLINE void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    std::error_code ignored;
    const auto status = std::filesystem::status(path, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
        detail::FileHandle file(std::fopen(path.c_str(), "wb"));
        if (file == nullptr) throw_system_error(path, "cannot be opened", errno);
        detail::write(file.get(), bytes, path);
        return detail::close(std::move(file), path);
    }
    // A link stays a link; its target is replaced.
    const auto target =
        std::filesystem::is_symlink(path, ignored) ? std::filesystem::weakly_canonical(path, ignored) : path;
    detail::TemporaryFile(target).write_and_rename(bytes);
}

INTQ_INLINE void write_file(const std::filesystem::path& path, std::string_view text) {
    write_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

INTQ_INLINE void make_folder(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder.empty() ? std::filesystem::path(".") : folder;
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) throw_system_error(path, "cannot be made", error.value());
    if (access(path.c_str(), W_OK | X_OK) != 0) throw_system_error(path, "cannot be written in", errno);
}

INTQ_INLINE std::vector<std::string> words_of(const std::string& line) {
    std::vector<std::string> words;
    std::size_t at = 0;
    while ((at = line.find_first_not_of(" \t\r", at)) != std::string::npos) {
        const std::size_t end = (std::min)(line.find_first_of(" \t\r", at), line.size());
        words.push_back(line.substr(at, end - at));
        at = end;
    }
    return words;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_FILE_HPP
