// SPDX-License-Identifier: MIT
#include "conv_tables.hpp"

namespace intq_bench {

namespace {

template <class... Backend> std::vector<ConvTable> with_floats(intq::simd::BackendList<Backend...> backends) {
    std::vector<ConvTable> all = tables_of<intq::target::fp32>(backends);
    const intq::kernels::FloatTable* const floats[] = {&intq::kernels::float_table<Backend>...};
    const intq::kernels::FloatTable* const reproducible[] = {
        &intq::kernels::float_table<intq::simd::reproducible<Backend>>...};
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].float_table = floats[i];
        all[i].float_reproducible = reproducible[i];
        all[i].float_scalar = &intq::kernels::float_table<intq::simd::scalar>;
    }
    return all;
}

}  // namespace

std::vector<ConvTable> fp32_tables() { return with_floats(intq::simd::usable_backends{}); }

}  // namespace intq_bench
