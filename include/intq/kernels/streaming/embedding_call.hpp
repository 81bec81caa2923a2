// SPDX-License-Identifier: MIT
//
// Parameters of embedding, index_copy and argmax, one run of each as a function pointer takes it, and their rows.
// Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_EMBEDDING_CALL_HPP
#define INTQ_KERNELS_STREAMING_EMBEDDING_CALL_HPP

#include <cstdint>

#include "intq/core/dtype.hpp"
#include "intq/core/executor.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// A table of codes, one row for each id. Rows may overlap, as the rows of a causal mask do.
struct EmbeddingParams {
    const void* codes = nullptr;  // the first row, or the last one where the step is negative, is first
    index_t rows = 0;
    index_t width = 0;
    DType dtype = DType::none;  // int8 or int16
    index_t step = 0;           // codes from the beginning of a row to that of the next; 0: width

    INTQ_ALWAYS_INLINE constexpr index_t distance() const noexcept {
        return step == 0 ? width : step < 0 ? -step : step;
    }
    /// Codes before a row.
    INTQ_ALWAYS_INLINE constexpr index_t start_of(index_t row) const noexcept {
        return (step < 0 ? rows - 1 - row : row) * distance();
    }
    /// Codes of the table.
    INTQ_ALWAYS_INLINE constexpr index_t size() const noexcept { return (rows - 1) * distance() + width; }
};

/// One run of embedding, as a function pointer takes it.
struct EmbeddingCall {
    const EmbeddingParams* params = nullptr;
    const std::int32_t* ids = nullptr;
    void* y = nullptr;
    index_t count = 0;  // ids
    const Executor* executor = nullptr;
};

struct EmbeddingRow {
    DType dtype;
    void (*run)(const EmbeddingCall&);
};

/// Where the rows of one sample lie: x is (outer, rows, inner) in the order of memory, the source (outer, count,
/// inner).
struct IndexCopyParams {
    index_t outer = 1;
    index_t rows = 1;
    index_t inner = 1;
    index_t count = 1;  // rows of the source, and indices of a sample
};

/// One run of index_copy, as a function pointer takes it.
struct IndexCopyCall {
    const IndexCopyParams* params = nullptr;
    const void* x = nullptr;       // may be y
    const void* source = nullptr;  // must not overlap y
    const std::int32_t* index = nullptr;
    void* y = nullptr;
    index_t batch = 0;
    const Executor* executor = nullptr;
};

struct IndexCopyRow {
    DType dtype;
    void (*run)(const IndexCopyCall&);
};

/// The axis, in the order of memory.
struct ArgMaxParams {
    index_t count = 1;  // its extent
    index_t inner = 1;  // elements from one to the next along it
};

/// One run of argmax, as a function pointer takes it.
struct ArgMaxCall {
    const void* x = nullptr;    // (rows, count, inner)
    std::int32_t* y = nullptr;  // (rows, inner)
    index_t rows = 0;
    ArgMaxParams params{};
    const Executor* executor = nullptr;
};

struct ArgMaxRow {
    DType dtype;  // of the input
    void (*run)(const ArgMaxCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_EMBEDDING_CALL_HPP
