// SPDX-License-Identifier: MIT
//
// embedding: rows of a table of codes, by their numbers. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_EMBEDDING_HPP
#define INTQ_KERNELS_STREAMING_EMBEDDING_HPP

#include <cstddef>
#include <cstring>

#include "intq/core/assert.hpp"
#include "intq/kernels/streaming/embedding_call.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// y[i] = row ids[i] of the table. An id outside of the table is the nearest one inside, so that no id reads other
/// memory.
///
/// @tparam Code  int8 or int16
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(outputs); bound by memory
template <class Code> void embed_codes(const EmbeddingCall& call) INTQ_NOEXCEPT {
    const EmbeddingParams& table = *call.params;
    (*call.executor)(call.count, [&](index_t i) {
        const index_t id = call.ids[i], last = table.rows - 1;
        const index_t row = id < 0 ? 0 : id > last ? last : id;
        std::memcpy(static_cast<Code*>(call.y) + i * table.width,
                    static_cast<const Code*>(table.codes) + row * table.width,
                    static_cast<std::size_t>(table.width) * sizeof(Code));
    });
}

namespace detail {

// The same code for every backend: rows move memory and compute nothing.
template <class Backend>
inline constexpr EmbeddingRow embedding_rows[] = {{DType::int8, &embed_codes<std::int8_t>},
                                                  {DType::int16, &embed_codes<std::int16_t>}};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_EMBEDDING_HPP
