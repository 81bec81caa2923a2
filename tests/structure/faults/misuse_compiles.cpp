// SPDX-License-Identifier: MIT
//
// Planted fault: a misuse that the compiler does not refuse.
int main() {
#if INTQ_MISUSE == 1
    // expect(1): anything
    return 1;
#endif
}
