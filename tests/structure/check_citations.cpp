// SPDX-License-Identifier: MIT
//
// Reads every file of the repository for what it says of the pages in docs/, and fails where that is not there: a page
// or a section that is cited, a link between pages, a snippet that a page says it quotes from a file. Words that named
// pages outside the repository fail too.
//
//     check_citations <root of the repository>
//
// A citation is `docs/<page>.md` or a link to a page, alone or followed by ` section 2`, ` section 2.3` or
// ` sections 2 and 3`; comments may break it between words. The sections of a page are its headings that begin with
// a number. In a page, `section 2` alone is its own. `<!-- from <path> -->` before a block of code says that the block
// stands in that file: its lines in this order, whatever their indentation; a line of `…` leaves some out.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "structure/process.hpp"

namespace fs = std::filesystem;

namespace {

const std::array<std::string, 6> folders = {"include", "tests", "bench", "examples", "cmake", "docs"};
const std::array<std::string, 4> single_files = {"README.md", "dev", "CMakeLists.txt", "CMakePresets.json"};
const std::set<std::string> extensions = {".hpp", ".cpp", ".in", ".cmake", ".txt", ".md", ".json", ""};
// What holds faults on purpose, or data.
const std::array<std::string, 3> left_out = {"tests/structure/faults/", "tests/structure/check_citations.cpp",
                                             "tests/golden/"};
const std::array<std::string_view, 5> old_words = {"DESIGN", "ARITHMETIC", "WORKFLOW", "STYLE", "torch-semantics"};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string trimmed(std::string_view line) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return std::string(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
}

/// "2", "2.3": the number at `at`, which moves behind it; empty where there is none.
std::string read_number(std::string_view text, std::size_t& at) {
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end == at) return {};
    if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1]))
        for (++end; end < text.size() && is_digit(text[end]);) ++end;
    const std::string number(text.substr(at, end - at));
    at = end;
    return number;
}

/// The numbers behind ` section ` or ` sections ` at `at`; none where something else stands there.
std::vector<std::string> read_sections(std::string_view text, std::size_t at) {
    std::vector<std::string> numbers;
    for (const std::string_view word : {" section ", " sections "})
        if (text.substr(at, word.size()) == word) {
            at += word.size();
            for (std::string number = read_number(text, at); !number.empty(); number = read_number(text, at)) {
                numbers.push_back(number);
                for (const std::string_view joint : {", ", " and ", " to "})
                    if (text.substr(at, joint.size()) == joint) {
                        at += joint.size();
                        break;
                    }
            }
            break;
        }
    return numbers;
}

/// A file as one line without the marks of comments, so that a citation is whole where its lines break.
class JoinedText {
public:
    explicit JoinedText(const std::vector<std::string>& lines) {
        for (const std::string& line : lines) {
            starts_.push_back(text_.size());
            std::string content = trimmed(line);
            for (const std::string_view mark : {"///", "//!", "//", "#"})
                if (content.rfind(mark, 0) == 0) {
                    content = trimmed(std::string_view(content).substr(mark.size()));
                    break;
                }
            text_ += content + ' ';
        }
    }
    const std::string& text() const { return text_; }
    std::size_t line_of(std::size_t at) const {
        return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), at) - starts_.begin());
    }

private:
    std::string text_;
    std::vector<std::size_t> starts_;
};

class Checker {
public:
    explicit Checker(fs::path root) : root_(std::move(root)) {
        if (!fs::is_directory(root_ / "docs")) return;
        for (const auto& entry : fs::directory_iterator(root_ / "docs"))
            if (entry.path().extension() == ".md") pages_[entry.path().filename().string()] = headings(entry.path());
    }

    void check_all() {
        std::vector<fs::path> files;
        for (const std::string& file : single_files)
            if (fs::is_regular_file(root_ / file)) files.push_back(root_ / file);
        for (const std::string& folder : folders)
            if (fs::is_directory(root_ / folder))
                for (const auto& entry : fs::recursive_directory_iterator(root_ / folder))
                    if (entry.is_regular_file()) files.push_back(entry.path());
        std::sort(files.begin(), files.end());
        for (const fs::path& file : files) check(file);
    }

    int report() const {
        std::cout << "citations: " << files_ << " files, " << pages_.size() << " pages, " << citations_
                  << " citations, " << quotes_ << " quoted snippets, " << faults_ << " faults\n";
        if (citations_ == 0) std::cout << "nothing is cited in " << root_ << '\n';
        return faults_ == 0 && citations_ > 0 ? 0 : 1;
    }

private:
    static std::set<std::string> headings(const fs::path& page) {
        std::set<std::string> numbers;
        bool is_code = false;
        for (const std::string& line : intq::test::read_lines(page)) {
            if (line.rfind("```", 0) == 0) is_code = !is_code;
            std::size_t at = line.find_first_not_of('#');
            if (is_code || at == 0 || at == std::string::npos || line[at] != ' ') continue;
            const std::string number = read_number(line, ++at);
            if (!number.empty()) numbers.insert(number);
        }
        return numbers;
    }

    void check(const fs::path& file) {
        path_ = fs::relative(file, root_).generic_string();
        for (const std::string& part : left_out)
            if (path_.rfind(part, 0) == 0) return;
        if (extensions.count(file.extension().string()) == 0) return;
        ++files_;
        const std::vector<std::string> lines = intq::test::read_lines(file);
        const JoinedText joined(lines);
        check_words(joined);
        check_pages(joined);
        if (file.extension() == ".md") {
            check_links(joined);
            check_quotes(lines);
            if (path_.rfind("docs/", 0) == 0) check_own_sections(joined);
        }
        for (const auto& [line, sentence] : of_file_) std::cout << path_ << ':' << line << ": " << sentence << '\n';
        of_file_.clear();
    }

