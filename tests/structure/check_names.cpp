// SPDX-License-Identifier: MIT
//
// Holds the names in every header against the macros that other projects' headers define (foreign_macros.hpp). A macro
// without arguments breaks every use of its name, one with arguments every use in front of a parenthesis: a function of
// that name is declared and called with its name in parentheses, and anything else has another name. Names of one
// capital letter are refused as a kind, but for those that the library gives to types and no macro that we know has.
//
//     check_names <include folder> <foreign_macros.hpp>
#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "structure/bare_text.hpp"
#include "structure/process.hpp"

namespace fs = std::filesystem;

namespace {

enum class Macro { plain, with_arguments };

// The umbrella headers put these aside.
bool is_put_aside(const std::string& name) { return name == "Bool" || name == "None" || name == "Status"; }

bool is_our_letter(const std::string& name) { return name == "L" || name == "T" || name == "X" || name == "Y"; }

std::map<std::string, Macro> read_macros(const fs::path& file) {
    static const std::regex define(R"(#define (\w+)(\(?).*)");
    std::map<std::string, Macro> macros;
    std::smatch match;
    for (const std::string& line : intq::test::read_lines(file))
        if (std::regex_match(line, match, define) && !is_put_aside(match[1]))
            macros[match[1]] = match[2].length() == 0 ? Macro::plain : Macro::with_arguments;
    return macros;
}

class Checker {
public:
    Checker(fs::path root, std::map<std::string, Macro> macros) : root_(std::move(root)), macros_(std::move(macros)) {}

    int run() {
        std::vector<fs::path> files;
        for (const auto& entry : fs::recursive_directory_iterator(root_ / "intq"))
            if (entry.is_regular_file()) files.push_back(entry.path());
        std::sort(files.begin(), files.end());
        for (const fs::path& file : files) check_file(file);
        std::cout << "names: " << files.size() << " headers, " << macros_.size() << " macros, " << names_ << " names, "
                  << faults_ << " faults\n";
        return faults_ == 0 && names_ > 0 && !macros_.empty() ? 0 : 1;
    }

private:
    void check_file(const fs::path& file) {
        std::string text;
        for (const std::string& line : intq::test::read_lines(file)) text += line + '\n';
        const std::string bare = intq::test::Bare(text).text();
        const std::string name = fs::relative(file, root_).generic_string();
        std::size_t line = 1;
        for (std::size_t at = 0; at < bare.size();) {
            if (bare[at] == '\n') ++line;
            if (!intq::test::is_word(bare[at])) {
                ++at;
                continue;
            }
            const std::size_t first = at;
            while (at < bare.size() && intq::test::is_word(bare[at])) ++at;
            const std::string where = name + ":" + std::to_string(line);
            if (!is_in_include(bare, first))
                check_name(bare.substr(first, at - first), is_before_bracket(bare, at), where);
        }
    }

    static bool is_before_bracket(const std::string& bare, std::size_t end) {
        const std::size_t next = bare.find_first_not_of(" \n", end);
        return next != std::string::npos && bare[next] == '(';
    }
    static bool is_in_include(const std::string& bare, std::size_t at) {
        static const std::regex include(R"(\s*#\s*(include|undef)\b.*)");
        const std::size_t first = at == 0 ? 0 : bare.rfind('\n', at - 1) + 1;
        if (bare[std::min(bare.find_first_not_of(' ', first), at)] != '#') return false;
        return std::regex_match(bare.substr(first, bare.find('\n', at) - first), include);
    }

    void check_name(const std::string& name, bool is_before_bracket, const std::string& where) {
        ++names_;
        const auto macro = macros_.find(name);
        if (macro != macros_.end() && (macro->second == Macro::plain || is_before_bracket))
            return fault(where, "a macro of another header has the name " + name + "; see foreign_macros.hpp");
        if (name.size() == 1 && std::isupper(static_cast<unsigned char>(name[0])) != 0 && !is_our_letter(name))
            fault(where, "a macro may have the name " + name + "; only L, T, X and Y are names of one capital letter");
    }

    void fault(const std::string& where, const std::string& sentence) {
        ++faults_;
        std::cout << where << ": " << sentence << '\n';
    }

    fs::path root_;
    std::map<std::string, Macro> macros_;
    std::size_t names_ = 0;
    int faults_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: check_names <include folder> <foreign_macros.hpp>\n";
        return 2;
    }
    try {
        return Checker(argv[1], read_macros(argv[2])).run();
    } catch (const std::exception& error) {
        std::cerr << "check_names: " << error.what() << '\n';
        return 2;
    }
}
