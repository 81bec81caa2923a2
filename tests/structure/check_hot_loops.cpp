// SPDX-License-Identifier: MIT
//
// The innermost loops of the hot kernels, in their disassembly: no vector register goes to the stack there, and the
// number of instructions stays within 2 % of the recorded one.
//
//   check_hot_loops <recorded> --object <file> <objdump>
//   check_hot_loops <recorded> --text <disassembly>
//
// A line of <recorded>: what is summed (an instruction), how many of it, all instructions, a regex of the symbol.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <regex>
#include <sstream>

#include "structure/process.hpp"

namespace {

struct Instruction {
    std::uint64_t address = 0;
    std::string name, operands;
    std::optional<std::uint64_t> target;  // of a jump
};
using Functions = std::map<std::string, std::vector<Instruction>>;

Instruction parse(const std::smatch& match) {
    Instruction parsed{std::stoull(match[1], nullptr, 16), match[2], match[3], std::nullopt};
    static const std::regex target(R"(^([0-9a-f]+) <)");
    std::smatch to;
    if (parsed.name.starts_with('j') && std::regex_search(parsed.operands, to, target))
        parsed.target = std::stoull(to[1], nullptr, 16);
    return parsed;
}

Functions parse_disassembly(const std::string& text) {
    static const std::regex head(R"(^[0-9a-f]+ <(.*)>:$)"), body(R"(^ *([0-9a-f]+):\s+(\S+)\s*(.*)$)");
    Functions functions;
    std::vector<Instruction>* current = nullptr;
    std::istringstream lines(text);
    std::smatch match;
    for (std::string line; std::getline(lines, line);) {
        if (std::regex_match(line, match, head))
            current = &functions[match[1]];
        else if (current != nullptr && std::regex_match(line, match, body))
            current->push_back(parse(match));
    }
    return functions;
}

struct Loop {
    std::uint64_t first = 0, last = 0;
    int sums = 0, instructions = 0, spills = 0;
};

/// What stands between the target of a backward jump and the jump.
Loop measure(const std::vector<Instruction>& code, std::uint64_t first, std::uint64_t last, const std::string& sum) {
    static const std::regex stack(R"(\(%r[sb]p)"), vector(R"(%[xyz]mm)");
    Loop loop{first, last};
    for (const Instruction& i : code) {
        if (i.address < first || i.address > last) continue;
        ++loop.instructions;
        loop.sums += i.name == sum;
        loop.spills += std::regex_search(i.operands, stack) && std::regex_search(i.operands, vector);
    }
    return loop;
}

/// The innermost loop with the most sums.
Loop hottest_loop(const std::vector<Instruction>& code, const std::string& sum) {
    std::vector<Loop> loops;
    for (const Instruction& i : code)
        if (i.target && *i.target <= i.address && *i.target >= code.front().address)
            loops.push_back(measure(code, *i.target, i.address, sum));
    Loop hottest;
    for (const Loop& loop : loops) {
        bool is_innermost = true;
        for (const Loop& other : loops)
            if (other.first >= loop.first && other.last <= loop.last &&
                (other.first != loop.first || other.last != loop.last))
                is_innermost = false;
        if (is_innermost && loop.sums > hottest.sums) hottest = loop;
    }
    return hottest;
}

/// Faults of one recorded line.
int check_line(const std::string& line, const Functions& functions) {
    std::istringstream words(line);
    std::string sum, pattern;
    int sums = 0, instructions = 0;
    if (!(words >> sum >> sums >> instructions) || !std::getline(words >> std::ws, pattern))
        throw std::runtime_error("not a recorded loop: " + line);
    const std::regex symbol(pattern);
    int found = 0, faults = 0;
    for (const auto& [name, code] : functions) {
        if (code.empty() || !std::regex_search(name, symbol)) continue;
        ++found;
        const Loop loop = hottest_loop(code, sum);
        const bool differs = loop.sums != sums || std::abs(loop.instructions - instructions) * 50 > instructions;
        if (!differs && loop.spills == 0) continue;
        ++faults;
        std::printf("%s\n    %d %s in %d instructions, %d of them vectors on the stack; recorded: %d in %d\n",
                    pattern.c_str(), loop.sums, sum.c_str(), loop.instructions, loop.spills, sums, instructions);
    }
    if (found > 0) return faults;
    std::printf("%s\n    no such symbol\n", pattern.c_str());
    return 1;
}

}  // namespace

int main(int argc, char** argv) try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    std::string text;
    if (words.size() == 4 && words[1] == "--object") {
        const intq::test::Outcome run =
            intq::test::run({words[3], "--disassemble", "--demangle", "--no-show-raw-insn", words[2]});
        if (run.status != 0) throw std::runtime_error(run.output);
        text = run.output;
    } else if (words.size() == 3 && words[1] == "--text") {
        for (const std::string& line : intq::test::read_lines(words[2])) text += line + '\n';
    } else {
        throw std::runtime_error("usage: check_hot_loops <recorded> --object <file> <objdump> | --text <disassembly>");
    }
    const Functions functions = parse_disassembly(text);
    int checked = 0, faults = 0;
    for (const std::string& line : intq::test::read_lines(words[0])) {
        if (line.empty() || line[0] == '#') continue;
        faults += check_line(line, functions);
        ++checked;
    }
    std::printf("%d loops checked, %d faults\n", checked, faults);
    return faults == 0 && checked > 0 ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "check_hot_loops: %s\n", error.what());
    return 2;
}
