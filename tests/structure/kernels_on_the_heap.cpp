// SPDX-License-Identifier: MIT
//
// A planted fault: an object named like one of kernels that asks for the heap.
int* planted_on_the_heap(int count) { return new int[static_cast<unsigned>(count)]; }
