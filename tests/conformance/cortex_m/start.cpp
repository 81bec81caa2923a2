// SPDX-License-Identifier: MIT
//
// Starts a program on an emulated Cortex-M board: vectors, FPU, zeros, main. newlib's semihosting prints and ends.
#include <cstdint>
#include <cstdlib>

int intq_main() asm("main");  // C++ forbids a call of main by its own name

extern "C" {

extern char intq_bss_begin, intq_bss_end, intq_stack_end;
extern void (*intq_constructors_begin[])();
extern void (*intq_constructors_end[])();
void initialise_monitor_handles();

void _init() {}
void _fini() {}
void* __dso_handle = nullptr;  // what the C++ library registers its destructors for

// A fault, and a broken precondition, which is an undefined instruction, end the emulator with a status.
[[noreturn]] void intq_fault() { std::_Exit(2); }

[[noreturn]] void intq_reset() {
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    *reinterpret_cast<volatile std::uint32_t*>(0xE000ED88) |= 0xfu << 20;  // CPACR: the FPU and Helium
    asm volatile("dsb\n\tisb");
#endif
    for (volatile char* byte = &intq_bss_begin; byte < &intq_bss_end; ++byte) *byte = 0;
    initialise_monitor_handles();
    for (auto constructor = intq_constructors_begin; constructor < intq_constructors_end; ++constructor)
        (*constructor)();
    std::exit(intq_main());
}

__attribute__((section(".vectors"), used)) void (*const intq_vectors[16])() = {
    reinterpret_cast<void (*)()>(&intq_stack_end),
    intq_reset,
    intq_fault,
    intq_fault,
    intq_fault,
    intq_fault,
    intq_fault,
};

}  // extern "C"
