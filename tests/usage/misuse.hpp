// SPDX-License-Identifier: MIT
//
// A table of misuses: what a user did, and what the message must hold. Run a test with -s and it prints its table:
//
//     build/release/tests/test_usage -s
#ifndef INTQ_TESTS_USAGE_MISUSE_HPP
#define INTQ_TESTS_USAGE_MISUSE_HPP

#include <functional>
#include <string>
#include <vector>

#include "intq/core/status.hpp"

namespace intq::test {

/// One row: the fragments say what is wrong, where, and what was expected or what to do. They are written before the
/// message is read.
struct Misuse {
    const char* what;
    std::function<std::string()> message;
    std::vector<std::string> holds;
};

/// The message of the intq::Error that `act` throws. Anything else says so: nothing thrown, another exception.
std::string refusal(const std::function<void()>& act);

/// What describe() makes of a Status that is not ok.
std::string refusal(const Status& status);
template <class T> std::string refusal(const Result<T>& result) { return refusal(result.status()); }

/// What a program that ends by a failed assertion prints. `act` runs in a process of its own.
std::string last_words(const std::function<void()>& act);

/// Checks each row, and that no message speaks of the standard library instead of the user's call.
void check_misuses(const std::vector<Misuse>& table);

}  // namespace intq::test

#endif  // INTQ_TESTS_USAGE_MISUSE_HPP
