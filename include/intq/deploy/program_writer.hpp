// SPDX-License-Identifier: MIT
//
// Programs as files: writing them with golden runs, and reading them on a host (docs/program_format.md).
// Layer: deploy. A board reads with runtime/load_program.hpp. Long because the parts of a file refer to each other by
// places known only to their writer.
#ifndef INTQ_DEPLOY_PROGRAM_WRITER_HPP
#define INTQ_DEPLOY_PROGRAM_WRITER_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "intq/kernels/operators/params.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/runtime/load_program.hpp"
#include "intq/runtime/self_test.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

/// Runs whose outputs are known; view() returns them as runtime::GoldenRuns.
struct GoldenRecord {
    index_t count = 0;
    index_t patterns = 0;
    std::vector<std::byte> inputs, outputs;  // [image][tensor], little-endian
    std::vector<std::uint32_t> checks;       // [run][instruction], patterns last

    /// Of this object's memory.
    runtime::GoldenRuns view() const noexcept;
};

/// Runs on patterns that find most faults of one bit: each further one finds few, and takes the time of a run.
inline constexpr index_t default_patterns = 4;
/// No fault needs more.
inline constexpr index_t most_patterns = 4096;

/// Runs a program on samples, one at a time, and on patterns, and keeps the outputs that a deployed program must
/// compute.
///
/// @param inputs    one for each input of the program, (N, …) with the same N; none where patterns are enough
/// @param patterns  runs in which each instruction has a pattern for its operands; see runtime::write_pattern()
/// @throws Error for inputs that the program does not take, patterns that are not 0 to most_patterns, and a program
/// that
///         is packed for another machine
GoldenRecord record_golden_runs(const program::OwnedProgram& program, std::span<const Tensor> inputs,
                                index_t patterns = default_patterns);

/// The same for a program that is a view, whose constants were packed for `table`.
GoldenRecord record_golden_runs(const runtime::Program& program, const kernels::KernelTable& table,
                                std::span<const Tensor> inputs, index_t patterns = default_patterns);

/// A copy of the golden runs of a file that was read, to write its program again.
///
/// @param program  the file's
GoldenRecord copy_golden_runs(const runtime::GoldenRuns& golden, const runtime::Program& program);

/// The bytes of a program file.
///
/// @param table   the kernels that the program was packed for
/// @param golden  of record_golden_runs(), or empty; repeated here where the kernels run here
/// @throws Error  for a program that check_program() refuses, and golden runs of another program
///
/// Result   the same program produces the same bytes on every machine
std::vector<std::byte> serialize_program(const runtime::Program& program, const kernels::KernelTable& table,
                                         const GoldenRecord& golden = {});

/// Writes a program file; a former file stays until all of it is written.
///
/// @throws Error as serialize_program() and io::write_file()
void write_program(const std::filesystem::path& path, const program::OwnedProgram& program,
                   const GoldenRecord& golden = {});

/// A program that was read, with the golden runs of its file.
struct ProgramOfFile {
    std::shared_ptr<program::OwnedProgram> program;
    runtime::GoldenRuns golden{};  // they live as long as the program
};

/// Reads a program file for a host.
///
/// @param table  the kernels that will run it; must outlive the program
/// @throws Error naming the file: as io::read_file(), and the errors of runtime::load_program()
ProgramOfFile read_program(const std::filesystem::path& path, const kernels::KernelTable& table);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include <bit>
#    include <cstring>
#    include <map>
#    include <string>
#    include <string_view>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The parts of a file while they grow.
struct FileParts {
    std::vector<std::byte> numbers, strings, constants;

    void number(std::int64_t value);
    void real(float value) { number(std::bit_cast<std::uint32_t>(value)); }
    void string(const char* text);
    /// The place of an array, which is stored once however often it is passed.
    ///
    /// @param size  bytes of a number of it
    void array(const void* data, index_t count, index_t size);
    void field(const kernels::ParamField& field);
    void tensor(const runtime::ProgramTensor& tensor);
    void instruction(const runtime::Instruction& instruction, const kernels::ParamContext& context);

private:
    std::map<std::string, std::size_t, std::less<>> string_places_;
    std::map<std::string, std::size_t, std::less<>> array_places_;
};

