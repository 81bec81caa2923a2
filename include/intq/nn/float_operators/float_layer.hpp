// SPDX-License-Identifier: MIT
//
// A float convolution or linear layer on tensors, through the kernels: packed, run, and kept or forgotten. Layer: nn
// (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_FLOAT_LAYER_HPP
#define INTQ_NN_FLOAT_OPERATORS_FLOAT_LAYER_HPP

#include <memory>

#include "intq/core/op_params.hpp"
#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/packing/pack_float.hpp"
#include "intq/nn/float_operators/float_layer_cache.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {
struct FloatKernels;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// The computation of a layer, without its weight and bias.
struct FloatLayerSpec {
    kernels::FloatConv2dSpec conv{};  // without its weight and bias
    /// From the layer's weight to the convolution's weight; null where they are the same.
    Tensor (*to_conv_weight)(const Tensor& weight, index_t groups) = nullptr;

    friend bool operator==(const FloatLayerSpec&, const FloatLayerSpec&) = default;
};

/// A layer that is packed for a weight, a bias and a size of its input, and for the backend that serves.
///
/// Immutable, so any number of threads may run it.
///
/// Memory   the packed weight, and the tensors that it was made from
class PackedFloatLayer {
public:
    /// Weight and bias are kept to be compared with others. They must not change while the object is in use.
    ///
    /// @param bias  (O), or undefined
    PackedFloatLayer(const FloatLayerSpec& spec, const Tensor& weight, const Tensor& bias, Size2d input_size);
    /// The same packed weight for another size of the input.
    PackedFloatLayer(const PackedFloatLayer& other, Size2d input_size);

    /// Whether it serves a layer with this weight and bias: compares their bytes.
    bool is_packed_from(const FloatLayerSpec& spec, const Tensor& weight, const Tensor& bias) const;
    Size2d input_size() const noexcept { return geometry_.in; }
    const kernels::PackedConv2d& weight() const noexcept;

    /// @param x  images of input_size(), channels_last
    /// @param y  (N, O, H', W'), channels_last
    void run(const Tensor& x, Tensor& y) const;

private:
    /// The part shared by layers that differ only in the size of their input.
    struct Weights {
        FloatLayerSpec spec;
        const program::FloatKernels* backend;
        Tensor weight, bias, storage;
        kernels::PackedConv2d packed{};
    };

    void make_geometry(Size2d input_size);

    std::shared_ptr<const Weights> weights_;
    kernels::ConvGeometry geometry_{};  // of one image
};

namespace detail {

/// y = x * weight + bias for images in channels_last.
///
/// @param y      (N, O, H', W'), channels_last
/// @param cache  of the layer: a packed layer that still serves is run again, and otherwise replaced; null: nothing is
///               kept
void run_float_layer(const FloatLayerSpec& spec, const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                     FloatLayerCache* cache);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <cstring>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/program/float/best_backend.hpp"
#    include "intq/tensor/current_executor.hpp"
#    include "intq/tensor/float_sums.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// Memory of `size` bytes aligned as the kernels require.
INTQ_INLINE Tensor aligned_bytes(index_t size) { return Tensor::empty(Shape(size), DType::int8); }
INTQ_INLINE Workspace workspace_of(Tensor& bytes) { return {bytes.data(), bytes.bytes()}; }

INTQ_INLINE bool same_bytes(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.bytes() == b.bytes() &&
           (a.bytes() == 0 || std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.bytes())) == 0);
}

}  // namespace detail

INTQ_INLINE PackedFloatLayer::PackedFloatLayer(const FloatLayerSpec& spec, const Tensor& weight, const Tensor& bias,
                                               Size2d input_size) {
    const program::FloatKernels& backend = program::float_kernels();
    Weights weights{spec, &backend, weight.contiguous(), bias, {}, {}};
    const Tensor conv_weight =
        spec.to_conv_weight != nullptr ? spec.to_conv_weight(weight, spec.conv.groups) : weights.weight;
    kernels::FloatConv2dSpec conv = spec.conv;
    conv.weight = conv_weight.flat<float>().data();
    if (bias.defined()) conv.bias = bias.flat<float>().data();
    weights.storage = detail::aligned_bytes(kernels::packed_float_conv2d_size(backend.packing, conv));
    weights.packed =
        value_or_throw(kernels::pack_float_conv2d(backend.packing, conv, detail::workspace_of(weights.storage)));
    weights_ = std::make_shared<const Weights>(std::move(weights));
    make_geometry(input_size);
}

INTQ_INLINE PackedFloatLayer::PackedFloatLayer(const PackedFloatLayer& other, Size2d input_size)
    : weights_(other.weights_) {
    make_geometry(input_size);
}

INTQ_INLINE void PackedFloatLayer::make_geometry(Size2d input_size) {
    const Window2d& window = weights_->spec.conv.window;
    geometry_ = value_or_throw(kernels::make_conv2d_geometry(window, 1, input_size));
}

INTQ_INLINE const kernels::PackedConv2d& PackedFloatLayer::weight() const noexcept { return weights_->packed; }

INTQ_INLINE bool PackedFloatLayer::is_packed_from(const FloatLayerSpec& spec, const Tensor& weight,
                                                  const Tensor& bias) const {
    return weights_->backend == &program::float_kernels() && weights_->spec == spec &&
           detail::same_bytes(weights_->bias, bias) && detail::same_bytes(weights_->weight, weight.contiguous());
}

INTQ_INLINE void PackedFloatLayer::run(const Tensor& x, Tensor& y) const {
    kernels::ConvGeometry geometry = geometry_;
    geometry.batch = x.extent(0);
    const auto from = x.view<float, 4, channels_last>();
    const auto to = y.view<float, 4, channels_last>();
    const program::FloatKernels& kernels = *weights_->backend;
    const auto run = current_float_sums() == FloatSums::reproducible ? kernels.run_reproducible : kernels.run;
    run({&weights_->packed, &geometry, from.data(), nullptr, to.data(), &current_executor()});
}

namespace detail {

INTQ_INLINE void run_float_layer(const FloatLayerSpec& spec, const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 Tensor& y, FloatLayerCache* cache) {
    const Size2d input_size{x.extent(2), x.extent(3)};
    if (cache == nullptr) return PackedFloatLayer(spec, weight, bias, input_size).run(x, y);
    std::shared_ptr<const PackedFloatLayer> layer = cache->get();
    if (layer == nullptr || !layer->is_packed_from(spec, weight, bias)) {
        layer = std::make_shared<const PackedFloatLayer>(spec, weight.contiguous().clone(),
                                                         bias.defined() ? bias.clone() : bias, input_size);
        cache->set(layer);
    } else if (!(layer->input_size() == input_size)) {
        layer = std::make_shared<const PackedFloatLayer>(*layer, input_size);
        cache->set(layer);
    }
    layer->run(x, y);
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_FLOAT_LAYER_HPP
