// SPDX-License-Identifier: MIT
//
// Includes the whole library and calls nothing of it. INTQ_FAULT plants what must be noticed.
#include "intq/intq.hpp"

#if INTQ_FAULT == 1
// A virtual function that becomes inline below its class is a key function: every unit emits the vtable.
struct Planted {
    virtual void planted();
};
inline void Planted::planted() {}
#elif INTQ_FAULT == 2
inline int* planted_variable = new int(1);
#elif INTQ_FAULT == 3
namespace intq {
inline namespace INTQ_HOSTED_ABI {
void planted_function(int);  // declared and nowhere defined
}
}  // namespace intq
#endif

int main() {}
