// SPDX-License-Identifier: MIT
#ifndef INTQ_IO_PLANTED_B_HPP
#define INTQ_IO_PLANTED_B_HPP

#include "intq/core/abi.hpp"

#if INTQ_DEFINES(io)
#    include "intq/io/planted_a.hpp"
#endif

#endif  // INTQ_IO_PLANTED_B_HPP
