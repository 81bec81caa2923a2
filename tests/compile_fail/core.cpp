// SPDX-License-Identifier: MIT
//
// Misuses of Result, Shape and Extents that the compiler refuses.
#include <vector>

#include "intq/core/shape.hpp"
#include "intq/core/status.hpp"

using namespace intq;

int main() {
    const Result<int> seven = 7;
    const Shape shape{1, 2, 3, 4, 5, 6};
    const Extents<2, dynamic> extents({2, 3});

#if INTQ_MISUSE == 1
    // expect(1): Result<T> is for trivially destructible T: above the line nothing owns memory
    const Result<std::vector<int>> owns = Status{StatusCode::missing};
#elif INTQ_MISUSE == 2
    // expect(2): a Shape has at most max_rank extents
    const Shape too_long{1, 2, 3, 4, 5, 6, 7};
#elif INTQ_MISUSE == 3
    // expect(3): no matching function for call|no matching constructor
    const Shape of_no_numbers{"1", "2"};
#elif INTQ_MISUSE == 4
    // expect(4): an Extents has at most max_rank values
    const Extents<1, 2, 3, 4, 5, 6, 7> too_many{};
#elif INTQ_MISUSE == 5
    // expect(5): a static extent is 0 or more, or intq::dynamic
    const Extents<2, -3> negative{};
#elif INTQ_MISUSE == 6
    // expect(6): cannot convert .*Result<int>|no viable conversion from .*Result<int>
    const int unchecked = seven;
#endif
    return *seven + shape.rank + static_cast<int>(extents[1]);
}
