// SPDX-License-Identifier: MIT
//
// Execution of a group of instructions row by row. Layer: runtime (docs/rows.md). Allocates nothing.
#ifndef INTQ_RUNTIME_RUN_ROWS_HPP
#define INTQ_RUNTIME_RUN_ROWS_HPP

#include <cstdint>
#include <cstring>

#include "intq/core/executor.hpp"
#include "intq/kernels/operators/operator.hpp"
#include "intq/runtime/row_schedule.hpp"

namespace intq::runtime {
inline namespace INTQ_ABI {

namespace detail {

/// to[i] = to[i + distance]: some words at a time, of which none is written before it is read. Where all of them are
/// aligned, a machine without vectors moves several of them by one instruction.
inline void move_down(std::byte* to, index_t distance, index_t bytes) noexcept {
    constexpr index_t chunk = 32;
    const std::byte* from = to + distance;
    if (distance >= chunk && ((reinterpret_cast<std::uintptr_t>(to) | static_cast<std::uintptr_t>(distance)) & 3) == 0)
        for (; bytes >= chunk; bytes -= chunk, from += chunk, to += chunk)
            std::memcpy(__builtin_assume_aligned(to, 4), __builtin_assume_aligned(from, 4), chunk);
    for (; bytes >= 4; bytes -= 4, from += 4, to += 4) {
        std::uint32_t word;
        std::memcpy(&word, from, sizeof word);
        std::memcpy(to, &word, sizeof word);
    }
    for (; bytes > 0; --bytes) *to++ = *from++;
}

/// Where one row of an image lies from the one above it: its planes may lie apart.
inline index_t row_bytes(const ProgramTensor& tensor) noexcept {
    const index_t elements = tensor.layout == Layout::row_major ? tensor.shape[3] : tensor.elements_per_row();
    return elements * size_of(tensor.dtype);
}

/// Where a tensor lies that is no ring.
inline std::byte* image_of(const ProgramTensor& tensor, std::byte* arena, index_t image,
                           const void* const* given) noexcept {
    std::byte* const first = tensor.is_given() ? static_cast<std::byte*>(const_cast<void*>(given[tensor.given_input()]))
                                               : arena + tensor.offset;
    return image == 0 ? first : first + image * tensor.elements_per_image() * size_of(tensor.dtype);
}

/// A call, for a step.
inline kernels::OperatorCall call_of_step(const Program& program, kernels::OperatorCall call, std::byte* arena,
                                          const Executor& executor, const void* const* given,
                                          const RowBand& band) noexcept {
    call.batch = 1;
    call.arena = arena;
    call.workspace = {arena + program.workspace_offset, program.workspace_size};
    call.executor = &executor;
    call.given = given;
    call.band = &band;
    return call;
}

/// see(index, rows of the output, how many bytes), where the step made some.
template <class See>
void see_step(const Program& program, std::int32_t index, const RowBand& band, See& see) INTQ_NOEXCEPT {
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(index)];
    const ProgramTensor& y = program.tensor(instruction.output);
    if (!y.holds_sums())
        see(index, static_cast<const std::byte*>(band.output), band.rows.count() * row_bytes(y));
    else if (band.rows.last == height_of(program, instruction))
        see(index, static_cast<const std::byte*>(band.output), row_bytes(y));
}

}  // namespace detail

/// Runs a group on one image.
///
/// @param image  of the batch
/// @param given  as execute()
/// @param operators  rows(instruction, operand, rows) and run(instruction, step), as of ProgramOperators
/// @param see    see(index, rows of the output, how many bytes) after each step that makes some
/// @pre   check_program() is ok
///
/// Memory   the arena, and less than 1.5 KB of the stack
template <class Operators, class See>
void run_group(const Program& program, const kernels::KernelTable& table, const RowGroup& group, std::byte* arena,
               index_t image, const Executor& executor, const void* const* given, const Operators& operators,
               See&& see) INTQ_NOEXCEPT {
    RowSchedule schedule(program, operators, group);
    for (; schedule.next(); schedule.finish()) {
        kernels::OperatorCall call = call_of(program, table, schedule.instruction());
        const std::byte* operands[most_row_operands];
        for (index_t i = 0; i < call.operand_count(); ++i) {
            const ProgramTensor& x = call.x(i);
            const index_t row = schedule.operand_rows(i).first;
            operands[i] = x.ring > 0 ? arena + x.offset + (row - schedule.front_of_operand(i)) * detail::row_bytes(x)
                                     : detail::image_of(x, arena, image, given) + row * detail::row_bytes(x);
        }
        const ProgramTensor& y = call.y();
        const index_t bytes = detail::row_bytes(y);
        RowBand band{schedule.rows(), nullptr, schedule.operand_rows(), operands};
        if (y.ring > 0) {
            if (schedule.is_full(y.ring)) {
                const index_t dropped = schedule.drop_rows(), held = band.rows.first - schedule.front();
                detail::move_down(arena + y.offset, dropped * bytes, held * bytes);
            }
            band.output = arena + y.offset + (band.rows.first - schedule.front()) * bytes;
        } else {
            band.output = detail::image_of(y, arena, image, given) + (y.holds_sums() ? 0 : band.rows.first * bytes);
        }
        operators.run(schedule.index(), detail::call_of_step(program, call, arena, executor, given, band));
        detail::see_step(program, schedule.index(), band, see);
    }
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_RUN_ROWS_HPP
