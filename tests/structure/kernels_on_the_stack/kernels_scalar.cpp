// SPDX-License-Identifier: MIT
//
// A function that takes 9500 bytes of the stack in two frames, which check_stack must find.

// What the compiler cannot look through, so that the frames stay.
void use(volatile char* memory) { memory[0] = 1; }

__attribute__((noinline)) void inner() {
    volatile char memory[4500];
    asm volatile("" : : "r"(memory) : "memory");
    use(memory);
}

void outer() {
    volatile char memory[5000];
    asm volatile("" : : "r"(memory) : "memory");
    inner();
    use(memory);
}
