// SPDX-License-Identifier: MIT
//
// Planted: a model whose self test also takes what a board does not have. INTQ_FAULT chooses: 1 a function of the heap,
// 2 static RAM, 3 stack.
#include INTQ_MODEL_HEADER

extern "C" __attribute__((noinline)) inline void* malloc(unsigned) {
    asm volatile("");
    return nullptr;
}

namespace planted {
using namespace INTQ_MODEL;

inline auto self_test() {
    if (INTQ_FAULT == 1) asm volatile("" : : "r"(malloc(1)));
    if (INTQ_FAULT == 2) {
        static char more[4096];
        asm volatile("" : : "r"(more) : "memory");
    }
    if (INTQ_FAULT == 3) {
        char more[4096];
        for (char& byte : more) asm volatile("strb %0, [%1]" : : "r"(0), "r"(&byte) : "memory");
    }
    return INTQ_MODEL::self_test();
}

}  // namespace planted
