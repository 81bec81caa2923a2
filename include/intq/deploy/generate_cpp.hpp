// SPDX-License-Identifier: MIT
//
// generate_cpp: a program as a C++ header of constants that calls the operators of the program and nothing else.
// Layer: deploy.
#ifndef INTQ_DEPLOY_GENERATE_CPP_HPP
#define INTQ_DEPLOY_GENERATE_CPP_HPP

#include <filesystem>
#include <string>

#include "intq/deploy/program_writer.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/program/row_plan.hpp"
#include "intq/runtime/program.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

struct GenerateOptions {
    std::string name = "model";  // the namespace of the generated code
    /// The C++ types of target and backend; empty: the table's, which must be the library's own.
    std::string target{};
    std::string backend{};
    /// A folder that holds intq/embedded.hpp: the library's text becomes part of the header. Empty: it is included.
    std::filesystem::path library{};
    program::RowOptions rows{program::RowMode::memory};  // of a program with groups, which is planned again
};

/// A header for a board, which needs only intq/embedded.hpp. In the namespace of the options it has
///
///     arena_bytes          bytes of static memory, in `arena`
///     run(x…, y…)          one image: a pointer for each input and each output, of their types. Where bounds of codes
///                          were stated, it returns false and writes no output if a tensor left them
///     self_test(bool)      whether the tables are whole; the checksum of the constants unless passed false; then
///                          the golden runs, and the first wrong layer
///     program, table       the arguments of a runtime::execute()
///     data::dropped        the channels that were dropped, if some were; `program` does not name them
///
/// Inputs of floats or pixels are read where the caller of run() has them; see header_program().
///
/// Constants are constexpr, so they stay in flash.
///
/// @param table   the kernels that the program was packed for
/// @param golden  of record_golden_runs(); without runs self_test() checks only the checksum
/// @throws Error  for a program that check_program() refuses or that holds more than one image, an invalid name,
///                and a target that the library does not have where its type is not named
///
/// Result   the same program produces the same text
std::string generate_cpp(const runtime::Program& program, const kernels::KernelTable& table,
                         const GoldenRecord& golden = {}, const GenerateOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include <cctype>
#    include <string_view>
#    include <vector>

#    include "intq/deploy/amalgamate.hpp"
#    include "intq/deploy/board_cpus.hpp"
#    include "intq/deploy/header_program.hpp"
#    include "intq/deploy/internal/cpp_run.hpp"
#    include "intq/deploy/internal/cpp_source.hpp"
#    include "intq/io/error.hpp"
#    include "intq/simd/base/backends.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::string tensor_source(SourceWriter& writer, const runtime::ProgramTensor& tensor) {
    std::string extents;
    for (int axis = 0; axis < tensor.shape.rank; ++axis)
        extents += (axis > 0 ? ", " : "") + std::to_string(tensor.shape[axis]);
    const QParams& q = tensor.qparams;
    // Sums and reals have wide ranges; a suffix keeps their type on every machine.
    const std::string range = std::to_string(q.quant_min()) + "ll, " + std::to_string(q.quant_max()) + "ll";
    std::string qparams;
    std::int32_t place = 0;
    if (q.is_per_channel()) {
        std::vector<float> scales;
        for (index_t c = 0; c < q.count(); ++c) scales.push_back(q.scale(c));
        const std::string name = writer.array(scales.data(), kernels::ParamType::float32, q.count());
        place = writer.place_of(name);
        qparams = "intq::QParams::per_channel(" + name + ", {}, " + std::to_string(q.axis()) + ", " + range + ")";
    } else {
        qparams = "intq::QParams::per_tensor(" + literal(q.scale()) + ", " + std::to_string(q.zero_point()) + ", " +
                  range + ")";
    }
    runtime::add_numbers(writer.sum(), tensor, place);
    return "    {intq::DType::" + std::string(name_of(tensor.dtype)) + ", intq::Shape(" + extents + "), " + qparams +
           ", " + std::to_string(tensor.offset) + ", \"\", intq::Layout::" + name_of(tensor.layout) +
           (tensor.ring != 0           ? ", false, " + std::to_string(tensor.ring)
            : tensor.has_stated_bounds ? ", true"
                                       : "") +
           "},\n";
}

/// @param name  the place of its name among the names
INTQ_INLINE std::string instruction_source(SourceWriter& writer, const runtime::Instruction& instruction,
                                           std::size_t index, std::size_t name) {
    runtime::add_numbers(writer.sum(), instruction, static_cast<index_t>(name));
    const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
    const index_t structs = runtime::param_structs(row, instruction.operand_count);
    const std::string params =
        structs == 0 ? "{}" : "{p" + std::to_string(index) + ", " + std::to_string(structs) + "}";
    return "    {intq::OpKind::" + std::string(name_of(instruction.op)) + ", " + std::to_string(instruction.rows) +
           ", " + std::to_string(instruction.output) + ", " + std::to_string(instruction.first_operand) + ", " +
           std::to_string(instruction.operand_count) + ", " + "names + " + std::to_string(name) + ", \"\", " + params +
           "},\n";
}