INTQ_INLINE void FileParts::number(std::int64_t value) {
    auto bits = (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value < 0 ? -1 : 0);
    for (; bits >= 128; bits >>= 7) numbers.push_back(static_cast<std::byte>(bits | 128));
    numbers.push_back(static_cast<std::byte>(bits));
}

INTQ_INLINE void FileParts::string(const char* text) {
    const auto [place, is_new] = string_places_.try_emplace(text, strings.size());
    if (is_new) {
        const auto bytes = std::as_bytes(std::span(text, std::strlen(text) + 1));
        strings.insert(strings.end(), bytes.begin(), bytes.end());
    }
    number(static_cast<std::int64_t>(place->second));
}

/// The little-endian bytes of numbers.
INTQ_INLINE std::string file_bytes(const void* data, index_t count, index_t size) {
    std::string text(static_cast<std::size_t>(count * size), '\0');
    copy_little_endian(text.data(), data, count, size);
    return text;
}

INTQ_INLINE void FileParts::array(const void* data, index_t count, index_t size) {
    const std::string text = file_bytes(data, count, size);
    const auto bytes = static_cast<index_t>(text.size());
    auto place = array_places_.find(text);
    if (place == array_places_.end()) {
        const auto at = round_up(static_cast<index_t>(constants.size()), buffer_alignment);
        constants.resize(static_cast<std::size_t>(at + bytes));
        if (bytes > 0) std::memcpy(constants.data() + at, text.data(), text.size());
        place = array_places_.emplace(text, static_cast<std::size_t>(at)).first;
    }
    number(static_cast<std::int64_t>(place->second));
}

template <class T> std::int64_t element_at(const void* data, index_t at) {
    T value{};
    std::memcpy(&value, static_cast<const std::byte*>(data) + at * index_t{sizeof(T)}, sizeof value);
    return static_cast<std::int64_t>(value);
}

/// An element of a field; a float as its bits.
INTQ_INLINE std::int64_t element_of(const void* data, kernels::ParamType type, index_t at) {
    using enum kernels::ParamType;
    switch (type) {
        case int8:
            return element_at<std::int8_t>(data, at);
        case uint8:
            return element_at<std::uint8_t>(data, at);
        case int16:
            return element_at<std::int16_t>(data, at);
        case uint16:
            return element_at<std::uint16_t>(data, at);
        case int32:
            return element_at<std::int32_t>(data, at);
        case uint32:
        case float32:
            return element_at<std::uint32_t>(data, at);
        case int64:
            break;
    }
    return element_at<std::int64_t>(data, at);
}

INTQ_INLINE void FileParts::field(const kernels::ParamField& field) {
    if (field.memory != nullptr) {
        if (field.count > 0) array(*field.memory, field.count, size_of(field.type));
        return;
    }
    for (index_t i = 0; i < field.count; ++i) number(element_of(field.data, field.type, i));
}

INTQ_INLINE void FileParts::tensor(const runtime::ProgramTensor& tensor) {
    const QParams& q = tensor.qparams;
    number(static_cast<std::int64_t>(tensor.dtype));
    number(static_cast<std::int64_t>(tensor.layout) + (tensor.has_stated_bounds ? runtime::stated_bounds_bit : 0));
    number(tensor.shape.rank);
    for (int axis = 0; axis < tensor.shape.rank; ++axis) number(tensor.shape[axis]);
    number(tensor.offset);
    number(tensor.ring);
    string(tensor.name);
    number(q.is_per_channel() ? q.axis() : -1);
    number(q.quant_min());
    number(q.quant_max());
    if (!q.is_per_channel()) {
        real(q.scale());
        number(q.zero_point());
        return;
    }
    if (!q.is_symmetric())
        throw Error(tensor.name, "a program file holds no zero points per channel, and no operator makes them");
    std::vector<float> scales;
    for (index_t c = 0; c < q.count(); ++c) scales.push_back(q.scale(c));
    number(q.count());
    array(scales.data(), q.count(), index_t{sizeof(float)});
}

