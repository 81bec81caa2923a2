// SPDX-License-Identifier: MIT
//
// Whether this CPU executes a backend's instructions, asked when the program runs. Layer: simd.
#ifndef INTQ_SIMD_BASE_CPU_HPP
#define INTQ_SIMD_BASE_CPU_HPP

#include <array>
#include <cstddef>

#include "intq/simd/base/linux_features.hpp"
#include "intq/simd/base/tags.hpp"
#include "intq/simd/base/vector_length.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

struct CpuFeature {
    const char* name;
    bool (*is_there)() noexcept;
};

#if defined(__x86_64__) || defined(__i386__)
inline constexpr const char* cpu_architecture = "x86";

// AVX-VNNI has no name in g++ 12's __builtin_cpu_supports: CPUID leaf 7, subleaf 1, EAX bit 4. The AVX2 feature says
// whether the system keeps the registers.
inline bool has_avxvnni() noexcept {
    unsigned eax = 7, ebx = 0, ecx = 1, edx = 0;
    asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    return __builtin_cpu_supports("avx2") && (eax >> 4 & 1) != 0;
}

#    define INTQ_DETAIL_FEATURE(name)                                            \
        {                                                                        \
            name, []() noexcept -> bool { return __builtin_cpu_supports(name); } \
        }
/// Features that the table of backends may name; the compiler knows how to query them.
inline constexpr CpuFeature cpu_features[] = {
    INTQ_DETAIL_FEATURE("sse4.1"),   INTQ_DETAIL_FEATURE("avx2"),     INTQ_DETAIL_FEATURE("fma"),
    INTQ_DETAIL_FEATURE("avx512f"),  INTQ_DETAIL_FEATURE("avx512cd"), INTQ_DETAIL_FEATURE("avx512bw"),
    INTQ_DETAIL_FEATURE("avx512dq"), INTQ_DETAIL_FEATURE("avx512vl"), INTQ_DETAIL_FEATURE("avx512vnni"),
    {"avxvnni", &has_avxvnni},
};
#    undef INTQ_DETAIL_FEATURE
#elif defined(__aarch64__) || defined(__riscv)
// Elsewhere than on Linux, those are there that the compiler's flags demand.
#    if defined(__linux__)
#        define INTQ_DETAIL_FEATURE(name, word, bit, macro)                  \
            {                                                                \
                name, []() noexcept -> bool { return linux_has(word, bit); } \
            }
#    else
#        define INTQ_DETAIL_FEATURE(name, word, bit, macro)        \
            {                                                      \
                name, []() noexcept -> bool { return macro != 0; } \
            }
#    endif
#    if defined(__aarch64__)
inline constexpr const char* cpu_architecture = "aarch64";
inline constexpr bool has_i8mm_macro =
#        if defined(__ARM_FEATURE_MATMUL_INT8)
    true;
#        else
    false;
#        endif
inline constexpr bool has_dotprod_macro =
#        if defined(__ARM_FEATURE_DOTPROD)
    true;
#        else
    false;
#        endif
inline constexpr CpuFeature cpu_features[] = {
    INTQ_DETAIL_FEATURE("asimd", hwcap, 1, true),
    INTQ_DETAIL_FEATURE("asimddp", hwcap, 20, has_dotprod_macro),
    INTQ_DETAIL_FEATURE("i8mm", hwcap2, 13, has_i8mm_macro),
};
#    else
inline constexpr const char* cpu_architecture = "riscv";
inline constexpr bool has_v_macro =
#        if defined(__riscv_v)
    true;
#        else
    false;
#        endif
/// @pre the CPU has vectors: in a list, "v" stands before
template <index_t Bits> bool has_vectors_of() noexcept { return riscv_vector_bits() == Bits; }
inline constexpr CpuFeature cpu_features[] = {
    INTQ_DETAIL_FEATURE("v", hwcap, riscv_v_bit, has_v_macro),
    {"vlen128", &has_vectors_of<128>},
    {"vlen256", &has_vectors_of<256>},
    {"vlen512", &has_vectors_of<512>},
};
#    endif
#    undef INTQ_DETAIL_FEATURE
#else
#    if defined(__arm__)
inline constexpr const char* cpu_architecture = "arm";
#    elif defined(__wasm__)
inline constexpr const char* cpu_architecture = "wasm";
#    else
inline constexpr const char* cpu_architecture = "other";
#    endif
inline constexpr CpuFeature cpu_features[] = {{"", []() noexcept { return true; }}};
#endif

/// The next word of a list, which moves behind it; null at the end. `length` is the word's.
constexpr const char* next_word(const char*& list, int& length) noexcept {
    while (*list == ' ') ++list;
    const char* const word = list;
    for (length = 0; *list != '\0' && *list != ' '; ++list) ++length;
    return length > 0 ? word : nullptr;
}

/// The place of a feature in the list above, or the list's length. A pointer would be no constant under g++'s
/// -fsanitize=null.
constexpr std::size_t find_cpu_feature(const char* word, int length) noexcept {
    std::size_t i = 0;
    for (; i < std::size(cpu_features); ++i) {
        const char* const name = cpu_features[i].name;
        int same = 0;
        while (same < length && name[same] == word[same]) ++same;
        if (same == length && name[length] == '\0') break;
    }
    return i;
}

constexpr bool is_of_this_architecture(const BackendRow& row) noexcept {
    return is_same_name(row.architecture, "any") || is_same_name(row.architecture, cpu_architecture);
}

/// Whether each feature of a list has a line above.
constexpr bool features_are_known(const char* list) noexcept {
    int length = 0;
    while (const char* word = next_word(list, length))
        if (find_cpu_feature(word, length) == std::size(cpu_features)) return false;
    return true;
}

#define INTQ_DETAIL_CHECK(tag, ...)                                                                             \
    static_assert(!is_of_this_architecture(*find_backend(#tag)) || features_are_known(find_backend(#tag)->cpu), \
                  "the row of " #tag                                                                            \
                  " in simd/base/backends.hpp names a feature of the CPU that cpu_features in "                 \
                  "simd/base/cpu.hpp cannot ask for: add a line there");
INTQ_BACKENDS(INTQ_DETAIL_CHECK)
#undef INTQ_DETAIL_CHECK

}  // namespace detail

/// Whether this CPU has each feature of a list, such as "avx2 fma".
/// @pre detail::features_are_known(list)
inline bool cpu_has(const char* list) noexcept {
    int length = 0;
    while (const char* word = detail::next_word(list, length))
        if (!detail::cpu_features[detail::find_cpu_feature(word, length)].is_there()) return false;
    return true;
}

/// Whether this CPU executes the code of a backend's level.
inline bool cpu_runs(const BackendRow& row) noexcept {
    return detail::is_of_this_architecture(row) && cpu_has(row.cpu);
}

/// @tparam Backend  one of AllBackends
template <class Backend> bool cpu_runs() noexcept {
    static_assert(find_backend(Backend::name) != nullptr, "cpu_runs<Backend>: Backend has no row in the table");
    return cpu_runs(*find_backend(Backend::name));
}

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_BASE_CPU_HPP
