// SPDX-License-Identifier: MIT
//
// memory_report: the contents of a program's arena over time, as text and as a drawing. Layer: deploy.
#ifndef INTQ_DEPLOY_MEMORY_REPORT_HPP
#define INTQ_DEPLOY_MEMORY_REPORT_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "intq/kernels/table/rows.hpp"
#include "intq/runtime/program.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

/// Bytes of the arena that one tensor or the scratch holds.
struct ArenaOccupant {
    std::string name;  // of the layer that writes it; of a ring, "3 rows of <name>"
    index_t bytes = 0;
    index_t offset = 0;
    std::int32_t first = 0;  // the instructions during which it lives; -1 for an input
    std::int32_t last = 0;
    bool is_scratch = false;
};

/// The parts of an arena.
struct MemoryReport {
    index_t arena = 0;        // bytes
    index_t lower_bound = 0;  // bytes that the instruction of the peak needs, without any padding
    std::int32_t peak = 0;    // the first instruction that needs the most; -1 before the first, their number behind
    std::string peak_name;
    std::vector<std::string> instructions;  // their names
    std::vector<ArenaOccupant> occupants;   // in the order of the program, the scratch of each instruction last

    /// Occupants of an instruction, the largest first.
    std::vector<ArenaOccupant> at(std::int32_t instruction) const;
    /// A few lines: the arena, its bound, and the occupants at the peak.
    std::string to_text() const;
    /// A drawing: instructions from left to right, bytes from bottom to top, a rectangle for each occupant.
    std::string to_svg() const;
};

/// @param program  as it runs: of a generated header that of header_program()
/// @param table    the kernels that run the program, which know the scratch of an instruction
/// @pre  check_program() is ok
MemoryReport memory_report(const runtime::Program& program, const kernels::KernelTable& table);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include <algorithm>
#    include <string_view>

#    include "intq/io/describe.hpp"
#    include "intq/io/sort_stably.hpp"
#    include "intq/program/lifetimes.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Text inside a drawing, whose bytes must be UTF-8.
INTQ_INLINE std::string svg_text(std::string_view text) {
    std::string result;
    for (const char c : printable(text)) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    return result;
}

INTQ_INLINE std::string svg_rectangle(const ArenaOccupant& occupant, double step, double byte, double height,
                                      bool is_at_peak) {
    // Tenths, without a locale.
    const auto number = [](double value) {
        const auto tenths = static_cast<std::int64_t>(value * 10 + 0.5);
        return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
    };
    const double x = (occupant.first + 1) * step, wide = (occupant.last - occupant.first + 1) * step;
    const double tall = static_cast<double>(occupant.bytes) * byte,
                 y = height - static_cast<double>(occupant.offset) * byte - tall;
    const char* const fill = occupant.is_scratch ? "#d9d9d9" : is_at_peak ? "#e6a15c" : "#8fb4d9";
    return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(wide) + "\" height=\"" +
           number(tall) + "\" fill=\"" + fill + "\" stroke=\"#333333\"><title>" + svg_text(occupant.name) + ": " +
           std::to_string(occupant.bytes) + " bytes at " + std::to_string(occupant.offset) + "</title></rect>\n";
}

}  // namespace detail

INTQ_INLINE MemoryReport memory_report(const runtime::Program& program, const kernels::KernelTable& table) {
    const program::ProgramLifetimes lives = program::lifetimes_of(program, table);
    MemoryReport report;
    report.arena = program.arena_size;
    report.lower_bound = program::lower_bound_of(lives, 1);
    const auto end = static_cast<std::int32_t>(program.instructions.size());
    report.peak = -1;
    while (report.peak < end && program::needed_at(lives, report.peak, 1) < report.lower_bound) ++report.peak;
    for (const runtime::Instruction& instruction : program.instructions)
        report.instructions.push_back(instruction.name[0] != 0 ? instruction.name : name_of(instruction.op));
    const bool is_instruction = report.peak >= 0 && report.peak < end;
    report.peak_name = is_instruction    ? report.instructions[static_cast<std::size_t>(report.peak)]
                       : report.peak < 0 ? "the inputs"
                                         : "the outputs";
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
        const runtime::ProgramTensor& tensor = program.tensors[i];
        const runtime::Lifetime& life = lives.tensors[i];
        if (life.last < life.first || tensor.is_given()) continue;
        std::string name = tensor.name[0] != 0 ? tensor.name : "tensor " + std::to_string(i);
        if (tensor.ring > 0) name = std::to_string(tensor.ring) + (tensor.ring == 1 ? " row of " : " rows of ") + name;
        if (tensor.holds_sums()) name = "sums of " + name;
        report.occupants.push_back({name, life.bytes, tensor.offset, life.first, life.last, false});
    }
    for (std::int32_t i = 0; i < end; ++i)
        if (const index_t bytes = lives.workspaces[static_cast<std::size_t>(i)]; bytes > 0)
            report.occupants.push_back({"scratch of " + report.instructions[static_cast<std::size_t>(i)], bytes,
                                        program.workspace_offset, i, i, true});
    return report;
}

INTQ_INLINE std::vector<ArenaOccupant> MemoryReport::at(std::int32_t instruction) const {
    std::vector<ArenaOccupant> result;
    for (const ArenaOccupant& occupant : occupants)
        if (occupant.first <= instruction && instruction <= occupant.last) result.push_back(occupant);
    io::sort_stably(result, [](const ArenaOccupant& a, const ArenaOccupant& b) { return a.bytes > b.bytes; });
    return result;
}

INTQ_INLINE std::string MemoryReport::to_text() const {
    std::string text = "arena        " + std::to_string(arena) + " bytes\nlower bound  " + std::to_string(lower_bound) +
                       " bytes, at " + printable(peak_name) + "\n";
    for (const ArenaOccupant& occupant : at(peak))
        text += "    " + std::to_string(occupant.bytes) + " bytes at " + std::to_string(occupant.offset) + ": " +
                printable(occupant.name) + "\n";
    return text;
}

INTQ_INLINE std::string MemoryReport::to_svg() const {
    constexpr double width = 960, height = 480;
    const double step = width / static_cast<double>(instructions.size() + 2),
                 byte = height / static_cast<double>((std::max)(arena, index_t{1}));
    std::string svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 500\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<text x=\"4\" y=\"496\">" +
        std::to_string(arena) + " bytes; at least " + std::to_string(lower_bound) + " at " +
        detail::svg_text(peak_name) + "</text>\n";
    for (const ArenaOccupant& occupant : occupants)
        svg += detail::svg_rectangle(occupant, step, byte, height, occupant.first <= peak && peak <= occupant.last);
    return svg + "</svg>\n";
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)
#endif  // INTQ_DEPLOY_MEMORY_REPORT_HPP
