// SPDX-License-Identifier: MIT
//
// Reads README.md and docs/ for sentences that say that something is not there (yet), and holds them against a list:
// a sentence outside of the list fails, and so does a line of the list without its sentence. So nobody builds a thing
// and leaves the sentence behind without passing the list.
//
//     check_unbuilt <root of the repository> <unbuilt.txt>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "structure/process.hpp"

namespace fs = std::filesystem;

namespace {

const std::regex unbuilt(
    R"(not built|planned|\byet\b|not supported|will be (built|added|computed|supported)|come later|(does|do) not exist\.)",
    std::regex::icase);

/// The sentences of a line, and the cells of a row.
std::vector<std::string> sentences(const std::string& line) {
    std::vector<std::string> found{""};
    for (std::size_t i = 0; i < line.size(); ++i) {
        const bool ends = line[i] == ' ' && i > 0 && (line[i - 1] == '.' || line[i - 1] == '|' || line[i + 1] == '|');
        if (ends) {
            found.emplace_back();
        } else if (line[i] != '|' && !(found.back().empty() && (line[i] == ' ' || line[i] == '-'))) {
            found.back() += line[i];
        }
    }
    return found;
}

std::vector<fs::path> pages(const fs::path& root) {
    std::vector<fs::path> found{root / "README.md"};
    for (const auto& entry : fs::directory_iterator(root / "docs"))
        if (entry.path().extension() == ".md") found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
}

int check(const fs::path& root, const fs::path& list) {
    std::set<std::string> expected;
    for (const std::string& line : intq::test::read_lines(list))
        if (!line.empty() && line[0] != '#') expected.insert(line);
    std::size_t count = 0;
    int faults = 0;
    std::set<std::string> seen;
    for (const fs::path& page : pages(root)) {
        const std::string name = fs::relative(page, root).generic_string();
        std::size_t number = 0;
        for (const std::string& line : intq::test::read_lines(page)) {
            ++number;
            for (const std::string& sentence : sentences(line)) {
                if (!std::regex_search(sentence, unbuilt)) continue;
                ++count;
                const std::string row = name + ": " + sentence;
                seen.insert(row);
                if (expected.count(row) != 0) continue;
                ++faults;
                std::cout << name << ":" << number << ": is not in " << list.filename().string() << ": " << sentence
                          << '\n';
            }
        }
    }
    for (const std::string& row : expected)
        if (seen.count(row) == 0) {
            ++faults;
            std::cout << list.filename().string() << ": no page says any more: " << row << '\n';
        }
    std::cout << "unbuilt: " << count << " sentences, " << faults << " faults\n";
    return faults == 0 && count > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: check_unbuilt <root of the repository> <unbuilt.txt>\n";
        return 2;
    }
    try {
        return check(argv[1], argv[2]);
    } catch (const std::exception& error) {
        std::cerr << "check_unbuilt: " << error.what() << '\n';
        return 2;
    }
}
