// SPDX-License-Identifier: MIT
//
// Float convolution and linear: made once, then run. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_CONV_FLOAT_CONV2D_HPP
#define INTQ_KERNELS_CONV_FLOAT_CONV2D_HPP

#include "intq/arith/requantize.hpp"
#include "intq/kernels/conv/conv2d.hpp"
#include "intq/kernels/packing/pack_float.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Bytes of storage for make_float_conv2d; 0 for a window or channels that it refuses.
template <class Backend = simd::default_backend>
index_t float_conv2d_storage_size(const FloatConv2dSpec& spec) noexcept {
    detail::check_backend<Backend>();
    return packed_float_conv2d_size(float_packing<Backend>(), spec);
}

/// Checks and packs a float convolution for one backend; see pack_float_conv2d for what can be refused.
///
/// @param storage  float_conv2d_storage_size() bytes at buffer_alignment; must outlive the result
template <class Backend = simd::default_backend>
Result<PackedConv2d> make_float_conv2d(const FloatConv2dSpec& spec, Workspace storage) noexcept {
    detail::check_backend<Backend>();
    return pack_float_conv2d(float_packing<Backend>(), spec, storage);
}

/// A float convolution whose packing and geometry were checked.
///
/// @tparam Sumin  float with a fused add, or no_sumin
template <class Backend, class Sumin> void run_float_conv2d_unchecked(const ConvCall& call) INTQ_NOEXCEPT {
    detail::check_usable<Backend>();
    // Not through the table: a unit that never adds pays for no code that adds.
    if (call.packed->is_depthwise)
        Depthwise<Backend, arith::keep_real, float, float, float, float, Sumin>::run(call);
    else
        Gemm<Backend, arith::keep_real, float, float, float, float, Sumin>::run(call);
}

/// Runs a packed float convolution (or linear layer); it needs no workspace.
///
/// @param x, y  channels last, not overlapping
/// @pre  check_conv2d() is ok for an empty workspace; packed was made for the same backend
///
/// Result   |y - exact| <= (n + 2) · 2^-24 · (|bias| + sum |x·w|) to first order, n products, before the clamp;
///          other bits on other backends, the same on every executor; on simd::reproducible<Backend> the same bits on
///          every backend and machine
/// Memory   one tile of sums on the stack
template <class Backend = simd::default_backend>
void run_float_conv2d(const PackedConv2d& packed, const ConvGeometry& geometry, ImageView<const float> x,
                      ImageView<float> y, const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_conv2d(packed, geometry, x, y, {}).ok());
    run_float_conv2d_unchecked<Backend, no_sumin>({&packed, &geometry, x.data(), nullptr, y.data(), &executor});
}

/// The same with the operand of a fused add.
///
/// @param sumin  shaped as y; may be y's memory
/// @pre   check_conv2d_add() is ok for an empty workspace; packed was made for the same backend
template <class Backend = simd::default_backend>
void run_float_conv2d_add(const PackedConv2d& packed, const ConvGeometry& geometry, ImageView<const float> x,
                          ImageView<const float> sumin, ImageView<float> y,
                          const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_conv2d_add(packed, geometry, x, sumin, y, {}).ok());
    run_float_conv2d_unchecked<Backend, float>({&packed, &geometry, x.data(), sumin.data(), y.data(), &executor});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_FLOAT_CONV2D_HPP
