// SPDX-License-Identifier: MIT
//
// Parameters of embedding, one run of it as a function pointer takes it, and its row. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_EMBEDDING_CALL_HPP
#define INTQ_KERNELS_STREAMING_EMBEDDING_CALL_HPP

#include <cstdint>

#include "intq/core/dtype.hpp"
#include "intq/core/executor.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// A table of codes, one row for each id.
struct EmbeddingParams {
    const void* codes = nullptr;  // (rows, width)
    index_t rows = 0;
    index_t width = 0;
    DType dtype = DType::none;  // int8 or int16
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

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_EMBEDDING_CALL_HPP
