// SPDX-License-Identifier: MIT
#include "intq/kernels/table/kernel_table.hpp"
#include "network_table.hpp"

namespace intq_bench {

const intq::kernels::KernelTable& network_table() {
    return intq::kernels::kernel_table<intq::target::fp32, intq::simd::default_backend>;
}
const intq::kernels::KernelTable& scalar_network_table() {
    return intq::kernels::kernel_table<intq::target::fp32, intq::simd::scalar>;
}

}  // namespace intq_bench
