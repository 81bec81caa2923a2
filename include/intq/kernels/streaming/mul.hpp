// SPDX-License-Identifier: MIT
//
// Product of two tensors of codes, element by element. Layer: kernels (DESIGN section 5, the third skeleton).
#ifndef INTQ_KERNELS_STREAMING_MUL_HPP
#define INTQ_KERNELS_STREAMING_MUL_HPP

#include "intq/arith/mul.hpp"
#include "intq/kernels/streaming/elementwise.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// One run of a product, as a function pointer takes it. Elements in any order that x, y and out share.
struct MulCall {
    const arith::MulParams* params = nullptr;
    const void* x = nullptr;
    const void* y = nullptr;
    void* out = nullptr;
    index_t size = 0;
    const Executor* executor = nullptr;
};

/// out[i] = requantize((x[i] - zx)·(y[i] - zy)), by arith/mul.hpp
///
/// @pre params made by arith::make_mul; out may be x or y
/// Result   exact; the same bytes on every backend
/// Cost     O(n)
template <class Backend, class Policy, class Code> void mul_codes(const MulCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const arith::MulLanes<Policy, L> formula(*call.params, detail::broadcast_channel<Policy, L>(call.params->words));
    const auto* const x = static_cast<const Code*>(call.x);
    const auto* const y = static_cast<const Code*>(call.y);
    auto* const out = static_cast<Code*>(call.out);
    detail::stream(call.size, *call.executor, [&](index_t first, index_t count) {
        detail::store_scaled_run<L>(out + first, count, call.params->codes,
                                    [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                                        return formula.scaled(detail::load_codes<L>(x + first + i, lanes),
                                                              detail::load_codes<L>(y + first + i, lanes));
                                    });
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_MUL_HPP
