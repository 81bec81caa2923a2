// SPDX-License-Identifier: MIT
#include "kernels/tables/make_tables.hpp"

namespace intq::test {

BackendTables scalar_tables() { return make_tables<simd::scalar>(); }

}  // namespace intq::test
