// SPDX-License-Identifier: MIT
//
// Runs a command and keeps its output: what the structure checks share.
#ifndef INTQ_TESTS_STRUCTURE_PROCESS_HPP
#define INTQ_TESTS_STRUCTURE_PROCESS_HPP

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace intq::test {

struct Outcome {
    int status = -1;
    std::string output;  // both streams
};

inline std::string shell_quoted(const std::string& word) {
    std::string quoted = "'";
    for (const char c : word) {
        if (c == '\'') {
            quoted += "'\\''";
        } else {
            quoted += c;
        }
    }
    return quoted + "'";
}

/// Runs a command, given word by word, and waits for it.
inline Outcome run(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) line += shell_quoted(word) + ' ';
    FILE* pipe = popen((line + "2>&1").c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("cannot start: " + line);
    Outcome outcome;
    char buffer[4096];
    for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.output.append(buffer, n);
    const int state = pclose(pipe);
    outcome.status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return outcome;
}

inline std::vector<std::string> read_lines(const std::filesystem::path& file) {
    std::ifstream in(file);
    if (!in) throw std::runtime_error("cannot read " + file.string());
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

inline std::string first_lines(const std::string& text, int count) {
    std::size_t end = 0;
    for (int i = 0; i < count && end != std::string::npos; ++i) end = text.find('\n', end == 0 ? 0 : end + 1);
    return end == std::string::npos ? text : text.substr(0, end);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_STRUCTURE_PROCESS_HPP