INTQ_INLINE void FileParts::instruction(const runtime::Instruction& instruction, const kernels::ParamContext& context) {
    const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
    string(name_of(instruction.op));
    number(instruction.rows);
    number(instruction.output);
    number(instruction.first_operand);
    number(instruction.operand_count);
    string(instruction.name);
    string(instruction.type);
    number(static_cast<std::int64_t>(row.params.kind));
    const auto put = [](void* self, const kernels::ParamField& field) { static_cast<FileParts*>(self)->field(field); };
    for (index_t i = 0; i < runtime::param_structs(row, instruction.operand_count); ++i)
        throw_if_failed(row.params.visit(static_cast<const std::byte*>(instruction.params.data) + i * row.params.size,
                                         nullptr, context, {this, put, nullptr}),
                        instruction.name);
}

INTQ_INLINE void put_numbers(FileParts& parts, std::span<const std::int64_t> numbers) {
    parts.number(static_cast<std::int64_t>(numbers.size()));
    for (const std::int64_t number : numbers) parts.number(number);
}

INTQ_INLINE void put_tables(FileParts& parts, const runtime::Program& program, const kernels::KernelTable& table) {
    for (const index_t size : {program.max_batch, program.arena_size, program.workspace_offset, program.workspace_size})
        parts.number(size);
    parts.string(table.policy().name);
    parts.string(table.backend);
    put_numbers(parts, runtime::policy_numbers(table.policy()));
    put_numbers(parts, runtime::packing_numbers(table.packing));
    for (const std::size_t count : {program.tensors.size(), program.operands.size(), program.inputs.size(),
                                    program.outputs.size(), program.instructions.size()})
        parts.number(static_cast<std::int64_t>(count));
    for (const auto list : {program.operands, program.inputs, program.outputs})
        for (const std::int32_t index : list) parts.number(index);
    for (const runtime::ProgramTensor& tensor : program.tensors) parts.tensor(tensor);
    const kernels::ParamContext context{&table.packing};
    for (const runtime::Instruction& instruction : program.instructions) parts.instruction(instruction, context);
    parts.number(static_cast<std::int64_t>(program.dropped.size()));
    for (const runtime::DroppedChannel& dropped : program.dropped)
        for (const std::int64_t number :
             {std::int64_t{dropped.tensor}, std::int64_t{dropped.channel}, std::int64_t{dropped.code},
              dropped.is_constant + std::int64_t{2} * dropped.is_depthwise})
            parts.number(number);
    parts.number(static_cast<std::int64_t>(program.groups.size()));
    for (const runtime::RowGroup& group : program.groups)
        for (const std::int64_t number :
             {std::int64_t{group.first}, std::int64_t{group.count}, std::int64_t{group.workspace}})
            parts.number(number);
    parts.number(static_cast<std::int64_t>(program.states.size()));
    for (const runtime::StatePair& state : program.states) parts.number(state.input), parts.number(state.output);
}

/// Repeats the runs, where the kernels run here: a board could not tell whether a difference is its own fault.
INTQ_INLINE void check_golden(const runtime::Program& program, const kernels::KernelTable& table,
                              const runtime::GoldenRuns& golden) {
    if (golden.runs() == 0 || !table.runs()) return;
    const program::AlignedBytes arena(program.arena_size);
    const runtime::Difference found = runtime::self_test(program, golden, table, arena.data());
    if (found.is_none()) return;
    const auto& step = program.instructions[static_cast<std::size_t>(found.instruction)];
    throw Error("the golden runs belong to another program: run " + std::to_string(found.run) +
                " differs at instruction " + std::to_string(found.instruction) + ", " + step.name);
}

