// SPDX-License-Identifier: MIT
//
// The innermost loops of the hot kernels, in their disassembly: no vector register goes to the stack there, and the
// number of instructions stays within 2 % of the recorded one.
//
//   check_hot_loops <recorded> --object <file> <objdump>
//   check_hot_loops <recorded> --text <disassembly>
//   check_hot_loops <recorded> --wasm <assembly>
//
// Of WebAssembly, whose instructions have no registers, instructions of vectors count alone, and a vector that is
// stored in such a loop is one on the stack.
//
// A line of <recorded>: what is summed (an instruction), how many of it, all instructions, a regex of the symbol.
#include <cxxabi.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>

#include "structure/process.hpp"

namespace {

struct Instruction {
    std::uint64_t address = 0;
    std::string name;
    std::optional<std::uint64_t> target = {};  // of a jump
    bool counts = true, spills = false;
};
using Functions = std::map<std::string, std::vector<Instruction>>;

Instruction parse(const std::smatch& match) {
    static const std::regex target(R"(^([0-9a-f]+) <)"), stack(R"(\(%r[sb]p)"), vector(R"(%[xyz]mm)");
    const std::string operands = match[3];
    Instruction parsed{std::stoull(match[1], nullptr, 16), match[2]};
    std::smatch to;
    if (parsed.name.starts_with('j') && std::regex_search(operands, to, target))
        parsed.target = std::stoull(to[1], nullptr, 16);
    parsed.spills = std::regex_search(operands, stack) && std::regex_search(operands, vector);
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

std::string demangled(const std::string& symbol) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                      std::free);
    return status == 0 ? name.get() : symbol;
}

/// The end of a loop is a jump to its begin.
Functions parse_wasm(const std::string& text) {
    static const std::regex head(R"(^([A-Za-z_][\w.$]*):.*$)"), body(R"(^\s+([a-z]\S*).*$)"),
        vector(R"(^(v128|[if](8|16|32|64)x(16|8|4|2))\..*$)");
    Functions functions;
    std::vector<Instruction>* current = nullptr;
    std::vector<std::uint64_t> loops;  // that are open
    std::istringstream lines(text);
    std::smatch match;
    std::uint64_t address = 0;
    for (std::string line; std::getline(lines, line); ++address) {
        if (std::regex_match(line, match, head)) {
            current = &functions[demangled(match[1])];
        } else if (current != nullptr && std::regex_match(line, match, body)) {
            Instruction parsed{address, match[1]};
            if (parsed.name == "loop") loops.push_back(address);
            if (parsed.name == "end_loop") parsed.target = loops.back(), loops.pop_back();
            parsed.counts = std::regex_match(parsed.name, vector);
            parsed.spills = parsed.name.starts_with("v128.store");
            current->push_back(parsed);
        }
    }
    return functions;
}

struct Loop {
    std::uint64_t first = 0, last = 0;
    int sums = 0, instructions = 0, spills = 0;
};

/// What stands between the target of a backward jump and the jump.
Loop measure(const std::vector<Instruction>& code, std::uint64_t first, std::uint64_t last, const std::string& sum) {
    Loop loop{first, last};
    for (const Instruction& i : code) {
        if (i.address < first || i.address > last) continue;
        loop.instructions += i.counts;
        loop.sums += i.name == sum;
        loop.spills += i.spills;
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
    const std::string kind = words.size() < 3 ? "" : words[1];
    std::string text;
    if (words.size() == 4 && kind == "--object") {
        const intq::test::Outcome run =
            intq::test::run({words[3], "--disassemble", "--demangle", "--no-show-raw-insn", words[2]});
        if (run.status != 0) throw std::runtime_error(run.output);
        text = run.output;
    } else if (words.size() == 3 && (kind == "--text" || kind == "--wasm")) {
        for (const std::string& line : intq::test::read_lines(words[2])) text += line + '\n';
    } else {
        throw std::runtime_error(
            "usage: check_hot_loops <recorded> --object <file> <objdump> | --text <disassembly> | --wasm <assembly>");
    }
    const Functions functions = kind == "--wasm" ? parse_wasm(text) : parse_disassembly(text);
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
