// SPDX-License-Identifier: MIT
//
// Statuses and foreign names as text for people. Layer: io (docs/design.md section 7).
#ifndef INTQ_IO_DESCRIBE_HPP
#define INTQ_IO_DESCRIBE_HPP

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "intq/core/dtype.hpp"
#include "intq/core/status.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// A whole sentence that says what a Status means: the operator, the field, what was given, what was expected.
///
///     describe({StatusCode::dtype_mismatch, OpKind::conv2d, Field::weight, 4, 3})
///         = "conv2d: the weight has dtype int16, expected int8"
///
/// @return the sentence, without a full stop, so that it can be part of a longer message; "ok" for ok
std::string describe(const Status& status);

/// Whether bytes are well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
///
/// Source   The Unicode Standard, table 3-7
constexpr bool is_utf8(std::string_view text) noexcept;

/// Text from anywhere, fit for a message or a terminal: control characters, characters that turn the direction of
/// writing or end a line, and bytes that are not UTF-8 become \xNN. Text in that form stays as it is.
///
/// Every Error, table and report passes its text through here.
std::string printable(std::string_view text);

/// `text` in double quotes, printable, cut after `limit` bytes.
std::string in_quotes(std::string_view text, std::size_t limit = 120);

/// Whether a number denotes an extent that is not known until run time: -1, or one far below all meaningful numbers.
/// Equal numbers far below are equal extents.
constexpr bool is_unknown_extent(std::int64_t extent) noexcept {
    return extent == -1 || extent < (std::numeric_limits<index_t>::min)() / 4;
}

/// "(1, 3, 224, 224)"; an extent that is not known is printed as "?".
///
/// @param may_be_unknown  false: -1 is a number like any other
template <class Extents> std::string describe_shape(const Extents& extents, bool may_be_unknown = true) {
    std::string text = "(";
    for (const auto extent : extents) {
        if (text.size() > 1) text += ", ";
        const bool is_unknown = may_be_unknown && is_unknown_extent(static_cast<std::int64_t>(extent));
        text += is_unknown ? std::string("?") : std::to_string(extent);
    }
    return text + ")";
}

/// The shortest digits that read back as the number; "inf", "-inf", "nan" for other values.
template <class T> std::string shortest_text(T number) {
    if (number != number) return "nan";  // to_chars may add a sign
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

namespace detail {

/// Bytes of the first character; 0 where it is not well-formed UTF-8.
constexpr std::size_t utf8_length(std::string_view text) noexcept {
    const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned lead = at(0), second = at(1);
    if (lead < 0x80) return 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    for (std::size_t i = 1; i < length; ++i)
        if ((at(i) & 0xc0u) != 0x80u) return 0;
    const bool is_bad = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
                        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f);
    return is_bad ? 0 : length;
}

/// Whether a well-formed character is shown as it is: C0, C1 and DEL are not, nor U+2028 and U+2029, which end a line,
/// nor the marks, embeddings, overrides and isolates of direction.
constexpr bool is_shown(std::string_view character) noexcept {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
    if (character.size() == 1) return at(0) >= 0x20 && at(0) != 0x7f;
    if (character.size() == 2) return !(at(0) == 0xc2 && at(1) < 0xa0) && !(at(0) == 0xd8 && at(1) == 0x9c);
    if (character.size() > 3 || at(0) != 0xe2) return true;
    const bool turns_or_ends = at(1) == 0x80 && (at(2) == 0x8e || at(2) == 0x8f || (at(2) >= 0xa8 && at(2) <= 0xae));
    const bool isolates = at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9;
    return !turns_or_ends && !isolates;
}

}  // namespace detail

constexpr bool is_utf8(std::string_view text) noexcept {
    for (std::size_t length = 0; !text.empty(); text.remove_prefix(length)) {
        length = detail::utf8_length(text);
        if (length == 0) return false;
    }
    return true;
}

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

INTQ_INLINE std::string printable(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string result;
    while (!text.empty()) {
        const std::size_t length = detail::utf8_length(text);
        const std::string_view character = text.substr(0, length == 0 ? 1 : length);
        text.remove_prefix(character.size());
        if (length != 0 && detail::is_shown(character)) {
            result += character;
            continue;
        }
        for (const char c : character) {
            const auto byte = static_cast<unsigned char>(c);
            result += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
        }
    }
    return result;
}

INTQ_INLINE std::string in_quotes(std::string_view text, std::size_t limit) {
    std::size_t end = (std::min)(limit, text.size());
    // Not within a character.
    while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    return '"' + printable(text.substr(0, end)) + (text.size() > limit ? "...\"" : "\"");
}

namespace detail {

INTQ_INLINE std::string phrase_of(Field field) {
    switch (field) {
        case Field::none:
            return "a value";
        case Field::channels:
            return "the number of channels";
        case Field::zero_point:
            return "the zero point";
        case Field::quant_range:
            return "quant_min or quant_max";
        default:
            return std::string("the ") + name_of(field);
    }
}

INTQ_INLINE std::string dtype_name_of_code(std::int64_t code) {
    if (code < 0 || code > static_cast<std::int64_t>(DType::uint8))
        return "unknown (code " + std::to_string(code) + ")";
    return name_of(static_cast<DType>(code));
}

/// " of the output"; empty where no owner is named.
INTQ_INLINE std::string of_owner(const Status& status) {
    return status.owner == Field::none ? "" : std::string(" of the ") + name_of(status.owner);
}

/// "the scale of the output", "the scale of channel 3 of the weight"
INTQ_INLINE std::string scale_of(const Status& status) {
    if (status.field == Field::scale_ratio && status.expected != 0) return phrase_of(status.field) + of_owner(status);
    return phrase_of(status.field) + (status.given < 0 ? "" : " of channel " + std::to_string(status.given)) +
           of_owner(status);
}

INTQ_INLINE std::string ratio_bound(const Status& status) {
    if (status.expected == 0) return " is too small or too large to requantize by";
    return " is too large to requantize by: a shift by " + std::to_string(status.given) + ", at most " +
           std::to_string(status.expected);
}

/// "there are 5 scales of the weight, expected 6", "the input has an extent of 5, expected 6"
INTQ_INLINE std::string shape_mismatch(const Status& status) {
    const std::string given = std::to_string(status.given), expected = ", expected " + std::to_string(status.expected);
    const char* const counted = status.field == Field::scale        ? "scale"
                                : status.field == Field::zero_point ? "zero point"
                                : status.field == Field::channels   ? "channel"
                                : status.field == Field::multiplier ? "multiplier"
                                                                    : nullptr;
    if (status.field == Field::groups)
        return "the " + given + " channels" + of_owner(status) + " are not a multiple of the " +
               std::to_string(status.expected) + " groups";
    if (status.field == Field::kernel)
        return "the window spans " + given + " pixels, the padded image has " + std::to_string(status.expected);
    if (counted == nullptr) return phrase_of(status.field) + of_owner(status) + " has an extent of " + given + expected;
    return (status.given == 1 ? "there is 1 " : "there are " + given + " ") + counted + (status.given == 1 ? "" : "s") +
           of_owner(status) + expected;
}

INTQ_INLINE bool is_tensor(Field field) {
    return field == Field::input || field == Field::second_input || field == Field::sumin || field == Field::weight ||
           field == Field::output;
}

INTQ_INLINE std::string given_and_expected(const Status& status) {
    if (status.given == 0 && status.expected == 0) return {};
    return " (given " + std::to_string(status.given) + ", expected " + std::to_string(status.expected) + ")";
}

/// For a value that no target, or not this one, takes: the value in the words of the field.
INTQ_INLINE std::string unsupported(const Status& status) {
    if (status.op == OpKind::program && status.field == Field::multiplier) return "it is for another target";
    if (status.op == OpKind::program && status.field == Field::layout) return "it is packed for another backend";
    if (status.op == OpKind::none && status.field == Field::none)
        return "the machine has vectors of " + std::to_string(status.given) + " bits, and the code is compiled for " +
               std::to_string(status.expected);
    const std::string field = phrase_of(status.field) + of_owner(status), given = std::to_string(status.given);
    switch (status.field) {
        case Field::scale:
            return field + " must equal the input's" + (status.given == 0 ? "" : " for windows with padding") +
                   " on this target";
        case Field::axis:
            if (status.expected < 0) return "scales per channel" + of_owner(status) + " are not supported";
            if (status.given == status.expected) break;
            return field + " is " + given + ", but only " + std::to_string(status.expected) + " is supported";
        case Field::zero_point:
            return field + (status.given == 0 ? "" : " is " + given + ", which") +
                   " is not supported; expected a zero point of " + std::to_string(status.expected);
        case Field::divisor:
            return std::string("count_include_pad = ") + (status.given == 0 ? "true" : "false") +
                   " with padding is not supported by the target";
        case Field::activation:
            if (status.given != 0) return "relu6 is not supported with an output of int32";
            return "given bounds of the codes replace an activation, and need an output of codes";
        case Field::multiplier:
            return "given multipliers are for targets that requantize by multiplier and shift, and for an output of "
                   "codes";
        case Field::version:
            return "the file has version " + given + ", and version " + std::to_string(status.expected) + " is read";
        default:
            break;
    }
    if (is_tensor(status.field) && status.given != 0)
        return field + " has dtype " + dtype_name_of_code(status.given) + ", which is not supported by the target";
    const std::string what = status.field == Field::none    ? "the operator"
                             : status.field == Field::sumin ? "a fused add"
                                                            : field;
    return what + given_and_expected(status) + " is not supported by the target";
}

}  // namespace detail

