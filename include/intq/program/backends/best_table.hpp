// SPDX-License-Identifier: MIT
//
// best_table: the integer kernels of a target on the best backend. Layer: program (docs/design.md section 13).
//
// Header-only, that is the best backend of the unit's flags. The compiled form holds the kernels of several, so there
// the CPU is asked when the program runs.
#ifndef INTQ_PROGRAM_BACKENDS_BEST_TABLE_HPP
#define INTQ_PROGRAM_BACKENDS_BEST_TABLE_HPP

#include <span>
#include <vector>

// The targets that a caller may name.
#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/litert.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/core/abi.hpp"
#if !INTQ_COMPILED
#    include "intq/arith/target.hpp"
#    include "intq/kernels/table/kernel_table.hpp"
#    include "intq/simd/select.hpp"
#else

namespace intq::arith {
inline namespace INTQ_CORE_ABI {
struct PolicyRecord;
}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith
namespace intq::kernels {
inline namespace INTQ_CORE_ABI {
struct KernelTable;
}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

#if !INTQ_COMPILED

/// The kernels of a target on the best backend that the unit's flags allow. One source serves both forms:
///
///     const auto lowered = quantization::lower(converted, program::best_table<target::fp32>());
template <class Target> const kernels::KernelTable& best_table() {
    return kernels::kernel_table<Target, simd::default_backend>;
}

#else

/// The kernels of a target on program::best_backend(): the best one that this program holds and this CPU executes,
/// unless INTQ_BACKEND names another. Every backend computes the same bytes, so the choice changes only the speed.
///
/// @param target  one of kernels::AllTargets; it is known by its name
/// @throws Error  for a target that the library does not ship, or one that has the name of a shipped target and other
///                rules: a program makes the table of such a target itself (kernels::kernel_table). Also the errors of
///                best_backend()
const kernels::KernelTable& best_table(const arith::PolicyRecord& target);
template <class Target> const kernels::KernelTable& best_table() { return best_table(Target::policy); }

/// The kernels of one backend: a table for each target of kernels::AllTargets, in that order.
struct BackendTables {
    const char* name = "";
    std::span<const kernels::KernelTable* const> tables{};
};

/// The tables of every backend that the program holds and this CPU executes, best first.
std::vector<BackendTables> runnable_tables();

#endif  // INTQ_COMPILED

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_COMPILED && INTQ_DEFINES(program_backends)

#    include <string>
#    include <string_view>

#    include "intq/io/error.hpp"
#    include "intq/kernels/table/rows.hpp"
#    include "intq/program/float/best_backend.hpp"
#    ifndef INTQ_COMPILED_BACKENDS
#        include "intq/kernels/table/registry.hpp"
#        include "intq/simd/select.hpp"
#    endif

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

#    ifdef INTQ_COMPILED_BACKENDS
#        define INTQ_DETAIL_DECLARE(backend) BackendTables backend_tables_##backend() noexcept;
INTQ_COMPILED_BACKENDS(INTQ_DETAIL_DECLARE)
#        undef INTQ_DETAIL_DECLARE
#    endif

/// The tables of a backend that the CPU executes.
INTQ_INLINE BackendTables tables_of_backend(std::string_view name) {
#    ifdef INTQ_COMPILED_BACKENDS
#        define INTQ_DETAIL_FIND(backend) \
            if (name == #backend) return backend_tables_##backend();
    INTQ_COMPILED_BACKENDS(INTQ_DETAIL_FIND)
#        undef INTQ_DETAIL_FIND
#    else
    using Backend = simd::default_backend;
    if (name == Backend::name) return {Backend::name, kernels::registry<Backend>};
#    endif
    throw Error("this program holds no kernels of the backend " + std::string(name));
}

}  // namespace detail

INTQ_INLINE const kernels::KernelTable& best_table(const arith::PolicyRecord& target) {
    constexpr const char* own_table = "make a table of your own with kernels::kernel_table<Target, Backend>";
    std::string known;
    for (const kernels::KernelTable* table : detail::tables_of_backend(best_backend().name).tables) {
        if (std::string_view(table->policy().name) == target.name) {
            if (table->policy().same_arithmetic(target)) return *table;
            throw Error(std::string("the target has the name ") + target.name +
                        " of a target of the library, and other rules; give it a name of its own and " + own_table);
        }
        known += (known.empty() ? "" : ", ") + std::string(table->policy().name);
    }
    throw Error(std::string("the target ") + target.name + " has no kernels in this program, which holds kernels for " +
                known + "; " + own_table);
}

INTQ_INLINE std::vector<BackendTables> runnable_tables() {
    std::vector<BackendTables> tables;
    for (const HeldBackend& backend : held_backends())
        if (backend.runs) tables.push_back(detail::tables_of_backend(backend.name));
    return tables;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_COMPILED && INTQ_DEFINES(program_backends)
#endif  // INTQ_PROGRAM_BACKENDS_BEST_TABLE_HPP
