// SPDX-License-Identifier: MIT
#include "kernels/tables/make_tables.hpp"

namespace intq::test {

BackendTables avx512vnni_tables() { return make_tables_if_quick<simd::avx512vnni>(); }

}  // namespace intq::test
