// SPDX-License-Identifier: MIT
#include "machine.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <fstream>

#include "intq/io/text_table.hpp"
#include "intq/simd/base/cpu.hpp"

namespace intq_bench {

namespace {

/// The value of a line `key : value` of /proc/cpuinfo, from its first processor; empty where there is none.
std::string cpuinfo(const std::string& key) {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) != key) continue;
        return colon + 2 <= line.size() ? line.substr(colon + 2) : std::string();
    }
    return {};
}

std::string or_unknown(std::string text) { return text.empty() ? "unknown" : text; }

std::string compiler() {
#if defined(__clang__)
    return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
    return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
    return "unknown";
#endif
}

std::string size_text(std::size_t bytes) {
    return bytes >= std::size_t{1} << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

}  // namespace

int pin_to_one_processor() {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
    int last = CPU_SETSIZE - 1;
    while (last >= 0 && !CPU_ISSET(last, &allowed)) --last;
    if (last < 0) return -1;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0 ? last : -1;
}

Machine measure_machine(bool quick) {
    Machine machine;
    machine.processor = pin_to_one_processor();
    machine.cpu = or_unknown(cpuinfo("model name"));
    machine.cpu_key = fmt::format("{}-{}-{}", or_unknown(cpuinfo("vendor_id")), or_unknown(cpuinfo("cpu family")),
                                  or_unknown(cpuinfo("model")));
    machine.compiler = compiler();
    for (const PeakLoop& loop : peak_loops()) {
        if (intq::simd::cpu_has(loop.features)) {
            machine.peaks.push_back({loop.name, steady_rate(loop, quick ? 0.05 : 0.2), ""});
        } else {
            machine.peaks.push_back({loop.name, 0.0, fmt::format("this CPU has no {}", loop.features)});
        }
    }
    machine.memory = memory_levels();
    measure_bandwidth(machine.memory, quick ? 0.05 : 0.2, quick ? 1 : 5);
    return machine;
}

void print_machine(const Machine& machine) {
    using intq::io::Align;
    fmt::print("{} ({}), {}; one thread{}\n\n", machine.cpu, machine.cpu_key, machine.compiler,
               machine.processor < 0 ? std::string() : fmt::format(" on processor {}", machine.processor));
    intq::io::TextTable rates({{"instruction"}, {"GOP/s", Align::right}});
    for (const PeakRate& rate : machine.peaks)
        rates.add_row({rate.name, rate.skipped.empty() ? fmt::format("{:.1f}", rate.operations * 1e-9)
                                                       : "skipped: " + rate.skipped});
    fmt::print("{}\n", rates.str(intq::io::TableStyle::simple));
    intq::io::TextTable levels({{"memory"},
                                {"size", Align::right},
                                {"measured with", Align::right},
                                {"read GB/s", Align::right},
                                {"copied GB/s", Align::right}});
    for (const MemoryLevel& level : machine.memory)
        levels.add_row({level.name, level.size == 0 ? "" : size_text(level.size), size_text(level.working_set),
                        fmt::format("{:.1f}", level.read * 1e-9), fmt::format("{:.1f}", level.copy * 1e-9)});
    fmt::print("{}\n", levels.str(intq::io::TableStyle::simple));
}

}  // namespace intq_bench
