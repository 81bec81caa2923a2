// SPDX-License-Identifier: MIT
#include "kernels/tables/make_tables.hpp"

namespace intq::test {

BackendTables avx2_tables() { return make_tables_if_quick<simd::avx2>(); }

}  // namespace intq::test
