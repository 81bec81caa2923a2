// SPDX-License-Identifier: MIT
//
// Reading a program file where it lies: in flash, in a mapping, in memory (docs/program_format.md). Layer: runtime.
//
// The tables of a program are built in memory of the caller; constants and names stay in the file. Nothing in a file is
// trusted: check_program() checks all that this reader does not.
#ifndef INTQ_RUNTIME_LOAD_PROGRAM_HPP
#define INTQ_RUNTIME_LOAD_PROGRAM_HPP

#include <cstring>
#include <limits>
#include <new>

#include "intq/core/checksum.hpp"
#include "intq/kernels/operators/operator_table.hpp"
#include "intq/runtime/check.hpp"
#include "intq/runtime/number_reader.hpp"
#include "intq/runtime/program_file.hpp"
#include "intq/runtime/program_file_parts.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

/// The target and backend that a program file was made for.
struct ProgramFileNames {
    const char* target = "";
    const char* backend = "";
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

namespace intq::runtime {
inline namespace INTQ_ABI {

namespace detail {

/// Reads the numbers of a file: with a cursor without memory it only counts, so that one function both sizes and
/// places the tables.
class TableReader {
public:
    TableReader(const ProgramFileParts& parts, const kernels::KernelTable& table, BufferCursor memory) noexcept
        : parts_(parts), table_(table), memory_(memory), numbers_(parts.numbers) {}

    /// Bytes of the tables, after read().
    index_t used() const noexcept { return memory_.used(); }

    /// The beginning of the stream, to the end of the names.
    Status read_names(ProgramFileNames& names, Program& program) noexcept {
        program.max_batch = size(1);
        program.arena_size = size();
        program.workspace_offset = size();
        program.workspace_size = size();
        names.target = string();
        names.backend = string();
        return verdict();
    }

    Status read(LoadedProgram& loaded) noexcept {
        Program& program = loaded.program;
        ProgramFileNames names;
        if (const Status status = read_names(names, program); !status) return status;
        if (const Status status = check_numbers(policy_numbers(table_.policy()), Field::multiplier); !status)
            return status;
        if (const Status status = check_numbers(packing_numbers(table_.packing), Field::layout); !status) return status;
        const std::int64_t tensors = numbers_.count(), operands = numbers_.count(), inputs = numbers_.count(),
                           outputs = numbers_.count(), instructions = numbers_.count();
        program.operands = indices(operands);
        program.inputs = indices(inputs);
        program.outputs = indices(outputs);
        auto* const tensor_table = memory_.take<ProgramTensor>(static_cast<index_t>(tensors));
        for (std::int64_t i = 0; i < tensors && !numbers_.has_failed(); ++i) place(tensor_table, i, tensor());
        auto* const instruction_table = memory_.take<Instruction>(static_cast<index_t>(instructions));
        for (std::int64_t i = 0; i < instructions && !numbers_.has_failed(); ++i) {
            Instruction instruction;
            if (const Status status = read_instruction(instruction); !status) return status;
            place(instruction_table, i, instruction);
        }
        program.dropped = dropped_channels();
        program.groups = row_groups();
        program.states = state_pairs();
        read_golden(loaded.golden, static_cast<index_t>(instructions));
        if (const Status status = verdict(); !status) return status;
        if (!numbers_.is_at_end()) return corrupt_file(Field::file);
        if (tensor_table != nullptr) program.tensors = {tensor_table, static_cast<std::size_t>(tensors)};
        if (instruction_table != nullptr)
            program.instructions = {instruction_table, static_cast<std::size_t>(instructions)};
        return {};
    }

private:
    static constexpr std::int64_t most_size = (std::numeric_limits<index_t>::max)();

    Status verdict() const noexcept {
        return numbers_.has_failed() || has_failed_ ? corrupt_file(Field::file) : Status{};
    }
    index_t size(index_t least = 0) noexcept { return static_cast<index_t>(numbers_.number(least, most_size)); }
    template <class T>
    T number(T least = (std::numeric_limits<T>::min)(), T most = (std::numeric_limits<T>::max)()) noexcept {
        return static_cast<T>(numbers_.number(std::int64_t{least}, std::int64_t{most}));
    }
    const char* string() noexcept {
        const auto last = static_cast<std::int64_t>(parts_.strings.size()) - 1;
        return reinterpret_cast<const char*>(parts_.strings.data()) + numbers_.number(0, last);
    }
    template <class T> static void place(T* table, std::int64_t at, const T& value) noexcept {
        if (table != nullptr) new (table + at) T(value);
    }

    /// The place of `count` elements of `bytes` each among the constants; null, and a failure, where they are not.
    const std::byte* constants(index_t count, index_t bytes) noexcept {
        const auto total = static_cast<std::int64_t>(parts_.constants.size());
        const std::int64_t at = numbers_.number(0, total);
        if (at % buffer_alignment == 0 && count <= (total - at) / bytes) return parts_.constants.data() + at;
        has_failed_ = true;
        return nullptr;
    }
    /// Numbers of the constants as this machine orders their bytes: in the file, or a copy in memory.
    const void* in_native_order(const std::byte* numbers, index_t count, index_t size) noexcept {
        if (is_little_endian || numbers == nullptr || size == 1) return numbers;
        auto* const copy = memory_.take<std::byte>(count * size);
        if (copy == nullptr) return numbers;  // only counts
        copy_little_endian(copy, numbers, count, size);
        return copy;
    }

    template <std::size_t Count>
    Status check_numbers(const std::array<std::int64_t, Count>& expected, Field field) noexcept {
        if (numbers_.count() != Count) return corrupt_file(field);
        for (const std::int64_t value : expected)
            if (const std::int64_t given = numbers_.number(INT64_MIN, INT64_MAX); given != value)
                return numbers_.has_failed() ? corrupt_file(field)
                                             : Status{StatusCode::unsupported, OpKind::program, field, given, value};
        return {};
    }

    std::span<const std::int32_t> indices(std::int64_t count) noexcept {
        auto* const list = memory_.take<std::int32_t>(static_cast<index_t>(count));
        for (std::int64_t i = 0; i < count && !numbers_.has_failed(); ++i) place(list, i, number<std::int32_t>(0));
        return list == nullptr ? std::span<const std::int32_t>{}
                               : std::span<const std::int32_t>{list, static_cast<std::size_t>(count)};
    }

    ProgramTensor tensor() noexcept {
        ProgramTensor tensor;
        tensor.dtype = static_cast<DType>(number<std::uint8_t>(0, static_cast<std::uint8_t>(DType::uint8)));
        const auto layout = number<std::uint8_t>(0, stated_bounds_bit | static_cast<std::uint8_t>(Layout::strided));
        tensor.has_stated_bounds = (layout & stated_bounds_bit) != 0;
        tensor.layout = static_cast<Layout>(layout & ~stated_bounds_bit);
        if (tensor.layout > Layout::strided) has_failed_ = true;
        tensor.shape.rank = number<int>(1, max_rank);
        for (int axis = 0; axis < tensor.shape.rank; ++axis) tensor.shape[axis] = size();
        tensor.offset = size();
        tensor.ring = number<std::int16_t>(kernels::sums_of_rows);
        tensor.name = string();
        const int axis = number<int>(-1, max_rank - 1);
        const auto lowest = number<std::int64_t>(), highest = number<std::int64_t>();
        if (axis < 0) {
            const float scale = numbers_.real();
            tensor.qparams = QParams::per_tensor(scale, number<std::int32_t>(), lowest, highest);
            return tensor;
        }
        const index_t count = size();
        const auto* const scales =
            static_cast<const float*>(in_native_order(constants(count, sizeof(float)), count, sizeof(float)));
        if (scales == nullptr) return tensor;
        tensor.qparams = QParams::per_channel({scales, static_cast<std::size_t>(count)}, {}, axis, lowest, highest);
        return tensor;
    }

    /// A count, and entries of so many numbers at least.
    template <class Entry, class Read> std::span<const Entry> list(std::size_t numbers, const Read& read) noexcept {
        const std::int64_t count = numbers_.number(0, static_cast<std::int64_t>(parts_.numbers.size() / numbers));
        auto* const entries = memory_.take<Entry>(static_cast<index_t>(count));
        for (std::int64_t i = 0; i < count && !numbers_.has_failed(); ++i) place(entries, i, read());
        return {entries, entries == nullptr ? 0 : static_cast<std::size_t>(count)};
    }
    std::span<const DroppedChannel> dropped_channels() noexcept {
        return list<DroppedChannel>(4, [this]() noexcept {
            const auto tensor = number<std::int32_t>(0), channel = number<std::int32_t>(0),
                       code = number<std::int32_t>(INT16_MIN, INT16_MAX);
            const auto bits = number<std::uint8_t>(0, 3);
            return DroppedChannel{tensor, channel, code, (bits & 1) != 0, (bits & 2) != 0};
        });
    }
    std::span<const RowGroup> row_groups() noexcept {
        const auto read = [this]() noexcept {
            return RowGroup{number<std::int32_t>(0), number<std::int32_t>(1), size()};
        };
        return list<RowGroup>(3, read);
    }
    std::span<const StatePair> state_pairs() noexcept {
        const auto read = [this]() noexcept { return StatePair{number<std::int32_t>(0), number<std::int32_t>(0)}; };
        return list<StatePair>(2, read);
    }
    static bool is_same_text(const char* a, const char* b) noexcept {
        while (*a == *b && *a != 0) ++a, ++b;
        return *a == *b;
    }
    const kernels::ProgramOperator* find_row() noexcept {
        const char* const name = string();
        for (const kernels::ProgramOperator& row : kernels::program_operators)
            if (is_same_text(name_of(row.op), name)) return &row;
        return nullptr;
    }

    Status read_instruction(Instruction& instruction) noexcept {
        const kernels::ProgramOperator* const row = find_row();
        if (row == nullptr) return {StatusCode::unsupported, OpKind::program, Field::instruction, 0, 0};
        instruction.op = row->op;
        instruction.rows = number<std::int16_t>(0);
        instruction.output = number<std::int32_t>(0);
        instruction.first_operand = number<std::int32_t>(0);
        // Each struct of parameters takes at least a byte.
        instruction.operand_count =
            static_cast<std::int32_t>(numbers_.number(0, static_cast<std::int64_t>(parts_.numbers.size() & INT32_MAX)));
        instruction.name = string();
        instruction.type = string();
        instruction.params.kind = static_cast<kernels::ParamKind>(number<std::uint8_t>());
        if (numbers_.has_failed() || instruction.params.kind != row->params.kind)
            return corrupt(row->op, Field::instruction, 0, 0);
        return read_params(*row, instruction);
    }

    Status read_params(const kernels::ProgramOperator& row, Instruction& instruction) noexcept {
        const index_t structs = param_structs(row, instruction.operand_count);
        if (structs == 0) return {};
        const kernels::ParamStruct& params = row.params;
        if (structs > static_cast<index_t>(numbers_.left())) return corrupt(row.op, Field::instruction, structs, 0);
        instruction.params.size = structs * params.size;
        auto* const to = memory_.take<std::byte>(instruction.params.size);
        instruction.params.data = to;
        // Only numbers: the contents of memory are left to the check of the program.
        const kernels::ParamVisitor visitor{this, &read_field, nullptr, kernels::ParamVisitor::Demands::numbers};
        const kernels::ParamContext context{&table_.packing};
        for (index_t i = 0; i < structs; ++i) {
            Status status = params.visit(nullptr, to == nullptr ? nullptr : to + i * params.size, context, visitor);
            if (const Status whole = verdict(); !whole) status = whole;
            if (!status.ok()) return status.in(row.op);
        }
        return {};
    }

    static void read_field(void* context, const kernels::ParamField& field) {
        auto& self = *static_cast<TableReader*>(context);
        if (field.memory != nullptr) {
            const index_t size = size_of(field.type);
            *field.memory =
                field.count == 0 ? nullptr : self.in_native_order(self.constants(field.count, size), field.count, size);
            return;
        }
        auto* const to = static_cast<std::byte*>(field.data);
        for (index_t i = 0; i < field.count; ++i) self.read_element(field.type, to + i * size_of(field.type));
    }
    template <class T> void read_as(std::byte* to) noexcept {
        const T value = number<T>();
        std::memcpy(to, &value, sizeof value);
    }
    void read_element(kernels::ParamType type, std::byte* to) noexcept {
        using enum kernels::ParamType;
        switch (type) {
            case int8:
                return read_as<std::int8_t>(to);
            case uint8:
                return read_as<std::uint8_t>(to);
            case int16:
                return read_as<std::int16_t>(to);
            case uint16:
                return read_as<std::uint16_t>(to);
            case int32:
                return read_as<std::int32_t>(to);
            case float32:
            case uint32:
                return read_as<std::uint32_t>(to);
            case int64:
                return read_as<std::int64_t>(to);
        }
    }

    /// Only places: the sizes of images are known once the program is checked.
    void read_golden(GoldenRuns& golden, index_t instructions) noexcept {
        // Each run has checksums among the constants.
        const auto most = static_cast<std::int64_t>(parts_.constants.size());
        golden.count = static_cast<index_t>(numbers_.number(0, most));
        golden.patterns = static_cast<index_t>(numbers_.number(0, most));
        if (golden.runs() == 0) return;
        golden.inputs = constants(0, 1);
        golden.outputs = constants(0, 1);
        const std::byte* const checks = constants(0, 1);
        // A file has runs without checks where its program has no instructions.
        const index_t left = checks == nullptr ? 0 : parts_.constants.data() + parts_.constants.size() - checks;
        const index_t bytes_of_a_run = instructions * index_t{sizeof(std::uint32_t)};
        if (bytes_of_a_run > 0 && golden.runs() > left / bytes_of_a_run) has_failed_ = true;
        const index_t count = has_failed_ ? 0 : golden.runs() * instructions;
        golden.checks = static_cast<const std::uint32_t*>(in_native_order(checks, count, sizeof(std::uint32_t)));
    }

    const ProgramFileParts& parts_;
    const kernels::KernelTable& table_;
    BufferCursor memory_;
    NumberReader numbers_;
    bool has_failed_ = false;
};

}  // namespace detail

/// Bytes of one image of the tensors of a list.
inline index_t image_bytes(const Program& program, std::span<const std::int32_t> list) noexcept {
    index_t total = 0;
    for (const std::int32_t index : list) {
        const ProgramTensor& tensor = program.tensor(index);
        total += tensor.elements_per_image() * size_of(tensor.dtype);
    }
    return total;
}

namespace detail {

/// Whether the images of the golden runs of a checked program, and their outputs, lie in its file.
inline Status check_golden(const Program& program, std::span<const std::byte> constants, GoldenRuns& golden) noexcept {
    if (golden.runs() == 0) return {};
    golden.input_bytes = image_bytes(program, program.inputs);
    golden.output_bytes = image_bytes(program, program.outputs);
    const auto check_runs = [&](const void* first, index_t runs, index_t bytes_of_a_run) -> Status {
        const index_t left = constants.data() + constants.size() - static_cast<const std::byte*>(first);
        if (bytes_of_a_run == 0 || runs <= left / bytes_of_a_run) return {};
        return corrupt_file(Field::file);
    };
    if (const Status status = check_runs(golden.inputs, golden.count, golden.input_bytes); !status) return status;
    return check_runs(golden.outputs, golden.count, golden.output_bytes);
}

}  // namespace detail

/// The names in a file, also where this build lacks them: for messages.
///
/// @return the names, which lie in the file; corrupt, unsupported, misaligned as load_program()
inline Result<ProgramFileNames> program_file_names(std::span<const std::byte> file) noexcept {
    const Result<ProgramFileParts> parts = detail::split_file(file);
    if (!parts) return parts.status();
    static constexpr kernels::KernelTable nothing{};
    detail::TableReader reader(*parts, nothing, {});
    ProgramFileNames names;
    Program program;
    if (const Status status = reader.read_names(names, program); !status) return status;
    return names;
}

/// Bytes of memory that load_program() needs for the tables of a program.
///
/// @return the bytes; the errors of load_program(), except those that need a checksum or a check of the program
inline Result<index_t> program_tables_size(std::span<const std::byte> file,
                                           const kernels::KernelTable& table) noexcept {
    const Result<ProgramFileParts> parts = detail::split_file(file);
    if (!parts) return parts.status();
    detail::TableReader reader(*parts, table, {});
    LoadedProgram loaded;
    if (const Status status = reader.read(loaded); !status) return status;
    return reader.used();
}

/// Reads a program file where it lies, and checks all of it.
///
/// @param file    at buffer_alignment; it and `memory` must outlive the program
/// @param table   the kernels that will run it
/// @param memory  program_tables_size() bytes at buffer_alignment, for the tables
/// @return the program, which execute() may run; corrupt, also where the checksum differs; unsupported: another
///         version, operator, target (multiplier) or packing (layout); misaligned; buffer_too_small of
///         workspace; the errors of check_program()
///
/// Memory   only `memory`; constants and names stay in the file, on a big-endian machine constants of a byte alone
/// Cost     O(bytes), and check_program()'s
inline Result<LoadedProgram> load_program(std::span<const std::byte> file, const kernels::KernelTable& table,
                                          Workspace memory) noexcept {
    const Result<ProgramFileParts> parts = detail::split_file(file);
    if (!parts) return parts.status();
    std::uint32_t expected = 0;
    copy_little_endian(&expected, file.data() + offsetof(ProgramFileHeader, checksum), 1, sizeof expected);
    if (const std::uint32_t given = crc32(file.subspan(checksummed_from)); given != expected)
        return detail::corrupt_file(Field::checksum, given, expected);
    const Result<index_t> needed = program_tables_size(file, table);
    if (!needed) return needed.status();
    if (memory.size < *needed || memory.data == nullptr)
        return Status{StatusCode::buffer_too_small, OpKind::program, Field::workspace, memory.size, *needed};
    if (!is_aligned(memory.data))
        return Status{StatusCode::misaligned, OpKind::program, Field::workspace, misalignment(memory.data),
                      buffer_alignment};
    LoadedProgram loaded;
    detail::TableReader reader(*parts, table, {memory.data, memory.size});
    if (const Status status = reader.read(loaded); !status) return status;
    if (const Status status = check_program(loaded.program, table); !status) return status;
    if (const Status status = detail::check_golden(loaded.program, parts->constants, loaded.golden); !status)
        return status;
    return loaded;
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_LOAD_PROGRAM_HPP
