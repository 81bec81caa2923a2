// SPDX-License-Identifier: MIT
#include "header_only_tables.hpp"

namespace intq_bench {

std::vector<ConvTable> bpu_tables() {
    const intq::simd::BackendList<intq::simd::native> best;
    std::vector<ConvTable> tables = tables_of<intq::target::bpu<intq::march::bayes>>(best);
    for (const ConvTable& table : tables_of<intq::target::bpu<intq::march::meta>>(best)) tables.push_back(table);
    return tables;
}

}  // namespace intq_bench
