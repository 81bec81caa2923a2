// SPDX-License-Identifier: MIT
#include "peaks.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "clock.hpp"
#include "intq/simd/base/backends.hpp"
#include "intq/simd/base/cpu.hpp"

namespace intq_bench {

namespace {

/// The next of some names divided by |, which move behind it.
constexpr std::string_view next_name(std::string_view& names) {
    const std::size_t end = std::min(names.find('|'), names.size());
    const std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    return name;
}

#if defined(__x86_64__)

// One function a loop. Registers 0 and 1 hold the operands (zeros: no sum overflows and none is denormal), 2 and 3
// what passes between the instructions of a group, the others the sums. The functions are called through pointers, so
// the registers above 15, which are nobody's across a call, need no mention.
// Version 14 of clang-format does not come to rest on these three lists.
// clang-format off
#    define VEX_SUMS(X) X("4") X("5") X("6") X("7") X("8") X("9") X("10") X("11") X("12") X("13") X("14") X("15")
#    define EVEX_SUMS(X) \
        VEX_SUMS(X) X("16") X("17") X("18") X("19") X("20") X("21") X("22") X("23") X("24") X("25") X("26") X("27") \
        X("28") X("29") X("30") X("31")
// In pairs: Zen 4 spreads two multiplications better over its ports than one (212 against 171 GOP/s; not so for ymm).
#    define EVEX_PAIRS(X) \
        X("4", "5") X("6", "7") X("8", "9") X("10", "11") X("12", "13") X("14", "15") X("16", "17") X("18", "19") \
        X("20", "21") X("22", "23") X("24", "25") X("26", "27") X("28", "29") X("30", "31")
// clang-format on
#    define CLEAR_VEX "vzeroall\n"
#    define CLEAR_EVEX_SUM(i) "vpxord %%zmm" i ",%%zmm" i ",%%zmm" i "\n"
#    define CLEAR_EVEX CLEAR_VEX EVEX_SUMS(CLEAR_EVEX_SUM)
#    define CLEAR_SSE_SUM(i) "pxor %%xmm" i ",%%xmm" i "\n"
#    define CLEAR_SSE CLEAR_SSE_SUM("0") CLEAR_SSE_SUM("1") VEX_SUMS(CLEAR_SSE_SUM)
#    define PEAK_LOOP_WITH_END(name, clear, body, end)                                                              \
        void name(std::uint64_t turns) {                                                                            \
            asm volatile(clear ".p2align 6\n1:\n" body "dec %0\n jnz 1b\n" end                                      \
                         : "+r"(turns)                                                                              \
                         :                                                                                          \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                           "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc");                                      \
        }

#    define PEAK_LOOP(name, clear, body) PEAK_LOOP_WITH_END(name, clear, body, "vzeroupper\n")
#    define SSE_PEAK_LOOP(name, body) PEAK_LOOP_WITH_END(name, CLEAR_SSE, body, "")

#    define DPBUSD_ZMM(i) "vpdpbusd %%zmm0,%%zmm1,%%zmm" i "\n"
#    define DPBUSD_YMM(i) "vpdpbusd %%ymm0,%%ymm1,%%ymm" i "\n"
#    define DPBUSD_VEX(i) "%{vex%} vpdpbusd %%ymm0,%%ymm1,%%ymm" i "\n"
#    define DPWSSD_ZMM(i) "vpdpwssd %%zmm0,%%zmm1,%%zmm" i "\n"
#    define DPWSSD_VEX(i) "%{vex%} vpdpwssd %%ymm0,%%ymm1,%%ymm" i "\n"
#    define MADDWD_ZMM(i, j)                                                                               \
        "vpmaddwd %%zmm0,%%zmm1,%%zmm2\n vpmaddwd %%zmm0,%%zmm1,%%zmm3\n vpaddd %%zmm2,%%zmm" i ",%%zmm" i \
        "\n vpaddd %%zmm3,%%zmm" j ",%%zmm" j "\n"
#    define DPWSSD_YMM(i) "vpdpwssd %%ymm0,%%ymm1,%%ymm" i "\n"
#    define MADDWD_XMM(i) "movdqa %%xmm0,%%xmm2\n pmaddwd %%xmm1,%%xmm2\n paddd %%xmm2,%%xmm" i "\n"
#    define MULPS_XMM(i) "movaps %%xmm0,%%xmm2\n mulps %%xmm1,%%xmm2\n addps %%xmm2,%%xmm" i "\n"
#    define MADDWD_YMM(i) "vpmaddwd %%ymm0,%%ymm1,%%ymm2\n vpaddd %%ymm2,%%ymm" i ",%%ymm" i "\n"
#    define MADDUBSW_ZMM(i) \
        "vpmaddubsw %%zmm0,%%zmm1,%%zmm2\n vpmaddwd %%zmm2,%%zmm0,%%zmm2\n vpaddd %%zmm2,%%zmm" i ",%%zmm" i "\n"
#    define MADDUBSW_YMM(i) \
        "vpmaddubsw %%ymm0,%%ymm1,%%ymm2\n vpmaddwd %%ymm2,%%ymm0,%%ymm2\n vpaddd %%ymm2,%%ymm" i ",%%ymm" i "\n"
#    define FMA_ZMM(i) "vfmadd231ps %%zmm0,%%zmm1,%%zmm" i "\n"
#    define FMA_YMM(i) "vfmadd231ps %%ymm0,%%ymm1,%%ymm" i "\n"

#    define ADD_ZMM(i) "vpaddd %%zmm0,%%zmm1,%%zmm" i "\n"
#    define ADD_YMM(i) "vpaddd %%ymm0,%%ymm1,%%ymm" i "\n"

PEAK_LOOP(run_add_zmm, CLEAR_EVEX, EVEX_SUMS(ADD_ZMM))
PEAK_LOOP(run_add_ymm, CLEAR_VEX, VEX_SUMS(ADD_YMM))
PEAK_LOOP(run_dpbusd_zmm, CLEAR_EVEX, EVEX_SUMS(DPBUSD_ZMM))
PEAK_LOOP(run_dpbusd_ymm, CLEAR_EVEX, EVEX_SUMS(DPBUSD_YMM))
PEAK_LOOP(run_dpbusd_vex, CLEAR_VEX, VEX_SUMS(DPBUSD_VEX))
PEAK_LOOP(run_dpwssd_zmm, CLEAR_EVEX, EVEX_SUMS(DPWSSD_ZMM))
PEAK_LOOP(run_dpwssd_ymm, CLEAR_EVEX, EVEX_SUMS(DPWSSD_YMM))
PEAK_LOOP(run_dpwssd_vex, CLEAR_VEX, VEX_SUMS(DPWSSD_VEX))
PEAK_LOOP(run_maddwd_zmm, CLEAR_EVEX, EVEX_PAIRS(MADDWD_ZMM))
PEAK_LOOP(run_maddwd_ymm, CLEAR_VEX, VEX_SUMS(MADDWD_YMM))
PEAK_LOOP(run_maddubsw_zmm, CLEAR_EVEX, EVEX_SUMS(MADDUBSW_ZMM))
PEAK_LOOP(run_maddubsw_ymm, CLEAR_VEX, VEX_SUMS(MADDUBSW_YMM))
PEAK_LOOP(run_fma_zmm, CLEAR_EVEX, EVEX_SUMS(FMA_ZMM))
PEAK_LOOP(run_fma_ymm, CLEAR_VEX, VEX_SUMS(FMA_YMM))
SSE_PEAK_LOOP(run_maddwd_xmm, VEX_SUMS(MADDWD_XMM))
SSE_PEAK_LOOP(run_mulps_xmm, VEX_SUMS(MULPS_XMM))

// Lanes, depth, instructions, sums.
constexpr PeakLoop loops[] = {
    {"vpdpbusd zmm", "avx512vnni", 16, 4, 1, 28, run_dpbusd_zmm},
    {"vpdpbusd ymm", "avx512vnni avx512vl", 8, 4, 1, 28, run_dpbusd_ymm},
    {"vpdpbusd ymm (VEX)", "avxvnni", 8, 4, 1, 12, run_dpbusd_vex},
    {"vpdpwssd zmm", "avx512vnni", 16, 2, 1, 28, run_dpwssd_zmm},
    {"vpdpwssd ymm", "avx512vnni avx512vl", 8, 2, 1, 28, run_dpwssd_ymm},
    {"vpdpwssd ymm (VEX)", "avxvnni", 8, 2, 1, 12, run_dpwssd_vex},
    {"vpmaddwd+vpaddd zmm", "avx512bw", 16, 2, 2, 28, run_maddwd_zmm},
    {"vpmaddwd+vpaddd ymm", "avx2", 8, 2, 2, 12, run_maddwd_ymm},
    {"pmaddwd+paddd xmm", "sse4.1", 4, 2, 2, 12, run_maddwd_xmm},
    {"vpmaddubsw+vpmaddwd+vpaddd zmm", "avx512bw", 16, 4, 3, 28, run_maddubsw_zmm},
    {"vpmaddubsw+vpmaddwd+vpaddd ymm", "avx2", 8, 4, 3, 12, run_maddubsw_ymm},
    {"vfmadd231ps zmm", "avx512f", 16, 1, 1, 28, run_fma_zmm},
    {"vfmadd231ps ymm", "avx2 fma", 8, 1, 1, 12, run_fma_ymm},
    {"mulps+addps xmm", "sse4.1", 4, 1, 2, 12, run_mulps_xmm},
};

constexpr PeakLoop add_zmm{"vpaddd zmm", "avx512f", 1, 1, 1, 28, run_add_zmm};
constexpr PeakLoop add_ymm{"vpaddd ymm", "avx2", 1, 1, 1, 12, run_add_ymm};

#elif defined(__aarch64__)

// Registers 0 and 1 hold the operands, the others from 4 on the sums.
// clang-format off
#    define SUMS(X) \
        X("4") X("5") X("6") X("7") X("8") X("9") X("10") X("11") X("12") X("13") X("14") X("15") X("16") X("17") \
        X("18") X("19") X("20") X("21") X("22") X("23") X("24") X("25") X("26") X("27") X("28") X("29") X("30") X("31")
// clang-format on
#    define CLEAR_SUM(i) "movi v" i ".4s, #0\n"
#    define PEAK_LOOP(name, body)                                                                                     \
        void name(std::uint64_t turns) {                                                                              \
            asm volatile(".arch armv8.2-a+dotprod+i8mm\n" CLEAR_SUM("0") CLEAR_SUM("1")                               \
                             SUMS(CLEAR_SUM) ".p2align 6\n1:\n" SUMS(body) "subs %0, %0, #1\n b.ne 1b\n"              \
                         : "+r"(turns)                                                                                \
                         :                                                                                            \
                         : "v0", "v1", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",  \
                           "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", \
                           "v29", "v30", "v31", "cc");                                                                \
        }

#    define SDOT(i) "sdot v" i ".4s, v0.16b, v1.16b\n"
#    define SMMLA(i) "smmla v" i ".4s, v0.16b, v1.16b\n"
#    define SMLAL(i) "smlal v" i ".4s, v0.4h, v1.4h\n"
#    define FMLA(i) "fmla v" i ".4s, v0.4s, v1.4s\n"

PEAK_LOOP(run_sdot, SDOT)
PEAK_LOOP(run_smmla, SMMLA)
PEAK_LOOP(run_smlal, SMLAL)
PEAK_LOOP(run_fmla, FMLA)

constexpr PeakLoop loops[] = {
    {"sdot", "asimddp", 4, 4, 1, 28, run_sdot},
    {"smmla", "i8mm", 4, 8, 1, 28, run_smmla},
    {"smlal", "asimd", 4, 1, 1, 28, run_smlal},
    {"fmla", "asimd", 4, 1, 1, 28, run_fmla},
};

#elif defined(__riscv)

// Registers 0 to 3 hold the weights, the others the sums of sixteen lanes: seven of four registers, fourteen of two, or
// 28. The compiler may know no vectors, and nothing of them is kept across a call.
// clang-format off
#    define SUMS_OF_4(X) X("4") X("8") X("12") X("16") X("20") X("24") X("28")
#    define SUMS_OF_2(X) \
        SUMS_OF_4(X) X("6") X("10") X("14") X("18") X("22") X("26") X("30")
#    define SUMS_OF_1(X) \
        SUMS_OF_2(X) X("5") X("7") X("9") X("11") X("13") X("15") X("17") X("19") X("21") X("23") X("25") X("27") \
        X("29") X("31")
// clang-format on
#    define CLEAR_SUM(i) "vmv.v.i v" i ", 0\n"
#    define PEAK_LOOP(name, registers, type, sums, body)                                                          \
        void name(std::uint64_t turns) {                                                                          \
            asm volatile(".option push\n.option arch, +v\nvsetivli zero, 16, e32, m" #registers                   \
                         ", ta, ma\nvmv.v.i v0, 0\n" sums(                                                        \
                             CLEAR_SUM) "fmv.w.x ft0, zero\nvsetivli zero, 16, " type                             \
                                        ", ta, ma\n1:\n" sums(body) "addi %0, %0, -1\nbnez %0, 1b\n.option pop\n" \
                         : "+r"(turns)                                                                            \
                         :                                                                                        \
                         : "ft0");                                                                                \
        }

#    define VWMACC(i) "vwmacc.vx v" i ", zero, v0\n"
#    define VFMACC(i) "vfmacc.vf v" i ", ft0, v0\n"

PEAK_LOOP(run_vwmacc_of_4, 4, "e16, m2", SUMS_OF_4, VWMACC)
PEAK_LOOP(run_vwmacc_of_2, 2, "e16, m1", SUMS_OF_2, VWMACC)
PEAK_LOOP(run_vwmacc_of_1, 1, "e16, mf2", SUMS_OF_1, VWMACC)
PEAK_LOOP(run_vfmacc_of_4, 4, "e32, m4", SUMS_OF_4, VFMACC)
PEAK_LOOP(run_vfmacc_of_2, 2, "e32, m2", SUMS_OF_2, VFMACC)
PEAK_LOOP(run_vfmacc_of_1, 1, "e32, m1", SUMS_OF_1, VFMACC)

constexpr PeakLoop loops[] = {
    {"vwmacc m4", "v vlen128", 16, 1, 1, 7, run_vwmacc_of_4},
    {"vwmacc m2", "v vlen256", 16, 1, 1, 14, run_vwmacc_of_2},
    {"vwmacc m1", "v vlen512", 16, 1, 1, 28, run_vwmacc_of_1},
    {"vfmacc m4", "v vlen128", 16, 1, 1, 7, run_vfmacc_of_4},
    {"vfmacc m2", "v vlen256", 16, 1, 1, 14, run_vfmacc_of_2},
    {"vfmacc m1", "v vlen512", 16, 1, 1, 28, run_vfmacc_of_1},
};

#endif

#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)

static_assert(std::all_of(std::begin(loops), std::end(loops),
                          [](const PeakLoop& loop) { return intq::simd::detail::features_are_known(loop.features); }),
              "a loop names a feature of the CPU that intq/simd/base/cpu.hpp cannot ask for");

/// Whether each of some names divided by | has a loop.
constexpr bool have_loops(std::string_view names) {
    while (!names.empty()) {
        const std::string_view name = next_name(names);
        if (std::none_of(std::begin(loops), std::end(loops), [&](const PeakLoop& loop) { return name == loop.name; }))
            return false;
    }
    return true;
}

static_assert(std::all_of(std::begin(intq::simd::backend_rows), std::end(intq::simd::backend_rows),
                          [](const intq::simd::BackendRow& row) {
                              return !intq::simd::detail::is_of_this_architecture(row) ||
                                     (have_loops(row.int8_peak) && have_loops(row.int16_peak) &&
                                      have_loops(row.float32_peak));
                          }),
              "a row of intq/simd/base/backends.hpp names an instruction that has no loop here");

#endif

/// The loop that counts of alternatives divided by |: the first that the CPU can run; null where there is none.
const PeakLoop* first_usable(std::string_view names) {
    while (!names.empty())
        if (const PeakLoop* const loop = usable_peak_loop(next_name(names))) return loop;
    return nullptr;
}

const char* peak_names(const intq::simd::BackendRow& row, intq::DType input) {
    return input == intq::DType::float32 ? row.float32_peak
           : input == intq::DType::int16 ? row.int16_peak
                                         : row.int8_peak;
}

double sample(const PeakLoop& loop, std::uint64_t turns) {
    const double start = now();
    loop.run(turns);
    return loop.operations() * static_cast<double>(turns) / (now() - start);
}

/// As many turns as do about 2^22 operations: ten microseconds where a core does 400 GOP/s.
std::uint64_t turns_of_sample(const PeakLoop& loop) {
    return static_cast<std::uint64_t>(0x1p22 / loop.operations()) + 1;
}

}  // namespace

std::span<const PeakLoop> peak_loops() {
#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)
    return loops;
#else
    return {};
#endif
}

const PeakLoop* usable_peak_loop(std::string_view name) {
    for (const PeakLoop& loop : peak_loops())
        if (name == loop.name) return intq::simd::cpu_has(loop.features) ? &loop : nullptr;
    return nullptr;
}

const PeakLoop* peak_of(std::string_view backend, intq::DType input) {
    const intq::simd::BackendRow* const row = intq::simd::find_backend(std::string(backend).c_str());
    return row != nullptr ? first_usable(peak_names(*row, input)) : nullptr;
}

const PeakLoop* instructions_of(std::string_view backend) {
#if defined(__x86_64__)
    const PeakLoop* const peak = peak_of(backend, intq::DType::float32);
    const PeakLoop* const loop = peak == nullptr || peak->lanes < 8 ? nullptr : peak->lanes == 16 ? &add_zmm : &add_ymm;
    return loop != nullptr && intq::simd::cpu_has(loop->features) ? loop : nullptr;
#else
    static_cast<void>(backend);
    return nullptr;
#endif
}

double rate_now(const PeakLoop& loop) {
    sample(loop, turns_of_sample(loop) / 4 + 1);
    return sample(loop, turns_of_sample(loop));
}

double steady_rate(const PeakLoop& loop, double seconds) {
    std::vector<double> rates;
    for (const double end = now() + seconds; now() < end || rates.size() < 11;)
        rates.push_back(sample(loop, 8 * turns_of_sample(loop)));
    return median(rates);
}

}  // namespace intq_bench
