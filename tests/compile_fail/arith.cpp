// SPDX-License-Identifier: MIT
//
// Misuses of the arithmetic that the compiler refuses.
#include "intq/arith/bpu.hpp"
#include "intq/arith/tflite.hpp"

using namespace intq;

struct no_rounding {};
struct no_march {};

int main() {
    constexpr auto lite = target::tflite<arith::single_rounding>::policy;
    constexpr auto bayes = target::bpu<march::bayes>::policy;

#if INTQ_MISUSE == 1
    // expect(1): target::tflite<RoundingRule>: RoundingRule must be arith::single_rounding or arith::double_rounding
    constexpr auto policy = target::tflite<no_rounding>::policy;
#elif INTQ_MISUSE == 2
    // expect(2): target::bpu<March>: March must be march::bernoulli2
    constexpr auto policy = target::bpu<no_march>::policy;
#elif INTQ_MISUSE == 3
    // expect(3): value_barrier guards float and double values
    return arith::value_barrier(3);
#elif INTQ_MISUSE == 4
    // expect(4): constraint|no matching function
    return arith::shift_floor(3u, 1) != 0;
#endif
    return lite.headroom - bayes.headroom;
}