INTQ_INLINE void put_golden(FileParts& parts, const runtime::Program& program, const kernels::KernelTable& table,
                            const GoldenRecord& golden) {
    const auto runs = static_cast<std::size_t>(golden.count);
    const auto checked_runs = static_cast<std::size_t>(golden.count + golden.patterns);
    if (golden.checks.size() != checked_runs * program.instructions.size() ||
        golden.inputs.size() != runs * std::size_t(runtime::image_bytes(program, program.inputs)) ||
        golden.outputs.size() != runs * std::size_t(runtime::image_bytes(program, program.outputs)))
        throw Error("the golden runs belong to another program");
    check_golden(program, table, golden.view());
    parts.number(golden.count);
    parts.number(golden.patterns);
    if (checked_runs == 0) return;
    parts.array(golden.inputs.data(), static_cast<index_t>(golden.inputs.size()), 1);
    parts.array(golden.outputs.data(), static_cast<index_t>(golden.outputs.size()), 1);
    parts.array(golden.checks.data(), static_cast<index_t>(golden.checks.size()), sizeof(std::uint32_t));
}

INTQ_INLINE std::vector<std::byte> join_parts(const FileParts& parts) {
    runtime::ProgramFileHeader header;
    const std::size_t strings_at = sizeof header + parts.numbers.size();
    const auto constants_at =
        static_cast<std::size_t>(round_up(static_cast<index_t>(strings_at + parts.strings.size()), buffer_alignment));
    header.numbers_bytes = parts.numbers.size();
    header.strings_bytes = parts.strings.size();
    header.constants_at = constants_at;
    header.constants_bytes = parts.constants.size();
    header.file_bytes = constants_at + parts.constants.size();
    std::vector<std::byte> file(static_cast<std::size_t>(header.file_bytes));
    const auto put = [&](std::size_t at, const void* from, std::size_t bytes) {
        if (bytes > 0) std::memcpy(file.data() + at, from, bytes);
    };
    const auto put_header = [&] {
        const runtime::ProgramFileHeader in_file = runtime::in_other_order(header);
        put(0, &in_file, sizeof in_file);
    };
    put_header();
    put(sizeof header, parts.numbers.data(), parts.numbers.size());
    put(strings_at, parts.strings.data(), parts.strings.size());
    put(constants_at, parts.constants.data(), parts.constants.size());
    header.checksum = crc32(std::span<const std::byte>(file).subspan(runtime::checksummed_from));
    put_header();
    return file;
}

/// Inputs as the program takes them: of N samples, in the order of its bytes.
INTQ_INLINE std::vector<Tensor> rows_of(const runtime::Program& program, std::span<const Tensor> inputs) {
    std::vector<Tensor> rows;
    program::check_inputs(program, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Layout layout = program.tensor(program.inputs[i]).layout;
        rows.push_back(inputs[i].to_layout(inputs[i].dtype() == DType::float32 ? Layout::row_major : layout));
    }
    return rows;
}

}  // namespace detail

INTQ_INLINE runtime::GoldenRuns GoldenRecord::view() const noexcept {
    const index_t images = count > 0 ? count : 1;
    return {count,
            inputs.data(),
            outputs.data(),
            checks.data(),
            static_cast<index_t>(inputs.size()) / images,
            static_cast<index_t>(outputs.size()) / images,
            patterns};
}

INTQ_INLINE GoldenRecord record_golden_runs(const program::OwnedProgram& owned, std::span<const Tensor> inputs,
                                            index_t patterns) {
    return record_golden_runs(owned.program(), owned.table(), inputs, patterns);
}

