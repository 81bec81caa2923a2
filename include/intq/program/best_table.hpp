// SPDX-License-Identifier: MIT
//
// best_table: the kernels of a target on the best backend. Layer: program (docs/design.md section 13).
//
// Header-only, that is the best backend of the unit's flags. The compiled form holds the kernels of several backends, so
// there the CPU is asked when the program runs.
#ifndef INTQ_PROGRAM_BEST_TABLE_HPP
#define INTQ_PROGRAM_BEST_TABLE_HPP

#include <span>
#include <string>
#include <string_view>

#include "intq/core/abi.hpp"
#if !INTQ_COMPILED
#    include "intq/kernels/table/float_table.hpp"
#    include "intq/kernels/table/kernel_table.hpp"
#endif

namespace intq::arith {
inline namespace INTQ_CORE_ABI {
struct PolicyRecord;
}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith
namespace intq::kernels {
inline namespace INTQ_CORE_ABI {
struct KernelTable;
struct FloatTable;
}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

#if !INTQ_COMPILED

/// The kernels of a target on the best backend that the unit's flags allow. Header-only as in the compiled form, so that
/// one source serves both:
///
///     const auto lowered = quantization::lower(converted, program::best_table<target::fp32>());
template <class Target> const kernels::KernelTable& best_table() {
    return kernels::kernel_table<Target, simd::default_backend>;
}

#else

/// The kernels of one backend: a table for each target of kernels::AllTargets, in that order, and the float kernels.
struct BackendTables {
    const char* name = "";
    std::span<const kernels::KernelTable* const> tables{};
    const kernels::FloatTable* floats = nullptr;
};

/// The kernels of a target on the best backend that this program holds and this CPU executes.
///
///     const auto lowered = quantization::lower(converted, program::best_table<target::fp32>());
///
/// The CPU is asked once, at the first call of a function of this header. The environment variable INTQ_BACKEND=<name>
/// chooses another backend, for tests and comparisons; it is read once, too. Every backend gives the same bytes, so
/// the choice changes the speed alone.
///
/// @param target  one of kernels::AllTargets; it is known by its name
/// @throws Error  for a target that the library does not ship, whose table a program makes itself
///                (kernels::kernel_table), and for an INTQ_BACKEND that this program does not hold or this CPU does not
///                execute, with the names that would do
const kernels::KernelTable& best_table(const arith::PolicyRecord& target);
template <class Target> const kernels::KernelTable& best_table() { return best_table(Target::policy); }

/// The float kernels of the same backend: convolution and linear for calibration and training.
const kernels::FloatTable& best_float_table();

/// The chosen backend, such as "avx512vnni".
const BackendTables& best_backend();

/// Every backend that this program holds and this CPU executes, best first.
std::span<const BackendTables> runnable_backends();

/// One line to print: the chosen backend, what chose it, and which others there are.
std::string describe_backends();

#endif  // INTQ_COMPILED

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_COMPILED && INTQ_DEFINES(program)

#    include <cstdlib>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/program/backend_tables.hpp"
#    include "intq/simd/base/cpu.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// The backends whose kernels this program holds, and which of them serves.
struct BackendChoice {
    std::vector<BackendTables> runnable;
    std::vector<std::string_view> lacking;
    std::size_t best = 0;
    bool is_from_environment = false;

    BackendChoice() {
#    ifdef INTQ_COMPILED_BACKENDS
#        define INTQ_DETAIL_HOLD(backend) hold(#backend, simd::cpu_runs<simd::backend>(), &backend_tables_##backend);
        INTQ_COMPILED_BACKENDS(INTQ_DETAIL_HOLD)
#        undef INTQ_DETAIL_HOLD
#    else
        hold(simd::default_backend::name, true, &backend_tables_default_backend);
#    endif
        const char* wanted = std::getenv("INTQ_BACKEND");
        is_from_environment = wanted != nullptr && *wanted != '\0';
        if (runnable.empty()) throw Error("this CPU executes none of the backends that the program holds: " + names());
        if (is_from_environment) best = find(wanted);
    }

    void hold(std::string_view name, bool runs, BackendTables (*tables)() noexcept) {
        if (runs)
            runnable.push_back(tables());
        else
            lacking.push_back(name);
    }
    std::size_t find(std::string_view wanted) const {
        for (std::size_t i = 0; i < runnable.size(); ++i)
            if (std::string_view(runnable[i].name) == wanted) return i;
        for (const std::string_view name : lacking)
            if (name == wanted)
                throw Error("INTQ_BACKEND is \"" + std::string(wanted) +
                            "\", whose instructions this CPU lacks; it executes: " + names());
        throw Error("INTQ_BACKEND is \"" + std::string(wanted) + "\", which this program does not hold; there are: " +
                    names());
    }
    std::string names() const {
        std::string text;
        for (const BackendTables& backend : runnable) text += (text.empty() ? "" : ", ") + std::string(backend.name);
        for (const std::string_view name : lacking)
            text += (text.empty() ? "" : ", ") + std::string(name) + " (not on this CPU)";
        return text;
    }
};

INTQ_INLINE const BackendChoice& backend_choice() {
    static const BackendChoice choice;
    return choice;
}

}  // namespace detail

INTQ_INLINE const kernels::KernelTable& best_table(const arith::PolicyRecord& target) {
    std::string known;
    for (const kernels::KernelTable* table : best_backend().tables) {
        if (std::string_view(table->policy().name) == target.name) return *table;
        known += (known.empty() ? "" : ", ") + std::string(table->policy().name);
    }
    throw Error(std::string("the target ") + target.name + " has no kernels in this program, which holds those of " +
                known + "; make a table of your own with kernels::kernel_table<Target, Backend>");
}

INTQ_INLINE const kernels::FloatTable& best_float_table() { return *best_backend().floats; }

INTQ_INLINE const BackendTables& best_backend() {
    const detail::BackendChoice& choice = detail::backend_choice();
    return choice.runnable[choice.best];
}

INTQ_INLINE std::span<const BackendTables> runnable_backends() { return detail::backend_choice().runnable; }

INTQ_INLINE std::string describe_backends() {
    const detail::BackendChoice& choice = detail::backend_choice();
    return "backend " + std::string(best_backend().name) +
           (choice.is_from_environment ? ", named by INTQ_BACKEND" : ", the best that this CPU executes") + "; of " +
           choice.names();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_COMPILED && INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_BEST_TABLE_HPP
