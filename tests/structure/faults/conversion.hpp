// SPDX-License-Identifier: MIT
//
// Planted fault: loses bits without saying so.
#ifndef INTQ_CORE_PLANTED_HPP
#define INTQ_CORE_PLANTED_HPP

namespace intq {
inline short planted(int x) { return x; }
}  // namespace intq

#endif  // INTQ_CORE_PLANTED_HPP
