// SPDX-License-Identifier: MIT
#include "intq/io/error.hpp"
#include "intq/program/backends/best_table.hpp"
#include "network_table.hpp"

namespace intq_bench {

const intq::kernels::KernelTable& network_table() { return intq::program::best_table<intq::target::fp32>(); }
const intq::kernels::KernelTable& scalar_network_table() {
    for (const intq::kernels::KernelTable* table : intq::program::runnable_tables().back().tables)
        if (table->policy().same_arithmetic(intq::target::fp32::policy)) return *table;
    throw intq::Error("the program holds no kernels of scalar");
}

}  // namespace intq_bench
