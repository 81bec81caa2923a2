// SPDX-License-Identifier: MIT
//
// Backends whose lanes lack one primitive: the error names it.
#include "intq/arith/lanes.hpp"

using namespace intq;

/// The specification's own lanes, of which a misuse takes one away.
struct MyLanes : arith::scalar_lanes {
#if INTQ_MISUSE == 1
    // expect(1): L::mul_wide\(a, a\).* (is|would be) invalid
    static i64 mul_wide(i32, i32) = delete;
#elif INTQ_MISUSE == 2
    // expect(2): L::choose_inside\(a, b, c, a, b\).* (is|would be) invalid
    static f32 choose_inside(f32, f32, f32, f32, f32) = delete;
#elif INTQ_MISUSE == 3
    // expect(3): L::store_four\(to8, i, i, i, i\).* (is|would be) invalid
    static void store_four(std::int8_t*, i32, i32, i32, i32) = delete;
#elif INTQ_MISUSE == 4
    // expect(4): L::max_packed\(x, x\).* (is|would be) invalid
    static std::int8_t max_packed(std::int8_t a, std::int8_t) { return a; }
    static std::int16_t max_packed(std::int16_t, std::int16_t) = delete;
#elif INTQ_MISUSE == 5
    // expect(5): L::all_finite\(f\)
    static int all_finite(f32) { return 1; }
#endif
};

int main() { return arith::CheckLanes<MyLanes>::value ? 0 : 1; }