/// Keeps only the rows of a family that the program needs; their numbers.
template <class Row>
std::vector<std::size_t> needed_rows(const runtime::Program& program, kernels::KernelTable& table,
                                     std::span<const Row> kernels::KernelTable::*family) {
    std::vector<Row> kept((table.*family).begin(), (table.*family).end());
    const std::vector<Row> all = kept;
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < all.size(); ++i) {
        // The rows that are needed so far, and those that were not tried.
        std::vector<Row> tried;
        for (const std::size_t number : numbers) tried.push_back(all[number]);
        tried.insert(tried.end(), all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end());
        table.*family = tried;
        if (!runtime::check_program(program, table).ok()) numbers.push_back(i);
    }
    return numbers;
}

/// The kernel table of the header, with the rows that its program needs. A target's other members are for checking.
INTQ_INLINE std::string table_source(const runtime::Program& program, const kernels::KernelTable& table,
                                     const std::string& target) {
    std::string arrays, members;
    kernels::for_each_family([&]<class Row>(const char* name, std::span<const Row> kernels::KernelTable::*family) {
        kernels::KernelTable changed = table;
        const std::vector<std::size_t> numbers = needed_rows(program, changed, family);
        if (numbers.empty()) return;
        const std::string path = std::string("all.") + name;
        // Not std::array without its arguments: g++ puts such a constant into RAM.
        arrays += "inline constexpr decltype(" + path + ")::value_type " + name + "_rows[] = {";
        for (std::size_t i = 0; i < numbers.size(); ++i)
            arrays += (i > 0 ? ", " : "") + path + "[" + std::to_string(numbers[i]) + "]";
        arrays += "};\n";
        members += "    t." + std::string(name) + " = " + name + "_rows;\n";
    });
    return arrays + "inline constexpr intq::arith::PolicyRecord policy = [] {\n    auto p = " + target +
           "::policy;\n    p.constraints = {};\n    p.fixed_outputs = {};\n    return p;\n}();\n"
           "inline constexpr intq::kernels::KernelTable table = [] {\n    intq::kernels::KernelTable t{};\n"
           "    t.backend = all.backend;\n    t.packing = all.packing;\n    t.packing.policy = &policy;\n    t.stage = "
           "all.stage;\n" +
           members + "    return t;\n}();\n";
}

/// What a compiler says whose flags do not allow the kernels that a program is packed for; empty for those that every
/// compiler has, and those that are not the library's.
INTQ_INLINE std::string backend_check_source(const kernels::KernelTable& table, const std::string& backend) {
    const simd::BackendRow* const row = simd::find_backend(table.backend);
    if (row == nullptr || std::string_view(row->architecture) == "any" ||
        backend != std::string("intq::simd::") + row->name)
        return "";
    std::string flags = row->flags;
    for (const BoardCpu& cpu : board_cpus)
        if (std::string_view(cpu.backend) == row->name)
            flags += (flags.empty() ? "" : ", or ") + std::string(cpu.flags);
    return "static_assert(intq::simd::is_usable<" + backend +
           ">,\n              \"this header is packed for the "
           "kernels of " +
           row->name + ", which the compiler's flags do not allow: compile with " + flags +
           ", or generate it for this CPU, intq codegen --cpu or --backend\");\n\n";
}

