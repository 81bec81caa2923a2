// SPDX-License-Identifier: MIT
//
// The kernels that network_bench runs: a unit of its own, because they take long to compile.
#ifndef INTQ_BENCH_PROGRAMS_NETWORK_TABLE_HPP
#define INTQ_BENCH_PROGRAMS_NETWORK_TABLE_HPP

#include "intq/kernels/table/rows.hpp"

namespace intq_bench {

/// Target fp32 on the best backend of this CPU.
const intq::kernels::KernelTable& network_table();
/// The same on scalar, whose bytes it must give.
const intq::kernels::KernelTable& scalar_network_table();

}  // namespace intq_bench

#endif  // INTQ_BENCH_PROGRAMS_NETWORK_TABLE_HPP
