// SPDX-License-Identifier: MIT
#include "header_only_tables.hpp"
#include "intq/kernels/conv/float_conv2d.hpp"

namespace intq_bench {

namespace {

template <class Backend> FloatKernel float_kernel() {
    return {intq::kernels::float_packing<Backend>(),
            &intq::kernels::run_float_conv2d_unchecked<Backend, intq::kernels::no_sumin>};
}

template <class... Backend> std::vector<ConvTable> with_floats(intq::simd::BackendList<Backend...> backends) {
    std::vector<ConvTable> all = tables_of<intq::target::fp32>(backends);
    const FloatKernel floats[] = {float_kernel<Backend>()...};
    const FloatKernel reproducible[] = {float_kernel<intq::simd::reproducible<Backend>>()...};
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].floats = floats[i];
        all[i].reproducible_floats = reproducible[i];
        all[i].scalar_floats = float_kernel<intq::simd::scalar>();
    }
    return all;
}

}  // namespace

std::vector<ConvTable> fp32_tables() { return with_floats(intq::simd::usable_backends{}); }

std::vector<ConvTable> all_tables() {
    std::vector<ConvTable> all = fp32_tables();
    for (const auto& more : {tflite_tables(), bpu_tables()}) all.insert(all.end(), more.begin(), more.end());
    return all;
}

}  // namespace intq_bench
