// SPDX-License-Identifier: MIT
//
// Planted fault: the guard does not spell the path.
#ifndef INTQ_PLANTED_HPP
#define INTQ_PLANTED_HPP

#endif  // INTQ_PLANTED_HPP
