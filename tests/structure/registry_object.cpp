// SPDX-License-Identifier: MIT
//
// A program that uses all of the embeddable half as a board would: no heap, no exceptions, no RTTI, no C++ library.
// It runs support/every_row.hpp on every backend of its unit, and compares each backend's bytes with scalar's. Its exit
// status is the number of the step that failed, 0 for none. check_no_heap.cmake compiles it, reads its symbols and runs
// it.
#include "support/every_row.hpp"

namespace {

using namespace intq;
using namespace intq::test;

/// 0, or the number of the step that failed.
template <class Backend> int run_backend(bool records) {
    every_row::ledger.restart(records);
    for (const kernels::KernelTable* table : kernels::registry<Backend>)
        if (const int failed = every_row::run_target(*table)) return failed;
    if (const int failed = every_row::run_functions<Backend>()) return failed;
    return every_row::ledger.count() > 200 ? 0 : 10;
}

template <class... Backend> int run_all(simd::BackendList<Backend...>) {
    int failed = run_backend<simd::scalar>(true), number = 0;
    const auto run = [&](int (*backend)(bool)) {
        ++number;
        if (failed == 0 && (failed = backend(false)) != 0) failed += 20 * number;
    };
    (run(&run_backend<Backend>), ...);
    return failed;
}

}  // namespace

int main() {
    every_row::fill();
#ifdef INTQ_TEST_DEFAULT_BACKEND
    return run_all(simd::BackendList<simd::default_backend>{});
#else
    return run_all(simd::usable_backends{});
#endif
}
