// SPDX-License-Identifier: MIT
//
// The registry of every backend as data: one translation unit a backend instantiates its kernels once, and all
// tests that read rows link them.
#ifndef INTQ_TESTS_KERNELS_TABLES_TABLES_HPP
#define INTQ_TESTS_KERNELS_TABLES_TABLES_HPP

#include <span>
#include <vector>

#include "intq/kernels/kernel_table.hpp"

namespace intq::test {

/// The kernel tables of one backend, in the order of kernels::AllTargets; empty where the unit cannot use it.
struct BackendTables {
    const char* name = "";
    std::span<const kernels::KernelTable* const> tables{};
};

BackendTables scalar_tables();
BackendTables avx2_tables();
BackendTables avxvnni_tables();
BackendTables avx512bw_tables();
BackendTables avx512vnni_tables();
BackendTables xsimd_tables();
BackendTables odd_width_3_tables();
BackendTables odd_width_5_tables();

/// Every backend that the library and the tests know, usable or not.
inline std::vector<BackendTables> all_backend_tables() {
    return {scalar_tables(),     avx2_tables(),  avxvnni_tables(),     avx512bw_tables(),
            avx512vnni_tables(), xsimd_tables(), odd_width_3_tables(), odd_width_5_tables()};
}

/// Those whose kernels this program holds.
inline std::vector<BackendTables> usable_backend_tables() {
    std::vector<BackendTables> usable;
    for (const BackendTables& backend : all_backend_tables())
        if (!backend.tables.empty()) usable.push_back(backend);
    return usable;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_TABLES_TABLES_HPP
