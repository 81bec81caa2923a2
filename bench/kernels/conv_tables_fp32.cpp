// SPDX-License-Identifier: MIT
#include "conv_tables.hpp"

namespace intq_bench {

std::vector<ConvTable> fp32_tables() { return tables_of<intq::target::fp32>(intq::simd::usable_backends{}); }

}  // namespace intq_bench
