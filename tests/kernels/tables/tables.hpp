// SPDX-License-Identifier: MIT
//
// The kernels of every backend as data: those of the compiled form that this CPU executes, and those of the backends
// that the tests add, each of which has a unit of its own.
#ifndef INTQ_TESTS_KERNELS_TABLES_TABLES_HPP
#define INTQ_TESTS_KERNELS_TABLES_TABLES_HPP

#include <string>
#include <string_view>
#include <vector>

#include "intq/io/error.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/program/backends/best_table.hpp"

namespace intq::test {

using program::BackendTables;

/// Those of backends that the compiled form does not hold, each made by a unit of its own: one of odd width in every
/// build; a second one, dsp and helium emulated, and xsimd where the build has the kernels of all backends.
const std::vector<BackendTables>& added_tables();

/// Those of a backend by its name; without tables where this program does not hold them or the CPU lacks it.
inline BackendTables tables_of(std::string_view backend) {
    for (const BackendTables& tables : program::runnable_tables())
        if (backend == tables.name) return tables;
    for (const BackendTables& tables : added_tables())
        if (backend == tables.name) return tables;
    return {backend.data(), {}};
}

/// The one of odd width that every build has.
inline BackendTables odd_tables() { return added_tables().front(); }

/// How many backends can be used at least, whatever the CPU: scalar and those of the tests.
inline int least_backends() { return 1 + static_cast<int>(added_tables().size()); }

namespace detail {

template <class... Backend> std::vector<BackendTables> tables_of_all(simd::BackendList<Backend...>) {
    std::vector<BackendTables> all{tables_of(Backend::name)...};
    for (const BackendTables& added : added_tables())
        if (((added.name != std::string_view(Backend::name)) && ...)) all.push_back(added);
    return all;
}

}  // namespace detail

/// Every backend that the library and the tests know, usable or not.
inline std::vector<BackendTables> all_backend_tables() { return detail::tables_of_all(simd::AllBackends{}); }

/// Those whose kernels this program holds and this CPU executes.
inline std::vector<BackendTables> usable_backend_tables() {
    std::vector<BackendTables> usable;
    for (const BackendTables& backend : all_backend_tables())
        if (!backend.tables.empty()) usable.push_back(backend);
    return usable;
}

/// Also in programs that do not hold the tables of the tests.
inline BackendTables scalar_tables() {
    for (const BackendTables& tables : program::runnable_tables())
        if (std::string_view(tables.name) == "scalar") return tables;
    return {};
}

/// Those of boards that this build has: scalar, and with the kernels of all backends dsp and helium.
inline std::vector<BackendTables> board_tables() {
    std::vector<BackendTables> boards{scalar_tables()};
    for (const char* name : {"dsp", "helium"})
        if (const BackendTables board = tables_of(name); !board.tables.empty()) boards.push_back(board);
    return boards;
}

/// The scalar kernels of a target of the library. A test that makes the table itself, with kernels::kernel_table, waits
/// for the compiler.
inline const kernels::KernelTable& scalar_table(std::string_view target) {
    for (const kernels::KernelTable* table : scalar_tables().tables)
        if (target == table->policy().name) return *table;
    throw Error("no kernels of target " + std::string(target));
}
template <class Target> const kernels::KernelTable& scalar_table() { return scalar_table(Target::policy.name); }

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_TABLES_TABLES_HPP
