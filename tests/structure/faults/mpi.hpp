// SPDX-License-Identifier: MIT
//
// Planted fault: MPI outside distributed/mpi.
#ifndef INTQ_DISTRIBUTED_PLANTED_HPP
#define INTQ_DISTRIBUTED_PLANTED_HPP

#include <mpi.h>

#endif  // INTQ_DISTRIBUTED_PLANTED_HPP
