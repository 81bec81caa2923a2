// SPDX-License-Identifier: MIT
//
// One source of kernels, built for several instruction sets; the program asks the CPU once, when it starts. This unit
// is built without instruction-set flags, so it runs everywhere.
#include <cstdio>

#include "convolve.hpp"

namespace {

using pick_backend::Unit;

Unit best_unit() {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return pick_backend::avx512vnni_unit();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return pick_backend::avx2_unit();
    return pick_backend::baseline_unit();
}

constexpr std::ptrdiff_t image = pick_backend::side * pick_backend::side * pick_backend::channels;
std::int8_t weights[pick_backend::channels * pick_backend::channels * 9], x[image], y[image];

}  // namespace

int main() {
    int i = 0;
    for (std::int8_t& code : weights) code = static_cast<std::int8_t>(i++ * 37 % 255 - 127);
    for (std::int8_t& code : x) code = static_cast<std::int8_t>(i++ * 29 % 255 - 127);

    // The bytes are the same whichever is picked: that is the library's promise.
    const Unit units[] = {pick_backend::baseline_unit(), best_unit()};
    for (const Unit& unit : units) {
        if (!unit.convolve(weights, x, y)) return 1;
        unsigned sum = 0;
        for (const std::int8_t code : y) sum = sum * 31 + static_cast<unsigned char>(code);
        std::printf("%-10s  y[0..3] = %d %d %d %d, checksum %08x\n", unit.backend, y[0], y[1], y[2], y[3], sum);
    }
    std::printf("picked: %s\n", units[1].backend);
}
