// SPDX-License-Identifier: MIT
//
// The names of nodes, by FX's rules, so that they match those a user of PyTorch knows. Layer: graph.
#ifndef INTQ_GRAPH_INTERNAL_NAMES_HPP
#define INTQ_GRAPH_INTERNAL_NAMES_HPP

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "intq/core/abi.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// "layer1.0.convA" -> "layer1.0.conv_a": an underscore where a lower-case letter meets an upper-case one.
std::string snake_case(std::string_view text);

/// Gives each node of a graph a unique name.
///
/// Characters that are not allowed in an identifier become underscores, and an underscore is put before a leading
/// digit. A name that is taken, or that has a meaning in Python ("input"), gets the next free number as its suffix.
///
/// Source   torch.fx: behaviour of Graph's name generator (docs/torch_semantics.md section 1)
class NameSpace {
public:
    std::string create(std::string_view candidate);

private:
    std::set<std::string, std::less<>> used_;
    std::map<std::string, int, std::less<>> last_suffix_;
};

namespace detail {

/// Python's keywords and built-in functions, sorted. Only those in lower case, as node names are.
inline constexpr auto python_names = std::to_array<std::string_view>(
    {"abs",        "aiter",    "all",          "and",       "anext",       "any",     "as",         "ascii",
     "assert",     "async",    "await",        "bin",       "bool",        "break",   "breakpoint", "bytearray",
     "bytes",      "callable", "chr",          "class",     "classmethod", "compile", "complex",    "continue",
     "copyright",  "credits",  "def",          "del",       "delattr",     "device",  "dict",       "dir",
     "divmod",     "elif",     "else",         "enumerate", "eval",        "except",  "exec",       "exit",
     "filter",     "finally",  "float",        "for",       "format",      "from",    "frozenset",  "getattr",
     "global",     "globals",  "hasattr",      "hash",      "help",        "hex",     "id",         "if",
     "import",     "in",       "inf",          "input",     "int",         "is",      "isinstance", "issubclass",
     "iter",       "lambda",   "len",          "license",   "list",        "locals",  "map",        "max",
     "memoryview", "min",      "nan",          "next",      "nonlocal",    "not",     "object",     "oct",
     "open",       "or",       "ord",          "pass",      "pow",         "print",   "property",   "quit",
     "raise",      "range",    "repr",         "return",    "reversed",    "round",   "set",        "setattr",
     "slice",      "sorted",   "staticmethod", "str",       "sum",         "super",   "torch",      "try",
     "tuple",      "type",     "vars",         "while",     "with",        "yield",   "zip"});

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <cctype>
#    include <cstddef>
#    include <utility>

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// "relu_12" -> ("relu", 12); ("relu", -1) without a suffix.
INTQ_INLINE std::pair<std::string, int> split_suffix(const std::string& name) {
    std::size_t digits = name.size();
    while (digits > 0 && is_digit(name[digits - 1])) --digits;
    if (digits == name.size() || name.size() - digits > 8 || digits < 1 || name[digits - 1] != '_') return {name, -1};
    return {name.substr(0, digits - 1), std::stoi(name.substr(digits))};
}

}  // namespace detail

INTQ_INLINE std::string snake_case(std::string_view text) {
    std::string result;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (std::isupper(byte) != 0 && !result.empty() && std::islower(static_cast<unsigned char>(result.back())) != 0)
            result += '_';
        result += c;
    }
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
}

INTQ_INLINE std::string NameSpace::create(std::string_view candidate) {
    std::string name(candidate);
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    if (name.empty()) name = "_unnamed";
    if (detail::is_digit(name[0])) name.insert(0, "_");

    auto [base, suffix] = detail::split_suffix(name);
    if (suffix >= 0) name = base + "_" + std::to_string(suffix);
    if (suffix <= 0) suffix = last_suffix_[base];
    const auto reserved = [](const std::string& text) {
        return std::binary_search(detail::python_names.begin(), detail::python_names.end(), text);
    };
    while (used_.count(name) != 0 || reserved(name)) name = base + "_" + std::to_string(++suffix);
    used_.insert(name);
    last_suffix_[base] = suffix;
    return name;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_INTERNAL_NAMES_HPP
