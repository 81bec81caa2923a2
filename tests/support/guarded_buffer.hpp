// SPDX-License-Identifier: MIT
//
// Memory in which a read or write beyond the ends faults (pages without access) or shows (canary bytes). A machine
// without such pages, as a board or WebAssembly, has canary bytes alone, which show what was written.
#ifndef INTQ_TESTS_SUPPORT_GUARDED_BUFFER_HPP
#define INTQ_TESTS_SUPPORT_GUARDED_BUFFER_HPP

#if defined(__unix__)
#    include <sys/mman.h>
#    include <unistd.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace intq::test {

/// `size` bytes that end, or begin, at a page without access; the rest of their pages holds canary bytes.
class GuardedBuffer {
public:
    enum class Against { end, begin };
    static constexpr unsigned char canary = 0xa5;

    explicit GuardedBuffer(std::size_t size, Against against = Against::end) : size_(size) {
        take();
        std::memset(inner_, canary, inner_size_);
        data_ = against == Against::end ? inner_ + inner_size_ - margin - size : inner_ + margin;
    }
    ~GuardedBuffer() { give_back(); }
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
#if defined(__unix__)
    static constexpr std::size_t margin = 0;
    void take() {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        inner_size_ = (size_ + page) / page * page;  // at least one canary byte
        map_size_ = inner_size_ + 2 * page;
        map_ = mmap(nullptr, map_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map_ == MAP_FAILED) fail("mmap");
        inner_ = static_cast<unsigned char*>(map_) + page;
        if (mprotect(inner_, inner_size_, PROT_READ | PROT_WRITE) != 0) fail("mprotect");
    }
    void give_back() { munmap(map_, map_size_); }

    std::size_t map_size_ = 0;
    void* map_ = nullptr;
#else
    static constexpr std::size_t margin = 64;  // of canary bytes on either side; keeps the alignment
    void take() {
        inner_size_ = (size_ + margin - 1) / margin * margin + 2 * margin;
        memory_ = std::malloc(inner_size_ + margin);
        if (memory_ == nullptr) fail("malloc");
        const auto behind = reinterpret_cast<std::uintptr_t>(memory_) % margin;
        inner_ = static_cast<unsigned char*>(memory_) + (margin - behind);
    }
    void give_back() { std::free(memory_); }

    void* memory_ = nullptr;
#endif
    [[noreturn]] static void fail(const char* what) {
        std::fprintf(stderr, "GuardedBuffer: %s failed\n", what);
        std::abort();
    }

    std::size_t size_, inner_size_ = 0;
    unsigned char *inner_ = nullptr, *data_ = nullptr;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_GUARDED_BUFFER_HPP
