// SPDX-License-Identifier: MIT
//
// Planted fault: a header that a user is warned of.
int planted(int x) { return x; }
