// SPDX-License-Identifier: MIT
//
// NamePattern: regular expressions for the names of modules. Layer: io (docs/design.md section 6).
//
// Not std::regex, because that recurses once a character: a long name or a hostile expression ends in a stack overflow.
// It also costs each unit that includes it two seconds of compiling.
#ifndef INTQ_IO_NAME_PATTERN_HPP
#define INTQ_IO_NAME_PATTERN_HPP

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "intq/core/abi.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// A regular expression, as far as names need it, in the syntax that Python's `re` and ECMAScript share: characters,
/// `.`, sets such as `[a-z_]` and `[^.]`, the classes `\d \w \s \D \W \S`, groups, `|`, `* + ?` and `{m,n}`, `^`, `$`,
/// `\b`. References back, lookahead and flags are refused, and so is a `{` that begins no count: write `\{`. A name is
/// a sequence of bytes; a character outside ASCII, which has several, can be neither in a set nor before a repetition.
///
///     io::NamePattern("layer[12]\\.conv").matches_start("layer1.conv2")     // true
///
/// Cost   of a match: length of the name × steps of the expression, whatever the expression; it does not recurse
class NamePattern {
public:
    /// Longer expressions, and those that repeat to more steps, are refused.
    static constexpr std::size_t max_steps = 10'000;
    static constexpr int max_groups_inside_groups = 100;

    /// @throws Error  naming the position that it cannot read
    explicit NamePattern(std::string_view expression);

    /// Whether some beginning of the name, perhaps all of it, matches: Python's re.match.
    bool matches_start(std::string_view name) const;

private:
    enum class Kind : std::uint8_t { one_of, both, begin, end, word_boundary, done };
    struct Part {
        Kind kind = Kind::done;
        std::size_t next = 0, other = 0;  // steps; `other` for both
        std::bitset<256> bytes{};
    };
    friend class NamePatternReader;

    /// Adds a step and all steps that it reaches without a byte.
    void reach(std::size_t step, std::string_view name, std::size_t at, std::vector<std::size_t>& reached,
               std::vector<bool>& is_reached) const;

    std::vector<Part> steps_;
    std::size_t first_ = 0;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <optional>
#    include <utility>

#    include "intq/io/error.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// Reads an expression from the left and writes its steps from the end: the steps after a part are known when it is
/// written (Thompson, "Regular expression search algorithm", 1968). A part is kept as text until then, because `{m,n}`
/// writes it several times.
class NamePatternReader {
public:
    explicit NamePatternReader(std::string_view expression, NamePattern& pattern)
        : text_(expression), pattern_(pattern) {}

    void read() {
        const std::size_t end = alternatives_end(0, 0);
        if (end != text_.size()) fail(end, "a ) without its (");
        pattern_.first_ = alternatives(0, end, add({NamePattern::Kind::done}), 0);
    }

private:
    using Kind = NamePattern::Kind;
    struct Repeat {
        std::size_t least = 1;
        std::optional<std::size_t> most = 1;  // none: any number
        std::size_t end = 0;                  // behind it
    };

    [[noreturn]] void fail(std::size_t at, const std::string& what) const {
        throw Error("\"" + std::string(text_) + "\" is not a regular expression: " + what + " at position " +
                    std::to_string(at));
    }
    std::size_t add(NamePattern::Part step) {
        if (pattern_.steps_.size() == NamePattern::max_steps)
            fail(0, "more than " + std::to_string(NamePattern::max_steps) + " steps, counted");
        pattern_.steps_.push_back(step);
        return pattern_.steps_.size() - 1;
    }

    // --- where parts end ---
    /// The end of an atom: one byte, an escape, a set or a group.
    std::size_t atom_end(std::size_t at, int depth) const {
        if (text_[at] == '\\') {
            if (at + 1 == text_.size()) fail(at, "a \\ without what follows it");
            return at + 2;
        }
        if (text_[at] == '[') {
            std::size_t end = at + 1;
            if (end < text_.size() && text_[end] == '^') ++end;
            for (bool first = true; end < text_.size() && (first || text_[end] != ']'); first = false)
                end += text_[end] == '\\' ? 2u : 1u;
            if (end >= text_.size()) fail(at, "a [ without its ]");
            return end + 1;
        }
        if (text_[at] == '(') {
            if (depth == NamePattern::max_groups_inside_groups) fail(at, "too many groups inside groups");
            const std::size_t end = alternatives_end(group_start(at), depth + 1);
            if (end == text_.size()) fail(at, "a ( without its )");
            return end + 1;
        }
        if (text_[at] == '*' || text_[at] == '+' || text_[at] == '?' || text_[at] == '{') fail(at, "nothing to repeat");
        return at + 1;
    }
    std::size_t alternatives_end(std::size_t at, int depth) const {
        while (at < text_.size() && text_[at] != ')')
            at = text_[at] == '|' ? at + 1 : repeat_of(atom_end(at, depth)).end;
        return at;
    }
    std::size_t group_start(std::size_t at) const {
        if (at + 1 >= text_.size() || text_[at + 1] != '?') return at + 1;
        if (at + 2 >= text_.size() || text_[at + 2] != ':') fail(at, "a group of a kind that is not supported");
        return at + 3;
    }

