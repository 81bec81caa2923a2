// SPDX-License-Identifier: MIT
//
// The program file: definitions that its reader and its writer share (docs/program_format.md). Layer: runtime.
#ifndef INTQ_RUNTIME_PROGRAM_FILE_HPP
#define INTQ_RUNTIME_PROGRAM_FILE_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "intq/arith/target.hpp"
#include "intq/core/byte_order.hpp"
#include "intq/core/workspace.hpp"
#include "intq/kernels/operators/operator_table.hpp"
#include "intq/runtime/program.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

/// First bytes of a program file. The first is not text; the line ends reveal a transfer that changed them.
inline constexpr std::array<unsigned char, 8> program_file_magic{0x89, 'I', 'N', 'T', 'Q', '\r', '\n', 0x1a};
inline constexpr std::uint32_t program_file_version = 8;

/// The first bytes of a program file, all numbers little-endian.
struct ProgramFileHeader {
    std::array<unsigned char, 8> magic = program_file_magic;
    std::uint32_t version = program_file_version;
    std::uint32_t checksum = 0;  // crc32() of all bytes behind this field
    std::uint64_t file_bytes = 0;
    std::uint64_t numbers_bytes = 0;  // they begin behind this header
    std::uint64_t strings_bytes = 0;  // they begin behind the numbers
    std::uint64_t constants_at = 0;   // a multiple of buffer_alignment, at or behind the end of the strings
    std::uint64_t constants_bytes = 0;
    std::uint64_t reserved = 0;
};
static_assert(sizeof(ProgramFileHeader) == 64, "the header of a program file has no gaps");

/// The header with numbers of the order of this machine, of the header as a file has it; and back.
inline ProgramFileHeader in_other_order(ProgramFileHeader header) noexcept {
    header.version = little_endian(header.version);
    header.checksum = little_endian(header.checksum);
    for (std::uint64_t* const number : {&header.file_bytes, &header.numbers_bytes, &header.strings_bytes,
                                        &header.constants_at, &header.constants_bytes, &header.reserved})
        *number = little_endian(*number);
    return header;
}

/// Added to the number of a tensor's layout where bounds of its codes were stated.
inline constexpr std::uint8_t stated_bounds_bit = 4;
/// Start of the bytes that the checksum covers.
inline constexpr std::size_t checksummed_from = 16;

/// Runs whose outputs are known, to compare a deployed program with.
///
/// An image tests the whole program. A pattern tests each layer over its whole range, which no image does behind an
/// activation, and takes no memory but its checksums; see write_pattern().
struct GoldenRuns {
    index_t count = 0;                      // of images
    const std::byte* inputs = nullptr;      // [image][input]
    const std::byte* outputs = nullptr;     // [image][output]
    const std::uint32_t* checks = nullptr;  // [run][instruction]: crc32() of the output of each; patterns last
    index_t input_bytes = 0;                // of one image
    index_t output_bytes = 0;
    index_t patterns = 0;

    INTQ_ALWAYS_INLINE constexpr index_t runs() const noexcept { return count + patterns; }
};

/// A program from a file. It points into the file, and into the memory passed to its reader.
struct LoadedProgram {
    Program program{};
    GoldenRuns golden{};
};

/// The rules of a policy as numbers, in the order of the format: policies with equal numbers compute the same codes.
INTQ_ALWAYS_INLINE constexpr std::array<std::int64_t, 17> policy_numbers(const arith::PolicyRecord& policy) noexcept {
    const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
    return {number(policy.requantize),
            number(policy.linear_in_binary64),
            number(policy.mul_ratio_in_float32),
            policy.accumulator_bits_int8,
            policy.accumulator_bits_int16,
            number(policy.widens_int16),
            policy.pre_cap,
            number(policy.post_gemm),
            number(policy.post_other),
            number(policy.bias),
            policy.headroom,
            number(policy.zero_points),
            number(policy.fused_add),
            number(policy.average),
            number(policy.softmax),
            number(policy.quantize.rounding),
            number(policy.quantize.by)};
}

/// The order of packed weights as numbers: programs for tables of equal numbers have the same constants.
INTQ_ALWAYS_INLINE constexpr std::array<std::int64_t, 35> packing_numbers(const kernels::PackingRules& rules) noexcept {
    std::array<std::int64_t, 35> result{};
    std::size_t at = 0;
    for (const simd::Packing* const p :
         {&rules.int8_packing, &rules.int16_packing, &rules.wide_packing, &rules.int16x8_packing})
        for (const std::int64_t number :
             {std::int64_t{p->columns}, std::int64_t{p->depth}, static_cast<std::int64_t>(p->staging),
              std::int64_t{p->step}, static_cast<std::int64_t>(p->splits)})
            result[at++] = number;
    for (const simd::DepthwisePacking* const p :
         {&rules.depthwise_int8_packing, &rules.depthwise_int16_packing, &rules.depthwise_int16x8_packing})
        for (const std::int64_t number : {std::int64_t{p->columns}, std::int64_t{p->step}, std::int64_t{p->run},
                                          std::int64_t{p->depth}, static_cast<std::int64_t>(p->staging)})
            result[at++] = number;
    return result;
}

/// Structs of parameters of an instruction.
INTQ_ALWAYS_INLINE constexpr index_t param_structs(const kernels::ProgramOperator& row,
                                                   std::int32_t operand_count) noexcept {
    if (row.params.kind == kernels::ParamKind::none) return 0;
    return row.has_params_by_operand ? operand_count : 1;
}

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_PROGRAM_FILE_HPP
