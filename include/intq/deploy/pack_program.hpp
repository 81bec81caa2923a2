// SPDX-License-Identifier: MIT
//
// pack_program: a program for the kernels of another machine. Layer: deploy (docs/to_a_microcontroller.md).
//
// The target decides the codes and the backend their speed (docs/design.md section 1), so a program of one backend
// becomes that of another without the model that it was made of: weights move to their places in the other order, and
// the arena is planned anew, for the scratch of the other kernels.
#ifndef INTQ_DEPLOY_PACK_PROGRAM_HPP
#define INTQ_DEPLOY_PACK_PROGRAM_HPP

#include <memory>
#include <string>

#include "intq/kernels/table/rows.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/program/row_plan.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

/// What the kernels of a backend take, as a table without kernels: a program is lowered and packed for it, checked
/// against it and written, and not run. No unit needs the backend's instructions for that.
///
/// @param table    of the same target on any backend, which lives as long as the result
/// @param backend  of simd/base/backends.hpp
/// @throws Error for a name that is no backend's, with those that are
kernels::KernelTable describe_kernels(const kernels::KernelTable& table, const std::string& backend);

/// Packs a program for a backend. One with groups gets the groups that make its arena smallest there
/// (program::RowMode::memory).
///
/// @param program  of the target of `table`; nothing of it is referred to afterwards
/// @param table    the kernels that the program is packed for, or describe_kernels()
/// @param to       those of the same target that it shall be packed for; the program keeps a copy of the table
/// @throws Error for a program that check_program() refuses, and for tables of two targets
///
/// Result   the same bytes as lowering the model for that backend, and the same codes: golden runs stay valid
/// Cost     O(constants), and the plan of the arena
std::shared_ptr<program::OwnedProgram> pack_program(const runtime::Program& program, const kernels::KernelTable& table,
                                                    const kernels::KernelTable& to);

/// The same, and says how the copy runs.
std::shared_ptr<program::OwnedProgram> pack_program(const runtime::Program& program, const kernels::KernelTable& table,
                                                    const kernels::KernelTable& to, const program::RowOptions& rows);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/packing/packing_table.hpp"
#    include "intq/program/program_copy.hpp"
#    include "intq/runtime/check.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE kernels::KernelTable describe_kernels(const kernels::KernelTable& table, const std::string& backend) {
    const kernels::BackendPacking* const packing = kernels::find_packing(backend.c_str());
    if (packing == nullptr) {
        std::string names;
        for (const kernels::BackendPacking& each : kernels::backend_packings)
            names += (names.empty() ? "" : ", ") + std::string(each.backend);
        throw Error("there is no backend " + in_quotes(backend) + "; the backends: " + names);
    }
    kernels::KernelTable described = table;
    described.backend = packing->backend;
    described.packing = packing->rules;
    described.packing.policy = table.packing.policy;
    described.stage = nullptr;
    return described;
}

INTQ_INLINE std::shared_ptr<program::OwnedProgram> pack_program(const runtime::Program& program,
                                                                const kernels::KernelTable& table,
                                                                const kernels::KernelTable& to) {
    return pack_program(program, table, to,
                        {program.groups.empty() ? program::RowMode::off : program::RowMode::memory});
}

INTQ_INLINE std::shared_ptr<program::OwnedProgram> pack_program(const runtime::Program& program,
                                                                const kernels::KernelTable& table,
                                                                const kernels::KernelTable& to,
                                                                const program::RowOptions& rows) {
    if (!table.policy().same_arithmetic(to.policy()))
        throw Error(std::string("a program of the target ") + table.policy().name +
                    " is not packed for kernels of the target " + to.policy().name);
    throw_if_failed(runtime::check_program(program, table), "the program to pack");
    return program::copy_program(program, table, to, rows);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)
#endif  // INTQ_DEPLOY_PACK_PROGRAM_HPP
