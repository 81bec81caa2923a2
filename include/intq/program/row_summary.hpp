// SPDX-License-Identifier: MIT
//
// The groups of a program that runs row by row, for reports. Layer: program (docs/rows.md).
#ifndef INTQ_PROGRAM_ROW_SUMMARY_HPP
#define INTQ_PROGRAM_ROW_SUMMARY_HPP

#include <string>
#include <vector>

#include "intq/runtime/program.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// A group of instructions that run row by row.
struct RowSummary {
    std::string first, last;  // names of its first and last layer
    index_t instructions = 0;
    index_t rings = 0, whole = 0;  // bytes of its rings, and of the same tensors of one image if they were whole
    index_t scratch = 0;           // bytes
    index_t least_rows = 0, most_rows = 0;  // that its instructions make at a time
    index_t steps = 0;                      // calls of operators, for one image
};

/// Of each group, in the order of the program.
std::vector<RowSummary> row_summaries(const runtime::Program& program);

/// A table with a row for each group; "" without groups.
std::string to_string(const std::vector<RowSummary>& groups);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>

#    include "intq/io/text_table.hpp"
#    include "intq/runtime/row_schedule.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<RowSummary> row_summaries(const runtime::Program& program) {
    std::vector<RowSummary> groups;
    for (const runtime::RowGroup& group : program.groups) {
        const auto of_group =
            program.instructions.subspan(static_cast<std::size_t>(group.first), static_cast<std::size_t>(group.count));
        RowSummary summary;
        summary.first = of_group.front().name;
        summary.last = of_group.back().name;
        summary.instructions = group.count;
        summary.scratch = group.workspace;
        summary.least_rows = of_group.front().rows;
        for (const runtime::Instruction& instruction : of_group) {
            const runtime::ProgramTensor& y = program.tensor(instruction.output);
            summary.least_rows = (std::min)(summary.least_rows, index_t{instruction.rows});
            summary.most_rows = (std::max)(summary.most_rows, index_t{instruction.rows});
            summary.steps += runtime::steps_of(program, instruction);
            if (y.ring <= 0) continue;
            summary.rings += y.arena_bytes();
            summary.whole += y.elements_per_image() * size_of(y.dtype);
        }
        groups.push_back(summary);
    }
    return groups;
}

INTQ_INLINE std::string to_string(const std::vector<RowSummary>& groups) {
    if (groups.empty()) return "";
    using io::Align;
    io::TextTable table({{"from"},
                         {"to"},
                         {"layers", Align::right},
                         {"rings", Align::right},
                         {"whole", Align::right},
                         {"scratch", Align::right},
                         {"rows", Align::right},
                         {"steps", Align::right}});
    for (const RowSummary& group : groups) {
        const std::string least = std::to_string(group.least_rows), most = std::to_string(group.most_rows);
        table.add_row({group.first, group.last, std::to_string(group.instructions), std::to_string(group.rings),
                       std::to_string(group.whole), std::to_string(group.scratch),
                       least == most ? most : least + " to " + most, std::to_string(group.steps)});
    }
    return "groups that run row by row, with bytes of rings in place of whole tensors\n" + table.str();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_ROW_SUMMARY_HPP
