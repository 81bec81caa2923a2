// SPDX-License-Identifier: MIT
//
// The arguments of an export, with the names of PyTorch's and Horizon's documents. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_EXPORT_EXPORT_OPTIONS_HPP
#define INTQ_INTEROP_ONNX_EXPORT_EXPORT_OPTIONS_HPP

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "intq/interop/onnx/read/model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

enum class TrainingMode : std::uint8_t { eval, preserve, training };

/// How a quantized model is written.
enum class QuantizedForm : std::uint8_t {
    qdq,       // float operators between DequantizeLinear and QuantizeLinear
    operators  // QLinearConv, QLinearMatMul and their kin where the model is one of int8 codes for target::fp32; else
               // qdq
};

struct ExportOptions {
    std::vector<std::string> input_names{};   // none: the names of the placeholders
    std::vector<std::string> output_names{};  // none: "output", or "output_0", …
    /// None: the lowest that the model needs. The documents' 11 is too low for per-channel scales (13) and for int16
    /// codes (21).
    std::optional<std::int64_t> opset_version{};
    /// Axes of inputs and outputs with an open extent, and its name: {"input", {{0, "batch"}}}.
    std::map<std::string, std::map<int, std::string>> dynamic_axes{};
    bool keep_initializers_as_inputs = false;  // lists initializers among the inputs, as files up to IR version 3 do
    bool enable_onnx_checker = true;           // runs check_model() on the model before it is written
    bool export_params = true;                 // false: parameters are inputs without a value
    bool verbose = false;                      // prints the graph
    /// The exported model computes as in evaluation. `preserve` keeps the model's mode, which must then be evaluation;
    /// `training` is refused.
    TrainingMode training = TrainingMode::eval;
    std::map<std::string, std::int64_t> custom_opsets{};  // more domains that the file imports, with their versions
    QuantizedForm form = QuantizedForm::qdq;

    // Without effect here; accepted so that calls of the documents compile.
    bool do_constant_folding = true;            // no constant is left to be computed
    std::vector<Tensor> example_outputs{};      // shapes follow from a run on the arguments
    bool strip_doc_string = true;               // none are written
    std::string operator_export_type = "ONNX";  // an operator without an ONNX operator is refused in any case
};

/// Names, extents and dtypes of an input or output of the model.
struct ExportedPort {
    std::string name;
    Shape shape{};
    DType dtype = DType::float32;
};

/// The names that a model gets for its inputs or outputs.
///
/// @param what  "input" or "output", for messages
/// @throws Error for another number of names
std::vector<std::string> port_names(const char* what, const std::vector<std::string>& given,
                                    const std::vector<std::string>& otherwise);

/// Inputs or outputs of a file, with the open extents of dynamic_axes.
///
/// @throws Error for an axis that a value does not have
ValueInfo port_info(const ExportedPort& port, const ExportOptions& options);

/// Throws for options that contradict each other or the model: an unknown name in dynamic_axes, an unknown form.
void check_export_options(const ExportOptions& options, const std::vector<std::string>& ports);

/// Throws for a training mode other than evaluation.
///
/// @param is_training  the mode of the model
void check_training_mode(const ExportOptions& options, bool is_training);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <algorithm>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<std::string> port_names(const char* what, const std::vector<std::string>& given,
                                                const std::vector<std::string>& otherwise) {
    if (given.empty()) return otherwise;
    if (given.size() != otherwise.size())
        throw Error("export_to_onnx: " + std::to_string(given.size()) + " " + what +
                    "_names are given, the model has " + std::to_string(otherwise.size()) + " " + what + "s");
    return given;
}

INTQ_INLINE ValueInfo port_info(const ExportedPort& port, const ExportOptions& options) {
    ValueInfo info{.name = port.name, .dtype = port.dtype, .has_shape = true, .shape = {}, .names = {}};
    info.shape.assign(port.shape.extents.begin(), port.shape.extents.begin() + port.shape.rank);
    info.names.assign(info.shape.size(), "");
    const auto axes = options.dynamic_axes.find(port.name);
    if (axes == options.dynamic_axes.end()) return info;
    for (const auto& [axis, name] : axes->second) {
        if (axis < 0 || axis >= port.shape.rank)
            throw Error("export_to_onnx: dynamic_axes names axis " + std::to_string(axis) + " of " +
                        in_quotes(port.name) + ", which has shape " + to_string(port.shape) +
                        (axis < 0 ? "; axes are counted from the front" : ""));
        info.shape[static_cast<std::size_t>(axis)] = -1;
        info.names[static_cast<std::size_t>(axis)] = name;
    }
    return info;
}

INTQ_INLINE void check_training_mode(const ExportOptions& options, bool is_training) {
    const bool keeps = options.training == TrainingMode::preserve;
    if (options.training == TrainingMode::eval || (keeps && !is_training)) return;
    throw Error(std::string("export_to_onnx: ") +
                (keeps ? "TrainingMode::preserve keeps the mode of the model, which is in training"
                       : "the training mode is not supported") +
                ", and operators are written as they compute in evaluation; call eval(), or take TrainingMode::eval");
}

INTQ_INLINE void check_export_options(const ExportOptions& options, const std::vector<std::string>& ports) {
    if (options.form != QuantizedForm::qdq && options.form != QuantizedForm::operators)
        throw Error("export_to_onnx: form has the number " + std::to_string(static_cast<int>(options.form)) +
                    ", which is no QuantizedForm; expected qdq (0) or operators (1)");
    if (options.operator_export_type == "ONNX_ATEN")
        throw Error(
            "export_to_onnx: operator_export_type ONNX_ATEN asks for PyTorch's own operators, which are not "
            "written");
    if (options.opset_version && (*options.opset_version < oldest_opset || *options.opset_version > newest_opset))
        throw Error("export_to_onnx: opset_version " + std::to_string(*options.opset_version) +
                    " is not supported; expected " + std::to_string(oldest_opset) + " to " +
                    std::to_string(newest_opset));
    for (const auto& [name, axes] : options.dynamic_axes)
        if (std::find(ports.begin(), ports.end(), name) == ports.end())
            throw Error("export_to_onnx: dynamic_axes names " + in_quotes(name) +
                        ", which is no input or output; the nearest are " + nearest_names(name, ports));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_EXPORT_OPTIONS_HPP
