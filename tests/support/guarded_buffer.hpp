// SPDX-License-Identifier: MIT
//
// Memory in which a read or write beyond the ends faults (pages without access) or shows (canary bytes).
#ifndef INTQ_TESTS_SUPPORT_GUARDED_BUFFER_HPP
#define INTQ_TESTS_SUPPORT_GUARDED_BUFFER_HPP

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace intq::test {

/// `size` bytes that end, or begin, at a page without access; the rest of their pages holds canary bytes.
class GuardedBuffer {
public:
    enum class Against { end, begin };
    static constexpr unsigned char canary = 0xa5;

    explicit GuardedBuffer(std::size_t size, Against against = Against::end) : size_(size) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        inner_size_ = (size + page) / page * page;  // at least one canary byte
        map_size_ = inner_size_ + 2 * page;
        map_ = mmap(nullptr, map_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map_ == MAP_FAILED) throw std::runtime_error("mmap failed");
        inner_ = static_cast<unsigned char*>(map_) + page;
        if (mprotect(inner_, inner_size_, PROT_READ | PROT_WRITE) != 0) throw std::runtime_error("mprotect failed");
        std::memset(inner_, canary, inner_size_);
        data_ = against == Against::end ? inner_ + inner_size_ - size : inner_;
    }
    ~GuardedBuffer() { munmap(map_, map_size_); }
    GuardedBuffer(const GuardedBuffer&) = delete;
    GuardedBuffer& operator=(const GuardedBuffer&) = delete;

    template <class T> T* as() noexcept { return reinterpret_cast<T*>(data_); }
    std::size_t size() const noexcept { return size_; }

    /// Whether every byte around the buffer still holds the canary.
    bool is_intact() const noexcept {
        for (const unsigned char* p = inner_; p != inner_ + inner_size_; ++p)
            if ((p < data_ || p >= data_ + size_) && *p != canary) return false;
        return true;
    }

private:
    std::size_t size_, inner_size_, map_size_;
    void* map_;
    unsigned char *inner_, *data_;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_GUARDED_BUFFER_HPP
