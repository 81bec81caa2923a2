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

/// The same, but empty in sanitized builds, which keep scalar and the odd widths: between them the skeletons with and
/// without tiles, staging and groups. Unrolled tiles take such a build up to ten minutes a unit; in the other builds
/// every test of tiles and kernels runs between pages without access.
template <class Backend> BackendTables make_tables_if_quick() {
#ifdef INTQ_TEST_FEW_BACKENDS
    return {Backend::name, {}};
#else
    return make_tables<Backend>();
#endif
}

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP
