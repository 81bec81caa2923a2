// SPDX-License-Identifier: MIT
//
// The CPUs of boards by name, each with the backend that runs its programs fastest. Layer: deploy.
#ifndef INTQ_DEPLOY_BOARD_CPUS_HPP
#define INTQ_DEPLOY_BOARD_CPUS_HPP

#include <string_view>

#include "intq/kernels/packing/packing_table.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

/// A CPU, named as the compiler's -mcpu names it.
struct BoardCpu {
    const char* name;
    const char* backend;
    const char* flags;  // that let a compiler use the backend
};

/// A Cortex-M33 that was built without the DSP extension takes scalar, as Cortex-M3 does.
inline constexpr BoardCpu board_cpus[] = {
    {"cortex-m0plus", "scalar", "-mcpu=cortex-m0plus"},
    {"cortex-m3", "scalar", "-mcpu=cortex-m3"},
    {"cortex-m4", "dsp", "-mcpu=cortex-m4"},
    {"cortex-m7", "dsp", "-mcpu=cortex-m7"},
    {"cortex-m33", "dsp", "-mcpu=cortex-m33"},
    {"cortex-m55", "helium", "-mcpu=cortex-m55 -mfloat-abi=hard"},
    {"cortex-m85", "helium", "-mcpu=cortex-m85 -mfloat-abi=hard"},
};

/// The row of a name; null for one that the table does not have.
constexpr const BoardCpu* find_board_cpu(std::string_view name) noexcept {
    for (const BoardCpu& cpu : board_cpus)
        if (name == cpu.name) return &cpu;
    return nullptr;
}

namespace detail {

// Not by find_packing(): for g++ 12 with -fsanitize=undefined, whether an address is null is no constant expression.
constexpr bool have_backends() noexcept {
    for (const BoardCpu& cpu : board_cpus) {
        bool is_there = false;
        for (const kernels::BackendPacking& packing : kernels::backend_packings)
            is_there = is_there || std::string_view(packing.backend) == cpu.backend;
        if (!is_there) return false;
    }
    return true;
}
static_assert(have_backends(), "a row of board_cpus names no backend of simd/base/backends.hpp");

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEPLOY_BOARD_CPUS_HPP
