// SPDX-License-Identifier: MIT
//
// A function that the linker merges with its namesake in the other planted unit.
inline int __attribute__((noinline)) planted_function(int x) { return 3 * x; }
int planted_one(int x) { return planted_function(x); }
