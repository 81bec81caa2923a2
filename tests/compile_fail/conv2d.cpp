// SPDX-License-Identifier: MIT
//
// Misuses of convolution's template arguments and views that the compiler refuses.
#include "intq/kernels/conv/conv2d.hpp"

#include "intq/arith/fp32.hpp"

using namespace intq;

struct not_a_target {
    static constexpr int policy = 3;
};
struct not_a_backend {};
/// A tag that nobody wrote lanes for: weights can be packed for it, and nothing can run.
struct future_machine : simd::scalar {};

int main() {
    const kernels::Conv2dSpec spec;
    kernels::PackedConv2d packed;
    kernels::ConvGeometry geometry;
    ImageView<const std::int8_t> x;
    ImageView<std::int8_t> y;
    if (kernels::make_conv2d<target::fp32, simd::scalar>(spec, {}).ok()) return 1;
    if (kernels::conv2d_storage_size<target::fp32, future_machine>(spec) > 1000) return 1;
    if (packed.groups == 7) kernels::run_conv2d<target::fp32, simd::scalar>(packed, geometry, x, y, {});

#if INTQ_MISUSE == 1
    // expect(1): the first template argument must be a target: target::fp32
    return kernels::make_conv2d<not_a_target>(spec, {}).ok();
#elif INTQ_MISUSE == 2
    // expect(2): the template argument Backend must be a backend: a tag of intq::simd
    return kernels::make_conv2d<target::fp32, not_a_backend>(spec, {}).ok();
#elif INTQ_MISUSE == 3
    // expect(3): nobody specialised simd::LanesOf for it
    kernels::run_conv2d<target::fp32, future_machine>(packed, geometry, x, y, {});
#elif INTQ_MISUSE == 4
    // expect(4): the first template argument must be a target: target::fp32
    return kernels::conv2d_storage_size<simd::scalar, target::fp32>(spec) > 0;
#elif INTQ_MISUSE == 5
    // expect(5): no matching function for call
    TensorView<const std::int8_t, 4> rows;
    kernels::run_conv2d<target::fp32, simd::scalar>(packed, geometry, rows, y, {});
#elif INTQ_MISUSE == 6
    // expect(6): y is written: pass a view of elements that are not const
    kernels::run_conv2d<target::fp32, simd::scalar>(packed, geometry, x, ImageView<const std::int8_t>{}, {});
#endif
    return 0;
}