    // --- repetition ---
    Repeat repeat_of(std::size_t at) const {
        Repeat repeat{1, 1, at};
        if (at == text_.size()) return repeat;
        const char c = text_[at];
        if (c == '*') repeat = {0, std::nullopt, at + 1};
        if (c == '+') repeat = {1, std::nullopt, at + 1};
        if (c == '?') repeat = {0, 1, at + 1};
        if (c == '{') {
            std::size_t end = at + 1;
            repeat.least = number(end);
            repeat.most = repeat.least;
            if (end < text_.size() && text_[end] == ',') {
                ++end;
                repeat.most = std::nullopt;
                if (end < text_.size() && text_[end] != '}') repeat.most = number(end);
            }
            if (end >= text_.size() || text_[end] != '}' || (repeat.most && *repeat.most < repeat.least))
                fail(at, "a count that is not {m}, {m,} or {m,n}");
            repeat.end = end + 1;
        }
        if (repeat.end > at && !is_ascii(text_[at - 1])) fail(at, "the repetition of a character outside ASCII");
        // Lazy or greedy, the same names match.
        if (repeat.end > at && repeat.end < text_.size() && text_[repeat.end] == '?') ++repeat.end;
        return repeat;
    }
    std::size_t number(std::size_t& at) const {
        std::size_t value = 0, from = at;
        for (; at < text_.size() && text_[at] >= '0' && text_[at] <= '9'; ++at)
            if ((value = 10 * value + static_cast<std::size_t>(text_[at] - '0')) > NamePattern::max_steps)
                fail(from, "a count above " + std::to_string(NamePattern::max_steps));
        if (at == from) fail(at, "a count without digits");
        return value;
    }

    // --- steps; each function returns the first of a part that `next` follows ---
    std::size_t alternatives(std::size_t at, std::size_t end, std::size_t next, int depth) {
        std::vector<std::size_t> firsts;
        for (std::size_t part = at;;) {
            std::size_t bar = part;
            while (bar < end && text_[bar] != '|') bar = repeat_of(atom_end(bar, depth)).end;
            firsts.push_back(sequence(part, bar, next, depth));
            if (bar == end) break;
            part = bar + 1;
        }
        std::size_t first = firsts.back();
        for (std::size_t i = firsts.size() - 1; i-- > 0;) first = add({Kind::both, firsts[i], first});
        return first;
    }
    std::size_t sequence(std::size_t at, std::size_t end, std::size_t next, int depth) {
        std::vector<std::size_t> atoms;
        for (std::size_t i = at; i < end; i = repeat_of(atom_end(i, depth)).end) atoms.push_back(i);
        for (std::size_t i = atoms.size(); i-- > 0;) {
            const std::size_t behind = atom_end(atoms[i], depth);
            const Repeat repeat = repeat_of(behind);
            if (!repeat.most) {
                const std::size_t loop = add({Kind::both, 0, next});
                pattern_.steps_[loop].next = atom(atoms[i], behind, loop, depth);
                next = loop;
            } else {
                const std::size_t after = next;
                for (std::size_t k = repeat.least; k < *repeat.most; ++k)
                    next = add({Kind::both, atom(atoms[i], behind, next, depth), after});
            }
            for (std::size_t k = 0; k < repeat.least; ++k) next = atom(atoms[i], behind, next, depth);
        }
        return next;
    }
    std::size_t atom(std::size_t at, std::size_t end, std::size_t next, int depth) {
        // An empty group that is repeated adds no step, and a long set is read again for each repetition.
        if ((read_ += end - at) > 10 * NamePattern::max_steps) fail(at, "too many repetitions");
        const char c = text_[at];
        if (c == '(') return alternatives(group_start(at), end - 1, next, depth + 1);
        if (c == '^') return add({Kind::begin, next});
        if (c == '$') return add({Kind::end, next});
        if (c == '\\' && text_[at + 1] == 'b') return add({Kind::word_boundary, next});
        NamePattern::Part step{Kind::one_of, next};
        if (c == '.')
            step.bytes = ~bytes_of('\n');
        else if (c == '[')
            step.bytes = set(at + 1, end - 1);
        else
            step.bytes = c == '\\' ? escape(at) : bytes_of(c);
        return add(step);
    }

    // --- bytes ---
    static bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }
    static std::bitset<256> bytes_of(char c) { return std::bitset<256>().set(static_cast<unsigned char>(c)); }
    static std::bitset<256> range(int from, int to) {
        std::bitset<256> bytes;
        for (int c = from; c <= to; ++c) bytes.set(static_cast<std::size_t>(c));
        return bytes;
    }
    std::bitset<256> escape(std::size_t at) const {
        const std::bitset<256> digits = range('0', '9');
        const std::bitset<256> word = digits | range('a', 'z') | range('A', 'Z') | bytes_of('_');
        const std::bitset<256> space = range('\t', '\r') | bytes_of(' ');
        switch (const char c = text_[at + 1]) {
            case 'd':
                return digits;
            case 'D':
                return ~digits;
            case 'w':
                return word;
            case 'W':
                return ~word;
            case 's':
                return space;
            case 'S':
                return ~space;
            default:
                if (word[static_cast<unsigned char>(c)]) fail(at, std::string("the escape \\") + c);
                return bytes_of(c);
        }
    }
    std::bitset<256> set(std::size_t at, std::size_t end) const {
        const bool is_negated = at < end && text_[at] == '^';
        if (is_negated) ++at;
        std::bitset<256> bytes;
        while (at < end) {
            if (!is_ascii(text_[at])) fail(at, "a character outside ASCII in a set");
            const bool is_escape = text_[at] == '\\';
            const std::size_t behind = at + (is_escape ? 2 : 1);
            const std::bitset<256> one = is_escape ? escape(at) : bytes_of(text_[at]);
            if (behind + 1 < end && text_[behind] == '-') {
                const bool to_escape = text_[behind + 1] == '\\';
                const std::size_t to = behind + 1 + to_escape;
                const auto low = static_cast<unsigned char>(text_[behind - 1]),
                           high = static_cast<unsigned char>(text_[to]);
                if (one.count() != 1 || (to_escape && escape(behind + 1).count() != 1) || low > high)
                    fail(at, "a range that is not one");
                bytes |= range(low, high);
                at = to + 1;
            } else {
                bytes |= one;
                at = behind;
            }
        }
        return is_negated ? ~bytes : bytes;
    }

    std::string_view text_;
    NamePattern& pattern_;
    std::size_t read_ = 0;  // bytes of the atoms written so far
};

INTQ_INLINE NamePattern::NamePattern(std::string_view expression) {
    if (expression.size() > max_steps)
        throw Error("a regular expression of " + std::to_string(expression.size()) + " bytes; at most " +
                    std::to_string(max_steps) + " are read");
    NamePatternReader(expression, *this).read();
}

INTQ_INLINE void NamePattern::reach(std::size_t step, std::string_view name, std::size_t at,
                                    std::vector<std::size_t>& reached, std::vector<bool>& is_reached) const {
    const auto is_word = [&](std::size_t i) {
        if (i >= name.size()) return false;
        const char c = name[i];
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    std::vector<std::size_t> waiting{step};
    while (!waiting.empty()) {
        const std::size_t i = waiting.back();
        waiting.pop_back();
        if (is_reached[i]) continue;
        is_reached[i] = true;
        const Part& here = steps_[i];
        const bool goes_on = here.kind == Kind::both || (here.kind == Kind::begin && at == 0) ||
                             (here.kind == Kind::end && at == name.size()) ||
                             (here.kind == Kind::word_boundary && (at > 0 && is_word(at - 1)) != is_word(at));
        if (here.kind == Kind::one_of || here.kind == Kind::done) reached.push_back(i);
        if (goes_on) waiting.push_back(here.next);
        if (here.kind == Kind::both) waiting.push_back(here.other);
    }
}

INTQ_INLINE bool NamePattern::matches_start(std::string_view name) const {
    std::vector<std::size_t> now, then;
    std::vector<bool> is_reached(steps_.size());
    reach(first_, name, 0, now, is_reached);
    for (std::size_t at = 0; !now.empty(); ++at) {
        then.clear();
        is_reached.assign(steps_.size(), false);
        for (const std::size_t i : now) {
            if (steps_[i].kind == Kind::done) return true;
            if (at < name.size() && steps_[i].bytes[static_cast<unsigned char>(name[at])])
                reach(steps_[i].next, name, at + 1, then, is_reached);
        }
        std::swap(now, then);
    }
    return false;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_NAME_PATTERN_HPP
