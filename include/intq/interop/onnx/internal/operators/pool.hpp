// SPDX-License-Identifier: MIT
//
// ONNX pools: MaxPool, AveragePool, GlobalAveragePool, of images and of (N, C, L). Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_POOL_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_POOL_HPP

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

/// ONNX Runtime's QLinearAveragePool between the two grids, whose codes differ from AveragePool's at ties.
void average_pool_of_values(NodeImport& node);
void global_average_pool(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <optional>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/nodes/window.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/float_operators/pool.hpp"
#    include "intq/nn/layers/pool.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The attributes of a pool. A line is read as an image of one row.
struct ReadPool {
    Window2d window;
    bool is_line, ceil_mode;
};

INTQ_INLINE ReadPool read_pool(NodeImport& node) {
    node.expect_inputs(1, 1);
    if (node.raw_attribute("kernel_shape") == nullptr) throw Error("the attribute kernel_shape is missing");
    const bool is_line = node.integers("kernel_shape", {}).size() == 1 && (!node.dims(0) || node.dims(0)->size() == 3);
    node.value_of_rank(0, is_line ? 3 : 4);
    const Window2d window = is_line ? read_line_window(node, detail::read_extents(node, "kernel_shape", {1}, 1)[0])
                                    : read_window(node, read_pair(node, "kernel_shape", 1));
    const auto reaches_image = [](index_t padding, index_t kernel, index_t dilation) {
        return padding <= dilation * (kernel - 1);
    };
    const auto& [kernel, stride, pad, dilation] = window;
    if (!reaches_image((std::max)(pad.top, pad.bottom), kernel.height, dilation.height) ||
        !reaches_image((std::max)(pad.left, pad.right), kernel.width, dilation.width))
        throw Error("the padding is so wide that a window lies in it entirely");
    return {window, is_line, node.integer("ceil_mode", 0) != 0};
}

INTQ_INLINE nn::PoolWindow1d along_line(const Window2d& window) {
    const auto& [kernel, stride, pad, dilation] = window;
    return {kernel.width, stride.width, pad.left, pad.right, dilation.width};
}

/// Extents of the output of a pool, as far as they are known.
INTQ_INLINE Dims pool_dims(const NodeImport& node, const ReadPool& pool) {
    if (!pool.is_line && !pool.ceil_mode) return window_output_dims(node, pool.window, node.extent(0, 1));
    if (!node.dims(0)) return std::nullopt;
    const Size2d in = pool.is_line ? Size2d{1, node.extent(0, 2)} : Size2d{node.extent(0, 2), node.extent(0, 3)};
    const Size2d known{std::max<index_t>(in.height, 1), std::max<index_t>(in.width, 1)};
    const Size2d out =
        output_size(pool.ceil_mode ? nn::float_operators::ceil_window(pool.window, known) : pool.window, known);
    if ((in.height >= 0 && out.height < 1) || (in.width >= 0 && out.width < 1))
        throw Error("the window does not fit into the input of shape " + describe_shape(*node.dims(0)));
    std::vector<index_t> dims = *node.dims(0);
    if (!pool.is_line) dims[2] = in.height < 0 ? -1 : out.height;
    dims.back() = in.width < 0 ? -1 : out.width;
    return dims;
}

INTQ_INLINE void max_pool(NodeImport& node) {
    const ReadPool pool = read_pool(node);
    node.integer("storage_order", 0);  // concerns the indices only, which are not supported
    nn::ModulePtr module;
    if (pool.is_line)
        module = make_as<nn::Module, nn::MaxPool1d>(along_line(pool.window), pool.ceil_mode);
    else
        module = make_as<nn::Module, nn::MaxPool2d>(pool.window, pool.ceil_mode);
    node.call_module(std::move(module), {node.value(0)}, pool_dims(node, pool));
}

/// An average pool and the extents of its output.
struct ReadAverage {
    nn::ModulePtr module;
    Dims dims;
};

/// ONNX Runtime's QLinearAveragePool with count_include_pad divides by the whole window also where ceil mode makes it
/// reach beyond the padding: those cells are padding that counts.
INTQ_INLINE void count_what_ceil_reaches(const NodeImport& node, ReadPool& pool) {
    const Size2d in = pool.is_line ? Size2d{1, node.extent(0, 2)} : Size2d{node.extent(0, 2), node.extent(0, 3)};
    if (in.height < 1 || in.width < 1)
        throw Error("ceil_mode with count_include_pad needs the extents of the input, which are not known");
    pool.window = nn::float_operators::ceil_window(pool.window, in);
    pool.ceil_mode = false;
}

INTQ_INLINE ReadAverage read_average(NodeImport& node, bool of_values = false) {
    ReadPool pool = read_pool(node);
    const bool is_counted = node.integer("count_include_pad", 0) != 0;
    if (of_values && is_counted && pool.ceil_mode) count_what_ceil_reaches(node, pool);
    const bool counts_padding = is_counted || pool.window.padding == Padding2d{};
    const auto divisor = counts_padding ? PoolDivisor::kernel_cells : PoolDivisor::valid_cells;
    nn::ModulePtr module;
    if (pool.is_line)
        module = make_as<nn::Module, nn::AvgPool1d>(along_line(pool.window), divisor, pool.ceil_mode);
    else
        module = make_as<nn::Module, nn::AvgPool2d>(pool.window, divisor, pool.ceil_mode);
    return {std::move(module), pool_dims(node, pool)};
}

INTQ_INLINE void average_pool(NodeImport& node) {
    auto [module, dims] = read_average(node);
    node.call_module(std::move(module), {node.value(0)}, std::move(dims));
}

INTQ_INLINE void average_pool_of_values(NodeImport& node) {
    auto [module, dims] = read_average(node, true);
    node.call_average_of_values(std::move(module), {node.value(0)}, std::move(dims));
}

INTQ_INLINE void global_average_pool(NodeImport& node) {
    node.expect_inputs(1, 1);
    if (node.dims(0) && node.dims(0)->size() == 3)
        return node.call_module(make_as<nn::Module, nn::AdaptiveAvgPool1d>(1), {node.value(0)},
                                std::vector<index_t>{node.extent(0, 0), node.extent(0, 1), 1});
    node.value_of_rank(0, 4);
    node.call_module(make_as<nn::Module, nn::AdaptiveAvgPool2d>(Size2d{1, 1}), {node.value(0)},
                     std::vector<index_t>{node.extent(0, 0), node.extent(0, 1), 1, 1});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_POOL_HPP
