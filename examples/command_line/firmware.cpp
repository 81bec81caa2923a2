// SPDX-License-Identifier: MIT
//
// What calls the header that to_a_board.sh writes: a program for any machine with a C++20 compiler.
#include "model.hpp"

float x[64], y[10];

int main() {
    if (!model::self_test()) return 1;
    model::run(x, y);
    return 0;
}
