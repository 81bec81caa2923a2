// SPDX-License-Identifier: MIT
//
// Programs: a lowered model with its memory, ready to run.
#ifndef INTQ_PROGRAM_HPP
#define INTQ_PROGRAM_HPP

// The program, and its run on batches of samples.
#include "intq/program/given_inputs.hpp"
#include "intq/program/owned_program.hpp"

// The output of each of its instructions in a run.
#include "intq/program/kept_outputs.hpp"
#include "intq/program/session.hpp"

// Without the channels that no output depends on, and what they were; copies for other kernels.
#include "intq/program/constant_channels.hpp"
#include "intq/program/dropped_channels.hpp"
#include "intq/program/program_copy.hpp"

// The kernels of a target on the best backend of this CPU.
#include "intq/program/backends/best_table.hpp"
#include "intq/program/float/best_backend.hpp"

// Programs by hand, one instruction at a time.
#include "intq/program/lifetimes.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/program/row_plan.hpp"
#include "intq/program/row_summary.hpp"

#endif  // INTQ_PROGRAM_HPP
