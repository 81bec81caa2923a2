// SPDX-License-Identifier: MIT
//
// A program as a file or as C++ source, for a board (docs/to_a_microcontroller.md).
#ifndef INTQ_DEPLOY_HPP
#define INTQ_DEPLOY_HPP

// A program file, with golden runs.
#include "intq/deploy/program_writer.hpp"

// A header of constants.
#include "intq/deploy/generate_cpp.hpp"
#include "intq/deploy/header_program.hpp"

// Packed for the kernels of another machine.
#include "intq/deploy/board_cpus.hpp"
#include "intq/deploy/pack_program.hpp"

// The contents of the arena over time.
#include "intq/deploy/memory_report.hpp"

// Its constants by kind.
#include "intq/deploy/flash_report.hpp"

// The library as one file.
#include "intq/deploy/amalgamate.hpp"

#endif  // INTQ_DEPLOY_HPP
