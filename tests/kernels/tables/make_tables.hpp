// SPDX-License-Identifier: MIT
//
// What each unit of this folder instantiates.
#ifndef INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP
#define INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP

#include "intq/kernels/table/registry.hpp"
#include "kernels/tables/tables.hpp"
#include "support/odd_width.hpp"

namespace intq::test {

template <class Backend> BackendTables tables_of() { return {Backend::name, kernels::registry<Backend>}; }

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP
