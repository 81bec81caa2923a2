// SPDX-License-Identifier: MIT
//
// Starts a program on an emulated RISC-V board of 64 bits in machine mode: stack, floats, zeros, main.
#include "board.hpp"

int program() asm("main");  // C++ forbids a call of main by its own name

extern "C" {

extern char bss_begin, bss_end;

[[noreturn]] void fault() {
    board::print("fault\n");
    board::stop(2);
}

[[noreturn]] void reset() {
    for (volatile char* byte = &bss_begin; byte < &bss_end; ++byte) *byte = 0;
    board::stop(program());
}

// mstatus: the states of float and vector registers are on, which are bits 13 and 9. Semihosting is three instructions
// of 32 bits on one page (RISC-V Semihosting, section 2).
asm(R"(
    .section .vectors, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    .option norvc
    la gp, __global_pointer$
    la sp, stack_end
    la t0, trap
    csrw mtvec, t0
    li t0, 0x2200
    csrs mstatus, t0
    j reset
    .balign 16
trap:
    j fault
    .balign 16
    .globl ask_debugger
ask_debugger:
    slli x0, x0, 0x1f
    ebreak
    srai x0, x0, 7
    ret
    .option pop
    .text
)");

}  // extern "C"