INTQ_INLINE std::string index_list(const char* name, std::span<const std::int32_t> list) {
    std::string text = "inline constexpr std::int32_t " + std::string(name) + "[] = {";
    for (std::size_t i = 0; i < list.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(list[i]);
    return text + "};\n";
}

/// The groups that run row by row; empty where there are none.
INTQ_INLINE std::string groups_source(const runtime::Program& program) {
    if (program.groups.empty()) return "";
    std::string text = "inline constexpr intq::runtime::RowGroup groups[] = {";
    for (const runtime::RowGroup& group : program.groups)
        text += std::string(&group == program.groups.data() ? "" : ", ") + "{" + std::to_string(group.first) + ", " +
                std::to_string(group.count) + ", " + std::to_string(group.workspace) + "}";
    return text + "};\n";
}

/// The inputs and outputs that are state; empty where there are none.
INTQ_INLINE std::string states_source(const runtime::Program& program) {
    if (program.states.empty()) return "";
    std::string text = "inline constexpr intq::runtime::StatePair states[] = {";
    for (const runtime::StatePair& state : program.states)
        text += std::string(&state == program.states.data() ? "" : ", ") + "{" + std::to_string(state.input) + ", " +
                std::to_string(state.output) + "}";
    return text + "};\n";
}

INTQ_INLINE std::string program_source(const runtime::Program& program) {
    const auto number = [](const char* name, index_t value) {
        return "    ." + std::string(name) + " = " + std::to_string(value) + ",\n";
    };
    return "inline constexpr intq::runtime::Program program{\n    .instructions = data::instructions,\n"
           "    .tensors = data::tensors,\n    .operands = data::operands,\n    .inputs = data::inputs,\n"
           "    .outputs = data::outputs,\n" +
           number("workspace_offset", program.workspace_offset) + number("workspace_size", program.workspace_size) +
           number("arena_size", program.arena_size) + number("max_batch", program.max_batch) +
           (program.groups.empty() ? "" : "    .groups = data::groups,\n") +
           (program.states.empty() ? "" : "    .states = data::states,\n") + "};\n";
}

INTQ_INLINE std::string golden_source(const GoldenRecord& golden) {
    const runtime::GoldenRuns view = golden.view();
    if (view.runs() == 0) return "inline constexpr intq::runtime::GoldenRuns golden{};\n";
    const auto bytes = static_cast<index_t>(golden.inputs.size());
    const std::string images = bytes == 0 ? ""
                                          : "alignas(8) inline constexpr std::uint8_t golden_bytes[] = " +
                                                list_of(golden.inputs.data(), kernels::ParamType::uint8, bytes) + ";\n";
    return images + "inline constexpr std::uint32_t golden_checks[] = " +
           list_of(golden.checks.data(), kernels::ParamType::uint32, static_cast<index_t>(golden.checks.size())) +
           ";\n/// A function, because a cast from bytes to numbers is not a constant expression.\n"
           "inline intq::runtime::GoldenRuns golden() noexcept {\n    return {" +
           std::to_string(golden.count) + ", " +
           (bytes == 0 ? "nullptr" : "reinterpret_cast<const std::byte*>(golden_bytes)") +
           ", nullptr, golden_checks, " + std::to_string(view.input_bytes) + ", 0, " + std::to_string(golden.patterns) +
           "};\n}\n";
}

INTQ_INLINE std::string self_test_source(SourceWriter& writer, const GoldenRecord& golden,
                                         const runtime::Program& program) {
    const bool has_groups = !program.groups.empty(), has_states = !program.states.empty();
    return "namespace data {\n\ninline bool tables_are_whole() noexcept {\n"
           "    intq::runtime::generated::TableReader reader(arrays);\n    reader.params<" +
           writer.types() +
           ">(instructions, structs);\n"
           "    reader.program(program, {instructions, tensors, operands, inputs, outputs" +
           (has_groups   ? ", groups"
            : has_states ? ", {}"
                         : "") +
           (has_states ? ", states" : "") +
           "}, names);\n"
           "    return reader.holds(" +
           std::to_string(writer.sum_of_tables()) +
           "u);\n}\n\n}  // namespace data\n\n"
           "/// Whether tables and constants are whole, and every layer computes its golden codes.\n"
           "inline intq::runtime::SelfTestResult self_test(bool checks_constants = true) noexcept {\n"
           "    if (!data::tables_are_whole()) return {.tables_are_whole = false, .layer = \"tables\"};\n"
           "    if (checks_constants && intq::runtime::generated::checksum_of(data::arrays) != " +
           std::to_string(writer.checksum()) +
           "u) return {.constants_are_whole = false};\n    const void* given[std::size(data::inputs)] = {};\n"
           "    return intq::runtime::generated::self_test" +
           (has_groups ? std::string("<true>") : "") + "(program, " +
           (golden.view().runs() > 0 ? "data::golden()" : "data::golden") + ", arena, given, &data::run_all);\n}\n\n";
}

/// The words that C++20 reserves.
/// Source   C++20 [lex.key], [lex.operators]
inline constexpr std::string_view cpp_keywords[] = {
    "alignas",     "alignof",  "and",        "and_eq",    "asm",       "auto",         "bitand",
    "bitor",       "bool",     "break",      "case",      "catch",     "char",         "char16_t",
    "char32_t",    "char8_t",  "class",      "co_await",  "co_return", "co_yield",     "compl",
    "concept",     "const",    "const_cast", "consteval", "constexpr", "constinit",    "continue",
    "decltype",    "default",  "delete",     "do",        "double",    "dynamic_cast", "else",
    "enum",        "explicit", "export",     "extern",    "false",     "float",        "for",
    "friend",      "goto",     "if",         "inline",    "int",       "long",         "mutable",
    "namespace",   "new",      "noexcept",   "not",       "not_eq",    "nullptr",      "operator",
    "or",          "or_eq",    "private",    "protected", "public",    "register",     "reinterpret_cast",
    "requires",    "return",   "short",      "signed",    "sizeof",    "static",       "static_assert",
    "static_cast", "struct",   "switch",     "template",  "this",      "thread_local", "throw",
    "true",        "try",      "typedef",    "typeid",    "typename",  "union",        "unsigned",
    "using",       "virtual",  "void",       "volatile",  "wchar_t",   "while",        "xor",
    "xor_eq"};

/// Whether a name can be a user's namespace.
INTQ_INLINE bool is_identifier(std::string_view name) {
    // Beside keywords: names and macros that a program or the C library has at that place.
    for (const std::string_view taken : {"std", "intq", "main", "errno", "NULL", "EOF", "stdin", "stdout", "stderr",
                                         "assert", "linux", "unix", "INTQ"})
        if (name == taken) return false;
    for (const std::string_view keyword : cpp_keywords)
        if (name == keyword) return false;
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
    // Reserved to the compiler.
    if (name.find("__") != std::string_view::npos) return false;
    if (name.size() > 1 && name[0] == '_' && std::isupper(static_cast<unsigned char>(name[1])) != 0) return false;
    for (const char c : name)
        if (c != '_' && std::isalnum(static_cast<unsigned char>(c)) == 0) return false;
    return true;
}

}  // namespace detail

