// SPDX-License-Identifier: MIT
//
// What an emulated board prints and how it ends: semihosting, by which a program asks its debugger, or QEMU.
#ifndef INTQ_EXAMPLES_FIRMWARE_BOARD_HPP
#define INTQ_EXAMPLES_FIRMWARE_BOARD_HPP

#if defined(__riscv)
extern "C" long ask_debugger(long operation, const void* argument);  // of start_riscv.cpp
#endif

namespace board {

/// A semihosting call: a number of an operation, and its argument.
inline void ask_host(long operation, const void* argument) {
#if defined(__riscv)
    ask_debugger(operation, argument);
#else
    register long r0 asm("r0") = operation;
    register const void* r1 asm("r1") = argument;
    asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
#endif
}

inline void print(const char* text) { ask_host(0x04, text); }

inline void print(unsigned long number) {
    char digits[24];
    char* first = digits + sizeof digits;
    *--first = '\0';
    do *--first = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    print(first);
}

/// Ends the emulator with an exit code.
[[noreturn]] inline void stop(int code) {
    const struct {
        unsigned long reason;
        unsigned long code;
    } argument{0x20026, static_cast<unsigned long>(code)};
    for (;;) ask_host(0x20, &argument);
}

}  // namespace board

#endif  // INTQ_EXAMPLES_FIRMWARE_BOARD_HPP
