// SPDX-License-Identifier: MIT
//
// Planted fault: cannot be included twice.
namespace intq {
inline int planted() { return 0; }
}  // namespace intq
