// SPDX-License-Identifier: MIT
//
// The limits of a file: every number that decides how much memory or time a model takes. Layer: interop.
//
// Beyond these bounds a file is not a model that the library can serve, but a way to make it slow, to fill the memory
// or to overflow a number.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_READ_LIMITS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_READ_LIMITS_HPP

#include <cstddef>
#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// Nodes of a file, and of the graph that is made of it: outputs of a Split and parts of a Slice are nodes as well.
/// Large language models have a few thousand.
inline constexpr std::size_t max_nodes = 16384;

/// Nodes, their inputs, outputs and attributes, tensors, inputs and outputs of the graph. Two bytes of a file are
/// enough for one, and it takes a hundred bytes of memory.
inline constexpr std::size_t max_items = std::size_t{1} << 18;

/// Bytes of a name.
inline constexpr std::size_t max_name = 4096;

/// Axes of a tensor in the file.
inline constexpr std::size_t max_dims = 32;

/// Extent of a value, and its number of elements as far as the extents are known.
inline constexpr std::int64_t max_extent = std::int64_t{1} << 31;

/// Beyond the size of images, and small enough that products of two, or of one and max_extent, do not overflow.
inline constexpr std::int64_t max_window_extent = std::int64_t{1} << 24;

/// Bytes of constants that all nodes together may copy, when the file holds this many. Nodes may share a constant, but
/// each module has its own parameters.
constexpr std::uint64_t max_copied(std::uint64_t held) noexcept { return (std::uint64_t{16} << 20) + 64 * held; }

/// How many times over the tensors of a model may read a file beside it. Tensors may share bytes.
inline constexpr std::uint64_t max_external_reads = 4;

/// Entries of a tensor's external data. ONNX defines five.
inline constexpr std::size_t max_external_entries = 16;

/// Elements of a constant that is computed from others. Shapes have a few tens.
inline constexpr std::int64_t max_folded = std::int64_t{1} << 20;

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_INTEROP_ONNX_INTERNAL_READ_LIMITS_HPP
