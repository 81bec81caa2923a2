// SPDX-License-Identifier: MIT
//
// What one core can do at most: the rate of each dot-product instruction, measured by loops that do nothing else.
//
// A kernel is judged against the rate of the same moment: the clock of a shared machine moves by ten percent within
// a second, and a short peak loop beside each sample moves with it.
#ifndef INTQ_BENCH_SUPPORT_PEAKS_HPP
#define INTQ_BENCH_SUPPORT_PEAKS_HPP

#include <cstdint>
#include <span>
#include <string_view>

#include "intq/core/dtype.hpp"

namespace intq_bench {

/// A loop of one instruction (or of the few that stand for one dot product) on registers alone, with as many
/// independent sums as the encoding has registers for: 28 in EVEX, on AArch64 and on RISC-V, 12 in VEX and SSE.
struct PeakLoop {
    const char* name;
    const char* features;  // what the CPU must have, as simd/base/cpu.hpp names it
    int lanes;             // sums of one register; on RISC-V of the registers that 16 fill
    int depth;             // products that one dot adds to each
    int instructions;      // of one dot
    int sums;              // dots of one turn
    void (*run)(std::uint64_t turns);

    /// Multiplications and additions of one turn.
    constexpr double operations() const { return 2.0 * lanes * depth * sums; }
};

/// All loops of this architecture, also those that this CPU cannot run; none where it is neither x86-64, AArch64 nor
/// RISC-V.
std::span<const PeakLoop> peak_loops();

/// The loop that the name says; null where there is none or this CPU cannot run it.
const PeakLoop* usable_peak_loop(std::string_view name);

/// The loop of the instruction that a backend multiplies `input` with; null where the backend promises none, or the
/// CPU lacks it. The row of the backend in intq/simd/base/backends.hpp names the loop.
const PeakLoop* peak_of(std::string_view backend, intq::DType input);

/// The loop of the plainest vector instruction at a backend's width, an integer addition, which most ports take: how
/// many vector instructions the core completes at all. An instruction counts as two operations. Null as above.
const PeakLoop* instructions_of(std::string_view backend);

/// Operations a second, from one sample of about ten microseconds, after a shorter one that warms the code.
double rate_now(const PeakLoop& loop);

/// Operations a second: the median of the samples of `seconds`.
double steady_rate(const PeakLoop& loop, double seconds);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_PEAKS_HPP
