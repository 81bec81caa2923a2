// SPDX-License-Identifier: MIT
//
// What each unit of this folder instantiates.
#ifndef INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP
#define INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP

#include "intq/kernels/registry.hpp"
#include "kernels/tables/tables.hpp"

namespace intq::test {

template <class Backend> BackendTables make_tables() {
    if constexpr (simd::is_usable<Backend>) {
        return {Backend::name, kernels::registry<Backend>};
    } else {
        return {Backend::name, {}};
    }
}

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP
