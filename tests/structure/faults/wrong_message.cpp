// SPDX-License-Identifier: MIT
//
// Planted fault: the misuse is refused for another reason than the expected one.
int main() {
#if INTQ_MISUSE == 1
    // expect(1): the scale must be positive
    static_assert(sizeof(int) == 0, "an unrelated sentence");
#endif
}
