// SPDX-License-Identifier: MIT
//
// Planted fault: does not compile without misuse either.
int main() {
#if INTQ_MISUSE == 1
    // expect(1): unrelated
    static_assert(sizeof(int) == 0, "unrelated");
#endif
    return undeclared;
}
