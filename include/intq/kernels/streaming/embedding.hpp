// SPDX-License-Identifier: MIT
//
// Rows of codes by their numbers: embedding reads them of a table, index_copy replaces them. And the number of the
// largest code, which argmax finds. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_EMBEDDING_HPP
#define INTQ_KERNELS_STREAMING_EMBEDDING_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "intq/arith/argmax.hpp"
#include "intq/core/assert.hpp"
#include "intq/core/dtype.hpp"
#include "intq/core/quotient.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/embedding_call.hpp"
#include "intq/simd/select.hpp"

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

/// The largest code of each of some columns, and the first row that holds it.
template <index_t Columns> struct ColumnPeaks {
    std::int32_t codes[array_size(Columns)];
    index_t rows[array_size(Columns)];
};

/// @param step     codes from a row to the next
/// @param columns  at most L::width(); no code beside them is read
template <class L, class Code>
ColumnPeaks<L::width()> peaks_of_columns(const Code* x, index_t rows, index_t step, index_t columns) noexcept {
    using arith::ArgMax;
    ColumnPeaks<L::width()> peaks{};
    for (index_t first = 0; first < rows; first += ArgMax::places) {
        const index_t count = smaller(rows - first, ArgMax::places);
        auto keys = L::set(INT32_MIN);
        const auto take = [&](index_t row, auto codes) {
            keys = (L::max)(keys, ArgMax::key<L>(codes, static_cast<std::int32_t>(row)));
        };
        const Code* at = x + first * step;
        if (columns == L::width())
            for (index_t row = 0; row < count; ++row, at += step) take(row, L::load(at));
        else
            for (index_t row = 0; row < count; ++row, at += step) take(row, L::load(at, columns));
        std::int32_t largest[array_size(L::width())];
        L::store(largest, keys, columns);
        for (index_t c = 0; c < columns; ++c) {
            const std::int32_t code = ArgMax::code_of(largest[c]);
            if (first > 0 && code <= peaks.codes[c]) continue;
            peaks.codes[c] = code;
            peaks.rows[c] = first + ArgMax::place_of(largest[c]);
        }
    }
    return peaks;
}

/// The index of the largest of some codes that lie next to each other: whole vectors are rows of a table, whose columns
/// are searched together.
template <class L, class Code> index_t place_of_largest(const Code* x, index_t count) noexcept {
    const index_t rows = quotient(count, L::width());
    std::int32_t largest = x[0];
    index_t place = 0, next = 1;
    if (rows > 1) {
        const auto peaks = peaks_of_columns<L>(x, rows, L::width(), L::width());
        place = count;
        for (index_t c = 0; c < L::width(); ++c) {
            const index_t at = peaks.rows[c] * L::width() + c;
            if (place < count && (peaks.codes[c] < largest || (peaks.codes[c] == largest && at > place))) continue;
            largest = peaks.codes[c];
            place = at;
        }
        next = rows * L::width();
    }
    for (; next < count; ++next)
        if (x[next] > largest) largest = x[next], place = next;
    return place;
}

}  // namespace detail

/// y = the index of the largest code along an axis, of equal codes the lowest one
///
///     y[r, i] = min { k : x[r, k, i] = max_j x[r, j, i] }
///
/// @tparam Code  int8 or int16
/// @pre 1 <= count < 2^31; y must not overlap x
///
/// Result   exact; the same on every backend and executor
/// Memory   no scratch
/// Cost     O(n): one pass
template <class Backend, class Code> void argmax_codes(const ArgMaxCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const auto* const x = static_cast<const Code*>(call.x);
    const index_t count = call.params.count, inner = call.params.inner;
    if (inner == 1) {
        const index_t step = count < detail::chunk_elements ? quotient(detail::chunk_elements, count) : 1;
        (*call.executor)(detail::chunks_of(call.rows, step), [&](index_t chunk) {
            const index_t last = detail::smaller((chunk + 1) * step, call.rows);
            for (index_t row = chunk * step; row < last; ++row)
                call.y[row] = static_cast<std::int32_t>(detail::place_of_largest<L>(x + row * count, count));
        });
        return;
    }
    const index_t vectors = detail::chunks_of(inner, L::width());
    (*call.executor)(call.rows * vectors, [&](index_t task) {
        const index_t row = quotient(task, vectors), first = (task - row * vectors) * L::width();
        const index_t columns = detail::smaller(inner - first, L::width());
        const auto peaks = detail::peaks_of_columns<L>(x + row * count * inner + first, count, inner, columns);
        for (index_t c = 0; c < columns; ++c)
            call.y[row * inner + first + c] = static_cast<std::int32_t>(peaks.rows[c]);
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

template <class Backend>
inline constexpr ArgMaxRow argmax_rows[] = {{DType::int8, &argmax_codes<Backend, std::int8_t>},
                                            {DType::int16, &argmax_codes<Backend, std::int16_t>}};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_EMBEDDING_HPP
