// SPDX-License-Identifier: MIT
//
// Rows of codes by their numbers: embedding reads them of a table, index_copy replaces them. Layer: kernels.
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
                    static_cast<const Code*>(table.codes) + table.start_of(row),
                    static_cast<std::size_t>(table.width) * sizeof(Code));
    });
}

/// y[n] = x[n], but for the rows index[n][t], which are source[n][t]; of equal indices the last counts. An index of no
/// row replaces the nearest one, so that no index writes other memory.
///
/// @tparam Code  int8 or int16
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(source) where y is x, else O(x); bound by memory
template <class Code> void index_copy_codes(const IndexCopyCall& call) INTQ_NOEXCEPT {
    const IndexCopyParams& p = *call.params;
    const auto bytes_of = [&](index_t rows) { return static_cast<std::size_t>(rows * p.inner) * sizeof(Code); };
    (*call.executor)(call.batch * p.outer, [&](index_t i) {
        auto* const y = static_cast<Code*>(call.y) + i * p.rows * p.inner;
        const auto* const source = static_cast<const Code*>(call.source) + i * p.count * p.inner;
        if (call.x != call.y) std::memcpy(y, static_cast<const Code*>(call.x) + i * p.rows * p.inner, bytes_of(p.rows));
        for (index_t t = 0; t < p.count; ++t) {
            const index_t given = call.index[i / p.outer * p.count + t], last = p.rows - 1;
            const index_t row = given < 0 ? 0 : given > last ? last : given;
            std::memcpy(y + row * p.inner, source + t * p.inner, bytes_of(1));
        }
    });
}

namespace detail {

// The same code for every backend: rows move memory and compute nothing.
template <class Backend>
inline constexpr EmbeddingRow embedding_rows[] = {{DType::int8, &embed_codes<std::int8_t>},
                                                  {DType::int16, &embed_codes<std::int16_t>}};

template <class Backend>
inline constexpr IndexCopyRow index_copy_rows[] = {{DType::int8, &index_copy_codes<std::int8_t>},
                                                   {DType::int16, &index_copy_codes<std::int16_t>}};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_EMBEDDING_HPP
