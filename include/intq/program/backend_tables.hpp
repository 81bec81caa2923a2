// SPDX-License-Identifier: MIT
//
// What a unit of the compiled form says to hold the kernels of one backend. Layer: program (docs/design.md section 13).
#ifndef INTQ_PROGRAM_BACKEND_TABLES_HPP
#define INTQ_PROGRAM_BACKEND_TABLES_HPP

#include "intq/kernels/table/float_table.hpp"
#include "intq/kernels/table/registry.hpp"
#include "intq/program/best_table.hpp"

/// Defines intq::program::detail::backend_tables_<name>() with the kernels of simd::<name>, whose instructions the unit's
/// flags must allow. Nothing of the unit runs before that function, which is called on a CPU that has them.
#define INTQ_DEFINE_BACKEND_TABLES(backend)                                                                       \
    namespace intq::program {                                                                                     \
    inline namespace INTQ_HOSTED_ABI {                                                                            \
    namespace detail {                                                                                            \
    BackendTables backend_tables_##backend() noexcept {                                                           \
        static_assert(simd::is_usable<simd::backend>, "the flags of this unit lack instructions of its backend"); \
        return {simd::backend::name, kernels::registry<simd::backend>, &kernels::float_table<simd::backend>};     \
    }                                                                                                             \
    }                                                                                                             \
    }                                                                                                             \
    }

#if INTQ_COMPILED && INTQ_DEFINES(program)
#    ifdef INTQ_COMPILED_BACKENDS
namespace intq::program {
inline namespace INTQ_HOSTED_ABI {
namespace detail {
#        define INTQ_DETAIL_DECLARE(backend) BackendTables backend_tables_##backend() noexcept;
INTQ_COMPILED_BACKENDS(INTQ_DETAIL_DECLARE)
#        undef INTQ_DETAIL_DECLARE
}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program
#    else
// One source file holds the library: it has the kernels of its own flags.
INTQ_DEFINE_BACKEND_TABLES(default_backend)
#    endif
#endif

#endif  // INTQ_PROGRAM_BACKEND_TABLES_HPP
