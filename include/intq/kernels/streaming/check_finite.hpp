// SPDX-License-Identifier: MIT
//
// check_finite: finds NaN and infinity in data. Layer: kernels (docs/arithmetic.md section 1, observers).
#ifndef INTQ_KERNELS_STREAMING_CHECK_FINITE_HPP
#define INTQ_KERNELS_STREAMING_CHECK_FINITE_HPP

#include "intq/arith/ieee.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

template <class L> struct AllFiniteOp {
    bool* finite;

    void run(index_t, index_t count, const float* x) const {
        bool all = true;
        for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            all = L::all_finite(load_floats<L>(x + i, lanes)) && all;
        });
        if (!all) *finite = false;
    }
    void rows(index_t, index_t channels, index_t rows, const float* x) const { run(0, channels * rows, x); }
};

/// Row-major number of the first element that is NaN or infinite, whatever the layout; -1 if there is none.
template <class View> constexpr index_t first_not_finite(const View& view) {
    const typename View::Index extents = view.extents();
    for (index_t element = 0; element < view.size(); ++element) {
        typename View::Index index{};
        index_t rest = element;
        for (std::size_t axis = extents.size(); axis-- > 0;) {
            index[axis] = rest % extents[axis];
            rest /= extents[axis];
        }
        if (!arith::is_finite(view[index])) return element;
    }
    return -1;
}

}  // namespace detail

/// Whether all values are finite.
///
/// @param x  any layout, any size
/// @return ok, or not_finite of input: `given` is the row-major number of the first NaN or infinity
///
/// Memory   no scratch
/// Cost     O(n); bound by memory
template <class Backend = simd::default_backend, class X, int Rank, class LayoutTag, class ExtentsType>
Status check_finite(const TensorView<X, Rank, LayoutTag, ExtentsType>& x, OpKind op = OpKind::observe) INTQ_NOEXCEPT {
    const TensorView<const float, Rank, LayoutTag, ExtentsType> input = x;
    bool finite = true;
    walk_views(detail::AllFiniteOp<simd::lanes<Backend>>{&finite}, -1, serial, input);
    if (finite) return {};
    return {StatusCode::not_finite, op, Field::input, detail::first_not_finite(input), 0};
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_CHECK_FINITE_HPP
