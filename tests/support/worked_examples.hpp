// SPDX-License-Identifier: MIT
//
// Reads a page of docs/ whose fenced blocks `example` hold one worked example a line:
//
//     function(argument, name=argument, …) = value, value, …      # comment
//
// An argument is a number, a word, or a list of numbers in brackets. A number is a decimal, or 2^n. Headings below the
// numbered sections are rules.
#ifndef INTQ_TESTS_SUPPORT_WORKED_EXAMPLES_HPP
#define INTQ_TESTS_SUPPORT_WORKED_EXAMPLES_HPP

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <istream>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace intq::test {

/// A line, a call or a number that is not of the form above.
struct Malformed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// --- the page ------------------------------------------------------------------------------------------------------

struct WorkedExample {
    int line = 0;
    std::string text;  // without its comment
};

struct PageRule {
    std::string name;
    int examples = 0;
    bool is_built = true;  // the heading does not end in "(not built yet)"
};

struct ExamplePage {
    std::vector<std::string> sections;  // the numbers of the numbered headings
    std::vector<PageRule> rules;
    std::vector<WorkedExample> examples;
};

inline std::string trimmed(const std::string& text) {
    const auto first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
    return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

/// @throws Malformed for a block that does not end
inline ExamplePage read_example_page(std::istream& file) {
    const std::string planned = "(not built yet)";
    ExamplePage page;
    std::string text;
    int line = 0, block_line = 0;
    bool in_rule = false, in_block = false, in_examples = false;
    while (std::getline(file, text)) {
        ++line;
        if (text.starts_with("```")) {
            in_block = !in_block;
            in_examples = in_block && trimmed(text) == "```example";
            block_line = line;
        } else if (in_examples) {
            const std::string example = trimmed(text.substr(0, text.find('#')));
            if (example.empty()) continue;
            page.examples.push_back({line, example});
            if (in_rule) ++page.rules.back().examples;
        } else if (!in_block && text.starts_with("##")) {
            const std::string title = trimmed(text.substr(text.find_first_not_of('#')));
            const std::size_t digits = title.find_first_not_of("0123456789.");
            in_rule = digits == 0;
            if (in_rule)
                page.rules.push_back({title, 0, !title.ends_with(planned)});
            else
                page.sections.push_back(trimmed(title.substr(0, title[digits - 1] == '.' ? digits - 1 : digits)));
        }
    }
    if (in_block) throw Malformed("line " + std::to_string(block_line) + ": the block does not end");
    return page;
}

// --- numbers and lists ---------------------------------------------------------------------------------------------

/// "2^n" or "-2^n", else nothing.
inline bool is_power_of_two(const std::string& text, double& value) {
    const bool is_negative = text.starts_with('-');
    const std::string rest = text.substr(is_negative ? 1 : 0);
    if (!rest.starts_with("2^")) return false;
    int exponent = 0;
    const char* const end = rest.data() + rest.size();
    if (std::from_chars(rest.data() + 2, end, exponent).ptr != end || rest.size() == 2)
        throw Malformed("\"" + text + "\" is not a power of two");
    value = std::ldexp(is_negative ? -1.0 : 1.0, exponent);
    return true;
}

/// The number nearest to the text, rounded once to the type.
template <class Number> Number number_of(const std::string& text) {
    if (double power = 0; is_power_of_two(text, power)) return static_cast<Number>(power);
    if constexpr (std::is_integral_v<Number>) {
        Number value = 0;
        const char* const end = text.data() + text.size();
        const auto [at, error] = std::from_chars(text.data(), end, value);
        if (text.empty() || at != end || error != std::errc())
            throw Malformed("\"" + text + "\" is not an integer of its type");
        return value;
    } else {
        char* end = nullptr;
        const Number value = [&] {
            if constexpr (std::is_same_v<Number, float>)
                return std::strtof(text.c_str(), &end);
            else
                return std::strtod(text.c_str(), &end);
        }();
        if (text.empty() || *end != '\0') throw Malformed("\"" + text + "\" is not a number");
        return value;
    }
}

/// The parts between commas that are not inside brackets.
inline std::vector<std::string> split_at_commas(const std::string& text) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char c : text) {
        depth += c == '[' ? 1 : c == ']' ? -1 : 0;
        if (depth < 0 || depth > 1) throw Malformed("brackets do not match in \"" + text + "\"");
        if (c == ',' && depth == 0)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    if (depth != 0) throw Malformed("brackets do not match in \"" + text + "\"");
    for (std::string& part : parts)
        if (part = trimmed(part); part.empty()) throw Malformed("an empty place in \"" + text + "\"");
    return parts;
}

// --- calls ---------------------------------------------------------------------------------------------------------

/// The arguments of a call, by the names of a signature such as "x s zp=0".
class CallArguments {
public:
    CallArguments(const std::string& signature, const std::string& text) {
        std::vector<std::string> names;
        for (std::size_t at = 0; at < signature.size();) {
            const std::size_t end = std::min(signature.find(' ', at), signature.size());
            const std::string parameter = signature.substr(at, end - at);
            const std::size_t equals = parameter.find('=');
            names.push_back(parameter.substr(0, equals));
            if (equals != std::string::npos) values_[names.back()] = parameter.substr(equals + 1);
            at = end + 1;
        }
        std::map<std::string, bool> given;
        std::size_t position = 0;
        for (const std::string& argument : split_at_commas(text)) {
            const std::size_t equals = argument.find('=');
            if (equals == std::string::npos && position >= names.size())
                throw Malformed("too many arguments in \"" + text + "\"");
            const std::string name = equals == std::string::npos ? names[position++] : argument.substr(0, equals);
            if (std::find(names.begin(), names.end(), name) == names.end())
                throw Malformed("there is no argument \"" + name + "\"");
            if (given[name]) throw Malformed("the argument \"" + name + "\" is given twice");
            given[name] = true;
            values_[name] = equals == std::string::npos ? argument : argument.substr(equals + 1);
        }
        for (const std::string& name : names)
            if (!values_.contains(name)) throw Malformed("the argument \"" + name + "\" is missing");
    }

    const std::string& word(const std::string& name) const { return values_.at(name); }
    template <class Number> Number number(const std::string& name) const { return number_of<Number>(word(name)); }
    float real(const std::string& name) const { return number<float>(name); }
    std::int32_t code(const std::string& name) const { return number<std::int32_t>(name); }
    std::int64_t integer(const std::string& name) const { return number<std::int64_t>(name); }
    template <class Number> std::vector<Number> list(const std::string& name) const {
        const std::string& text = word(name);
        if (!text.starts_with('[') || !text.ends_with(']')) throw Malformed("\"" + text + "\" is not a list");
        std::vector<Number> values;
        for (const std::string& part : split_at_commas(text.substr(1, text.size() - 2)))
            values.push_back(number_of<Number>(part));
        return values;
    }

private:
    std::map<std::string, std::string> values_;
};

/// What a function gives: a number, written so that it reads back to the last bit, or words as "refused unsupported".
struct ExampleValue {
    enum Kind { words, integer, float32, float64 };
    Kind kind = words;
    std::string text;
};
using ExampleValues = std::vector<ExampleValue>;

template <class Number> ExampleValue example_value(Number number) {
    if constexpr (std::is_integral_v<Number>) {
        return {ExampleValue::integer, std::to_string(number)};
    } else {
        constexpr bool is_single = std::is_same_v<Number, float>;
        char text[64] = {};
        std::snprintf(text, sizeof text, "%.*g", std::numeric_limits<Number>::max_digits10,
                      static_cast<double>(number));
        return {is_single ? ExampleValue::float32 : ExampleValue::float64, text};
    }
}

struct ExampleFunction {
    std::string signature;
    ExampleValues (*evaluate)(const CallArguments& arguments);
};
using ExampleFunctions = std::map<std::string, ExampleFunction>;

/// Whether a text says a value; a float to its last bit.
inline bool says(const std::string& text, const ExampleValue& value) {
    const auto is_equal = [&]<class Number>(Number expected) {
        const auto given = number_of<Number>(value.text);
        return expected == given || (expected != expected && given != given);
    };
    if (value.kind == ExampleValue::words || text.starts_with("refused")) return text == value.text;
    if (value.kind == ExampleValue::integer) return is_equal(number_of<std::int64_t>(text));
    if (value.kind == ExampleValue::float32) return is_equal(number_of<float>(text));
    return is_equal(number_of<double>(text));
}

struct ExampleCall {
    std::string function, arguments, expected;
};

inline ExampleCall parse_call(const std::string& text) {
    const std::size_t open = text.find('('), equals = text.rfind(" = ");
    if (open == std::string::npos || open == 0 || equals == std::string::npos || equals < open)
        throw Malformed("not of the form function(arguments) = result");
    const std::string call = trimmed(text.substr(0, equals));
    if (!call.ends_with(')')) throw Malformed("not of the form function(arguments) = result");
    return {call.substr(0, open), call.substr(open + 1, call.size() - open - 2), trimmed(text.substr(equals + 3))};
}

/// Evaluates one example.
///
/// @return what is wrong with it, or nothing
inline std::string fault_of(const WorkedExample& example, const ExampleFunctions& functions) {
    const std::string where = "line " + std::to_string(example.line) + ", " + example.text + ": ";
    try {
        const ExampleCall call = parse_call(example.text);
        const auto function = functions.find(call.function);
        if (function == functions.end()) throw Malformed("there is no function \"" + call.function + "\"");
        const std::vector<std::string> expected = split_at_commas(call.expected);
        const ExampleValues values = function->second.evaluate({function->second.signature, call.arguments});
        bool is_right = expected.size() == values.size();
        std::string given;
        for (std::size_t i = 0; i < values.size(); ++i) {
            is_right = is_right && says(expected[i], values[i]);
            given += (i > 0 ? ", " : "") + values[i].text;
        }
        return is_right ? std::string() : where + "the library gives " + given;
    } catch (const Malformed& fault) {
        return where + fault.what();
    }
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_WORKED_EXAMPLES_HPP
