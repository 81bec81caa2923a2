// SPDX-License-Identifier: MIT
//
// The registry of every backend as data: one translation unit a backend instantiates its kernels once, and all
// tests that read rows link them.
#ifndef INTQ_TESTS_KERNELS_TABLES_TABLES_HPP
#define INTQ_TESTS_KERNELS_TABLES_TABLES_HPP

#include <span>
#include <vector>

#include "intq/kernels/table/kernel_table.hpp"

namespace intq::test {

template <int Width> struct odd_width;  // support/odd_width.hpp

/// The kernel tables of one backend, in the order of kernels::AllTargets; empty where the unit cannot use it.
struct BackendTables {
    const char* name = "";
    std::span<const kernels::KernelTable* const> tables{};
};

/// Defined by the backend's own unit: explicitly instantiated there.
template <class Backend> BackendTables tables_of();

inline BackendTables scalar_tables() { return tables_of<simd::scalar>(); }

namespace detail {
template <class... Backend> std::vector<BackendTables> tables_of_all(simd::BackendList<Backend...>) {
    return {tables_of<Backend>()..., tables_of<odd_width<3>>(), tables_of<odd_width<5>>()};
}
}  // namespace detail

/// Every backend that the library and the tests know, usable or not.
inline std::vector<BackendTables> all_backend_tables() { return detail::tables_of_all(simd::AllBackends{}); }

/// Those whose kernels this program holds.
inline std::vector<BackendTables> usable_backend_tables() {
    std::vector<BackendTables> usable;
    for (const BackendTables& backend : all_backend_tables())
        if (!backend.tables.empty()) usable.push_back(backend);
    return usable;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_TABLES_TABLES_HPP
