// SPDX-License-Identifier: MIT
#include "intq/io/name_pattern.hpp"

#include <random>
#include <regex>
#include <string>
#include <vector>

#include "intq/io/error.hpp"
#include "support/catch.hpp"

using intq::Error;
using intq::io::NamePattern;

namespace {

bool matches(const std::string& expression, const std::string& name) {
    return NamePattern(expression).matches_start(name);
}

bool standard_matches(const std::string& expression, const std::string& name) {
    return std::regex_search(name, std::regex(expression), std::regex_constants::match_continuous);
}

std::string refusal(const std::string& expression) {
    try {
        NamePattern pattern(expression);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

/// Random expressions of what both read alike, over three letters, a digit, a dot and a blank.
class Expressions {
public:
    explicit Expressions(std::uint32_t seed) : bits_(seed) {}

    std::string alternatives(int depth) {
        std::string text = sequence(depth);
        while (below(4) == 0) text += "|" + sequence(depth);
        return text;
    }
    std::string name() {
        std::string text;
        for (std::uint32_t n = below(8); n > 0; --n) text += "aab1. _"[below(7)];
        return text;
    }
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(bits_()) % n; }

private:
    std::string sequence(int depth) {
        std::string text;
        for (std::uint32_t n = below(4); n > 0; --n) text += atom(depth) + repeat();
        if (below(6) == 0) text += "\\b";
        if (below(8) == 0) text += "$";
        return text;
    }
    std::string atom(int depth) {
        static const std::vector<std::string> atoms = {"a",    "b",   "1",   "\\.", ".",      "[ab]",
                                                       "[^a]", "\\d", "\\w", "\\s", "[a-b1]", "[\\d.]",
                                                       "\\W",  "\\D", "\\S", "_",   "[^\\w]", "[-a]"};
        if (depth > 0 && below(4) == 0) return (below(2) == 0 ? "(" : "(?:") + alternatives(depth - 1) + ")";
        return atoms[below(static_cast<std::uint32_t>(atoms.size()))];
    }
    std::string repeat() {
        static const std::vector<std::string> repeats = {"*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??"};
        return below(2) == 0 ? "" : repeats[below(static_cast<std::uint32_t>(repeats.size()))];
    }

    std::mt19937 bits_;
};

}  // namespace

TEST_CASE("A pattern of names means what Python's re.match means") {
    CHECK(matches("layer[12]\\.conv", "layer1.conv2"));
    CHECK_FALSE(matches("conv", "layer1.conv"));
    CHECK(matches(".*conv", "layer1.conv"));
    CHECK(matches("backbone\\.(0|1)\\.", "backbone.1.relu"));
    CHECK_FALSE(matches("backbone\\.(0|1)\\.", "backbone.10.relu"));
    CHECK(matches("a{2,3}$", "aaa"));
    CHECK_FALSE(matches("a{2,3}$", "aaaa"));
    CHECK(matches("", "anything"));
    CHECK(matches("[^.]+$", "head"));
    CHECK_FALSE(matches("[^.]+$", "head.fc"));
    CHECK(matches("[]a]+$", "a]"));
    CHECK(matches("conv\\b", "conv.weight"));
    CHECK_FALSE(matches("conv\\b", "conv2"));
}

TEST_CASE("Random patterns match what std::regex matches") {
    Expressions expressions(3);
    int compared = 0, matched = 0;
    for (int i = 0; i < 1000; ++i) {
        const std::string expression = expressions.alternatives(2);
        for (int k = 0; k < 8; ++k) {
            const std::string name = expressions.name();
            INFO("\"" << expression << "\" and \"" << name << "\"");
            const bool expected = standard_matches(expression, name);
            CHECK(matches(expression, name) == expected);
            ++compared;
            matched += expected;
        }
    }
    CHECK(compared == 8000);
    CHECK((matched > 800 && matched < 7200));
}

TEST_CASE("What is not a pattern is refused with its place") {
    CHECK(refusal("(").find("a ( without its ) at position 0") != std::string::npos);
    CHECK(refusal("ab)").find("a ) without its ( at position 2") != std::string::npos);
    CHECK(refusal("a[bc").find("a [ without its ] at position 1") != std::string::npos);
    CHECK(refusal("*a").find("nothing to repeat at position 0") != std::string::npos);
    CHECK(refusal("a**").find("nothing to repeat at position 2") != std::string::npos);
    CHECK(refusal("a{3,2}").find("a count that is not") != std::string::npos);
    CHECK(refusal("a{x}").find("a count without digits at position 2") != std::string::npos);
    CHECK(refusal("a\\").find("a \\ without what follows it at position 1") != std::string::npos);
    CHECK(refusal("(a)\\1").find("the escape \\1 at position 3") != std::string::npos);
    CHECK(refusal("(?=a)").find("a group of a kind that is not supported at position 0") != std::string::npos);
    CHECK(refusal("[xä]").find("outside ASCII in a set at position 2") != std::string::npos);
    CHECK(refusal("é*").find("repetition of a character outside ASCII at position 2") != std::string::npos);
    CHECK(matches("(é)*x", "ééx"));
    CHECK(refusal("[z-a]").find("a range that is not one") != std::string::npos);
}

TEST_CASE("A hostile pattern or name costs neither the stack nor the afternoon") {
    // Where a pattern is tried back, these do not end.
    CHECK(matches("(a|b|.)*c", std::string(1'000'000, 'a') + "c"));          // std::regex overflows the stack
    CHECK_FALSE(matches("(a*)*(a*)*(a*)*$", std::string(3000, 'a') + "!"));  // exponential where one tries back
    CHECK_FALSE(matches("(x+x+)+y", std::string(3000, 'x')));
    CHECK(refusal(std::string(9000, '(')).find("too many groups inside groups") != std::string::npos);
    CHECK(refusal("((((a{99}){99}){99}){99}){99}").find("more than 10000 steps") != std::string::npos);
    CHECK(refusal("((((){9999}){9999}){9999}){9999}").find("too many repetitions") != std::string::npos);
    CHECK(refusal("[" + std::string(9000, 'a') + "]{9999}").find("too many repetitions") != std::string::npos);
    CHECK(refusal("a{99999999999999999999}").find("a count above 10000") != std::string::npos);
    CHECK(refusal(std::string(20'000, 'a')).find("20000 bytes") != std::string::npos);
}
