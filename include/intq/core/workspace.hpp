// SPDX-License-Identifier: MIT
//
// Memory that the caller provides: sized before the call, handed out front to back. Layer: core.
#ifndef INTQ_CORE_WORKSPACE_HPP
#define INTQ_CORE_WORKSPACE_HPP

#include <cstddef>
#include <cstdint>

#include "intq/core/assert.hpp"
#include "intq/core/dtype.hpp"
#include "intq/core/quotient.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Alignment of packed weights, arenas and workspaces: a cache line, the widest vector.
inline constexpr index_t buffer_alignment = 64;

/// Caller's bytes for one kernel call; contents do not outlive the call.
struct Workspace {
    std::byte* data = nullptr;
    index_t size = 0;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

constexpr index_t round_up(index_t value, index_t multiple) noexcept { return quotient_up(value, multiple) * multiple; }

/// Bytes beyond the last multiple of buffer_alignment.
inline index_t misalignment(const void* pointer) noexcept {
    return static_cast<index_t>(reinterpret_cast<std::uintptr_t>(pointer) %
                                static_cast<std::uintptr_t>(buffer_alignment));
}

inline bool is_aligned(const void* pointer) noexcept { return misalignment(pointer) == 0; }

/// Whether two runs of bytes share one; an empty run shares none.
inline bool overlap(const void* a, index_t a_bytes, const void* b, index_t b_bytes) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
    return a_bytes > 0 && b_bytes > 0 && first < second + static_cast<std::uintptr_t>(b_bytes) &&
           second < first + static_cast<std::uintptr_t>(a_bytes);
}

}  // namespace INTQ_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Hands out aligned parts of a buffer. With a null buffer it only counts, so that one function both sizes
/// and places: a size function can never disagree with its user.
class BufferCursor {
public:
    INTQ_ALWAYS_INLINE constexpr BufferCursor() = default;
    INTQ_ALWAYS_INLINE constexpr BufferCursor(std::byte* data, index_t size) noexcept : data_(data), size_(size) {}

    /// Room for `count` objects at the next aligned address; null while counting.
    template <class T> INTQ_ALWAYS_INLINE T* take(index_t count) INTQ_NOEXCEPT {
        const index_t start = used_;
        used_ += round_up(count * static_cast<index_t>(sizeof(T)), buffer_alignment);
        if (data_ == nullptr) return nullptr;
        INTQ_ASSERT(used_ <= size_);
        return reinterpret_cast<T*>(data_ + start);
    }
    INTQ_ALWAYS_INLINE constexpr index_t used() const noexcept { return used_; }

private:
    std::byte* data_ = nullptr;
    index_t size_ = 0;
    index_t used_ = 0;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq

#endif  // INTQ_CORE_WORKSPACE_HPP
