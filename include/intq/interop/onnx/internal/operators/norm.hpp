// SPDX-License-Identifier: MIT
//
// ONNX operators that normalize: BatchNormalization, LayerNormalization, LpNormalization and others. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_NORM_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_NORM_HPP

#include <memory>

#include "intq/interop/onnx/internal/nodes/dims.hpp"
#include "intq/interop/onnx/internal/nodes/node_import.hpp"
#include "intq/nn/layers/norm.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void batch_normalization(NodeImport& node);
void layer_normalization(NodeImport& node);
void rms_normalization(NodeImport& node);
/// x / ‖x‖ along the last axis: an RMS norm with the weight 1/√n.
void lp_normalization(NodeImport& node);
void group_normalization(NodeImport& node);
void instance_normalization(NodeImport& node);

/// BatchNorm1d on rows and lines, BatchNorm3d on volumes, and BatchNorm2d on images and on values of unknown rank.
std::shared_ptr<nn::BatchNorm> make_batch_norm(const Dims& dims, const nn::BatchNormOptions& options);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <array>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <string>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::shared_ptr<nn::BatchNorm> make_batch_norm(const Dims& dims, const nn::BatchNormOptions& options) {
    if (dims && (dims->size() < 2 || dims->size() > 5))
        throw Error("the input has shape " + describe_shape(*dims) + ", expected rank 2 to 5");
    if (dims && (*dims)[1] >= 0 && (*dims)[1] != options.num_features)
        throw Error("the input has shape " + describe_shape(*dims) + ", expected " +
                    std::to_string(options.num_features) + " channels");
    if (dims && dims->size() < 4) return make_as<nn::BatchNorm, nn::BatchNorm1d>(options);
    if (dims && dims->size() == 5) return make_as<nn::BatchNorm, nn::BatchNorm3d>(options);
    return make_as<nn::BatchNorm, nn::BatchNorm2d>(options);
}

INTQ_INLINE void batch_normalization(NodeImport& node) {
    node.expect_inputs(5, 5);
    graph::Node& x = node.value(0);
    if (node.opset() >= 14 && node.integer("training_mode", 0) != 0) throw Error("training_mode is not supported");
    const FileTensor& scale = node.float_constant(1, 1, "scale");
    nn::BatchNormOptions options{.num_features = scale.size()};
    options.eps = static_cast<double>(node.number("epsilon", 1e-5f));
    // ONNX weights the old value with momentum, PyTorch the new one.
    options.momentum = 1.0 - static_cast<double>(node.number("momentum", 0.9f));
    const auto module = make_batch_norm(node.dims(0), options);
    constexpr std::array names{"weight", "bias", "running_mean", "running_var"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        const FileTensor& values = node.float_constant(i + 1, 1, names[i]);
        if (values.size() != options.num_features)
            throw Error(std::string("the ") + names[i] + " has " + std::to_string(values.size()) +
                        " elements, expected " + std::to_string(options.num_features));
        module->tensor(names[i]) = to_tensor(values, Shape(options.num_features));
    }
    node.call_module(module, {x}, node.dims(0));
}

/// The extents over which a LayerNormalization or an RMSNormalization is taken, which are its scale's.
INTQ_INLINE Shape normalized_shape(NodeImport& node, const FileTensor& scale) {
    const std::int64_t axis = node.integer("axis", -1);
    const Dims& dims = node.dims(0);
    if (!dims && (axis >= 0 || axis < -max_rank))
        throw Error("axis " + std::to_string(axis) + " needs the rank of the input, which is not known");
    const std::size_t first = dims ? axis_in(axis, *dims) : 0;
    const std::size_t rank = dims ? dims->size() - first : static_cast<std::size_t>(-axis);
    bool fits = scale.dims.size() == rank && rank <= static_cast<std::size_t>(max_rank);
    Shape shape;
    for (std::size_t i = 0; fits && i < rank; ++i) {
        const index_t extent = dims ? (*dims)[first + i] : -1;
        fits = scale.dims[i] > 0 && (extent < 0 || extent == scale.dims[i]);
        shape.extents[static_cast<std::size_t>(shape.rank++)] = scale.dims[i];
    }
    if (!fits)
        throw Error("the scale has shape " + describe_shape(scale.dims) + ", expected the axes from " +
                    std::to_string(axis) + " on of " + (dims ? describe_shape(*dims) : "the input"));
    return shape;
}

INTQ_INLINE void expect_float_stash(NodeImport& node) {
    if (const std::int64_t type = node.integer("stash_type", 1); type != 1)
        throw Error("stash_type " + std::to_string(type) + " is not supported; expected 1, float32");
}

