// SPDX-License-Identifier: MIT
//
// export_to_onnx: any model of the workflow as an ONNX file. Layer: interop (docs/onnx.md).
#ifndef INTQ_INTEROP_QUANTIZED_ONNX_EXPORT_TO_ONNX_HPP
#define INTQ_INTEROP_QUANTIZED_ONNX_EXPORT_TO_ONNX_HPP

#include <filesystem>
#include <span>

#include "intq/interop/onnx/export/export_options.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/interop/onnx/write/write.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Makes an ONNX model of a float model, which is traced unless it is a graph, of a prepared one, which is converted
/// first, or of a model that convert_fx() made with kernels. The model stays as it is.
///
/// @param args  one tensor for each input; none for a prepared model whose shapes are known, or for a converted one
/// @throws Error as export_graph(), export_quantized() and convert_fx() do
Model export_model(nn::Module& model, std::span<const Tensor> args, const ExportOptions& options = {});

/// The same as a file, which appears complete or not at all: the documents' export_to_onnx.
///
/// @throws Error also as write_model() does
void export_to_onnx(nn::Module& model, std::span<const Tensor> args, const std::filesystem::path& f,
                    const ExportOptions& options = {}, const WriteOptions& write = {});
void export_to_onnx(nn::Module& model, const Tensor& args, const std::filesystem::path& f,
                    const ExportOptions& options = {}, const WriteOptions& write = {});
/// Exports a converted model.
void export_to_onnx(const quantization::QuantizedGraph& model, const std::filesystem::path& f,
                    const ExportOptions& options = {}, const WriteOptions& write = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_quantized_onnx)

#    include "intq/graph/graph_module.hpp"
#    include "intq/interop/onnx/export/internal/export_graph.hpp"
#    include "intq/interop/quantized_onnx/internal/quantized_export.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/convert/convert_fx.hpp"
#    include "intq/quantization/convert/quantized_model.hpp"
#    include "intq/quantization/fuse/fuse_fx.hpp"
#    include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Model export_model(nn::Module& model, std::span<const Tensor> args, const ExportOptions& options) {
    check_training_mode(options, model.training());
    if (auto* prepared = dynamic_cast<quantization::PreparedModel*>(&model)) {
        if (!args.empty()) prepared->propagate_shapes(args);
        return export_quantized(quantization::convert_fx(*prepared), options);
    }
    if (const auto* quantized = dynamic_cast<const quantization::QuantizedModel*>(&model)) {
        if (quantized->quantized() != nullptr) return export_quantized(*quantized->quantized(), options);
        throw Error(
            "export_to_onnx: this QuantizedModel was made of a program alone, whose scales and weights are packed; "
            "export the result of convert_fx(prepared, kernels), or the prepared model");
    }
    return export_graph(*quantization::traced_clone(model), args, options);
}

INTQ_INLINE void export_to_onnx(nn::Module& model, std::span<const Tensor> args, const std::filesystem::path& f,
                                const ExportOptions& options, const WriteOptions& write) {
    write_model(export_model(model, args, options), f, write);
}

INTQ_INLINE void export_to_onnx(nn::Module& model, const Tensor& args, const std::filesystem::path& f,
                                const ExportOptions& options, const WriteOptions& write) {
    export_to_onnx(model, std::span<const Tensor>(&args, 1), f, options, write);
}

INTQ_INLINE void export_to_onnx(const quantization::QuantizedGraph& model, const std::filesystem::path& f,
                                const ExportOptions& options, const WriteOptions& write) {
    write_model(export_quantized(model, options), f, write);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_quantized_onnx)
#endif  // INTQ_INTEROP_QUANTIZED_ONNX_EXPORT_TO_ONNX_HPP
