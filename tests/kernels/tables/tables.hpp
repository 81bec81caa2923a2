// SPDX-License-Identifier: MIT
//
// The kernels of every backend as data: those of the compiled form that this CPU executes, and those of the backends
// that the tests add, each of which has a unit of its own.
#ifndef INTQ_TESTS_KERNELS_TABLES_TABLES_HPP
#define INTQ_TESTS_KERNELS_TABLES_TABLES_HPP

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "intq/io/error.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/program/backends/best_table.hpp"

namespace intq::test {

using program::BackendTables;

template <int Width> struct odd_width;  // support/odd_width.hpp

/// The kernels of a backend that the compiled form does not hold; defined by the backend's own unit.
template <class Backend> BackendTables tables_of();

/// Those of simd::dsp and simd::helium, emulated.
BackendTables emulated_dsp_tables();
BackendTables emulated_helium_tables();

/// Those of a backend of the library; without tables where this program does not hold them or the CPU lacks it.
template <class Backend> BackendTables library_tables() {
#if INTQ_TEST_XSIMD
    if constexpr (std::is_same_v<Backend, simd::xsimd<>>) return tables_of<Backend>();
#endif
    for (const BackendTables& backend : program::runnable_tables())
        if (std::string_view(backend.name) == Backend::name) return backend;
    if constexpr (std::is_same_v<Backend, simd::dsp>) return emulated_dsp_tables();
    if constexpr (std::is_same_v<Backend, simd::helium>) return emulated_helium_tables();
    return {Backend::name, {}};
}

/// How many backends every machine has at least: scalar, dsp, helium and those of the tests.
#ifdef INTQ_TEST_FEW_BACKENDS
inline constexpr int least_backends = 4;
#else
inline constexpr int least_backends = 5;
#endif

namespace detail {

template <class... Backend> std::vector<BackendTables> tables_of_all(simd::BackendList<Backend...>) {
#ifdef INTQ_TEST_FEW_BACKENDS  // a sanitized unit takes two minutes
    return {library_tables<Backend>()..., tables_of<odd_width<5>>()};
#else
    return {library_tables<Backend>()..., tables_of<odd_width<3>>(), tables_of<odd_width<5>>()};
#endif
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

inline BackendTables scalar_tables() {
    for (const BackendTables& backend : program::runnable_tables())
        if (std::string_view(backend.name) == "scalar") return backend;
    return {};
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
