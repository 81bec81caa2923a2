// SPDX-License-Identifier: MIT
//
// What each unit of this folder instantiates.
#ifndef INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP
#define INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP

#include <type_traits>

#include "intq/kernels/table/registry.hpp"
#include "kernels/tables/tables.hpp"
#include "support/odd_width.hpp"

namespace intq::test {

/// Whether a unit holds its kernels. Sanitized builds keep scalar and the odd widths: between them the skeletons with
/// and without tiles, staging and groups. Unrolled tiles take such a build up to ten minutes a unit; in the other
/// builds every test of tiles and kernels runs between pages without access.
template <class Backend> constexpr bool is_held() {
#ifdef INTQ_TEST_FEW_BACKENDS
    return std::is_same_v<Backend, simd::scalar> || std::is_same_v<Backend, odd_width<3>> ||
           std::is_same_v<Backend, odd_width<5>>;
#else
    return simd::is_usable<Backend>;
#endif
}

template <class Backend> BackendTables tables_of() {
    if constexpr (is_held<Backend>()) {
        return {Backend::name, kernels::registry<Backend>};
    } else {
        return {Backend::name, {}};
    }
}

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_TABLES_MAKE_TABLES_HPP