INTQ_INLINE std::string describe(const Status& status) {
    const std::string field = detail::phrase_of(status.field) + detail::of_owner(status);
    const std::string given = std::to_string(status.given), expected = std::to_string(status.expected);
    const auto sentence = [&]() -> std::string {
        switch (status.code) {
            case StatusCode::ok:
                return "ok";
            case StatusCode::shape_mismatch:
                return detail::shape_mismatch(status);
            case StatusCode::dtype_mismatch:
                return field + " has dtype " + detail::dtype_name_of_code(status.given) + ", expected " +
                       detail::dtype_name_of_code(status.expected);
            case StatusCode::value_out_of_range:
                // For a tensor it is an extent; for an observer, a value.
                return (detail::is_tensor(status.field) && status.op != OpKind::observe ? "an extent of " : "") +
                       field + " is out of range: given " + given + ", the nearest legal value is " + expected;
            case StatusCode::scale_out_of_range:
                return detail::scale_of(status) + (status.field == Field::scale_ratio
                                                       ? detail::ratio_bound(status)
                                                       : " is out of range; a scale lies between 2^-100 and 2^126");
            case StatusCode::bias_out_of_range:
                return field + " of channel " + given +
                       " is too large for these scales: its code must lie between -2^" + expected + " and 2^" +
                       expected;
            case StatusCode::accumulator_overflow:
                return "the accumulator could reach " + given + ", the largest that fits is " + expected;
            case StatusCode::unsupported:
                return detail::unsupported(status);
            case StatusCode::buffer_too_small:
                return field + " has " + given + " bytes, " + expected + " are needed";
            case StatusCode::misaligned:
                return field + " lies " + given + " bytes beyond a multiple of " + expected +
                       " bytes, which it must start at";
            case StatusCode::missing:
                return field + " is required and was not given" +
                       (status.expected > 0 ? "; " + expected + " bytes are needed" : "");
            case StatusCode::not_finite:
                if (status.field == Field::scale) return detail::scale_of(status) + " is NaN or infinite";
                return "element " + given + " of " + field + " is NaN or infinite";
            case StatusCode::overlapping:
                return detail::phrase_of(status.field) + " overlaps " + detail::phrase_of(status.owner) + " in memory";
            case StatusCode::unexpected:
                return field + " was given, but the layer was made without it";
            case StatusCode::corrupt:
                if (status.field == Field::geometry) return field + " does not fit this window";
                if (status.field == Field::magic) return "the file does not begin as such a file does";
                if (status.field == Field::checksum) return "the file is damaged: its checksum differs";
                if (status.field == Field::file && status.expected > 0)
                    return "the file has " + given + " bytes, " + expected + " are expected";
                return field + " contradicts the rest of the data" + detail::given_and_expected(status);
        }
        return field + ": unknown status" + detail::given_and_expected(status);
    }();
    if (status.ok() || status.op == OpKind::none) return sentence;
    return std::string(name_of(status.op)) + ": " + sentence;
}

#endif  // INTQ_DEFINES(io)

}  // namespace INTQ_CORE_ABI
}  // namespace intq

#endif  // INTQ_IO_DESCRIBE_HPP
