// SPDX-License-Identifier: MIT
#include "kernels/tables/make_tables.hpp"
#include "support/odd_width.hpp"

namespace intq::test {

BackendTables odd_width_3_tables() { return make_tables<odd_width<3>>(); }

}  // namespace intq::test
