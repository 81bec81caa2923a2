// SPDX-License-Identifier: MIT
#include "bandwidth.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "clock.hpp"

namespace intq_bench {

namespace {

constexpr std::size_t step = 512;  // bytes that one turn of a read loop takes

#if defined(__x86_64__)
void read_zmm(const std::byte* from, const std::byte* end) {
    asm volatile(
        "1:\n vmovups (%0),%%zmm0\n vmovups 64(%0),%%zmm1\n vmovups 128(%0),%%zmm2\n vmovups 192(%0),%%zmm3\n"
        "vmovups 256(%0),%%zmm4\n vmovups 320(%0),%%zmm5\n vmovups 384(%0),%%zmm6\n vmovups 448(%0),%%zmm7\n"
        "add $512,%0\n cmp %1,%0\n jb 1b\n vzeroupper\n"
        : "+r"(from)
        : "r"(end)
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc", "memory");
}
void read_ymm(const std::byte* from, const std::byte* end) {
    asm volatile(
        "1:\n vmovups (%0),%%ymm0\n vmovups 32(%0),%%ymm1\n vmovups 64(%0),%%ymm2\n vmovups 96(%0),%%ymm3\n"
        "vmovups 128(%0),%%ymm4\n vmovups 160(%0),%%ymm5\n vmovups 192(%0),%%ymm6\n vmovups 224(%0),%%ymm7\n"
        "add $256,%0\n cmp %1,%0\n jb 1b\n vzeroupper\n"
        : "+r"(from)
        : "r"(end)
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc", "memory");
}
#endif

void read_words(const std::byte* from, const std::byte* end) {
    std::uint64_t sum = 0;
    for (; from < end; from += sizeof sum) {
        std::uint64_t word;
        std::memcpy(&word, from, sizeof word);
        sum ^= word;
    }
    asm volatile("" : : "r"(sum) : "memory");
}

using Reader = void (*)(const std::byte*, const std::byte*);
Reader widest_reader() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return read_zmm;
    if (__builtin_cpu_supports("avx")) return read_ymm;
#endif
    return read_words;
}

/// Size of a cache from the kernel's files, or from the C library where there are none. In this order because
/// glibc 2.36 multiplies the third level of some virtual machines by the threads that it believes to share it.
std::size_t cache_size(int level, int name) {
    for (int index = 0; index < 8; ++index) {
        const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
        std::ifstream level_file(folder + "/level"), type_file(folder + "/type"), size_file(folder + "/size");
        int its_level = 0;
        std::string type;
        std::size_t kib = 0;
        if (!(level_file >> its_level && type_file >> type && size_file >> kib)) break;
        if (its_level == level && type != "Instruction") return kib * 1024;
    }
    const long size = sysconf(name);
    return size > 0 ? static_cast<std::size_t>(size) : 0;
}

/// Pages of the system, in large ones where it gives them, all touched.
class Pages {
public:
    explicit Pages(std::size_t size)
        : size_(size), data_(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (data_ == MAP_FAILED) throw std::runtime_error("no memory to measure its bandwidth with");
        madvise(data_, size, MADV_HUGEPAGE);
        std::memset(data_, 1, size);
    }
    Pages(const Pages&) = delete;
    ~Pages() { munmap(data_, size_); }
    std::byte* data() const { return static_cast<std::byte*>(data_); }

private:
    std::size_t size_;
    void* data_;
};

/// Median of bytes a second over samples of at least 0.2 ms, as many as fit into `seconds` and at least
/// `least_samples`.
template <class F> double rate_of(std::size_t bytes, double seconds, std::size_t least_samples, F&& pass) {
    pass();
    const double once = now();
    pass();
    const int passes = 1 + static_cast<int>(2e-4 / (now() - once + 1e-9));
    std::vector<double> rates;
    for (const double end = now() + seconds; now() < end || rates.size() < least_samples;) {
        const double start = now();
        for (int i = 0; i < passes; ++i) pass();
        rates.push_back(static_cast<double>(bytes) * passes / (now() - start));
    }
    return median(rates);
}

}  // namespace

std::vector<MemoryLevel> memory_levels() {
    std::vector<MemoryLevel> levels;
    const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    std::size_t largest = 0;
    for (int level = 1; level <= 3; ++level) {
        const std::size_t size = cache_size(level, names[level - 1]);
        if (size == 0) continue;
        levels.push_back({"L" + std::to_string(level), size, size / 2 / (2 * step) * (2 * step)});
        largest = std::max(largest, size);
    }
    const std::size_t beyond = std::min(std::max(4 * largest, std::size_t{64} << 20), std::size_t{1} << 30);
    levels.push_back({"DRAM", 0, beyond / (2 * step) * (2 * step)});
    return levels;
}

void measure_bandwidth(std::vector<MemoryLevel>& levels, double seconds, std::size_t least_samples) {
    const Pages pages(levels.back().working_set);
    const Reader read = widest_reader();
    std::byte* const data = pages.data();
    for (MemoryLevel& level : levels) {
        const std::size_t half = level.working_set / 2;
        level.read = rate_of(level.working_set, seconds, least_samples, [&] { read(data, data + level.working_set); });
        level.copy = rate_of(half, seconds, least_samples, [&] {
            std::memcpy(data + half, data, half);
            asm volatile("" : : "r"(data) : "memory");
        });
    }
}

double read_rate(std::size_t bytes, double seconds) {
    const std::size_t whole = (bytes + step - 1) / step * step;
    const Pages pages(whole);
    const Reader read = widest_reader();
    return rate_of(whole, seconds, 5, [&] { read(pages.data(), pages.data() + whole); });
}

}  // namespace intq_bench
