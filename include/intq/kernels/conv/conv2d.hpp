// SPDX-License-Identifier: MIT
//
// Convolution and linear: made once, then run. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_CONV_CONV2D_HPP
#define INTQ_KERNELS_CONV_CONV2D_HPP

#include <concepts>
#include <type_traits>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/kernels/conv/conv_rows.hpp"
#include "intq/kernels/conv/stage.hpp"
#include "intq/kernels/packing/pack.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// A tag with the constants that packing needs; the backend's code need not be usable in this unit.
template <class Backend>
concept BackendTag = requires {
    { Backend::int8_packing } -> std::convertible_to<simd::Packing>;
    { Backend::wide_packing } -> std::convertible_to<simd::Packing>;
};

/// Compile-time messages about the template arguments of every function below.
template <class Backend> constexpr void check_backend() noexcept {
    static_assert(
        BackendTag<Backend>,
        "the template argument Backend must be a backend: a tag of intq::simd, such as simd::avx2, or a struct that "
        "inherits one");
}
template <class Backend> constexpr void check_usable() noexcept {
    check_backend<Backend>();
    static_assert(
        simd::is_usable<Backend>,
        "this unit is compiled without the instructions of the backend, or nobody specialised simd::LanesOf for it: "
        "pass the compiler's flags (for simd::avx2: -mavx2 -mfma), or choose one of simd::usable_backends");
}
template <class TargetType, class Backend> constexpr void check_arguments() noexcept {
    static_assert(
        arith::Target<TargetType>,
        "the first template argument must be a target: target::fp32, target::tflite<…>, target::bpu<march::…>, or a "
        "struct with `static constexpr intq::arith::PolicyRecord policy`");
    check_backend<Backend>();
}

}  // namespace detail

/// Bytes of storage for make_conv2d; 0 for an operator, types, a window or channels that it refuses.
template <class TargetType, class Backend = simd::default_backend>
index_t conv2d_storage_size(const Conv2dSpec& spec) noexcept {
    detail::check_arguments<TargetType, Backend>();
    return packed_conv2d_size(packing_rules<TargetType, Backend>(), spec);
}

/// Checks and packs a convolution for one target and backend; see pack_conv2d for what can be refused.
///
///     y = requantize(sum_k x·w + bias (+ sumin)), clamped by the activation
///
/// @param storage  conv2d_storage_size() bytes at buffer_alignment; must outlive the result
template <class TargetType, class Backend = simd::default_backend>
Result<PackedConv2d> make_conv2d(const Conv2dSpec& spec, Workspace storage) noexcept {
    detail::check_arguments<TargetType, Backend>();
    return pack_conv2d(packing_rules<TargetType, Backend>(), spec, storage);
}

namespace detail {

/// Preconditions of both forms of a run, with or without a fused add.
template <class X, class Y>
Status check_operands(const PackedConv2d& packed, const ConvGeometry& geometry, ImageView<const X> x, ImageView<Y> y,
                      Workspace workspace) noexcept {
    const auto differs = [&](Field field, index_t given, index_t expected) {
        return Status{StatusCode::shape_mismatch, packed.op, field, given, expected};
    };
    if (dtype_of<X> != packed.input_dtype)
        return {StatusCode::dtype_mismatch, packed.op, Field::input, static_cast<int>(dtype_of<X>),
                static_cast<int>(packed.input_dtype)};
    if (dtype_of<Y> != packed.output_dtype)
        return {StatusCode::dtype_mismatch, packed.op, Field::output, static_cast<int>(dtype_of<Y>),
                static_cast<int>(packed.output_dtype)};
    if (packed.weights == nullptr) return {StatusCode::missing, packed.op, Field::weight};
    const Shape in{geometry.batch, packed.in_channels, geometry.in.height, geometry.in.width};
    const Shape out{geometry.batch, packed.out_channels, geometry.out.height, geometry.out.width};
    for (int axis = 0; axis < 4; ++axis) {
        if (x.extent(axis) != in[axis]) return differs(Field::input, x.extent(axis), in[axis]);
        if (y.extent(axis) != out[axis]) return differs(Field::output, y.extent(axis), out[axis]);
    }
    if (!is_geometry_of(packed.window, geometry)) return {StatusCode::corrupt, packed.op, Field::geometry};
    // Behind a Flatten, a linear layer takes the whole image.
    if (packed.op == OpKind::linear && packed.taps() > 1 && geometry.in != packed.window.kernel)
        return differs(Field::kernel, packed.taps(), geometry.in_pixels());
    if (x.size() > 0 && x.data() == nullptr) return {StatusCode::missing, packed.op, Field::input};
    if (y.size() > 0 && y.data() == nullptr) return {StatusCode::missing, packed.op, Field::output};
    if (overlap(x.data(), x.size() * static_cast<index_t>(sizeof(X)), y.data(),
                y.size() * static_cast<index_t>(sizeof(Y))))
        return {StatusCode::overlapping, packed.op, Field::output, 0, 0, Field::input};
    const index_t bytes = conv2d_workspace_size(packed, geometry);
    if (bytes > 0 && workspace.data == nullptr) return {StatusCode::missing, packed.op, Field::workspace, 0, bytes};
    if (bytes > 0 && !is_aligned(workspace.data))
        return {StatusCode::misaligned, packed.op, Field::workspace, misalignment(workspace.data), buffer_alignment};
    if (workspace.size < bytes)
        return {StatusCode::buffer_too_small, packed.op, Field::workspace, workspace.size, bytes};
    return {};
}

}  // namespace detail

