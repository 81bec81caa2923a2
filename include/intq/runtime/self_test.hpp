// SPDX-License-Identifier: MIT
//
// self_test: whether a deployed program computes the same codes as where it was made. Layer: runtime.
#ifndef INTQ_RUNTIME_SELF_TEST_HPP
#define INTQ_RUNTIME_SELF_TEST_HPP

#include <cstring>

#include "intq/core/checksum.hpp"
#include "intq/kernels/operators/operator_table.hpp"
#include "intq/runtime/execute.hpp"
#include "intq/runtime/program_file.hpp"
#include "intq/runtime/run_rows.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

/// The first difference that a self test found; of -1 where there is none.
struct Difference {
    index_t run = -1;
    index_t instruction = -1;
    INTQ_ALWAYS_INLINE constexpr bool is_none() const noexcept { return instruction < 0; }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

namespace intq::runtime {
inline namespace INTQ_ABI {

/// The checksum of numbers as if they were little-endian.
///
/// @param before  of those before them
inline std::uint32_t check_of_numbers(const void* numbers, index_t count, index_t size,
                                      std::uint32_t before = 0) noexcept {
    const auto* const bytes = static_cast<const std::byte*>(numbers);
    if (is_little_endian || size == 1) return crc32({bytes, static_cast<std::size_t>(count * size)}, before);
    std::uint32_t sum = before;
    for (index_t i = 0; i < count; ++i) {
        std::byte number[8];
        copy_little_endian(number, bytes + i * size, 1, size);
        sum = crc32({number, static_cast<std::size_t>(size)}, sum);
    }
    return sum;
}
/// The checksum of one image of an output.
inline std::uint32_t output_check(const ProgramTensor& tensor, const void* output) noexcept {
    return check_of_numbers(output, tensor.elements_per_image(), size_of(tensor.dtype));
}

/// Copies the inputs of one image, one behind the other and little-endian, to their places in an arena.
///
/// @param given  receives a pointer to each input; not written where null
inline void write_inputs(const Program& program, std::byte* arena, const std::byte* inputs,
                         const void** given = nullptr) noexcept {
    for (const std::int32_t index : program.inputs) {
        const ProgramTensor& tensor = program.tensor(index);
        const index_t count = tensor.elements_per_image(), size = size_of(tensor.dtype);
        if (given != nullptr) *given++ = inputs;
        if (!tensor.is_given()) copy_little_endian(tensor_data(program, arena, index), inputs, count, size);
        inputs += count * size;
    }
}

namespace detail {

/// Of the numbers of a pattern; the bytes of a code are the low ones of its int32.
struct PatternRange {
    std::int32_t lowest;
    std::uint32_t count;  // at most 2^16
};

/// Codes that the operands of a sound program may have: those of their quantizer, else 16 bits.
constexpr PatternRange pattern_range(const ProgramTensor& tensor) noexcept {
    if (tensor.dtype == DType::uint8) return {0, 256};
    const QParams& q = tensor.qparams;
    if (tensor.dtype == DType::int32 && tensor.has_stated_bounds)  // ids
        return {0, q.quant_max() < (1 << 16) ? static_cast<std::uint32_t>(q.quant_max()) + 1 : 1u << 16};
    if (tensor.dtype != DType::int8 && tensor.dtype != DType::int16) return {INT16_MIN, 1u << 16};
    return {static_cast<std::int32_t>(q.quant_min()), static_cast<std::uint32_t>(q.quant_max() - q.quant_min() + 1)};
}

}  // namespace detail

/// Whether an operand of an instruction is an input outside the arena.
inline bool reads_given(const Program& program, const Instruction& instruction) noexcept {
    for (const std::int32_t index : program.operands_of(instruction))
        if (program.tensor(index).is_given()) return true;
    return false;
}

/// The numbers of a pattern: codes over the whole range of their type, floats from -1 to 1. All machines write the
/// same.
class PatternNumbers {
public:
    PatternNumbers() noexcept = default;
    /// @param pattern  which of the patterns, from 0
    PatternNumbers(index_t instruction, index_t pattern) noexcept
        : state_(static_cast<std::uint32_t>(instruction) * 0x85ebca6bu + static_cast<std::uint32_t>(pattern + 1)) {}

    /// Writes the next numbers of a tensor.
    std::byte* write(const ProgramTensor& tensor, std::byte* to, index_t count) noexcept {
        const detail::PatternRange range = detail::pattern_range(tensor);
        for (index_t i = 0; i < count; ++i, to += size_of(tensor.dtype)) {
            state_ = state_ * multiplier + increment;
            const std::int32_t code = range.lowest + static_cast<std::int32_t>(((state_ >> 16) * range.count) >> 16);
            const float real = static_cast<float>(code) * 0x1p-15f;
            const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
            const auto* const low_bytes =
                reinterpret_cast<const std::byte*>(&code) + (is_little_endian ? 0 : sizeof code - size);
            std::memcpy(to, tensor.dtype == DType::float32 ? static_cast<const void*>(&real) : low_bytes, size);
        }
        return to;
    }
    /// Leaves out numbers: with the state s·m + c behind one, m² and c·(m + 1) lead behind two, and so on.
    void skip(index_t count) noexcept {
        std::uint32_t m = multiplier, c = increment;
        for (auto left = static_cast<std::uint64_t>(count); left > 0; left >>= 1) {
            if ((left & 1) != 0) state_ = state_ * m + c;
            c *= m + 1;
            m *= m;
        }
    }

private:
    // Numerical Recipes' generator; the upper half of its state, because the lower bits repeat soon.
    static constexpr std::uint32_t multiplier = 1664525u, increment = 1013904223u;
    std::uint32_t state_ = 0;
};

/// Fills the operands of an instruction in the arena, of one image each, with its pattern, one operand behind the
/// other.
///
/// @param pattern  which of the patterns, from 0
inline void write_pattern(const Program& program, std::byte* arena, index_t instruction, index_t pattern) noexcept {
    PatternNumbers numbers(instruction, pattern);
    for (const std::int32_t index : program.operands_of(program.instructions[static_cast<std::size_t>(instruction)])) {
        const ProgramTensor& tensor = program.tensor(index);
        if (!tensor.is_given())
            numbers.write(tensor, static_cast<std::byte*>(tensor_data(program, arena, index)),
                          tensor.elements_per_image());
    }
}

namespace detail {

/// The operands of an instruction of a group that runs alone, on a pattern: rows of rings are written as they are read.
class PatternRows {
public:
    PatternRows(const Program& program, std::int32_t index, index_t pattern, std::byte* arena,
                const void* const* given) noexcept
        : program_(program),
          operands_(program.operands_of(program.instructions[static_cast<std::size_t>(index)])),
          arena_(arena),
          given_(given) {
        PatternNumbers numbers(index, pattern);
        for (std::size_t i = 0; i < operands_.size(); ++i) {
            const ProgramTensor& tensor = program.tensor(operands_[i]);
            if (tensor.is_given()) continue;
            numbers_[i] = numbers;
            numbers.skip(tensor.elements_per_image());
            if (tensor.ring <= 0)
                numbers_[i].write(tensor, image_of(tensor, arena, 0, given), tensor.elements_per_image());
        }
    }
    /// Finds the rows that each operand is read in; the same tensor may be several operands.
    void find(const RowRange* rows, const std::byte** places) noexcept {
        for (std::size_t i = 0; i < operands_.size(); ++i) {
            const ProgramTensor& tensor = program_.tensor(operands_[i]);
            if (tensor.ring <= 0) {
                places[i] = image_of(tensor, arena_, 0, given_) + rows[i].first * row_bytes(tensor);
                continue;
            }
            // What the last operand of a tensor writes is what all of them read.
            RowRange all = rows[i];
            std::size_t last = i;
            for (std::size_t k = 0; k < operands_.size(); ++k) {
                if (operands_[k] != operands_[i]) continue;
                if (rows[k].first < all.first) all.first = rows[k].first;
                if (rows[k].last > all.last) all.last = rows[k].last;
                last = k;
            }
            const index_t front = hold(tensor, last, all);
            places[i] = arena_ + tensor.offset + (rows[i].first - front) * row_bytes(tensor);
        }
    }

private:
    /// Lets the ring of operand i hold some rows, and returns the first one that it holds.
    index_t hold(const ProgramTensor& tensor, std::size_t i, RowRange rows) noexcept {
        index_t &front = front_[i], &done = done_[i];
        const index_t bytes = row_bytes(tensor);
        std::byte* const place = arena_ + tensor.offset;
        if (rows.last - front > tensor.ring) {
            if (rows.first < done) {
                move_down(place, (rows.first - front) * bytes, (done - rows.first) * bytes);
            } else {
                numbers_[i].skip((rows.first - done) * tensor.elements_per_row());
                done = rows.first;
            }
            front = rows.first;
        }
        for (; done < rows.last; ++done)
            numbers_[i].write(tensor, place + (done - front) * bytes, tensor.elements_per_row());
        return front;
    }

    const Program& program_;
    std::span<const std::int32_t> operands_;
    std::byte* arena_;
    const void* const* given_;
    PatternNumbers numbers_[most_row_operands];
    index_t front_[most_row_operands] = {}, done_[most_row_operands] = {};  // rows
};

/// Runs an instruction of a group on its pattern, and nothing else.
template <class Operators, class See>
void run_rows_on_pattern(const Program& program, const kernels::KernelTable& table, std::int32_t index, index_t pattern,
                         std::byte* arena, const Executor& executor, const void* const* given,
                         const Operators& operators, See& see) INTQ_NOEXCEPT {
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(index)];
    kernels::OperatorCall call = call_of(program, table, instruction);
    PatternRows operands(program, index, pattern, arena, given);
    const index_t height = height_of(program, instruction), bytes = row_bytes(call.y());
    std::byte* const output = image_of(call.y(), arena, 0, given);
    for (index_t first = 0; first < height; first += instruction.rows) {
        const index_t left = height - first;
        RowRange rows[most_row_operands];
        const std::byte* places[most_row_operands];
        RowBand band{{first, first + (left < instruction.rows ? left : instruction.rows)}, output, rows, places};
        for (index_t i = 0; i < call.operand_count(); ++i) rows[i] = operators.rows(index, i, band.rows);
        operands.find(rows, places);
        if (call.y().ring == 0) band.output += first * bytes;
        operators.run(index, call_of_step(program, call, arena, executor, given, band));
        see_step(program, index, band, see);
    }
}

/// The parts of a golden run: an instruction that is in no group, and a group.
template <class Take> struct GoldenSteps {
    const Program& program;
    const kernels::KernelTable& table;
    std::byte* arena;
    index_t pattern;
    const Executor& executor;
    Take& take;

    void run(std::size_t index) {
        if (pattern >= 0) write_pattern(program, arena, static_cast<index_t>(index), pattern);
        run_instruction(program, table, arena, 1, executor, {}, index);
        const std::int32_t output = program.instructions[index].output;
        take(static_cast<index_t>(index), output_check(program.tensor(output), tensor_data(program, arena, output)));
    }
    template <class Operators> void run(const RowGroup& group, const void* const* given, const Operators& operators) {
        std::uint32_t checks[most_group_instructions] = {};
        const auto see = [&](std::int32_t index, const std::byte* rows, index_t bytes) {
            const index_t size =
                size_of(program.tensor(program.instructions[static_cast<std::size_t>(index)].output).dtype);
            std::uint32_t& check = checks[index - group.first];
            check = check_of_numbers(rows, bytes / size, size, check);
        };
        if (pattern < 0) run_group(program, table, group, arena, 0, executor, given, operators, see);
        for (std::int32_t i = group.first; i <= group.last(); ++i) {
            if (pattern >= 0) run_rows_on_pattern(program, table, i, pattern, arena, executor, given, operators, see);
            take(index_t{i}, checks[i - group.first]);
        }
    }
};

}  // namespace detail

/// Runs a program on the contents of its arena, or each instruction on its own pattern, and passes the checksum of each
/// output to take(instruction, check), instruction by instruction.
///
/// @param pattern  -1: none
template <class Take>
void run_golden(const Program& program, const kernels::KernelTable& table, std::byte* arena, index_t pattern,
                const Executor& executor, Take take) INTQ_NOEXCEPT {
    detail::GoldenSteps<Take> steps{program, table, arena, pattern, executor, take};
    const RowGroup* group = program.groups.data();
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        if (program.instructions[i].rows == 0) {
            steps.run(i);
            continue;
        }
        steps.run(*group, nullptr, ProgramOperators{program, table});
        i = static_cast<std::size_t>(group++->last());
    }
}

/// Repeats the golden runs of a program, one image each, and then the runs on patterns, and compares the output of
/// every instruction.
///
/// @param arena  program.arena_size bytes at buffer_alignment
/// @return the first run and its first instruction whose output differs; patterns are counted behind the images
/// @pre  check_program() is ok, and golden is the program's
///
/// Memory   only the arena
inline Difference self_test(const Program& program, const GoldenRuns& golden, const kernels::KernelTable& table,
                            std::byte* arena, const Executor& executor = serial) INTQ_NOEXCEPT {
    for (index_t run = 0; run < golden.runs(); ++run) {
        const bool is_image = run < golden.count;
        if (is_image) write_inputs(program, arena, golden.inputs + run * golden.input_bytes);
        const std::uint32_t* const checks = golden.checks + run * static_cast<index_t>(program.instructions.size());
        index_t first_wrong = -1;
        run_golden(program, table, arena, is_image ? -1 : run - golden.count, executor,
                   [&](index_t instruction, std::uint32_t check) {
                       if (first_wrong < 0 && check != checks[instruction]) first_wrong = instruction;
                   });
        if (first_wrong >= 0) return {run, first_wrong};
    }
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_SELF_TEST_HPP
