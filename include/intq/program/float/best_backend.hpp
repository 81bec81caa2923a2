// SPDX-License-Identifier: MIT
//
// The choice of the backend, and the float kernels that the hosted half runs on. Layer: program
// (docs/design.md section 13).
//
// Header-only, the backend is the best one of the unit's flags. The compiled form holds several, so there the CPU is
// asked when the program runs.
#ifndef INTQ_PROGRAM_FLOAT_BEST_BACKEND_HPP
#define INTQ_PROGRAM_FLOAT_BEST_BACKEND_HPP

#include <span>
#include <string>

#include "intq/program/float/internal/float_kernels.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// The float kernels of the chosen backend.
const FloatKernels& float_kernels();

#if INTQ_COMPILED

/// A backend whose kernels the program holds.
struct HeldBackend {
    const char* name = "";
    bool runs = false;  // on this CPU
    FloatKernels (*float_kernels)() noexcept = nullptr;
};

/// Every backend that the program holds, best first. The CPU is asked once.
std::span<const HeldBackend> held_backends();

/// The backend in use: the best one that the program holds and this CPU executes, or the one that the environment
/// variable INTQ_BACKEND names, for tests and comparisons. It is chosen once.
///
/// @throws Error  for an INTQ_BACKEND that the program does not hold or that this CPU does not execute, with the names
///                that are possible
const HeldBackend& best_backend();

/// One line to print: the chosen backend, how it was chosen, and which others there are.
std::string describe_backends();

#endif  // INTQ_COMPILED

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program_float)

#    include <cstdlib>
#    include <string_view>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/program/float/internal/unit_of_backend.hpp"
#    include "intq/simd/base/cpu.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

#    if !INTQ_COMPILED

INTQ_INLINE const FloatKernels& float_kernels() {
    static constexpr FloatKernels kernels = detail::float_kernels_of<simd::default_backend>();
    return kernels;
}

#    else

namespace detail {

#        ifdef INTQ_COMPILED_BACKENDS
#            define INTQ_DETAIL_DECLARE(backend) FloatKernels float_kernels_##backend() noexcept;
INTQ_COMPILED_BACKENDS(INTQ_DETAIL_DECLARE)
#            undef INTQ_DETAIL_DECLARE
#        endif

struct BackendChoice {
    std::vector<HeldBackend> held;
    const HeldBackend* best = nullptr;
    FloatKernels kernels{};
    bool is_from_environment = false;

    BackendChoice() {
#        ifdef INTQ_COMPILED_BACKENDS
#            define INTQ_DETAIL_HOLD(backend) \
                held.push_back({#backend, simd::cpu_runs<simd::backend>(), &float_kernels_##backend});
        INTQ_COMPILED_BACKENDS(INTQ_DETAIL_HOLD)
#            undef INTQ_DETAIL_HOLD
#        else  // one source file holds the definitions, and the kernels of its flags
        held.push_back({simd::default_backend::name, true, &float_kernels_of<simd::default_backend>});
#        endif
        const char* wanted = std::getenv("INTQ_BACKEND");
        is_from_environment = wanted != nullptr && *wanted != '\0';
        for (const HeldBackend& backend : held)
            if (is_from_environment ? std::string_view(backend.name) == wanted : backend.runs) {
                best = &backend;
                break;
            }
        if (best == nullptr && is_from_environment)
            throw Error::of_environment("INTQ_BACKEND is \"" + std::string(wanted) +
                                        "\", which this program does not hold; it holds " + names());
        if (best == nullptr)
            throw Error::of_environment("this CPU executes none of the backends that the program holds: " + names());
        if (!best->runs)
            throw Error::of_environment("INTQ_BACKEND is \"" + std::string(wanted) +
                                        "\", whose instructions this CPU lacks; there are " + names());
        kernels = best->float_kernels();
    }
    BackendChoice(const BackendChoice&) = delete;
    BackendChoice& operator=(const BackendChoice&) = delete;

    std::string names() const {
        std::string text;
        for (const HeldBackend& backend : held)
            text += (text.empty() ? "" : ", ") + std::string(backend.name) + (backend.runs ? "" : " (not on this CPU)");
        return text;
    }
};

INTQ_INLINE const BackendChoice& backend_choice() {
    static const BackendChoice choice;
    return choice;
}

}  // namespace detail

INTQ_INLINE const FloatKernels& float_kernels() { return detail::backend_choice().kernels; }
INTQ_INLINE std::span<const HeldBackend> held_backends() { return detail::backend_choice().held; }
INTQ_INLINE const HeldBackend& best_backend() { return *detail::backend_choice().best; }

INTQ_INLINE std::string describe_backends() {
    const detail::BackendChoice& choice = detail::backend_choice();
    return "backend " + std::string(choice.best->name) +
           (choice.is_from_environment ? ", named by INTQ_BACKEND"
                                       : ", the best that the program holds and this CPU executes") +
           "; of " + choice.names();
}

#    endif  // INTQ_COMPILED

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program_float)
#endif  // INTQ_PROGRAM_FLOAT_BEST_BACKEND_HPP