/// Preconditions of run_conv2d, except the target and backend that the layer was made for.
///
/// @return shape_mismatch, corrupt (geometry: it was made for another window), dtype_mismatch, missing weights, input,
///         output or sumin (the layer was made with a fused add), overlapping output; missing or misaligned workspace,
///         or buffer_too_small with the bytes needed
template <class X, class Y>
Status check_conv2d(const PackedConv2d& packed, const ConvGeometry& geometry, ImageView<const X> x, ImageView<Y> y,
                    Workspace workspace) noexcept {
    if (packed.has_sumin) return {StatusCode::missing, packed.op, Field::sumin};
    return detail::check_operands(packed, geometry, x, y, workspace);
}

/// Preconditions of run_conv2d_add.
///
/// @return as check_conv2d(), of sumin too; unexpected sumin: the layer was made without a fused add
template <class X, class Y>
Status check_conv2d_add(const PackedConv2d& packed, const ConvGeometry& geometry, ImageView<const X> x,
                        ImageView<const X> sumin, ImageView<Y> y, Workspace workspace) noexcept {
    if (!packed.has_sumin) return {StatusCode::unexpected, packed.op, Field::sumin};
    if (const Status status = detail::check_operands(packed, geometry, x, y, workspace); !status) return status;
    for (int axis = 0; axis < 4; ++axis)
        if (sumin.extent(axis) != y.extent(axis))
            return {StatusCode::shape_mismatch, packed.op, Field::sumin, sumin.extent(axis), y.extent(axis)};
    if (sumin.size() > 0 && sumin.data() == nullptr) return {StatusCode::missing, packed.op, Field::sumin};
    // An element is read before that element is written, but before no other.
    const bool is_output = sizeof(X) == sizeof(Y) && static_cast<const void*>(sumin.data()) == y.data();
    if (!is_output && overlap(sumin.data(), sumin.size() * static_cast<index_t>(sizeof(X)), y.data(),
                              y.size() * static_cast<index_t>(sizeof(Y))))
        return {StatusCode::overlapping, packed.op, Field::output, 0, 0, Field::sumin};
    return {};
}

namespace detail {

/// @tparam E  element type of the fused add's operand, or no_sumin
template <class TargetType, class Backend, class X, class Y, class Sumin>
void run_conv2d_typed(const PackedConv2d& packed, const ConvGeometry& geometry, const void* x, const void* sumin,
                      void* y, Workspace workspace, const Executor& executor) INTQ_NOEXCEPT {
    check_arguments<TargetType, Backend>();
    check_usable<Backend>();
    const ConvRow* row = find_conv(typed_conv_rows<TargetType, Backend, X, Y, Sumin>, packed);
    INTQ_ASSERT(row != nullptr);
    const void* staged = stage_input<Backend>(packed, geometry, x, workspace, executor);
    row->run({&packed, &geometry, staged, sumin, y, &executor, workspace.data});
}

}  // namespace detail

/// Runs a packed convolution (or linear layer).
///
/// @param x, y       channels last, not overlapping
/// @param workspace  conv2d_workspace_size() bytes at buffer_alignment
/// @pre  check_conv2d() is ok; packed was made for the same target and backend
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   only the workspace
template <class TargetType, class Backend = simd::default_backend, class X, class Y>
void run_conv2d(const PackedConv2d& packed, const ConvGeometry& geometry, ImageView<const X> x, ImageView<Y> y,
                Workspace workspace, const Executor& executor = serial) INTQ_NOEXCEPT {
    static_assert(!std::is_const_v<Y>, "y is written: pass a view of elements that are not const");
    INTQ_ASSERT(check_conv2d(packed, geometry, x, y, workspace).ok());
    detail::run_conv2d_typed<TargetType, Backend, X, Y, no_sumin>(packed, geometry, x.data(), nullptr, y.data(),
                                                                  workspace, executor);
}

/// The same with the operand of a fused add: y = requantize(sum_k x·w + bias + sumin).
///
/// @param sumin  shaped as y, of x's element type; may be y's memory when the types are equal
/// @pre   check_conv2d_add() is ok; packed was made for the same target and backend
template <class TargetType, class Backend = simd::default_backend, class X, class Y>
void run_conv2d_add(const PackedConv2d& packed, const ConvGeometry& geometry, ImageView<const X> x,
                    ImageView<const X> sumin, ImageView<Y> y, Workspace workspace,
                    const Executor& executor = serial) INTQ_NOEXCEPT {
    static_assert(!std::is_const_v<Y>, "y is written: pass a view of elements that are not const");
    INTQ_ASSERT(check_conv2d_add(packed, geometry, x, sumin, y, workspace).ok());
    detail::run_conv2d_typed<TargetType, Backend, X, Y, X>(packed, geometry, x.data(), sumin.data(), y.data(),
                                                           workspace, executor);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_CONV2D_HPP