INTQ_INLINE GoldenRecord record_golden_runs(const runtime::Program& program, const kernels::KernelTable& table,
                                            std::span<const Tensor> inputs, index_t patterns) {
    program::require_kernels(table);
    const std::vector<Tensor> rows = inputs.empty() ? std::vector<Tensor>() : detail::rows_of(program, inputs);
    const auto append = [&](std::vector<std::byte>& to, std::int32_t tensor, const void* from) {
        const runtime::ProgramTensor& numbers = program.tensor(tensor);
        const std::string bytes = detail::file_bytes(from, numbers.elements_per_image(), size_of(numbers.dtype));
        const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
        to.insert(to.end(), first, first + bytes.size());
    };
    const auto bytes_of = [&](std::int32_t tensor) { return program.tensor(tensor).bytes() / program.max_batch; };
    if (patterns < 0 || patterns > most_patterns)
        throw Error("record_golden_runs: " + std::to_string(patterns) + " patterns, expected 0 to " +
                    std::to_string(most_patterns));
    GoldenRecord golden;
    golden.count = rows.empty() ? 0 : rows.front().shape()[0];
    golden.patterns = patterns;
    const program::AlignedBytes arena(program.arena_size);
    const auto record = [&](index_t pattern) {
        runtime::run_golden(program, table, arena.data(), pattern, serial,
                            [&](index_t, std::uint32_t check) { golden.checks.push_back(check); });
    };
    for (index_t run = 0; run < golden.count; ++run) {
        const std::size_t first = golden.inputs.size();
        for (std::size_t i = 0; i < rows.size(); ++i)
            append(golden.inputs, program.inputs[i], rows[i].data() + run * bytes_of(program.inputs[i]));
        runtime::write_inputs(program, arena.data(), golden.inputs.data() + first);
        record(-1);
        for (const std::int32_t output : program.outputs)
            append(golden.outputs, output, runtime::tensor_data(program, arena.data(), output));
    }
    for (index_t pattern = 0; pattern < patterns; ++pattern) record(pattern);
    return golden;
}

INTQ_INLINE GoldenRecord copy_golden_runs(const runtime::GoldenRuns& golden, const runtime::Program& program) {
    const auto count = static_cast<std::size_t>(golden.count);
    GoldenRecord record;
    record.count = golden.count;
    record.patterns = golden.patterns;
    const auto checks = static_cast<std::size_t>(golden.runs()) * program.instructions.size();
    if (checks > 0) record.checks.assign(golden.checks, golden.checks + checks);
    if (count == 0) return record;
    record.inputs.assign(golden.inputs, golden.inputs + count * static_cast<std::size_t>(golden.input_bytes));
    record.outputs.assign(golden.outputs, golden.outputs + count * static_cast<std::size_t>(golden.output_bytes));
    return record;
}

INTQ_INLINE std::vector<std::byte> serialize_program(const runtime::Program& program, const kernels::KernelTable& table,
                                                     const GoldenRecord& golden) {
    throw_if_failed(runtime::check_program(program, table), "the program to write");
    detail::FileParts parts;
    detail::put_tables(parts, program, table);
    detail::put_golden(parts, program, table, golden);
    return detail::join_parts(parts);
}

INTQ_INLINE void write_program(const std::filesystem::path& path, const program::OwnedProgram& program,
                               const GoldenRecord& golden) {
    io::write_file(path, serialize_program(program.program(), program.table(), golden));
}

INTQ_INLINE ProgramOfFile read_program(const std::filesystem::path& path, const kernels::KernelTable& table) {
    const std::vector<std::byte> bytes = io::read_file(path);
    auto storage = std::make_unique<program::ProgramStorage>();
    const auto size = static_cast<index_t>(bytes.size());
    const program::AlignedBytes& file = storage->buffers.emplace_back(size > 0 ? size : 1);
    if (size > 0) std::memcpy(file.data(), bytes.data(), bytes.size());
    const std::span<const std::byte> view(file.data(), bytes.size());
    const auto names = runtime::program_file_names(view);
    std::string whose = path.string();
    if (names)
        whose += " (for " + std::string(names->target) + " on " + names->backend + ", read for " + table.policy().name +
                 " on " + table.backend + ")";
    const Result<index_t> needed = runtime::program_tables_size(view, table);
    throw_if_failed(needed.status(), whose);
    const program::AlignedBytes& tables = storage->buffers.emplace_back(*needed);
    const auto loaded = runtime::load_program(view, table, tables.workspace());
    throw_if_failed(loaded.status(), whose);
    return {std::make_shared<program::OwnedProgram>(std::move(storage), loaded->program, table), loaded->golden};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)
#endif  // INTQ_DEPLOY_PROGRAM_WRITER_HPP
