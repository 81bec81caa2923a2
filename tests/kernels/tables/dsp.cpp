// SPDX-License-Identifier: MIT
//
// The kernels of simd::dsp with its instructions in C++, for machines without them. The unit is compiled with
// INTQ_EMULATES_DSP=1, which no other unit of the tests is: hence a function without the tag in its name.
#include "kernels/tables/make_tables.hpp"

intq::test::BackendTables intq::test::emulated_dsp_tables() { return tables_of<simd::dsp>(); }
