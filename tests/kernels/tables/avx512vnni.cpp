// SPDX-License-Identifier: MIT
#include "kernels/tables/make_tables.hpp"

namespace intq::test {

BackendTables avx512vnni_tables() { return make_tables<simd::avx512vnni>(); }

}  // namespace intq::test
