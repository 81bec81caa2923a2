// SPDX-License-Identifier: MIT
#include "kernels/tables/make_tables.hpp"

namespace intq::test {

BackendTables avxvnni_tables() { return make_tables_if_quick<simd::avxvnni>(); }

}  // namespace intq::test
