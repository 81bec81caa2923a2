// SPDX-License-Identifier: MIT
//
// Runs units that were built for different backends and assert levels and compares their bytes.
#include <cstdio>
#include <cstring>
#include <set>

#include "structure/two_units/unit.hpp"

extern "C" {
void unit_plain(UnitResult*);
void unit_plain_asserting(UnitResult*);
void unit_best(UnitResult*);
void unit_best_scalar(UnitResult*);
}

int main() {
    UnitResult results[4];
    unit_plain(&results[0]);
    unit_plain_asserting(&results[1]);
    unit_best(&results[2]);
    unit_best_scalar(&results[3]);

    bool ok = true;
    std::set<int> values;
    for (const UnitResult& result : results) {
        const bool equal = result.size > 0 && result.size == results[0].size &&
                           std::memcmp(result.bytes, results[0].bytes, static_cast<std::size_t>(result.size)) == 0;
        std::printf("backend %s, assert level %d: %d bytes, %s\n", result.backend, result.assert_level, result.size,
                    equal ? "equal" : "DIFFERENT");
        ok = ok && equal;
        for (int i = 0; i < result.size; ++i) values.insert(result.bytes[i]);
    }
    std::printf("%zu different byte values\n", values.size());
    return ok && values.size() > 100 ? 0 : 1;  // a result without variety proves nothing
}
