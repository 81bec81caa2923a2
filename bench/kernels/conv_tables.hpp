// SPDX-License-Identifier: MIT
//
// The kernel tables that conv2d_bench measures, each with scalar's, whose bytes it must give.
#ifndef INTQ_BENCH_KERNELS_CONV_TABLES_HPP
#define INTQ_BENCH_KERNELS_CONV_TABLES_HPP

#include <vector>

#include "intq/kernels/table/float_table.hpp"
#include "intq/kernels/table/kernel_table.hpp"

namespace intq_bench {

struct ConvTable {
    const intq::kernels::KernelTable* table;
    const intq::kernels::KernelTable* scalar;
    const intq::kernels::FloatTable* float_table = nullptr;  // float layers have no target: beside fp32
    const intq::kernels::FloatTable* float_scalar = nullptr;
    const intq::kernels::FloatTable* float_reproducible = nullptr;
};

/// The tables of one target, best backend first.
template <class Target, class... Backend> std::vector<ConvTable> tables_of(intq::simd::BackendList<Backend...>) {
    return {
        {&intq::kernels::kernel_table<Target, Backend>, &intq::kernels::kernel_table<Target, intq::simd::scalar>}...};
}

/// fp32 on every backend; a unit of its own each, because they take long to compile.
std::vector<ConvTable> fp32_tables();
/// The other targets on the best backend: their epilogues are what differs.
std::vector<ConvTable> tflite_tables();
std::vector<ConvTable> bpu_tables();

}  // namespace intq_bench

#endif  // INTQ_BENCH_KERNELS_CONV_TABLES_HPP
