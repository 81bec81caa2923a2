// SPDX-License-Identifier: MIT
//
// Several ranks: threads or processes that calibrate and train together (docs/distributed.md).
// distributed/mpi/mpi_communicator.hpp, which includes MPI's own <mpi.h>, is not included.
#ifndef INTQ_DISTRIBUTED_HPP
#define INTQ_DISTRIBUTED_HPP

// The ranks of a group.
#include "intq/distributed/ranks/communicator.hpp"
#include "intq/distributed/ranks/thread_ranks.hpp"

// Calibration, training and sensitivity by all of them.
#include "intq/distributed/calibrate.hpp"
#include "intq/distributed/data_parallel.hpp"
#include "intq/distributed/sensitivity.hpp"

#endif  // INTQ_DISTRIBUTED_HPP