/// A module of a type derived from nn::LastAxesNorm, with its weight.
template <class Norm> std::shared_ptr<Norm> make_last_axes_norm(NodeImport& node) {
    expect_float_stash(node);
    const FileTensor& scale = node.float_constant(1, "scale");
    const Shape shape = normalized_shape(node, scale);
    const auto module = std::make_shared<Norm>(shape, static_cast<double>(node.number("epsilon", 1e-5f)));
    module->tensor("weight") = to_tensor(scale, shape);
    return module;
}

INTQ_INLINE void layer_normalization(NodeImport& node) {
    node.expect_inputs(2, 3);
    graph::Node& x = node.value(0);
    const auto module = make_last_axes_norm<nn::LayerNorm>(node);
    if (node.has_input(2)) {
        const FileTensor &scale = node.float_constant(1, "scale"), &bias = node.float_constant(2, "bias");
        if (bias.dims != scale.dims)
            throw Error("the bias has shape " + describe_shape(bias.dims) + ", the scale " +
                        describe_shape(scale.dims));
        module->tensor("bias") = to_tensor(bias, module->normalized_shape());
    }
    node.call_module(module, {x}, node.dims(0));
}

INTQ_INLINE void rms_normalization(NodeImport& node) {
    node.expect_inputs(2, 2);
    graph::Node& x = node.value(0);
    node.call_module(make_last_axes_norm<nn::RMSNorm>(node), {x}, node.dims(0));
}

INTQ_INLINE void lp_normalization(NodeImport& node) {
    constexpr double least = 1e-12;  // length that PyTorch's normalize() divides by
    node.expect_inputs(1, 1);
    const Dims& dims = node.dims(0);
    const std::int64_t axis = node.integer("axis", -1), p = node.integer("p", 2);
    if (!dims || dims->empty() || dims->back() < 1) throw Error("the last extent of the input is not known");
    if (p != 2 || axis_in(axis, *dims) != dims->size() - 1)
        throw Error("p is " + std::to_string(p) + " and the axis " + std::to_string(axis) + " of " +
                    describe_shape(*dims) + ", expected 2 and the last one");
    const auto length = static_cast<double>(dims->back());
    const auto module = std::make_shared<nn::RMSNorm>(Shape(dims->back()), least * least / length);
    module->tensor("weight") = Tensor::full(Shape(dims->back()), static_cast<float>(1.0 / std::sqrt(length)));
    node.call_module(module, {node.value(0)}, dims);
}

/// Calls a module whose weight and bias are inputs 1 and 2.
INTQ_INLINE void call_channels_norm(NodeImport& node, const std::shared_ptr<nn::ChannelsNorm>& module) {
    const index_t channels = module->num_channels();
    if (const Dims& dims = node.dims(0); dims && dims->size() > 1 && (*dims)[1] >= 0 && (*dims)[1] != channels)
        throw Error("the input has shape " + describe_shape(*dims) + ", expected " + std::to_string(channels) +
                    " channels");
    constexpr std::array names{"scale", "bias"}, parameters{"weight", "bias"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        const FileTensor& values = node.float_constant(i + 1, 1, names[i]);
        if (values.size() != channels)
            throw Error(std::string("the ") + names[i] + " has " + std::to_string(values.size()) +
                        " elements, expected " + std::to_string(channels));
        module->tensor(parameters[i]) = to_tensor(values, Shape(channels));
    }
    node.call_module(module, {node.value(0)}, node.dims(0));
}

INTQ_INLINE void group_normalization(NodeImport& node) {
    node.expect_inputs(3, 3);
    expect_float_stash(node);
    const auto groups = static_cast<index_t>(node.integer("num_groups", 0));
    const index_t channels = node.float_constant(1, 1, "scale").size();
    call_channels_norm(
        node, std::make_shared<nn::GroupNorm>(groups, channels, static_cast<double>(node.number("epsilon", 1e-5f))));
}

INTQ_INLINE void instance_normalization(NodeImport& node) {
    node.expect_inputs(3, 3);
    const nn::InstanceNormOptions options{.num_features = node.float_constant(1, 1, "scale").size(),
                                          .eps = static_cast<double>(node.number("epsilon", 1e-5f)),
                                          .affine = true};
    const Dims& dims = node.dims(0);
    if (!dims || dims->size() < 3 || dims->size() > 5)
        throw Error(dims ? "the input has shape " + describe_shape(*dims) + ", expected rank 3 to 5"
                         : std::string("the rank of the input is not known"));
    if (dims->size() == 3) return call_channels_norm(node, std::make_shared<nn::InstanceNorm1d>(options));
    if (dims->size() == 4) return call_channels_norm(node, std::make_shared<nn::InstanceNorm2d>(options));
    call_channels_norm(node, std::make_shared<nn::InstanceNorm3d>(options));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_NORM_HPP
