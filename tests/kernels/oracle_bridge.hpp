// SPDX-License-Identifier: MIT
//
// Between the library and the oracle: the same targets in both forms, and results that are compared.
#ifndef INTQ_TESTS_KERNELS_ORACLE_BRIDGE_HPP
#define INTQ_TESTS_KERNELS_ORACLE_BRIDGE_HPP

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "intq/core/executor.hpp"
#include "kernels/drawn.hpp"
#include "reference/layers.hpp"
#include "support/guarded_buffer.hpp"

namespace intq::test {

/// The oracle's targets, in the order of kernels::AllTargets.
inline std::array<oracle::Target, 7> oracle_targets() {
    return {oracle::fp32(),  oracle::tflite_double(), oracle::tflite_single(), oracle::bernoulli2(),
            oracle::bayes(), oracle::meta(),          oracle::litert()};
}

inline bool holds(GuardedBuffer& buffer, const std::vector<unsigned char>& bytes) {
    return buffer.size() == bytes.size() &&
           (bytes.empty() || std::memcmp(buffer.as<unsigned char>(), bytes.data(), bytes.size()) == 0);
}

/// Says where two results differ first.
inline std::string first_difference(GuardedBuffer& buffer, const std::vector<unsigned char>& expected, DType dtype) {
    const auto size = static_cast<std::size_t>(size_of(dtype));
    const auto code_at = [&](const unsigned char* bytes, std::size_t i) -> std::int64_t {
        std::int64_t code = 0;
        std::memcpy(&code, bytes + i * size, size);
        const int unused = 64 - bits_of(dtype);
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(code) << unused) >> unused;
    };
    for (std::size_t i = 0; i < expected.size() / size; ++i) {
        const std::int64_t given = code_at(buffer.as<unsigned char>(), i), wanted = code_at(expected.data(), i);
        if (given != wanted)
            return "element " + std::to_string(i) + " of " + std::to_string(expected.size() / size) +
                   " (channels last) is " + std::to_string(given) + ", the oracle says " + std::to_string(wanted);
    }
    return "equal";
}

/// Two threads that take tasks in turn, the first the even ones.
inline Executor two_threads() {
    return Executor(
        [](void*, index_t count, Executor::Task task, void* context) {
            std::thread other([=] {
                for (index_t i = 1; i < count; i += 2) task(context, i);
            });
            for (index_t i = 0; i < count; i += 2) task(context, i);
            other.join();
        },
        nullptr);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_ORACLE_BRIDGE_HPP
