// SPDX-License-Identifier: MIT
//
// The table of the operators that are written; the functions are in the other files of this folder. Layer: interop
// (docs/design.md section 10).
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_ROWS_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_ROWS_HPP

#include <string>
#include <string_view>
#include <vector>

#include "intq/interop/onnx/export/internal/elementwise.hpp"
#include "intq/interop/onnx/export/internal/move.hpp"
#include "intq/interop/onnx/export/internal/node_export.hpp"
#include "intq/interop/onnx/export/internal/pool.hpp"
#include "intq/interop/onnx/export/internal/weighted.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// How an operator of graph/operators.hpp is written.
struct ExportRow {
    std::string_view op;
    void (*write)(NodeExport&);
};

/// An operator is one row; the functions of nn/float_operators/unary.hpp share one.
inline constexpr ExportRow export_rows[] = {
    {"conv2d", &exports::conv2d},
    {"conv1d", &exports::conv1d},
    {"conv_transpose2d", &exports::conv_transpose2d},
    {"conv_transpose1d", &exports::conv_transpose1d},
    {"conv3d", &exports::conv3d},
    {"conv_transpose3d", &exports::conv_transpose3d},
    {"linear", &exports::linear},
    {"batch_norm1d", &exports::batch_norm},
    {"batch_norm2d", &exports::batch_norm},
    {"batch_norm3d", &exports::batch_norm},
    {"BNReLU1d", &exports::batch_norm},
    {"BNReLU61d", &exports::batch_norm},
    {"BNReLU2d", &exports::batch_norm},
    {"BNReLU62d", &exports::batch_norm},
    {"BNReLU3d", &exports::batch_norm},
    {"BNReLU63d", &exports::batch_norm},
    {"layer_norm", &exports::last_axes_norm},
    {"rms_norm", &exports::last_axes_norm},
    {"group_norm", &exports::channels_norm},
    {"instance_norm", &exports::channels_norm},
    {"add", &exports::binary},
    {"add_relu", &exports::add_relu},
    {"sub", &exports::binary},
    {"maximum", &exports::binary},
    {"minimum", &exports::binary},
    {"mul", &exports::binary},
    {"matmul", &exports::binary},
    {"relu", &exports::plain},
    {"relu6", &exports::relu6},
    {"clamp", &exports::clamp},
    {"masked_fill", &exports::masked_fill},
    {"causal_fill", &exports::causal_fill},
    {"softmax", &exports::softmax},
    {"log_softmax", &exports::log_softmax},
    {"max_pool2d", &exports::max_pool},
    {"avg_pool2d", &exports::average_pool},
    {"adaptive_avg_pool2d", &exports::adaptive_average_pool},
    {"mean", &exports::mean},
    {"sum", &exports::sum},
    {"interpolate", &exports::interpolate},
    {"cat", &exports::cat},
    {"flatten", &exports::flatten},
    {"reshape", &exports::reshape},
    {"permute", &exports::permute},
    {"transpose", &exports::transpose},
    {"slice", &exports::slice},
    {"embedding", &exports::embedding},
    {"index_copy", &exports::index_copy},
    {"argmax", &exports::argmax},
    {"expand", &exports::expand},
    {"split", &exports::split},
    {"chunk", &exports::split},
    {"getitem", &exports::getitem},
    {"pad", &exports::pad},
    {"identity", &exports::plain},
    {"dropout", &exports::plain},
    {"quant_stub", &exports::stub},
    {"dequant_stub", &exports::stub},
};

/// The name of a call's node, and the values of its outputs.
struct WrittenCall {
    std::string name;
    std::vector<std::string> values;
};

/// Writes a call with the row of its operator.
///
/// @throws Error naming the call, for an operator without a row, and for a call that the row refuses
WrittenCall write_call(const ExportedCall& call, GraphWriter& writer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <algorithm>
#    include <cstddef>
#    include <iterator>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/unary.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE ExportRow export_row_of(const ExportedCall& call) {
    const auto* const row = std::find_if(std::begin(export_rows), std::end(export_rows),
                                         [&](const ExportRow& r) { return r.op == call.op; });
    if (row != std::end(export_rows)) return *row;
    for (const auto& unary : nn::float_operators::unary_rows)
        if (unary.name == call.op) return {unary.name, &exports::unary};
    throw Error(call.where, "the operator " + call.op + " has no ONNX operator that the library writes");
}

/// reshape and expand leave extents open that are computed from shapes; other operators would hold the example's
/// numbers.
INTQ_INLINE void check_open_arguments(const NodeExport& node) {
    const std::vector<ExportArgument>& arguments = node.call().arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i)
        if (node.is_open(arguments[i]))
            throw node.error("its argument " + std::to_string(i + 1) +
                             " is computed from an extent that dynamic_axes leaves open, and the file would hold the "
                             "number of the example; leave that extent out of dynamic_axes");
}

}  // namespace detail

INTQ_INLINE WrittenCall write_call(const ExportedCall& call, GraphWriter& writer) {
    const ExportRow row = detail::export_row_of(call);
    NodeExport node(call, writer);
    if (row.write != &exports::reshape && row.write != &exports::expand) detail::check_open_arguments(node);
    row.write(node);
    if (call.activation != Activation::none)
        node.set_result(exports::activate(node, node.results().at(0), call.activation));
    return {node.name(), node.results()};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_ROWS_HPP
