// SPDX-License-Identifier: MIT
//
// Prints the levels of cmake/IntqIsa.cmake that this CPU executes, weakest first. Run once by CMake.
#include <cpuid.h>

#include <cstdio>

namespace {

// AVX-VNNI has no name in g++ 12's __builtin_cpu_supports: CPUID leaf 7, subleaf 1, EAX bit 4.
bool has_avxvnni() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1U << 4)) != 0;
}

}  // namespace

int main() {
    __builtin_cpu_init();
    const bool sse41 = __builtin_cpu_supports("sse4.1");
    const bool avx2 = sse41 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512bw = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
    std::printf("scalar%s%s%s%s%s native\n", sse41 ? " sse41" : "", avx2 ? " avx2" : "",
                avx2 && has_avxvnni() ? " avxvnni" : "", avx512bw ? " avx512bw" : "",
                avx512bw && __builtin_cpu_supports("avx512vnni") ? " avx512vnni" : "");
}
