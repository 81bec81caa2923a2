// SPDX-License-Identifier: MIT
//
// Planted fault: a header of C++20 that does not say so.
template <class T>
concept Planted = sizeof(T) > 1;
