// SPDX-License-Identifier: MIT
//
// Starts a program on an emulated Cortex-M board: vectors, FPU, zeros, main. It needs no C library.
#include <cstdint>

#include "board.hpp"

int program() asm("main");  // C++ forbids a call of main by its own name

extern "C" {

extern char bss_begin, bss_end, stack_end;

[[noreturn]] void fault() {
    board::print("fault\n");
    board::stop(2);
}

/// SysTick's exception: cycles.cpp counts it, and no other program starts it.
__attribute__((weak)) void count_wrap() { fault(); }

[[noreturn]] void reset() {
    *reinterpret_cast<volatile std::uint32_t*>(0xE000ED88) |= 0xfu << 20;  // CPACR: the FPU and Helium
    asm volatile("dsb\n\tisb");
    for (volatile char* byte = &bss_begin; byte < &bss_end; ++byte) *byte = 0;
    board::stop(program());
}

__attribute__((section(".vectors"), used)) void (*const vectors[16])() = {
    reinterpret_cast<void (*)()>(&stack_end),
    reset,
    fault,
    fault,
    fault,
    fault,
    fault,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    fault,
    nullptr,
    fault,
    count_wrap,
};

}  // extern "C"
