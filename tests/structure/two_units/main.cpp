// SPDX-License-Identifier: MIT
//
// Runs units that were built for different backends and assert levels and compares their bytes.
//
//   two_units [unit...]   those units; without arguments all
//
// INTQ_UNITS(X) lists the units that are linked: X(name) X(name) …
#include <cstdio>
#include <cstring>
#include <set>

#include "structure/two_units/unit.hpp"

#define INTQ_DECLARE(name) void name(UnitResult*);
extern "C" {
INTQ_UNITS(INTQ_DECLARE)
}

namespace {

struct Unit {
    const char* name;
    void (*run)(UnitResult*);
};

#define INTQ_ROW(name) {#name, &name},
constexpr Unit units[] = {INTQ_UNITS(INTQ_ROW)};

bool is_asked_for(const Unit& unit, int count, char** names) {
    for (int i = 0; i < count; ++i)
        if (std::strcmp(unit.name, names[i]) == 0) return true;
    return count == 0;
}

}  // namespace

int main(int argc, char** argv) {
    static UnitResult first;
    int runs = 0;
    bool ok = true;
    std::set<int> values;
    for (const Unit& unit : units) {
        if (!is_asked_for(unit, argc - 1, argv + 1)) continue;
        static UnitResult result;
        result = {};
        unit.run(&result);
        if (runs++ == 0) first = result;
        const bool equal = result.size > 0 && result.size == first.size &&
                           std::memcmp(result.bytes, first.bytes, static_cast<std::size_t>(result.size)) == 0;
        std::printf("%s: backend %s, assert level %d: %d bytes, %s\n", unit.name, result.backend, result.assert_level,
                    result.size, equal ? "equal" : "DIFFERENT");
        std::fflush(stdout);
        ok = ok && equal;
        for (int i = 0; i < result.size; ++i) values.insert(result.bytes[i]);
    }
    std::printf("%d units, %zu different byte values\n", runs, values.size());
    return ok && runs > 0 && values.size() > 100 ? 0 : 1;  // a result without variety proves nothing
}
