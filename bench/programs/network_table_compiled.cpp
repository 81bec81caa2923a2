// SPDX-License-Identifier: MIT
#include <string_view>
#include <vector>

#include "intq/io/error.hpp"
#include "intq/program/backends/best_table.hpp"
#include "network_table.hpp"

namespace intq_bench {

const intq::kernels::KernelTable& network_table() { return intq::program::best_table<intq::target::fp32>(); }
const intq::kernels::KernelTable& scalar_network_table() {
    const std::vector<intq::program::BackendTables> backends = intq::program::runnable_tables();
    if (!backends.empty() && std::string_view(backends.back().name) == "scalar")
        for (const intq::kernels::KernelTable* table : backends.back().tables)
            if (table->policy().same_arithmetic(intq::target::fp32::policy)) return *table;
    throw intq::Error("the program holds no kernels of scalar");
}

}  // namespace intq_bench
