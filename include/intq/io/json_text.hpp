// SPDX-License-Identifier: MIT
//
// JSON text, written and read without a tree. Layer: io.
//
// A reader walks a structure that it knows: the caller says what must come next, and anything else is an Error. Nesting
// costs no memory.
#ifndef INTQ_IO_JSON_TEXT_HPP
#define INTQ_IO_JSON_TEXT_HPP

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "intq/core/dtype.hpp"
#include "intq/io/describe.hpp"
#include "intq/io/error.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

using intq::is_utf8;

/// A string in quotes, with escapes, also for the characters that printable() does not show.
/// @throws Error where it is not UTF-8
std::string write_json_string(std::string_view text);

/// The shortest digits of a number. JSON has no infinities and no NaN: they are the strings "inf", "-inf" and "nan".
template <class T> std::string write_json_number(T number) {
    const std::string text = shortest_text(number);
    if constexpr (std::is_floating_point_v<T>) {
        if (number - number != T(0)) return '"' + text + '"';
    }
    return text;
}

/// Whether a space follows each comma and colon.
enum class JsonStyle : std::uint8_t { compact, spaced };

/// A JSON object, written member by member.
///
///     JsonObject().add("shape", "[1,2]").add_text("dtype", "int8").str()   // {"shape":[1,2],"dtype":"int8"}
class JsonObject {
public:
    explicit JsonObject(JsonStyle style = JsonStyle::compact) : style_(style) {}

    /// @param json  the value, as JSON
    JsonObject& add(std::string_view key, std::string_view json);
    /// A member that is a string.
    JsonObject& add_text(std::string_view key, std::string_view text);
    std::string str() const { return "{" + members_ + "}"; }

private:
    JsonStyle style_;
    std::string members_;
};

/// [a,b,…] of elements that write(item) turns into JSON.
template <class Items, class Write>
std::string write_json_list(const Items& items, const Write& write, JsonStyle style = JsonStyle::compact) {
    const char* const comma = style == JsonStyle::spaced ? ", " : ",";
    std::string text = "[";
    for (const auto& item : items) text += (text.size() == 1 ? "" : comma) + write(item);
    return text + "]";
}

/// A place in a JSON text.
class JsonText {
public:
    /// @param name  of the file, for messages; both must outlive this
    JsonText(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

    [[noreturn]] void fail(const std::string& what) const;

    /// Calls visit(key) at the value of each member of an object; visit must read the value.
    template <class Visit> void for_each_member(const Visit& visit) {
        for_each('{', '}', [&] {
            std::string key = parse_string();
            expect(':');
            visit(std::move(key));
        });
    }
    /// Calls visit() at each element of a list.
    template <class Visit> void for_each_element(const Visit& visit) { for_each('[', ']', visit); }

    std::string parse_string();
    /// A number without sign, fraction and exponent that fits in index_t.
    index_t parse_count();
    void expect_end();

private:
    void skip_spaces();
    bool accept(char c);
    void expect(char c);
    template <class Visit> void for_each(char open, char close, const Visit& visit) {
        expect(open);
        if (accept(close)) return;
        do visit();
        while (accept(','));
        expect(close);
    }
    char take();
    void take_escape(std::string& out);
    std::uint32_t take_hex();

    std::string_view rest_, name_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <algorithm>
#    include <charconv>
#    include <iterator>

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

struct Escape {
    char letter;
    char meaning;
};
inline constexpr Escape escapes[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'b', '\b'},
                                     {'f', '\f'}, {'n', '\n'},  {'r', '\r'}, {'t', '\t'}};

/// \uXXXX of a character of at most three bytes.
INTQ_INLINE std::string escape_of(std::string_view character) {
    const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(character[i])); };
    const std::uint32_t code = character.size() == 1   ? at(0)
                               : character.size() == 2 ? (at(0) & 0x1f) << 6 | (at(1) & 0x3f)
                                                       : (at(0) & 0x0f) << 12 | (at(1) & 0x3f) << 6 | (at(2) & 0x3f);
    constexpr char digits[] = "0123456789abcdef";
    return {'\\', 'u', digits[code >> 12], digits[code >> 8 & 15], digits[code >> 4 & 15], digits[code & 15]};
}

/// @pre code is not a surrogate and at most 0x10ffff
INTQ_INLINE void append_utf8(std::string& out, std::uint32_t code) {
    const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    const auto tail = [&](int shift) { put(0x80 | ((code >> shift) & 0x3f)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xc0 | (code >> 6));
        tail(0);
    } else if (code < 0x10000) {
        put(0xe0 | (code >> 12));
        tail(6);
        tail(0);
    } else {
        put(0xf0 | (code >> 18));
        tail(12);
        tail(6);
        tail(0);
    }
}

}  // namespace detail

INTQ_INLINE std::string write_json_string(std::string_view text) {
    if (!is_utf8(text)) throw Error("JSON", "the text " + in_quotes(text, 20) + " is not UTF-8");
    std::string out = "\"";
    for (std::string_view character; !text.empty(); text.remove_prefix(character.size())) {
        character = text.substr(0, intq::detail::utf8_length(text));
        const auto* const escape = std::find_if(std::begin(detail::escapes), std::end(detail::escapes),
                                                [&](const detail::Escape& row) { return row.meaning == character[0]; });
        if (character[0] != '/' && escape != std::end(detail::escapes)) {
            out += {'\\', escape->letter};
        } else if (intq::detail::is_shown(character)) {
            out += character;
        } else {
            out += detail::escape_of(character);
        }
    }
    return out + "\"";
}

INTQ_INLINE JsonObject& JsonObject::add(std::string_view key, std::string_view json) {
    const bool has_spaces = style_ == JsonStyle::spaced;
    if (!members_.empty()) members_ += has_spaces ? ", " : ",";
    members_ += write_json_string(key);
    members_ += has_spaces ? ": " : ":";
    members_ += json;
    return *this;
}

INTQ_INLINE JsonObject& JsonObject::add_text(std::string_view key, std::string_view text) {
    return add(key, write_json_string(text));
}

INTQ_INLINE std::string JsonText::parse_string() {
    expect('"');
    std::string out;
    for (char c = take(); c != '"'; c = take()) {
        if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
        if (c == '\\') {
            take_escape(out);
        } else {
            out += c;
        }
    }
    if (!is_utf8(out)) fail("a string is not UTF-8");
    return out;
}

INTQ_INLINE std::uint32_t JsonText::take_hex() {
    std::uint32_t code = 0;
    const std::string_view digits = rest_.substr(0, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || end != digits.data() + 4) fail("four hexadecimal digits expected after \\u");
    rest_.remove_prefix(4);
    return code;
}

INTQ_INLINE void JsonText::take_escape(std::string& out) {
    const char letter = take();
    if (letter != 'u') {
        for (const detail::Escape& row : detail::escapes)
            if (row.letter == letter) {
                out += row.meaning;
                return;
            }
        fail(std::string("unknown escape \\") + letter);
    }
    std::uint32_t code = take_hex();
    if (code >= 0xd800 && code < 0xdc00) {
        if (rest_.substr(0, 2) != "\\u") fail("half of a surrogate pair");
        rest_.remove_prefix(2);
        const std::uint32_t low = take_hex();
        if (low < 0xdc00 || low >= 0xe000) fail("half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        fail("half of a surrogate pair");
    }
    detail::append_utf8(out, code);
}

INTQ_INLINE index_t JsonText::parse_count() {
    skip_spaces();
    index_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error == std::errc::result_out_of_range) fail("a number overflows");
    const auto length = static_cast<std::size_t>(end - rest_.data());
    const bool has_leading_zero = length > 1 && rest_.front() == '0';
    if (error != std::errc() || value < 0 || rest_.front() == '-' || has_leading_zero)
        fail("a count expected at " + in_quotes(rest_, 20));
    rest_.remove_prefix(length);
    return value;
}

INTQ_INLINE void JsonText::fail(const std::string& what) const { throw Error(name_, "damaged JSON: " + what); }

INTQ_INLINE void JsonText::expect_end() {
    skip_spaces();
    if (!rest_.empty()) fail("text after the end: " + in_quotes(rest_, 20));
}

INTQ_INLINE void JsonText::skip_spaces() {
    const auto first = rest_.find_first_not_of(" \t\n\r");
    rest_.remove_prefix((std::min)(first, rest_.size()));
}

INTQ_INLINE bool JsonText::accept(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
}

INTQ_INLINE void JsonText::expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "' expected at " + in_quotes(rest_, 20));
}

INTQ_INLINE char JsonText::take() {
    if (rest_.empty()) fail("a string does not end");
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_JSON_TEXT_HPP
