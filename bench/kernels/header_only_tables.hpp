// SPDX-License-Identifier: MIT
//
// The tables of conv_tables.hpp that ./dev bench compiles, in units that take about as long as each other.
#ifndef INTQ_BENCH_KERNELS_HEADER_ONLY_TABLES_HPP
#define INTQ_BENCH_KERNELS_HEADER_ONLY_TABLES_HPP

#include <vector>

#include "conv_tables.hpp"
#include "intq/kernels/table/kernel_table.hpp"

namespace intq_bench {

/// The tables of one target, best backend first.
template <class Target, class... Backend> std::vector<ConvTable> tables_of(intq::simd::BackendList<Backend...>) {
    return {
        {&intq::kernels::kernel_table<Target, Backend>, &intq::kernels::kernel_table<Target, intq::simd::scalar>}...};
}

std::vector<ConvTable> fp32_tables();
std::vector<ConvTable> tflite_tables();
std::vector<ConvTable> bpu_tables();

}  // namespace intq_bench

#endif  // INTQ_BENCH_KERNELS_HEADER_ONLY_TABLES_HPP
