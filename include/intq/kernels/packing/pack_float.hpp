// SPDX-License-Identifier: MIT
//
// Packing of float convolutions and linear layers: the same panels and the same PackedConv2d as for integers, with
// weights, bias and sums in float32. Layer: kernels (docs/design.md section 5). Any host packs for any backend.
#ifndef INTQ_KERNELS_PACKING_PACK_FLOAT_HPP
#define INTQ_KERNELS_PACKING_PACK_FLOAT_HPP

#include "intq/arith/make_requantize.hpp"
#include "intq/kernels/packing/pack.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// A backend as packing needs it.
struct FloatPacking {
    simd::Packing gemm{};
    simd::DepthwisePacking depthwise{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

template <class Backend> constexpr FloatPacking float_packing() noexcept {
    return {Backend::float_packing, Backend::depthwise_float_packing};
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The specification of a float convolution; a linear layer is one whose kernel covers its input (see Conv2dSpec).
struct FloatConv2dSpec {
    OpKind op = OpKind::conv2d;  // or linear, for messages
    Window2d window{};
    index_t in_channels = 1;
    index_t out_channels = 1;
    index_t groups = 1;
    const float* weight = nullptr;  // (O, I/groups, KH, KW), contiguous
    const float* bias = nullptr;    // (O), or none
    Activation activation = Activation::none;
    bool has_sumin = false;  // whether a tensor is added before the activation
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const FloatConv2dSpec&, const FloatConv2dSpec&) = default;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// The layer in the terms of the shared checks and writers.
constexpr Conv2dSpec shared_spec(const FloatConv2dSpec& spec) noexcept {
    Conv2dSpec shared{};
    shared.op = spec.op;
    shared.window = spec.window;
    shared.in_channels = spec.in_channels;
    shared.out_channels = spec.out_channels;
    shared.groups = spec.groups;
    shared.input_dtype = shared.weight_dtype = shared.output_dtype = DType::float32;
    shared.weight_codes = spec.weight;
    shared.activation = spec.activation;
    return shared;
}

inline PackedConv2d describe_packed(const FloatPacking& packing, const FloatConv2dSpec& spec) noexcept {
    PackedConv2d packed = describe_layer(shared_spec(spec), 32);
    packed.has_sumin = spec.has_sumin;
    if (packed.is_depthwise) {
        packed.depthwise = packing.depthwise;
        packed.group_stride = depthwise_channels(packing.depthwise, packing.gemm.step, spec.out_channels);
        return packed;
    }
    packed.packing = packing.gemm;
    packed.group_stride = round_up(packed.group_outputs(), packing.gemm.step);
    return packed;
}

}  // namespace detail

/// Bytes of storage that pack_float_conv2d needs, at buffer_alignment; 0 for a window or channels that it refuses.
inline index_t packed_float_conv2d_size(const FloatPacking& packing, const FloatConv2dSpec& spec) noexcept {
    if (!detail::check_extents(detail::shared_spec(spec)).ok()) return 0;
    BufferCursor cursor;
    detail::place(detail::describe_packed(packing, spec), 0, 0, 0, cursor);
    return cursor.used();
}

/// Checks and packs a float convolution.
///
///     y[o] = clamp(sum_k x[k]·w[o][k] + bias[o] (+ sumin[o])), clamped by the activation
///
/// @param packing  float_packing() of the backend
/// @param storage  packed_float_conv2d_size() bytes at buffer_alignment; must outlive the result
/// @return ok; the errors of shapes, groups and window that pack_conv2d has; buffer_too_small, misaligned. Weights are
///         taken as they are: NaN and infinities go where arithmetic takes them.
///
/// Memory   only the storage
/// Cost     O(weights)
inline Result<PackedConv2d> pack_float_conv2d(const FloatPacking& packing, const FloatConv2dSpec& spec,
                                              Workspace storage) noexcept {
    const Conv2dSpec shared = detail::shared_spec(spec);
    if (const Status status = detail::check_shapes(shared); !status) return status;
    PackedConv2d packed = detail::describe_packed(packing, spec);
    const index_t bytes = packed_float_conv2d_size(packing, spec);
    if (const Status status = detail::check_storage(storage, bytes, spec.op); !status) return status;

    std::memset(storage.data, 0, static_cast<std::size_t>(bytes));
    BufferCursor cursor(storage.data, storage.size);
    const detail::PackedParts parts = detail::place(packed, 0, 0, 0, cursor);
    detail::write_weights<float>(shared, packed, parts.weights);
    for (index_t channel = 0; spec.bias != nullptr && channel < spec.out_channels; ++channel)
        reinterpret_cast<float*>(parts.bias)[detail::padded_index(packed, channel)] = spec.bias[channel];
    packed.weights = parts.weights;
    packed.bias = parts.bias;
    packed.words = parts.words;
    packed.sumin_words = parts.sumin_words;
    if (detail::padding_row_size(packed) > 0) packed.padding_row = parts.padding_row;  // zeros
    packed.codes = arith::make_real_codes(spec.activation);
    return packed;
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_PACK_FLOAT_HPP
