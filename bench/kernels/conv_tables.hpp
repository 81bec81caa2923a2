// SPDX-License-Identifier: MIT
//
// The kernel tables that conv2d_bench measures, each with scalar's, whose bytes it must give.
#ifndef INTQ_BENCH_KERNELS_CONV_TABLES_HPP
#define INTQ_BENCH_KERNELS_CONV_TABLES_HPP

#include <vector>

#include "support/conv_case.hpp"

namespace intq_bench {

struct ConvTable {
    const intq::kernels::KernelTable* table;
    const intq::kernels::KernelTable* scalar;
    FloatKernel floats{}, reproducible_floats{}, scalar_floats{};  // of fp32 alone
};

/// The best backend first. From conv_tables_header_only.cpp: fp32 on every backend, and the other targets on the best
/// one, whose epilogues are what differs. From conv_tables_compiled.cpp: what the compiled form holds.
std::vector<ConvTable> all_tables();

}  // namespace intq_bench

#endif  // INTQ_BENCH_KERNELS_CONV_TABLES_HPP