INTQ_INLINE std::string generate_cpp(const runtime::Program& packed, const kernels::KernelTable& table,
                                     const GoldenRecord& golden, const GenerateOptions& options) {
    throw_if_failed(runtime::check_program(packed, table), "the program to generate");
    if (packed.max_batch != 1)
        throw Error("a header is generated for one image; lower the model with a max_batch of 1, given " +
                    std::to_string(packed.max_batch));
    if (!detail::is_identifier(options.name)) throw Error("'" + options.name + "' is no name of a namespace");
    detail::FileParts unused;
    detail::put_golden(unused, packed, table, golden);  // refuses those of another program
    const HeaderProgram placed = header_program(packed, table, golden, options.rows);
    const runtime::Program& program = placed.program;
    throw_if_failed(runtime::check_program(program, table), "the program of the header");
    const std::string target = options.target.empty() ? detail::type_of_target(table.policy()) : options.target;
    const std::string backend = options.backend.empty() ? "intq::simd::" + std::string(table.backend) : options.backend;

    const std::string check = detail::backend_check_source(table, backend);

    detail::SourceWriter writer(table);
    std::string tensors, instructions, names;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) writer.params(i, program.instructions[i]);
    for (const runtime::ProgramTensor& tensor : program.tensors) tensors += detail::tensor_source(writer, tensor);
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        instructions += detail::instruction_source(writer, program.instructions[i], i, names.size());
        names += std::string(program.instructions[i].name) + '\0';
    }
    writer.names(names);
    runtime::add_numbers(writer.sum(), program);

    std::string guard = "INTQ_GENERATED_" + options.name;
    for (char& c : guard) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const std::string library =
        options.library.empty() ? "#include \"intq/embedded.hpp\"\n" : amalgamate("intq/embedded.hpp", options.library);
    std::string text = "// A model as constants, for " + target + " on " + backend +
                       ". Generated by intq: do not edit.\n#ifndef " + guard + "\n#define " + guard +
                       "\n\n#include <cstddef>\n#include <cstdint>\n#include <cstring>\n\n" + library + "\n" + check +
                       "namespace " + options.name + " {\nnamespace data {\n\n" + writer.text() +
                       "\ninline constexpr intq::runtime::ProgramTensor tensors[] = {\n" + tensors +
                       "};\ninline constexpr intq::runtime::Instruction instructions[] = {\n" + instructions + "};\n" +
                       detail::index_list("operands", program.operands) + detail::index_list("inputs", program.inputs) +
                       detail::index_list("outputs", program.outputs) + detail::groups_source(program) +
                       detail::states_source(program) + detail::dropped_source(program) +
                       "\ninline constexpr const intq::kernels::KernelTable& all = intq::kernels::kernel_table<" +
                       target + ", " + (check.empty() ? backend : "intq::simd::usable_or_scalar<" + backend + ">") +
                       ">;\n" + detail::table_source(program, table, target) + "\n" + detail::golden_source(golden) +
                       "inline constexpr intq::runtime::ConstantArray arrays[] = {\n" + writer.arrays() +
                       "};\ninline constexpr intq::runtime::ConstantArray structs[] = {\n" + writer.structs() + "};\n";
    text += "\n}  // namespace data\n\n" + detail::program_source(program) +
            "\ninline constexpr std::size_t arena_bytes = " + std::to_string(program.arena_size) +
            ";\nalignas(intq::buffer_alignment) inline std::byte arena[arena_bytes];\n\n" +
            detail::run_source(program) + detail::self_test_source(writer, golden, program) + "}  // namespace " +
            options.name + "\n\n#endif  // " + guard + "\n";
    return text;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)
#endif  // INTQ_DEPLOY_GENERATE_CPP_HPP