    void check_words(const JoinedText& joined) {
        const std::string& text = joined.text();
        for (const std::string_view word : old_words)
            for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
                const std::size_t end = at + word.size();
                if ((at > 0 && is_word(text[at - 1])) || (end < text.size() && is_word(text[end]))) continue;
                fault(joined.line_of(at), "\"" + std::string(word) + "\" is not a page of docs/");
            }
    }

    void check_pages(const JoinedText& joined) {
        const std::string& text = joined.text();
        for (auto at = text.find("docs/"); at != std::string::npos; at = text.find("docs/", at + 1)) {
            std::size_t end = at + 5;
            while (end < text.size() && (is_word(text[end]) || text[end] == '-')) ++end;
            const bool is_address = at > 0 && (is_word(text[at - 1]) || text[at - 1] == '/');
            if (is_address || end == at + 5 || text.compare(end, 3, ".md") != 0) continue;
            check_citation(joined, at, text.substr(at + 5, end + 3 - (at + 5)), end + 3);
        }
    }

    /// `end` is where the citation goes on with ` section …`.
    void check_citation(const JoinedText& joined, std::size_t at, const std::string& page, std::size_t end) {
        ++citations_;
        const auto found = pages_.find(page);
        if (found == pages_.end()) return fault(joined.line_of(at), "there is no page docs/" + page);
        for (const std::string& number : read_sections(joined.text(), end))
            if (found->second.count(number) == 0)
                fault(joined.line_of(at), "docs/" + page + " has no section " + number);
    }

    void check_links(const JoinedText& joined) {
        const std::string& text = joined.text();
        for (auto at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
            const auto end = text.find(')', at);
            if (end == std::string::npos) return;
            std::string target = text.substr(at + 2, end - at - 2);
            target = target.substr(0, target.find('#'));
            if (target.empty() || target.find("://") != std::string::npos || target.find(' ') != std::string::npos)
                continue;
            const fs::path file = (root_ / path_).parent_path() / target;
            if (!fs::exists(file)) {
                fault(joined.line_of(at), "the link's target " + target + " does not exist");
            } else if (file.extension() == ".md" && path_.rfind("docs/", 0) == 0 &&
                       target.find('/') == std::string::npos) {
                check_citation(joined, at, target, end + 1);
            }
        }
    }

    /// `section 2` of a page with numbered headings, where no other page is named before it.
    void check_own_sections(const JoinedText& joined) {
        const std::set<std::string>& own = pages_.at(fs::path(path_).filename().string());
        if (own.empty()) return;
        const std::string& text = joined.text();
        for (auto at = text.find(" section"); at != std::string::npos; at = text.find(" section", at + 1)) {
            if (at > 0 && (text.compare(at - std::min<std::size_t>(at, 3), 3, ".md") == 0 || text[at - 1] == ')' ||
                           text[at - 1] == ','))
                continue;
            for (const std::string& number : read_sections(text, at))
                if (own.count(number) == 0) fault(joined.line_of(at), "this page has no section " + number);
        }
    }

    void check_quotes(const std::vector<std::string>& lines) {
        constexpr std::string_view mark = "<!-- from ";
        for (std::size_t i = 0; i < lines.size(); ++i) {
            if (lines[i].rfind(mark, 0) != 0) continue;
            const std::string source =
                trimmed(std::string_view(lines[i]).substr(mark.size(), lines[i].find("-->") - mark.size()));
            const std::size_t first = i + 2;
            std::size_t last = first;
            while (last < lines.size() && lines[last].rfind("```", 0) != 0) ++last;
            if (i + 1 >= lines.size() || lines[i + 1].rfind("```", 0) != 0 || last >= lines.size()) {
                fault(i + 1, "no block of code follows");
                continue;
            }
            ++quotes_;
            if (!fs::is_regular_file(root_ / source))
                fault(i + 1, "the snippet's file " + source + " does not exist");
            else
                check_quote(source, lines, first, last);
        }
    }

    void check_quote(const std::string& source, const std::vector<std::string>& lines, std::size_t first,
                     std::size_t last) {
        std::vector<std::string> known;
        for (const std::string& line : intq::test::read_lines(root_ / source))
            if (std::string text = trimmed(line); !text.empty()) known.push_back(std::move(text));
        // Runs between lines of `…`, each after the one before it.
        auto from = known.begin();
        std::vector<std::string> run;
        std::size_t run_line = first;
        const auto find_run = [&] {
            const auto found = std::search(from, known.end(), run.begin(), run.end());
            if (found == known.end()) {
                fault(run_line + 1, "the snippet is not in " + source);
                return false;
            }
            from = found + static_cast<std::ptrdiff_t>(run.size());
            run.clear();
            return true;
        };
        for (std::size_t i = first; i < last; ++i) {
            const std::string text = trimmed(lines[i]);
            if (text == "…" || text == "// …") {
                if (!find_run()) return;
            } else if (!text.empty()) {
                if (run.empty()) run_line = i;
                run.push_back(text);
            }
        }
        find_run();
    }

    void fault(std::size_t line, const std::string& sentence) {
        ++faults_;
        of_file_.emplace(line, sentence);
    }

    fs::path root_;
    std::map<std::string, std::set<std::string>> pages_;  // numbers of their sections
    std::string path_;
    std::multimap<std::size_t, std::string> of_file_;  // faults, by line
    int files_ = 0, citations_ = 0, quotes_ = 0, faults_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: check_citations <root of the repository>\n";
        return 2;
    }
    Checker checker(argv[1]);
    checker.check_all();
    return checker.report();
}
