// SPDX-License-Identifier: MIT
//
// Which elements of an axis TFLite's operators take, for both importers: the pieces of SPLIT and SPLIT_V, the indices
// of GATHER, the block of DEPTH_TO_SPACE and SPACE_TO_DEPTH. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_NODES_PIECES_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_NODES_PIECES_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/io/error.hpp"
#include "intq/io/flatbuffer.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// The elements that are taken of an axis.
struct AxisRange {
    index_t first = 0, count = 0, step = 1;
};

/// Pieces of one size.
std::vector<AxisRange> equal_pieces(index_t extent, std::size_t count);

/// Pieces of the given sizes, one of which may be -1: what the others leave.
std::vector<AxisRange> pieces_of_sizes(index_t extent, const std::vector<std::int64_t>& sizes);

/// More ranges than these are no longer a few moves.
inline constexpr std::size_t max_gathered_ranges = 8;

/// Ranges of equally spaced indices, which together are the given ones.
/// @throws Error for an index that the axis does not have, and for more ranges than max_gathered_ranges
std::vector<AxisRange> ranges_of_indices(index_t extent, const std::vector<std::int64_t>& indices);

/// The side of a block of cells, which DEPTH_TO_SPACE and SPACE_TO_DEPTH move.
/// @tparam Options  fields::DepthToSpace or fields::SpaceToDepth
template <class Options> index_t block_of(const io::FlatTable& options) {
    const auto block = options.number<std::int32_t>(Options::block, 0);
    if (block < 1) throw Error("a block of " + std::to_string(block) + " cells");
    return block;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_nodes)

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<AxisRange> equal_pieces(index_t extent, std::size_t count) {
    const auto pieces = static_cast<index_t>(count);
    if (pieces < 1 || extent % pieces != 0)
        throw Error("an axis of " + std::to_string(extent) + " elements has no " + std::to_string(count) +
                    " pieces of one size");
    std::vector<AxisRange> ranges;
    for (index_t piece = 0; piece < pieces; ++piece) ranges.push_back({piece * (extent / pieces), extent / pieces, 1});
    return ranges;
}

INTQ_INLINE std::vector<AxisRange> pieces_of_sizes(index_t extent, const std::vector<std::int64_t>& sizes) {
    std::int64_t known = 0;
    std::size_t open = 0;
    for (const std::int64_t size : sizes) {
        if (size < -1 || size > extent)
            throw Error("a piece of " + std::to_string(size) + " elements does not fit an axis of " +
                        std::to_string(extent));
        known += size < 0 ? 0 : size;
        open += size < 0 ? 1 : 0;
    }
    if (open > 1 || known > extent || (open == 0 && known != extent))
        throw Error("its pieces have " + std::to_string(known) + " elements, and " + std::to_string(open) +
                    " sizes are left open, of an axis of " + std::to_string(extent));
    std::vector<AxisRange> ranges;
    index_t first = 0;
    for (const std::int64_t size : sizes) {
        ranges.push_back({first, static_cast<index_t>(size < 0 ? extent - known : size), 1});
        first += ranges.back().count;
        if (ranges.back().count < 1) throw Error("a piece of it has no elements");
    }
    return ranges;
}

INTQ_INLINE std::vector<AxisRange> ranges_of_indices(index_t extent, const std::vector<std::int64_t>& indices) {
    std::vector<AxisRange> ranges;
    for (const std::int64_t given : indices) {
        if (given < 0 || given >= extent)
            throw Error("there is no element " + std::to_string(given) + " among " + std::to_string(extent));
        const auto index = static_cast<index_t>(given);
        AxisRange* const last = ranges.empty() ? nullptr : &ranges.back();
        if (last != nullptr && last->count == 1) last->step = index - last->first;
        if (last != nullptr && index == last->first + last->count * last->step)
            ++last->count;
        else
            ranges.push_back({index, 1, 1});
    }
    if (ranges.empty()) throw Error("it takes no elements");
    if (ranges.size() > max_gathered_ranges)
        throw Error("its indices are not equally spaced: they are " + std::to_string(ranges.size()) +
                    " ranges, more than the " + std::to_string(max_gathered_ranges) + " that a program joins");
    return ranges;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_nodes)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_NODES_PIECES_HPP
