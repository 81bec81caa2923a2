// SPDX-License-Identifier: MIT
#include "header_only_tables.hpp"

namespace intq_bench {

std::vector<ConvTable> tflite_tables() {
    return tables_of<intq::target::tflite<>>(intq::simd::BackendList<intq::simd::native>{});
}

}  // namespace intq_bench
