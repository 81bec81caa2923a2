// SPDX-License-Identifier: MIT
#include "kernels/tables/make_tables.hpp"

namespace intq::test {

BackendTables xsimd_tables() { return make_tables_if_quick<simd::xsimd<>>(); }

}  // namespace intq::test
