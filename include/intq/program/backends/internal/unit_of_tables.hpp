// SPDX-License-Identifier: MIT
//
// The macro by which a unit of the compiled form holds the integer kernels of one backend. Layer: program
// (docs/design.md section 13).
#ifndef INTQ_PROGRAM_BACKENDS_INTERNAL_UNIT_OF_TABLES_HPP
#define INTQ_PROGRAM_BACKENDS_INTERNAL_UNIT_OF_TABLES_HPP

#include "intq/kernels/table/registry.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/simd/select.hpp"

#if INTQ_COMPILED

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

template <class Backend> BackendTables backend_tables_of() noexcept {
    static_assert(simd::is_usable<Backend>, "the flags of this unit lack instructions of its backend");
    return {Backend::name, kernels::registry<Backend>};
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

/// Defines the kernel tables of simd::<backend>, whose instructions the unit's flags must allow. Nothing of the unit
/// runs on a CPU that lacks them.
#    define INTQ_DEFINE_BACKEND_TABLES(backend)                                                          \
        namespace intq::program {                                                                        \
        inline namespace INTQ_HOSTED_ABI {                                                               \
        namespace detail {                                                                               \
        BackendTables backend_tables_##backend() noexcept { return backend_tables_of<simd::backend>(); } \
        }                                                                                                \
        }                                                                                                \
        }

#endif  // INTQ_COMPILED
#endif  // INTQ_PROGRAM_BACKENDS_INTERNAL_UNIT_OF_TABLES_HPP
