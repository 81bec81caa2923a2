// SPDX-License-Identifier: MIT
//
// The limits of a TFLite file. A file of a few bytes must not take the memory of a large model. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_READ_LIMITS_HPP
#define INTQ_INTEROP_TFLITE_READ_LIMITS_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

#include "intq/core/abi.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// Limits of an import, which a caller may change.
struct Limits {
    /// Bytes of a tensor that an operator writes, in the shape that the file holds.
    index_t tensor_bytes = index_t{1} << 30;
    /// Bytes of all these tensors together.
    index_t total_bytes = index_t{1} << 33;
    /// Bytes of weights that all operators together may copy, and bytes of the program's constants, beyond 64 times the
    /// bytes of the file. Operators may share a weight, but each packs its own; a window has a table of its places.
    index_t copied_bytes = index_t{1} << 28;
};

/// The bytes that operators of a file may copy under these limits.
inline std::uint64_t most_copied(const Limits& limits, const std::vector<std::byte>& file) noexcept {
    return static_cast<std::uint64_t>(limits.copied_bytes) + 64 * static_cast<std::uint64_t>(file.size());
}

namespace detail {

/// The check of a program looks at pairs of operators.
inline constexpr std::size_t max_operators = 4096;
inline constexpr std::size_t max_tensors = 16384;
inline constexpr std::size_t max_buffers = 65536;
/// Inputs and outputs of one operator, or of the graph.
inline constexpr std::size_t max_operands = 256;
inline constexpr std::size_t max_name = 4096;
inline constexpr std::size_t max_dims = 8;
inline constexpr std::int64_t max_extent = std::int64_t{1} << 30;

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_INTEROP_TFLITE_READ_LIMITS_HPP
