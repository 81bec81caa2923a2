// SPDX-License-Identifier: MIT
//
// Planted fault: stands in a folder that has no row.
#ifndef INTQ_PLANTED_PLANTED_HPP
#define INTQ_PLANTED_PLANTED_HPP

#endif  // INTQ_PLANTED_PLANTED_HPP
