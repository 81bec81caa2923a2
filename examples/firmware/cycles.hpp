// SPDX-License-Identifier: MIT
//
// The cycle counter of a core: DWT's CYCCNT or SysTick on a Cortex-M, mcycle on RISC-V.
#ifndef INTQ_EXAMPLES_FIRMWARE_CYCLES_HPP
#define INTQ_EXAMPLES_FIRMWARE_CYCLES_HPP

#include <cstdint>

namespace board {

/// How often SysTick ran down; the handler that start.cpp names counts it.
inline volatile std::uint32_t systick_wraps = 0;

/// Counts modulo 2^32, which are 43 seconds at 100 MHz. Construct one.
class CycleCounter {
public:
    /// Starts the counter. Armv6-M has no CYCCNT, and some emulators have one that stands still: SysTick takes its
    /// place.
    CycleCounter() {
#if defined(__arm__)
        is_cyccnt_ = start_cyccnt();
        if (!is_cyccnt_) start_systick();
#endif
    }

    const char* name() const {
#if defined(__arm__)
        return is_cyccnt_ ? "DWT CYCCNT" : "SysTick";
#else
        return "mcycle";
#endif
    }

    std::uint32_t now() const {
#if defined(__arm__)
        return is_cyccnt_ ? word(cyccnt) : systick();
#elif defined(__riscv)
        unsigned long cycles;
        asm volatile("csrr %0, mcycle" : "=r"(cycles));
        return static_cast<std::uint32_t>(cycles);
#else
#    error "cycles.hpp knows the counters of Cortex-M and RISC-V: add that of this core"
#endif
    }

#if defined(__arm__)
private:
    // Armv7-M and Armv8-M Architecture Reference Manuals, debug and system control registers.
    static constexpr std::uintptr_t debug_control = 0xE000EDFC, cyccnt = 0xE0001004, cyccnt_control = 0xE0001000,
                                    cyccnt_lock = 0xE0001FB0, systick_control = 0xE000E010, systick_reload = 0xE000E014,
                                    systick_value = 0xE000E018;
    static constexpr std::uint32_t highest_tick = 0xFFFFFF;  // SysTick has 24 bits

    static volatile std::uint32_t& word(std::uintptr_t address) {
        return *reinterpret_cast<volatile std::uint32_t*>(address);
    }

    static bool start_cyccnt() {
#    if __ARM_ARCH_ISA_THUMB >= 2 && !defined(__ARM_ARCH_8M_BASE__)
        word(debug_control) = word(debug_control) | 1u << 24;  // TRCENA
        word(cyccnt_lock) = 0xC5ACCE55;                        // a Cortex-M7 has the lock, others ignore it
        word(cyccnt) = 0;
        word(cyccnt_control) = word(cyccnt_control) | 1u;  // CYCCNTENA
        for (int i = 0; i < 10; ++i) asm volatile("nop");
        return word(cyccnt) != 0;
#    else
        return false;
#    endif
    }

    static void start_systick() {
        word(systick_reload) = highest_tick;
        word(systick_value) = 0;
        word(systick_control) = 1 | 2 | 4;  // on, with its exception, at the processor's clock
        while (word(systick_value) == 0) {  // it reloads first
        }
    }

    /// SysTick counts down to 0, where its exception comes, and begins anew a cycle later.
    static std::uint32_t systick() {
        for (;;) {
            const std::uint32_t wraps = systick_wraps, value = word(systick_value);
            asm volatile("isb");
            if (wraps != systick_wraps) continue;
            const std::uint32_t whole = wraps * (highest_tick + 1);
            return value == 0 ? whole - 1 : whole + (highest_tick - value);
        }
    }

    bool is_cyccnt_ = false;
#endif
};

}  // namespace board

#endif  // INTQ_EXAMPLES_FIRMWARE_CYCLES_HPP
