// SPDX-License-Identifier: MIT
//
// Misuses of TensorView that the compiler refuses.
#include "intq/core/tensor_view.hpp"

using namespace intq;

int main() {
    static float data[6] = {};
    const float constant[6] = {};
    const TensorView<float, 2> view(data, {2, 3});
    const TensorView<const float, 2> reader = view;
    const TensorView<const float, 2, strided> any_layout = reader;

#if INTQ_MISUSE == 1
    // expect(1): TensorView<T>: T must be float, double, int8_t, int16_t, int32_t, int64_t or uint8_t
    const TensorView<long double, 2> of_an_unknown_type{};
#elif INTQ_MISUSE == 2
    // expect(2): the rank must be 1 to max_rank
    const TensorView<float, 0> of_no_axes{};
#elif INTQ_MISUSE == 3
    // expect(3): the extents must have the view's rank
    const TensorView<float, 3, row_major, DynamicExtents<2>> of_two_ranks{};
#elif INTQ_MISUSE == 4
    // expect(4): conversion from .*TensorView<const float.* to (non-scalar type )?.*TensorView<float
    const TensorView<float, 2> writer = reader;
#elif INTQ_MISUSE == 5
    // expect(5): invalid conversion from .{1,3}const float\*.{1,3} to .{1,3}float\*|no known conversion from .const
    // float\[6\]. to .float \*.
    const TensorView<float, 2> writer(constant, {2, 3});
#elif INTQ_MISUSE == 6
    // expect(6): no match for call to|no matching function for call to object of type
    return static_cast<int>(view(1, 2, 0));
#endif
    return static_cast<int>(any_layout(1, 2) + constant[0]);
}
