// SPDX-License-Identifier: MIT
//
// The parts of a program file, by its header. Layer: runtime (docs/program_format.md).
#ifndef INTQ_RUNTIME_PROGRAM_FILE_PARTS_HPP
#define INTQ_RUNTIME_PROGRAM_FILE_PARTS_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "intq/core/status.hpp"
#include "intq/core/workspace.hpp"
#include "intq/kernels/operators/operator.hpp"
#include "intq/runtime/program_file.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

/// The parts of a program file; see docs/program_format.md.
struct ProgramFileParts {
    std::span<const std::byte> numbers{};
    std::span<const std::byte> strings{};  // ends in a zero byte
    std::span<const std::byte> constants{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

namespace intq::runtime {
inline namespace INTQ_ABI {

namespace detail {

using kernels::corrupt;

constexpr Status corrupt_file(Field field, std::int64_t given = 0, std::int64_t expected = 0) noexcept {
    return corrupt(OpKind::program, field, given, expected);
}

/// The parts of a file, by its header; the checksum is not computed.
inline Result<ProgramFileParts> split_file(std::span<const std::byte> file) noexcept {
    ProgramFileHeader header{};
    const auto given = static_cast<std::int64_t>(file.size());
    if (file.size() < sizeof header) return corrupt_file(Field::file, given, sizeof header);
    std::memcpy(&header, file.data(), sizeof header);
    header = in_other_order(header);
    if (header.magic != program_file_magic) return corrupt_file(Field::magic);
    if (header.version != program_file_version)
        return Status{StatusCode::unsupported, OpKind::program, Field::version, header.version, program_file_version};
    if (header.file_bytes != file.size()) return corrupt_file(Field::file, given, std::int64_t(header.file_bytes));
    if (header.reserved != 0) return corrupt_file(Field::file);
    // Each is at most the rest, so no sum here can overflow.
    const std::uint64_t behind = file.size() - sizeof header;
    const bool fits = header.numbers_bytes <= behind && header.strings_bytes >= 1 &&
                      header.strings_bytes <= behind - header.numbers_bytes &&
                      header.constants_at % buffer_alignment == 0 && header.constants_at <= file.size() &&
                      header.constants_at >= sizeof header + header.numbers_bytes + header.strings_bytes &&
                      header.constants_bytes == file.size() - header.constants_at;
    if (!fits) return corrupt_file(Field::file);
    ProgramFileParts parts;
    const auto numbers = static_cast<std::size_t>(header.numbers_bytes);
    parts.numbers = file.subspan(sizeof header, numbers);
    parts.strings = file.subspan(sizeof header + numbers, static_cast<std::size_t>(header.strings_bytes));
    parts.constants = file.subspan(static_cast<std::size_t>(header.constants_at));
    if (parts.strings.back() != std::byte{0}) return corrupt_file(Field::file);
    if (!is_aligned(file.data()))
        return Status{StatusCode::misaligned, OpKind::program, Field::file, misalignment(file.data()),
                      buffer_alignment};
    return parts;
}

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_PROGRAM_FILE_PARTS_HPP
