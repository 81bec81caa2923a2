// SPDX-License-Identifier: MIT
//
// The functions of a generated header that run its model, as C++. Layer: deploy.
#ifndef INTQ_DEPLOY_INTERNAL_CPP_RUN_HPP
#define INTQ_DEPLOY_INTERNAL_CPP_RUN_HPP

#include <cstddef>
#include <cstdint>
#include <string>

#include "intq/deploy/internal/cpp_source.hpp"
#include "intq/runtime/program.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// run() of a program, with what it calls: data::run_all(), and data::run_within_bounds() where bounds were stated.
std::string run_source(const runtime::Program& program);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include "intq/io/describe.hpp"
#    include "intq/runtime/self_test.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// The contents of an argument of run(): its name in the program, its elements and, for images, their order.
INTQ_INLINE std::string describe_argument(const std::string& argument, const runtime::ProgramTensor& tensor) {
    // In quotes, so that no name ends the line with a backslash.
    std::string text = "/// @param " + argument + "  " + in_quotes(tensor.name) + ": ";
    const bool is_row_major = tensor.layout == Layout::row_major || tensor.shape.rank < 3;
    for (int axis = 1; axis < tensor.shape.rank; ++axis) {
        // Channels last: axis 1 comes behind the others.
        const int at = is_row_major ? axis : axis + 1 < tensor.shape.rank ? axis + 1 : 1;
        text += (axis > 1 ? " x " : "") + std::to_string(tensor.shape[at]);
    }
    if (tensor.shape.rank > 2 && tensor.shape[1] == 1) return text + ", one channel\n";
    if (tensor.shape.rank == 4)
        text += is_row_major ? ", planes: (C, H, W)" : ", pixels with their channels: (H, W, C)";
    if (tensor.shape.rank == 3) text += is_row_major ? ", (C, L)" : ", (L, C)";
    return text + "\n";
}

/// The statements that run an instruction, or the group that begins with it.
///
/// @param hook  the name of the hook, or empty
INTQ_INLINE std::string step_source(const runtime::Program& program, std::size_t index, const std::string& hook) {
    const runtime::Instruction& instruction = program.instructions[index];
    if (instruction.rows > 0) {
        const runtime::RowGroup* const group = program.group_of(static_cast<std::int32_t>(index));
        return "    intq::runtime::generated::run_rows<program, table, " +
               std::to_string(group - program.groups.data()) + ">(arena, given, " + (hook.empty() ? "{}" : hook) +
               ");  // instructions " + std::to_string(group->first) + " to " + std::to_string(group->last()) + "\n";
    }
    const std::string number = std::to_string(index);
    return "    intq::runtime::generated::run_step<program, table, " + number + ">(arena" +
           (runtime::reads_given(program, instruction) ? ", given" : "") + ");" +
           (hook.empty() ? ""
                         : std::string("  // ") + name_of(instruction.op) + "\n    " + hook + "(" + number + ");") +
           "\n";
}

/// The instruction behind the statements of one.
INTQ_INLINE std::size_t behind_step(const runtime::Program& program, std::size_t index) {
    if (program.instructions[index].rows == 0) return index + 1;
    return static_cast<std::size_t>(program.group_of(static_cast<std::int32_t>(index))->last() + 1);
}

/// data::run_within_bounds(), of a program for whose tensors bounds were stated; empty for others.
INTQ_INLINE std::string bounded_run_source(const runtime::Program& program) {
    bool is_bounded = false;
    std::string steps;
    const auto compare = [&](std::int32_t tensor) {
        if (!program.tensor(tensor).has_stated_bounds) return;
        is_bounded = true;
        steps +=
            "    if (!intq::runtime::check_bounds(program, arena, " + std::to_string(tensor) + ", 1)) return false;\n";
    };
    for (const std::int32_t input : program.inputs) compare(input);
    for (std::size_t i = 0; i < program.instructions.size();) {
        steps += step_source(program, i, "");
        for (const std::size_t end = behind_step(program, i); i < end; ++i) compare(program.instructions[i].output);
    }
    if (!is_bounded) return "";
    return "\n/// Stops where a tensor leaves the bounds that were stated for it.\n"
           "inline bool run_within_bounds([[maybe_unused]] const void* const* given) noexcept {\n" +
           steps + "    return true;\n}\n";
}

INTQ_INLINE std::string run_source(const runtime::Program& program) {
    std::string steps, arguments, descriptions, inputs, before, after;
    const std::string bounded = bounded_run_source(program);
    for (std::size_t i = 0; i < program.instructions.size(); i = behind_step(program, i))
        steps += step_source(program, i, "after");
    const auto copy = [&](char letter, std::size_t i, std::int32_t index) {
        const runtime::ProgramTensor& tensor = program.tensor(index);
        const std::string name = letter + std::to_string(i), place = "arena + " + std::to_string(tensor.offset);
        const bool is_input = letter == 'x';
        if (program.is_state(index)) {  // it stays in the arena
            if (is_input) inputs += inputs.empty() ? "nullptr" : ", nullptr";
            return;
        }
        descriptions += describe_argument(name, tensor);
        arguments += (arguments.empty() ? "" : ", ") + std::string(is_input ? "const " : "") + type_of(tensor.dtype) +
                     "* " + name;
        if (is_input) inputs += (inputs.empty() ? "" : ", ") + name;
        if (tensor.is_given()) return;
        (is_input ? before : after) += "    std::memcpy(" + (is_input ? place + ", " + name : name + ", " + place) +
                                       ", " + std::to_string(tensor.bytes()) + ");\n";
    };
    for (std::size_t i = 0; i < program.inputs.size(); ++i) copy('x', i, program.inputs[i]);
    for (std::size_t i = 0; i < program.outputs.size(); ++i) copy('y', i, program.outputs[i]);
    before = "    const void* const given[] = {" + inputs + "};\n" + before;
    const std::string reset =
        program.states.empty()
            ? ""
            : "/// Begins a new sequence: before the first run, and behind self_test(). Between runs "
              "state stays in the arena.\ninline void reset() noexcept {\n    "
              "intq::runtime::reset_states(program, arena);\n}\n\n";
    return "namespace data {\n\n/// @param given  for each input, where its caller has it\ninline void "
           "run_all([[maybe_unused]] "
           "const void* const* given, const intq::runtime::StepHook& after) noexcept {\n" +
           steps + "}\n" + bounded + "\n}  // namespace data\n\n" + reset +
           "/// Runs one sample. One thread at a time, because the arena is one.\n///\n" + descriptions +
           (bounded.empty()
                ? "inline void run(" + arguments + ") noexcept {\n" + before + "    data::run_all(given, {});\n" +
                      after + "}\n\n"
                : "/// @return whether all codes kept the bounds that were stated for them; if not, no output is "
                  "written\n[[nodiscard]] inline bool run(" +
                      arguments + ") noexcept {\n" + before +
                      "    if (!data::run_within_bounds(given)) return false;\n" + after + "    return true;\n}\n\n");
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)
#endif  // INTQ_DEPLOY_INTERNAL_CPP_RUN_HPP
