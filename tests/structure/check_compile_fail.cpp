// SPDX-License-Identifier: MIT
//
// Compiles one source without and with each of its misuses.
//
//     check_compile_fail <source> -- <compiler> <flag>...
//
// The source holds `#if INTQ_MISUSE == k` around misuse k = 1, 2, ... and a comment `// expect(k): regex` for each. It
// must compile with INTQ_MISUSE = 0, and with each k fail with a message in which the regex is found.
#include <iostream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "structure/process.hpp"

namespace {

int faults = 0;

void fault(const std::string& sentence, const std::string& output = "") {
    ++faults;
    std::cout << sentence << '\n';
    if (!output.empty()) std::cout << intq::test::first_lines(output, 25) << '\n';
}

// The regex of each misuse; a misuse without one, or the reverse, is a fault.
std::map<int, std::string> read_expectations(const std::string& source) {
    std::map<int, std::string> expected;
    std::set<int> written;
    static const std::regex expect_line(R"(\s*// expect\((\d+)\): (.+))");
    static const std::regex misuse_line(R"(\s*#\s*(?:el)?if INTQ_MISUSE == (\d+).*)");
    for (const std::string& line : intq::test::read_lines(source)) {
        std::smatch match;
        if (std::regex_match(line, match, expect_line)) expected[std::stoi(match[1])] = match[2];
        if (std::regex_match(line, match, misuse_line)) written.insert(std::stoi(match[1]));
    }
    for (const int k : written)
        if (expected.count(k) == 0) fault("misuse " + std::to_string(k) + " has no line `// expect(k): regex`");
    for (const auto& [k, pattern] : expected)
        if (written.count(k) == 0) fault("expect(" + std::to_string(k) + ") has no `#if INTQ_MISUSE == k`");
    if (expected.empty()) fault("no misuse in " + source);
    return expected;
}

intq::test::Outcome compile(const std::string& source, std::vector<std::string> command, int misuse) {
    command.push_back("-DINTQ_MISUSE=" + std::to_string(misuse));
    command.push_back("-fsyntax-only");
    command.push_back(source);
    return intq::test::run(command);
}

void check_misuse(const intq::test::Outcome& outcome, int misuse, const std::string& pattern) {
    const std::string name = "misuse " + std::to_string(misuse);
    if (outcome.status == 0) {
        fault(name + " compiles");
    } else if (!std::regex_search(outcome.output, std::regex(pattern))) {
        fault(name + ": the message does not match `" + pattern + "`:", outcome.output);
    } else {
        std::cout << name << " is refused: " << pattern << '\n';
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 3 || words[1] != "--") {
        std::cerr << "usage: check_compile_fail <source> -- <compiler> <flag>...\n";
        return 2;
    }
    const std::string source = words[0];
    const std::vector<std::string> command(words.begin() + 2, words.end());

    const auto expectations = read_expectations(source);
    const intq::test::Outcome proper = compile(source, command, 0);
    if (proper.status != 0) fault("does not compile without misuse:", proper.output);
    for (const auto& [misuse, pattern] : expectations) check_misuse(compile(source, command, misuse), misuse, pattern);
    return faults == 0 ? 0 : 1;
}
