// SPDX-License-Identifier: MIT
//
// Planted fault: throws in the embeddable half.
#ifndef INTQ_CORE_PLANTED_HPP
#define INTQ_CORE_PLANTED_HPP

namespace intq {
inline void planted() { throw 1; }
}  // namespace intq

#endif  // INTQ_CORE_PLANTED_HPP
