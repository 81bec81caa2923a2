// SPDX-License-Identifier: MIT
//
// The kernels of simd::helium with its loops in C++, for machines without them: as dsp.cpp.
#include "kernels/tables/make_tables.hpp"

intq::test::BackendTables intq::test::emulated_helium_tables() { return tables_of<simd::helium>(); }
