// SPDX-License-Identifier: MIT
#include "pictures.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "intq/intq.hpp"

#if INTQ_TOOL_WITH_STB
#    include <cstdlib>

namespace {

/// The most bytes that the decoder gets at once: a small file may say that it unpacks to gigabytes.
std::size_t largest_picture_block = 0;

void* allocate_for_picture(std::size_t bytes) { return bytes > largest_picture_block ? nullptr : std::malloc(bytes); }
void* reallocate_for_picture(void* block, std::size_t bytes) {
    return bytes > largest_picture_block ? nullptr : std::realloc(block, bytes);
}

}  // namespace

#    define STBI_MALLOC(bytes) allocate_for_picture(bytes)
#    define STBI_REALLOC(block, bytes) reallocate_for_picture(block, bytes)
#    define STBI_FREE(block) std::free(block)
#    define STB_IMAGE_IMPLEMENTATION
#    define STB_IMAGE_STATIC
#    define STBI_ONLY_PNG
#    define STBI_ONLY_JPEG
#    define STBI_NO_STDIO
#    define STBI_MAX_DIMENSIONS 16384
#    include <stb/stb_image.h>
#endif

namespace intq_tool {

using namespace intq;
using intq::Tensor;

#if INTQ_TOOL_WITH_STB

namespace {

namespace files = std::filesystem;

std::vector<files::path> pictures_of(const std::string& folder) {
    std::error_code reason;
    std::vector<files::path> pictures;
    for (files::directory_iterator entry(folder, reason), end; !reason && entry != end; entry.increment(reason)) {
        std::string extension = entry->path().extension().string();
        for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        const bool is_picture = extension == ".png" || extension == ".jpg" || extension == ".jpeg";
        if (is_picture && !entry->is_regular_file(reason))
            throw Error(entry->path().string(), "cannot be read: it is no regular file");
        if (is_picture) pictures.push_back(entry->path());
    }
    if (reason) throw Error(folder, "cannot be read: " + reason.message());
    if (pictures.empty()) throw Error(folder, "the folder holds no picture: no .png, .jpg or .jpeg");
    std::sort(pictures.begin(), pictures.end());
    return pictures;
}

struct Extents {
    index_t channels = -1, height = -1, width = -1;
    std::string size() const { return std::to_string(width) + " x " + std::to_string(height); }
};

Extents extents_of(const std::string& folder, const std::vector<index_t>& input) {
    if (input.empty()) return {};
    if (input.size() != 4 || (input[1] >= 0 && input[1] != 1 && input[1] != 3))
        throw Error(folder, "pictures have 1 or 3 channels, and the model takes " + describe_shape(input));
    return {input[1], input[2], input[3]};
}

/// What the decoder says of a picture, in words for who gave it.
std::string reason_of(const char* reason) {
    const std::string text = reason == nullptr ? "" : reason;
    if (text == "outofmem")
        return "its data unpacks to more than the " + std::to_string(largest_picture_block) +
               " bytes that a picture of its size can need";
    if (text == "too large")
        return "its width or height is too large: above " + std::to_string(STBI_MAX_DIMENSIONS) + " pixels";
    return text.empty() ? "it is cut off" : text;
}

/// The four bytes of a number of a PNG.
std::uint32_t number_at(std::span<const std::byte> bytes, std::size_t at) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < 4; ++i) number = number << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
    return number;
}

/// Refuses a PNG with a chunk whose checksum is not that of its type and its data, which the decoder does not look at.
/// Source   PNG specification, third edition, section 5.3
void check_png_checksums(const files::path& path, std::span<const std::byte> bytes) {
    constexpr std::string_view signature("\x89PNG\r\n\x1a\n", 8);
    if (bytes.size() < 8 || std::memcmp(bytes.data(), signature.data(), 8) != 0) return;
    for (std::size_t at = 8; at < bytes.size();) {
        const std::size_t left = bytes.size() - at;
        const std::size_t size = left < 12 ? 0 : number_at(bytes, at);
        if (left < 12 || size > left - 12)
            throw Error(path.string(), "is a damaged picture: its last chunk is cut off");
        const std::string_view type(reinterpret_cast<const char*>(bytes.data()) + at + 4, 4);
        if (crc32(bytes.subspan(at + 4, size + 4)) != number_at(bytes, at + 8 + size))
            throw Error(path.string(), "is a damaged picture: the checksum of its chunk " + in_quotes(type) +
                                           " does not match its data");
        if (type == "IEND") return;
        at += size + 12;
    }
}

/// Decodes a picture behind the images that are there; fills in the extents that are open.
void add_picture(const files::path& path, Extents& extents, std::vector<std::uint8_t>& images) {
    const std::vector<std::byte> bytes = io::read_file(path);
    check_png_checksums(path, bytes);
    const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
    const auto size = static_cast<int>(std::min<std::size_t>(bytes.size(), INT32_MAX));
    const auto damaged = [&] {
        return Error(path.string(), "cannot be read as a picture: " + reason_of(stbi_failure_reason()));
    };
    largest_picture_block = std::size_t{1} << 20;
    int width = 0, height = 0, channels = 0;
    if (stbi_info_from_memory(data, size, &width, &height, &channels) == 0) throw damaged();
    if (extents.channels < 0) extents.channels = channels < 3 ? 1 : 3;
    const Extents given{extents.channels, height, width};
    if (extents.height < 0) extents.height = height;
    if (extents.width < 0) extents.width = width;
    if (given.height != extents.height || given.width != extents.width)
        throw Error(path.string(), "the picture has " + given.size() + " pixels, expected " + extents.size());
    const auto count = static_cast<std::size_t>(extents.channels);
    // Four bytes a pixel, twice for 16 bits, and the growth of a buffer.
    largest_picture_block += 32 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
    const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
        stbi_load_from_memory(data, size, &width, &height, &channels, static_cast<int>(count)), &stbi_image_free);
    if (pixels == nullptr) throw damaged();
    const auto plane = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
    for (std::size_t c = 0; c < count; ++c)
        for (std::size_t i = 0; i < plane; ++i) images.push_back(pixels.get()[i * count + c]);
}

}  // namespace

Tensor read_pictures(const std::string& folder, const std::vector<index_t>& input, index_t count) {
    std::vector<files::path> paths = pictures_of(folder);
    if (count > 0 && static_cast<std::size_t>(count) < paths.size()) paths.resize(static_cast<std::size_t>(count));
    Extents extents = extents_of(folder, input);
    std::vector<std::uint8_t> images;
    io::Progress progress("pictures", static_cast<std::int64_t>(paths.size()));
    for (std::size_t i = 0; i < paths.size(); ++i) {
        add_picture(paths[i], extents, images);
        progress.update(static_cast<std::int64_t>(i + 1));
    }
    return Tensor::from(Shape(static_cast<index_t>(paths.size()), extents.channels, extents.height, extents.width),
                        images);
}

#else

Tensor read_pictures(const std::string& folder, const std::vector<index_t>&, index_t) {
    throw Error(folder,
                "this program was built without a decoder of pictures; install stb/stb_image.h (Debian: "
                "libstb-dev) and build it again");
}

#endif

}  // namespace intq_tool
