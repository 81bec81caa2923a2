// SPDX-License-Identifier: MIT
//
// The backends that this unit can use, and the best of them. Layer: simd.
#ifndef INTQ_SIMD_SELECT_HPP
#define INTQ_SIMD_SELECT_HPP

#include <type_traits>

#include "intq/arith/lanes.hpp"
#include "intq/simd/arm/dotprod.hpp"
#include "intq/simd/arm/dotprod_depthwise.hpp"
#include "intq/simd/arm/dsp.hpp"
#include "intq/simd/arm/helium.hpp"
#include "intq/simd/arm/i8mm.hpp"
#include "intq/simd/arm/neon.hpp"
#include "intq/simd/arm/neon_depthwise.hpp"
#include "intq/simd/arm/neon_tile.hpp"
#include "intq/simd/base/vector_length.hpp"
#include "intq/simd/portable/scalar.hpp"
#include "intq/simd/portable/xsimd.hpp"
#include "intq/simd/riscv/rvv.hpp"
#include "intq/simd/riscv/rvv_depthwise.hpp"
#include "intq/simd/riscv/rvv_tile.hpp"
#include "intq/simd/wasm/wasm.hpp"
#include "intq/simd/wasm/wasm_tiles.hpp"
#include "intq/simd/x86/avx2.hpp"
#include "intq/simd/x86/avx512bw.hpp"
#include "intq/simd/x86/avx512vnni.hpp"
#include "intq/simd/x86/avxvnni.hpp"
#include "intq/simd/x86/sse41.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Whether the compiler's flags allow a backend in this unit.
template <class Backend> inline constexpr bool is_usable = requires { typename LanesOf<Backend>::type; };

/// A backend, or scalar where the unit cannot use it: behind a static_assert of is_usable, so that its sentence is the
/// only error.
template <class Backend> using usable_or_scalar = std::conditional_t<is_usable<Backend>, Backend, scalar>;

namespace detail {

template <class Candidates, class Usable> struct KeepUsable;
template <class... Usable> struct KeepUsable<BackendList<>, BackendList<Usable...>> {
    using type = BackendList<Usable...>;
};
template <class First, class... Rest, class... Usable>
struct KeepUsable<BackendList<First, Rest...>, BackendList<Usable...>> {
    using type =
        typename std::conditional_t<is_usable<First>, KeepUsable<BackendList<Rest...>, BackendList<Usable..., First>>,
                                    KeepUsable<BackendList<Rest...>, BackendList<Usable...>>>::type;
};

template <class List> struct Front;
template <class First, class... Rest> struct Front<BackendList<First, Rest...>> { using type = First; };

/// Whether an alternative of a guard, as text, has values only: a macro that the unit does not define leaves its name.
constexpr bool guard_holds(const char* guard) noexcept {
    bool holds = true, at_start = true;
    for (; *guard != '\0'; ++guard) {
        if (*guard == '|') {
            if (holds) return true;
            holds = at_start = true;
            continue;
        }
        if (at_start && *guard != ' ') holds = holds && *guard >= '0' && *guard <= '9';
        at_start = *guard == ' ';
    }
    return holds;
}

}  // namespace detail

#define INTQ_DETAIL_STRING_(...) #__VA_ARGS__
#define INTQ_DETAIL_STRING(...) INTQ_DETAIL_STRING_(__VA_ARGS__)
#define INTQ_DETAIL_CHECK(tag, type, architecture, word, flags, guard, ...)                              \
    static_assert(is_usable<type> == detail::guard_holds(INTQ_DETAIL_STRING(guard)),                     \
                  "backend " #tag                                                                        \
                  ": simd/select.hpp does not include its file, or the file is guarded by other macros " \
                  "than the row in simd/base/backends.hpp says");
INTQ_BACKENDS(INTQ_DETAIL_CHECK)
#undef INTQ_DETAIL_CHECK
#undef INTQ_DETAIL_STRING
#undef INTQ_DETAIL_STRING_

/// Best first; scalar is always there.
using usable_backends = typename detail::KeepUsable<AllBackends, BackendList<>>::type;

namespace detail {

template <class List> inline constexpr bool have_all_primitives = false;
template <class... Backend>
inline constexpr bool have_all_primitives<BackendList<Backend...>> = (arith::CheckLanes<lanes<Backend>>::value && ...);
static_assert(have_all_primitives<usable_backends>);

/// The type that the word of a macro names: a tag, or a template of tags for the architecture of the flags.
template <class Tag> Tag tag_of();
template <template <class> class Tag> Tag<best_arch> tag_of();

}  // namespace detail

/// The best backend that the compiler's flags allow.
using native = typename detail::Front<usable_backends>::type;

/// The backend of kernels where none is named: set by the macro INTQ_DEFAULT_BACKEND.
using default_backend = decltype(detail::tag_of<INTQ_DEFAULT_BACKEND>());

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_SELECT_HPP
