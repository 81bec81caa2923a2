// SPDX-License-Identifier: MIT
//
// intq::Error: the exception of the hosted half (docs/design.md section 7). Layer: io, the first below the line.
//
// It lives in the core's inline namespace, so that units built for different instruction sets catch each other's.
#ifndef INTQ_IO_ERROR_HPP
#define INTQ_IO_ERROR_HPP

#include <stdexcept>
#include <string>
#include <string_view>

#include "intq/core/status.hpp"
#include "intq/io/describe.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// A wrong input. The message is one sentence for a person: which operator, node or file, the actual value and the
/// expected one. It is printable(), whatever text of a file is part of it.
class Error : public std::runtime_error {
public:
    explicit Error(const std::string& sentence);

    /// "where: sentence"; where is a node's or module's qualified name, or a path.
    Error(std::string_view where, std::string_view sentence);

    /// The sentence of `cause` with the place where it came up, unless no place inside the model explains it.
    Error(std::string_view where, const Error& cause);

    /// The sentence of a Status, with the place where it came up.
    explicit Error(const Status& status, std::string_view where = {});

    /// An error of the surroundings, such as an environment variable: whichever node meets it first, it is not the
    /// node's.
    static Error of_environment(const std::string& sentence);
    bool is_of_environment() const noexcept { return is_of_environment_; }

private:
    bool is_of_environment_ = false;

    static std::string join(std::string_view where, std::string_view sentence);
};

/// Throws the Error of a Status that is not ok.
///
/// @param where  qualified name of the node or module; may be empty
void throw_if_failed(const Status& status, std::string_view where = {});

/// The value of a Result, or the Error of its Status.
template <class T> T value_or_throw(const Result<T>& result, std::string_view where = {}) {
    throw_if_failed(result.status(), where);
    return *result;
}

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

INTQ_INLINE Error::Error(const std::string& sentence) : std::runtime_error(printable(sentence)) {}

INTQ_INLINE Error::Error(std::string_view where, std::string_view sentence)
    : std::runtime_error(join(where, sentence)) {}

INTQ_INLINE Error::Error(std::string_view where, const Error& cause)
    : std::runtime_error(cause.is_of_environment() ? cause.what() : join(where, cause.what())),
      is_of_environment_(cause.is_of_environment()) {}

INTQ_INLINE Error::Error(const Status& status, std::string_view where)
    : std::runtime_error(join(where, describe(status))) {}

INTQ_INLINE Error Error::of_environment(const std::string& sentence) {
    Error error(sentence);
    error.is_of_environment_ = true;
    return error;
}

INTQ_INLINE std::string Error::join(std::string_view where, std::string_view sentence) {
    return printable(where.empty() ? std::string(sentence) : std::string(where) + ": " + std::string(sentence));
}

INTQ_INLINE void throw_if_failed(const Status& status, std::string_view where) {
    if (!status.ok()) throw Error(status, where);
}

#endif  // INTQ_DEFINES(io)

}  // namespace INTQ_CORE_ABI
}  // namespace intq

#endif  // INTQ_IO_ERROR_HPP
