// SPDX-License-Identifier: MIT
//
// The text of a source file without comments and literals: what the structure checks read names from.
#ifndef INTQ_TESTS_STRUCTURE_BARE_TEXT_HPP
#define INTQ_TESTS_STRUCTURE_BARE_TEXT_HPP

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>

namespace intq::test {

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The same lines with blanks in place of comments and of what stands in quotes.
class Bare {
public:
    explicit Bare(const std::string& text) : text_(text) {
        while (at_ < text_.size()) step();
    }
    const std::string& text() const { return bare_; }

private:
    bool starts(const char* word) const { return text_.compare(at_, std::string(word).size(), word) == 0; }

    void keep() { bare_ += text_[at_++]; }
    void blank(std::size_t end) {
        for (; at_ < std::min(end, text_.size()); ++at_) bare_ += text_[at_] == '\n' ? '\n' : ' ';
    }
    static std::size_t behind(std::size_t found, std::size_t length) {
        return found == std::string::npos ? found : found + length;
    }

    void step() {
        if (starts("//")) return blank(text_.find('\n', at_));
        if (starts("/*")) return blank(behind(text_.find("*/", at_ + 2), 2));
        if (starts("R\"") && (at_ == 0 || !is_word(text_[at_ - 1]))) {
            const std::size_t open = text_.find('(', at_);
            const std::string end = ")" + text_.substr(at_ + 2, open - at_ - 2) + "\"";
            return blank(behind(text_.find(end, open), end.size()));
        }
        if (text_[at_] == '"' || (text_[at_] == '\'' && !is_digit_separator())) return blank(end_of_literal());
        keep();
    }

    bool is_digit_separator() const {
        std::size_t first = at_;
        while (first > 0 && (is_word(text_[first - 1]) || text_[first - 1] == '\'')) --first;
        return first < at_ && std::isdigit(static_cast<unsigned char>(text_[first])) != 0;
    }

    std::size_t end_of_literal() const {
        std::size_t end = at_ + 1;
        while (end < text_.size() && text_[end] != text_[at_] && text_[end] != '\n')
            end += text_[end] == '\\' ? 2u : 1u;
        return end + 1;
    }

    const std::string& text_;
    std::string bare_;
    std::size_t at_ = 0;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_STRUCTURE_BARE_TEXT_HPP
