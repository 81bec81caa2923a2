// SPDX-License-Identifier: MIT
//
// A program whose headers of other projects define macros, and that then includes the library: INTQ_TEST_HEADER. What
// the library itself includes comes first, because a macro breaks that where it breaks.
#include <bits/stdc++.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__SSE2__)
#    include <immintrin.h>
#endif
#if INTQ_WITH_XSIMD && defined(__SSE4_1__)
#    include <xsimd/xsimd.hpp>
#endif
#if INTQ_WITH_PROTOZERO
#    include <protozero/exception.hpp>
#    include <protozero/pbf_reader.hpp>
#    include <protozero/pbf_writer.hpp>
#endif

#include "structure/foreign_macros.hpp"

#if INTQ_FAULT == 1  // planted: a name that the library may not have
namespace intq::planted {
inline int distance(int near) { return near; }
}  // namespace intq::planted
#endif

#include INTQ_TEST_HEADER

// The macros that were put aside are there again, and the library's names are its own.
static_assert(std::is_same_v<Status, int> && std::is_same_v<Bool, int> && None == 0L);
#undef Status
static_assert(std::is_class_v<intq::Status>);

// Macros of the library are read here, behind the others.
inline int planted(int x) {
    INTQ_ASSERT(x > 0);
    return x;
}
