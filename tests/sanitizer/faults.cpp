// SPDX-License-Identifier: MIT
//
// What the sanitizer build must stop at: 1 reads beyond the heap, 2 overflows a signed integer; 0 is clean.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

int main(int argc, char** argv) {
    const int fault = argc > 1 ? std::atoi(argv[1]) : 0;
    const std::vector<int> four(4, argc);
    const int* const data = four.data();
    const int index = fault == 1 ? 4 : 3;
    const int addend = fault == 2 ? std::numeric_limits<int>::max() : 0;
    std::printf("%d\n", data[index] + addend);
}
