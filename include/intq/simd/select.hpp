// SPDX-License-Identifier: MIT
//
// The backends that this unit can use, and the best of them. Layer: simd.
#ifndef INTQ_SIMD_SELECT_HPP
#define INTQ_SIMD_SELECT_HPP

#include <type_traits>

#include "intq/simd/portable/scalar.hpp"
#include "intq/simd/portable/xsimd.hpp"
#include "intq/simd/x86/avx2.hpp"
#include "intq/simd/x86/avx512bw.hpp"
#include "intq/simd/x86/avx512vnni.hpp"
#include "intq/simd/x86/avxvnni.hpp"
#include "intq/simd/x86/sse41.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Whether the compiler's flags allow a backend in this unit.
template <class Backend> inline constexpr bool is_usable = requires { typename LanesOf<Backend>::type; };

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

}  // namespace detail

/// Best first; scalar is always there.
using usable_backends = typename detail::KeepUsable<AllBackends, BackendList<>>::type;

/// The best backend that the compiler's flags allow.
using native = typename detail::Front<usable_backends>::type;

/// What kernels use where no backend is named: set by the macro INTQ_DEFAULT_BACKEND.
using default_backend = INTQ_DEFAULT_BACKEND;

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_SELECT_HPP
