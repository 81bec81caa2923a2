// SPDX-License-Identifier: MIT
//
// ONNX pools: MaxPool, AveragePool, GlobalAveragePool. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_OPERATORS_POOL_HPP
#define INTQ_INTEROP_ONNX_OPERATORS_POOL_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void max_pool(NodeImport& node);
void average_pool(NodeImport& node);
void global_average_pool(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <memory>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/interop/onnx/nodes/node_import.hpp"
#    include "intq/interop/onnx/nodes/window.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/pool.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE index_t channels_of_image(const NodeImport& node) {
    node.expect_inputs(1, 1);
    node.value_of_rank(0, 4);
    return node.extent(0, 1);
}

INTQ_INLINE Window2d read_pool_window(NodeImport& node) {
    if (node.raw_attribute("kernel_shape") == nullptr) throw Error("the attribute kernel_shape is missing");
    const Window2d window = read_window(node, read_pair(node, "kernel_shape", 1));
    const auto reaches_image = [](index_t padding, index_t kernel, index_t dilation) {
        return padding <= dilation * (kernel - 1);
    };
    const auto& [kernel, stride, pad, dilation] = window;
    if (!reaches_image(std::max(pad.top, pad.bottom), kernel.height, dilation.height) ||
        !reaches_image(std::max(pad.left, pad.right), kernel.width, dilation.width))
        throw Error("the padding is so wide that a window lies in it entirely");
    return window;
}

INTQ_INLINE void max_pool(NodeImport& node) {
    const index_t channels = channels_of_image(node);
    const Window2d window = read_pool_window(node);
    node.integer("storage_order", 0);  // concerns the indices only, which are not supported
    node.call_module(std::make_shared<nn::MaxPool2d>(window), {node.value(0)},
                     window_output_dims(node, window, channels));
}

INTQ_INLINE void average_pool(NodeImport& node) {
    const index_t channels = channels_of_image(node);
    const Window2d window = read_pool_window(node);
    const bool counts_padding = node.integer("count_include_pad", 0) != 0 || window.padding == Padding2d{};
    const auto divisor = counts_padding ? PoolDivisor::kernel_cells : PoolDivisor::valid_cells;
    node.call_module(std::make_shared<nn::AvgPool2d>(window, divisor), {node.value(0)},
                     window_output_dims(node, window, channels));
}

INTQ_INLINE void global_average_pool(NodeImport& node) {
    const index_t channels = channels_of_image(node);
    node.call_module(std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}), {node.value(0)},
                     std::vector<index_t>{node.extent(0, 0), channels, 1, 1});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_POOL_HPP
