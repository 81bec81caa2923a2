// SPDX-License-Identifier: MIT
//
// Statuses and foreign names as text for people. Layer: io (docs/design.md section 7).
#ifndef INTQ_IO_DESCRIBE_HPP
#define INTQ_IO_DESCRIBE_HPP

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
/// @return the sentence, without a full stop, so that it can stand inside a longer message; "ok" for ok
std::string describe(const Status& status);

/// `text` in double quotes, fit for a message or a terminal: control characters as \xNN, cut after `limit` bytes.
std::string in_quotes(std::string_view text, std::size_t limit = 120);

/// Whether a number stands for an extent that is not known until run time: -1, or one far below all that mean
/// something. Equal numbers far below are equal extents.
constexpr bool is_unknown_extent(std::int64_t extent) noexcept {
    return extent == -1 || extent < std::numeric_limits<index_t>::min() / 4;
}

/// "(1, 3, 224, 224)"; an extent that is not known is printed as "?".
template <class Extents> std::string describe_shape(const Extents& extents) {
    std::string text = "(";
    for (const auto extent : extents) {
        if (text.size() > 1) text += ", ";
        text += is_unknown_extent(static_cast<std::int64_t>(extent)) ? std::string("?") : std::to_string(extent);
    }
    return text + ")";
}

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

INTQ_INLINE std::string in_quotes(std::string_view text, std::size_t limit) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string result = "\"";
    for (const char c : text.substr(0, limit)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte != 0x7f) {
            result += c;
        } else {
            result += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
        }
    }
    return result + (text.size() > limit ? "...\"" : "\"");
}

namespace detail {

INTQ_INLINE std::string phrase_of(Field field) {
    return field == Field::none ? "a value" : std::string("the ") + name_of(field);
}

INTQ_INLINE std::string dtype_name_of_code(std::int64_t code) {
    if (code < 0 || code > static_cast<std::int64_t>(DType::uint8))
        return "unknown (code " + std::to_string(code) + ")";
    return name_of(static_cast<DType>(code));
}

INTQ_INLINE std::string given_and_expected(const Status& status) {
    if (status.given == 0 && status.expected == 0) return {};
    return " (given " + std::to_string(status.given) + ", expected " + std::to_string(status.expected) + ")";
}

}  // namespace detail

INTQ_INLINE std::string describe(const Status& status) {
    const std::string field = detail::phrase_of(status.field);
    const std::string given = std::to_string(status.given), expected = std::to_string(status.expected);
    const auto sentence = [&]() -> std::string {
        switch (status.code) {
            case StatusCode::ok:
                return "ok";
            case StatusCode::shape_mismatch:
                return field + " has an extent of " + given + ", expected " + expected;
            case StatusCode::dtype_mismatch:
                return field + " has dtype " + detail::dtype_name_of_code(status.given) + ", expected " +
                       detail::dtype_name_of_code(status.expected);
            case StatusCode::value_out_of_range:
                return field + " is out of range: given " + given + ", the nearest legal value is " + expected;
            case StatusCode::scale_out_of_range:
                if (status.field == Field::input || status.field == Field::second_input ||
                    status.field == Field::output)
                    return "the scale of " + field + " cannot be represented";
                return field + " of channel " + given + " is a scale that cannot be represented";
            case StatusCode::bias_out_of_range:
                return field + " of channel " + given + " does not fit in " + expected + " bits";
            case StatusCode::accumulator_overflow:
                return "the accumulator could reach " + given + ", the largest that fits is " + expected;
            case StatusCode::unsupported:
                return field + detail::given_and_expected(status) + " is not supported by the target";
            case StatusCode::buffer_too_small:
                return field + " has " + given + " bytes, " + expected + " are needed";
            case StatusCode::misaligned:
                return field + " lies " + given + " bytes beyond a multiple of " + expected +
                       " bytes, which it must start at";
            case StatusCode::missing:
                return field + " is required and was not given";
            case StatusCode::not_finite:
                return "element " + given + " of " + field + " is NaN or infinite";
            case StatusCode::corrupt:
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
