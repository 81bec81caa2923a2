// SPDX-License-Identifier: MIT
//
// Planted fault: needs a header that it does not include.
#ifndef INTQ_CORE_PLANTED_HPP
#define INTQ_CORE_PLANTED_HPP

namespace intq {
inline std::size_t planted() { return 0; }
}  // namespace intq

#endif  // INTQ_CORE_PLANTED_HPP
